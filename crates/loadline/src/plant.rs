//! What `prove` plants in a server, and how it is written.

use std::str::FromStr;
use std::time::Duration;

use loadline_measure::Metric;
use loadline_measure::proof::Kind;

use crate::plan::{Length, Plan};
use crate::target::{Slowdown, Target};

/// The latency in the path of both where a delay is planted: enough for a share of it to be more than
/// the link's own inaccuracy, and little enough for a block to have some hundred operations.
const LATENCY: Duration = Duration::from_micros(250);
/// How much longer blocks are where a delay is planted.
const LONGER_BLOCKS: u32 = 3;
/// The most that is planted, as a share: twice as slow. Whoever needs more needs no proof.
const MOST: f64 = 1.0;

/// What is planted, as a share of what an operation takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Plant {
    /// A server is compared with itself.
    Nothing,
    /// CPU time of the server for every command, as a share of the median.
    Burn(f64),
    /// The same, as a share of the corrected 99th percentile.
    Tail(f64),
    /// Latency in the path, as a share of the median behind that path.
    Delay(f64),
}

/// What an operation takes on a server in which nothing is planted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usual {
    /// The median response time: it is what is judged.
    pub(crate) p50: Duration,
    /// The corrected 99th percentile; zero where the waiting for a CPU is not looked at.
    pub(crate) tail: Duration,
}

impl Plant {
    /// All that is planted where nothing else is asked for.
    pub(crate) const DEFAULT: [Self; 7] = [
        Self::Nothing,
        Self::Burn(0.05),
        Self::Burn(0.10),
        Self::Burn(0.20),
        Self::Delay(0.05),
        Self::Delay(0.10),
        Self::Delay(0.20),
    ];

    /// What a proof keeps of it, without comparisons yet.
    pub(crate) fn kind(self) -> Kind {
        let (what, planted, metric) = match self {
            Self::Nothing => ("nothing", 0.0, Metric::P50),
            Self::Burn(share) => ("CPU in the server", share, Metric::P50),
            Self::Tail(share) => ("of p99, as CPU", share, Metric::CorrectedP99),
            Self::Delay(share) => ("a delay in the path", share, Metric::P50),
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

    /// Whether the first subject is a server with nothing between, as the other kinds have it.
    pub(crate) fn is_near(self) -> bool {
        !matches!(self, Self::Delay(_))
    }

    /// The comparison of the embedded server with one that has this planted.
    pub(crate) fn plan(self, plan: &Plan, usual: Usual) -> Plan {
        let slowed = |latency: Duration, burn_per_command: Duration| {
            Target::Slowed(Slowdown {
                burn_per_command,
                latency,
            })
        };
        let burning = |time: Duration| vec![Target::Embedded, slowed(Duration::ZERO, time)];
        let targets = match self {
            Self::Nothing => vec![Target::Embedded, Target::Embedded],
            Self::Burn(share) => burning(usual.p50.mul_f64(share)),
            Self::Tail(share) => burning(usual.tail.mul_f64(share)),
            Self::Delay(share) => vec![
                slowed(LATENCY, Duration::ZERO),
                slowed(
                    LATENCY + (LATENCY + usual.p50).mul_f64(share),
                    Duration::ZERO,
                ),
            ],
        };
        let mut plan = Plan {
            targets,
            ..plan.clone()
        };
        if !self.is_near() {
            // What takes longer needs longer blocks for as many operations.
            for case in &mut plan.cases {
                if let Length::Time(time) = case.length {
                    case.length = Length::Time(time * LONGER_BLOCKS);
                }
            }
        }
        plan
    }
}

/// Reads `none`, or a way and percent, such as `cpu+10`, `tail+10` or `delay+2.5`.
impl FromStr for Plant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::Nothing);
        }
        let wrong = || {
            format!(
                "`{text}` cannot be planted; write none, cpu+10, tail+10 or delay+10, with a number of percent above 0 and up to {}",
                percent(MOST)
            )
        };
        let (way, number) = text.split_once('+').ok_or_else(wrong)?;
        let share = number.parse::<f64>().map_err(|_| wrong())? / 100.0;
        if !(share > 0.0 && share <= MOST) {
            return Err(wrong());
        }
        match way {
            "cpu" => Ok(Self::Burn(share)),
            "tail" => Ok(Self::Tail(share)),
            "delay" => Ok(Self::Delay(share)),
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
    use crate::plan::{self, Surroundings};

    #[test]
    fn what_is_planted_is_a_share_of_what_an_operation_takes() {
        let around = Surroundings {
            cores: 2,
            has_redis_server: false,
            password: None,
            memory_bytes: Some(8 << 30),
            entropy: 1,
        };
        let plan = plan::resolve_proof("get", None, &around).unwrap();
        let usual = Usual {
            p50: Duration::from_micros(40),
            tail: Duration::from_micros(70),
        };
        let slowdown = |text: &str| {
            let plant: Plant = text.parse().unwrap();
            match plant.plan(&plan, usual).targets[1] {
                Target::Slowed(slowdown) => slowdown,
                ref other => panic!("{text}: {other} is not slowed"),
            }
        };
        let targets = Plant::Nothing.plan(&plan, usual).targets;
        assert_eq!(targets, [Target::Embedded, Target::Embedded]);
        let burned = |text| slowdown(text).burn_per_command;
        assert_eq!(burned("cpu+5"), Duration::from_micros(2));
        assert_eq!(burned("tail+10"), Duration::from_micros(7));
        assert_eq!(slowdown("delay+10").latency, Duration::from_micros(279));
    }

    #[test]
    fn ways_and_percent_are_read_and_nothing_else() {
        let read = |text: &str| text.parse::<Plant>();
        assert_eq!(read("none"), Ok(Plant::Nothing));
        assert_eq!(read("cpu+10"), Ok(Plant::Burn(0.10)));
        assert_eq!(read("tail+2.5"), Ok(Plant::Tail(0.025)));
        assert_eq!(read("delay+100"), Ok(Plant::Delay(1.0)));
        for bad in [
            "", "cpu", "cpu10", "cpu+", "cpu+0", "cpu+101", "cpu+NaN", "cpu+-5", "disk+5", "None",
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.contains("write none, cpu+10"), "{bad}: {error}");
        }
        assert_eq!(Plant::Burn(0.10).name(), "+10 % CPU in the server");
        assert_eq!(Plant::Tail(0.07).name(), "+7 % of p99, as CPU");
    }
}
