//! Gates between two rows of a comparison of clients: `A.op >= 1.28 * B.op`.

use std::fmt;
use std::str::FromStr;

use super::{Clients, paired};
use crate::Metric;
use crate::gate::{Gap, Grounds, JudgedRow, Row, RowVerdict};
use crate::record::{Bounds, Record};

/// One side of a gate: a driver, an operation by its name in `--ops`, and the version of the protocol where several
/// are measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// The driver.
    pub driver: String,
    /// The operation.
    pub op: String,
    /// The version of the protocol, written as `@3`.
    pub resp: Option<u64>,
}

/// A claim about the throughput of two rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// Side that has to be faster.
    pub left: Side,
    /// By this factor at least.
    pub(crate) factor: f64,
    /// Than this.
    pub right: Side,
}

impl FromStr for Side {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (text, resp) = match text.split_once('@') {
            None => (text, None),
            Some((text, "2")) => (text, Some(2)),
            Some((text, "3")) => (text, Some(3)),
            Some((_, other)) => {
                return Err(format!("invalid protocol `@{other}`: expected @2 or @3"));
            }
        };
        match text.rsplit_once('.') {
            Some((driver, op)) if !driver.is_empty() && !op.is_empty() => Ok(Self {
                driver: driver.to_owned(),
                op: op.to_owned(),
                resp,
            }),
            _ => Err(format!("invalid row `{text}`: expected DRIVER.OPERATION")),
        }
    }
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "expected `DRIVER.OP >= FACTOR * DRIVER.OP`";
        let invalid = || format!("invalid gate `{text}`: {FORM}");
        let (left, rest) = text.split_once(">=").ok_or_else(invalid)?;
        let (factor, right) = match rest.split_once('*') {
            Some((factor, right)) => (factor.trim().parse().map_err(|_| invalid())?, right),
            None => (1.0, rest),
        };
        if !(f64::MIN_POSITIVE..=1e6).contains(&factor) {
            return Err(format!(
                "{}; the factor is above 0, up to 1000000",
                invalid()
            ));
        }
        Ok(Self {
            left: left.trim().parse()?,
            factor,
            right: right.trim().parse()?,
        })
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.driver, self.op)?;
        self.resp.map_or(Ok(()), |resp| write!(f, "@{resp}"))
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} >= {} * {}", self.left, self.factor, self.right)
    }
}

impl Gate {
    /// Judges the gate on the bounds of the ratio. `name` is the name of a case in `--ops`.
    #[must_use]
    pub fn judge(
        &self,
        record: &Record,
        clients: &Clients,
        name: impl Fn(&crate::record::Scenario) -> String,
    ) -> JudgedRow {
        let find = |side: &Side| {
            clients.rows.iter().find_map(|row| {
                let case = record.cases.get(row.case)?;
                let fits = row.driver == side.driver
                    && name(&case.scenario) == side.op
                    && side.resp.is_none_or(|resp| resp == case.scenario.resp);
                fits.then_some((row, case))
            })
        };
        let case = format!("{} vs {}", self.left, self.right);
        let mut row = Row::unknown(&case, Metric::Throughput);
        row.limit = Some(self.to_string());
        let (Some((left_row, left)), Some((right_row, right))) =
            (find(&self.left), find(&self.right))
        else {
            return row.because(Grounds::Gap(Gap::NoRow));
        };
        (row.candidate, row.baseline) = (
            Some(left.throughput_ops_per_s),
            Some(right.throughput_ops_per_s),
        );
        let invalid = [left_row, right_row].into_iter().find(|row| !row.is_valid);
        if let Some(invalid) = invalid {
            return row.because(Grounds::OtherOperations(invalid.driver.clone()));
        }
        let Some(paired) = paired(Metric::Throughput, right, left) else {
            return row.because(Grounds::Gap(Gap::Unpaired));
        };
        row.ratio = Some(paired.ratio);
        row.minimum_detectable_effect = paired.minimum_detectable_effect;
        let Some((lo, hi)) = paired.interval else {
            let (ratio, rounds) = (paired.ratio, paired.rounds);
            return row.because(Grounds::RatioOfFewRounds { ratio, rounds });
        };
        (row.lo, row.hi) = (Some(lo), Some(hi));
        row.interval_95 = Some(Bounds { lo, hi });
        row.verdict = if lo >= self.factor {
            RowVerdict::Equivalent
        } else if hi < self.factor {
            RowVerdict::Critical
        } else {
            RowVerdict::Inconclusive
        };
        row.because(Grounds::Ratio {
            ratio: paired.ratio,
            bounds: (lo, hi),
            rounds: paired.rounds,
            factor: self.factor,
        })
    }
}
