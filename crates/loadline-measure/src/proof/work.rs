//! Whether verdicts about work can be trusted: comparisons of instructions per operation, with known work injected.

use serde::{Deserialize, Serialize};

use super::Share;
use crate::gate::{Row, RowVerdict};
use crate::quantile;

/// Injected work, and the comparisons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkKind {
    /// Instructions that were injected, as a share of those of an operation; 0 where a server was compared with itself.
    pub injected: f64,
    /// The comparisons.
    pub trials: Vec<WorkTrial>,
}

/// One comparison of instructions per operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkTrial {
    /// Instructions per operation of the second server over those of the first; `None` without an estimate.
    pub ratio: Option<f64>,
    /// The verdict.
    pub verdict: RowVerdict,
    /// The function that accounts for most of the difference, if the verdict is one.
    pub first_function: Option<String>,
    /// Time that the comparison took, with the start of both servers.
    pub duration_ns: u64,
    /// The reason why nothing was counted, if a server did not start in time or was lost. Such a comparison found
    /// nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_counted: Option<String>,
}

impl WorkTrial {
    /// The comparison whose row is `row`, and which took `duration_ns`.
    #[must_use]
    pub fn of<E>(row: &Row<E>, duration_ns: u64) -> Self {
        Self {
            ratio: row.ratio,
            verdict: row.verdict,
            first_function: row.functions.first().map(|function| function.name.clone()),
            duration_ns,
            not_counted: None,
        }
    }

    /// A comparison that took `duration_ns` and counted nothing for the reason `why`.
    #[must_use]
    pub fn without_count(why: String, duration_ns: u64) -> Self {
        Self {
            ratio: None,
            verdict: RowVerdict::Inconclusive,
            first_function: None,
            duration_ns,
            not_counted: Some(why),
        }
    }

    /// Whether the verdict is more work.
    #[must_use]
    pub fn is_more(&self) -> bool {
        matches!(
            self.verdict,
            RowVerdict::Critical | RowVerdict::Warning | RowVerdict::Slower
        )
    }

    /// Whether the verdict is a difference, in either direction.
    fn is_different(&self) -> bool {
        self.is_more() || self.verdict == RowVerdict::Faster
    }
}

impl WorkKind {
    /// A kind without comparisons yet.
    #[must_use]
    pub fn new(injected: f64) -> Self {
        Self {
            injected,
            trials: Vec::new(),
        }
    }

    /// The median of the ratios.
    #[must_use]
    pub fn measured(&self) -> Option<f64> {
        let ratios: Vec<f64> = self.trials.iter().filter_map(|trial| trial.ratio).collect();
        quantile::median(&ratios)
    }

    /// Number of comparisons that found more work; if nothing was injected, of those that found any difference.
    #[must_use]
    pub fn found(&self) -> Share {
        if self.injected == 0.0 {
            self.count(WorkTrial::is_different)
        } else {
            self.count(WorkTrial::is_more)
        }
    }

    /// Number of verdicts that were a warning or worse.
    #[must_use]
    pub fn alarms(&self) -> Share {
        self.count(|trial| matches!(trial.verdict, RowVerdict::Critical | RowVerdict::Warning))
    }

    /// Of the comparisons that found more work, how many named the function `injected` first.
    #[must_use]
    pub fn named_first(&self, injected: &str) -> Share {
        let found = || self.trials.iter().filter(|trial| trial.is_more());
        let is_named = |trial: &&WorkTrial| trial.first_function.as_deref() == Some(injected);
        Share {
            hits: found().filter(is_named).count() as u64,
            of: found().count() as u64,
        }
    }

    fn count(&self, is_hit: impl Fn(&WorkTrial) -> bool) -> Share {
        Share {
            hits: self.trials.iter().filter(|trial| is_hit(trial)).count() as u64,
            of: self.trials.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(verdict: RowVerdict, first: Option<&str>) -> WorkTrial {
        WorkTrial {
            ratio: Some(1.01),
            verdict,
            first_function: first.map(str::to_owned),
            duration_ns: 1,
            not_counted: None,
        }
    }

    #[test]
    fn differences_alarms_and_names_are_counted_apart() {
        let mut kind = WorkKind::new(0.01);
        kind.trials = vec![
            trial(RowVerdict::Warning, Some("injected")),
            trial(RowVerdict::Slower, Some("memcpy")),
            trial(RowVerdict::Faster, Some("injected")),
            trial(RowVerdict::Equivalent, None),
            trial(RowVerdict::Inconclusive, None),
        ];
        let share = |hits, of| Share { hits, of };
        assert_eq!(kind.found(), share(2, 5));
        assert_eq!(kind.alarms(), share(1, 5));
        assert_eq!(kind.named_first("injected"), share(1, 2));
        // A server that seems to do less than itself is a false alarm, too.
        kind.injected = 0.0;
        assert_eq!(kind.found(), share(3, 5));
    }
}
