//! Slowdowns that `prove` injects into a server, and their spelling.

use std::str::FromStr;

use loadline_measure::Metric;
use loadline_measure::proof::Kind;

/// The largest slowdown, as a share: twice as slow.
const MOST: f64 = 1.0;

/// A slowdown, as a share of the time of an operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum InjectedSlowdown {
    /// A server is compared with itself.
    Nothing,
    /// CPU time of the server for every command, as a share of the median.
    Burn(f64),
    /// The same, as a share of the corrected 99th percentile.
    Tail(f64),
    /// Latency in the path, as a share of the median behind that path.
    Delay(f64),
    /// Instructions of the server for every command, as a share of those of an operation; 0 for none. They are
    /// counted and not timed.
    Work(f64),
}

impl InjectedSlowdown {
    /// The slowdowns that are injected by default.
    pub(crate) const DEFAULT: [Self; 3] = [Self::Nothing, Self::Burn(0.05), Self::Burn(0.10)];

    /// Default injections with valgrind.
    pub(crate) const DEFAULT_WORK: [Self; 2] = [Self::Work(0.0), Self::Work(0.01)];

    /// Its form in a proof, without comparisons.
    pub(crate) fn kind(self) -> Kind {
        let (what, planted, metric) = match self {
            Self::Nothing => ("nothing", 0.0, Metric::P50),
            Self::Burn(share) => ("CPU in the server", share, Metric::P50),
            Self::Tail(share) => ("of p99, as CPU", share, Metric::CorrectedP99),
            Self::Delay(share) => ("a delay in the path", share, Metric::P50),
            Self::Work(share) => (
                "instructions in the server",
                share,
                Metric::ServerInstructions,
            ),
        };
        Kind {
            what: what.into(),
            planted,
            metric,
            trials: Vec::new(),
        }
    }

    /// Such as `+10 % CPU in the server`.
    pub(crate) fn name(self) -> String {
        let kind = self.kind();
        match self {
            Self::Nothing => kind.what,
            _ => format!("{:+} % {}", percent(kind.planted), kind.what),
        }
    }

    /// Whether comparisons measure times, and do not count instructions.
    pub(crate) fn is_timed(self) -> bool {
        !matches!(self, Self::Work(_))
    }

    /// Whether the first subject is a server without a link in the path.
    pub(crate) fn is_near(self) -> bool {
        !matches!(self, Self::Delay(_))
    }
}

/// Reads `none`, or a kind and a percentage, such as `cpu+10`, `tail+10`, `delay+2.5` or `work+1`.
impl FromStr for InjectedSlowdown {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::Nothing);
        }
        let wrong = || {
            format!(
                "invalid slowdown `{text}`: expected `none`, or `cpu+10`, `tail+10`, `delay+10` or `work+1` with a percentage above 0 and up to {}",
                percent(MOST)
            )
        };
        let (kind, number) = text.split_once('+').ok_or_else(wrong)?;
        let share = number.parse::<f64>().map_err(|_| wrong())? / 100.0;
        // Work alone has no `none`: two equal sides are counted by `work+0`.
        let is_none = kind == "work" && share == 0.0;
        if !(is_none || share > 0.0 && share <= MOST) {
            return Err(wrong());
        }
        match kind {
            "cpu" => Ok(Self::Burn(share)),
            "tail" => Ok(Self::Tail(share)),
            "delay" => Ok(Self::Delay(share)),
            "work" => Ok(Self::Work(share)),
            _ => Err(wrong()),
        }
    }
}

/// A share in percent, to a hundredth.
fn percent(share: f64) -> f64 {
    (share * 10_000.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_percentages_are_read_and_nothing_else() {
        let read = |text: &str| text.parse::<InjectedSlowdown>();
        assert_eq!(read("none"), Ok(InjectedSlowdown::Nothing));
        assert_eq!(read("cpu+10"), Ok(InjectedSlowdown::Burn(0.10)));
        assert_eq!(read("tail+2.5"), Ok(InjectedSlowdown::Tail(0.025)));
        assert_eq!(read("delay+100"), Ok(InjectedSlowdown::Delay(1.0)));
        assert_eq!(read("work+1"), Ok(InjectedSlowdown::Work(0.01)));
        assert_eq!(read("work+0"), Ok(InjectedSlowdown::Work(0.0)));
        for bad in [
            "", "cpu", "cpu10", "cpu+", "cpu+0", "cpu+101", "cpu+NaN", "cpu+-5", "work+-1",
            "disk+5", "None",
        ] {
            let error = read(bad).unwrap_err();
            assert!(
                error.contains("expected `none`, or `cpu+10`"),
                "{bad}: {error}"
            );
        }
        assert_eq!(
            InjectedSlowdown::Burn(0.10).name(),
            "+10 % CPU in the server"
        );
        assert_eq!(InjectedSlowdown::Tail(0.07).name(), "+7 % of p99, as CPU");
    }
}
