//! The metrics of a case that are compared, gated and limited.

use serde::{Deserialize, Serialize};

use crate::record::{Case, RoundSummary};
use crate::work::Work;

/// The direction in which a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Such as throughput.
    MoreIsBetter,
    /// Such as a time or a cost.
    LessIsBetter,
}

/// A metric of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Metric {
    /// Operations per second.
    #[serde(rename = "throughput_ops_per_s")]
    Throughput,
    /// Measured time per operation, over all connections.
    #[serde(rename = "time_per_op_ns")]
    TimePerOp,
    /// Mean response time.
    #[serde(rename = "response_time_ns_mean")]
    Mean,
    /// Median response time.
    #[serde(rename = "response_time_ns_p50")]
    P50,
    /// 90th percentile of the response time.
    #[serde(rename = "response_time_ns_p90")]
    P90,
    /// 95th percentile of the response time.
    #[serde(rename = "response_time_ns_p95")]
    P95,
    /// 99th percentile of the response time.
    #[serde(rename = "response_time_ns_p99")]
    P99,
    /// 99.9th percentile of the response time.
    #[serde(rename = "response_time_ns_p999")]
    P999,
    /// The longest response time.
    #[serde(rename = "response_time_ns_max")]
    Max,
    /// 99th percentile of the response time of one operation at a time, without CPU waiting time: see
    /// [`corrected`](crate::corrected). No limit judges it.
    #[serde(rename = "corrected_time_ns_p99")]
    CorrectedP99,
    /// CPU time of the server per operation.
    #[serde(rename = "server_cpu_ns_per_op")]
    ServerCpu,
    /// CPU time of the generator or the measured client per operation.
    #[serde(rename = "client_cpu_ns_per_op")]
    ClientCpu,
    /// Instructions that the server executes in user space per operation; see [`work`](crate::work).
    #[serde(rename = "server_instructions_per_op")]
    ServerInstructions,
    /// Instructions that the client executes in user space per operation; see [`work`](crate::work).
    #[serde(rename = "client_instructions_per_op")]
    ClientInstructions,
    /// Memory of the client per connection.
    #[serde(rename = "client_bytes_per_connection")]
    ClientMemory,
    /// Share of failed operations.
    #[serde(rename = "error_share")]
    Errors,
    /// Share of the reads that found something.
    #[serde(rename = "hit_ratio")]
    HitRatio,
    /// Time from a fault until every writer had a new write acknowledged; see [`failover`](crate::failover).
    #[serde(rename = "reconnect_ns")]
    Reconnect,
    /// Time from a fault until a pool has its minimum of usable connections.
    #[serde(rename = "pool_recovery_ns")]
    PoolRecovery,
    /// The longest time without an acknowledged write of one writer.
    #[serde(rename = "outage_ns")]
    Outage,
    /// Acknowledged writes that are not in the server after a fault.
    #[serde(rename = "lost_writes")]
    Lost,
    /// Writes that were executed more than once during a fault.
    #[serde(rename = "writes_executed_twice")]
    Twice,
}

/// The unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Nanoseconds.
    Time,
    /// Operations per second.
    Rate,
    /// A share from 0 to 1.
    Share,
    /// Bytes.
    Bytes,
    /// A plain number.
    Count,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Self; 22] = [
        Self::Throughput,
        Self::TimePerOp,
        Self::Mean,
        Self::P50,
        Self::P90,
        Self::P95,
        Self::P99,
        Self::P999,
        Self::Max,
        Self::CorrectedP99,
        Self::ServerCpu,
        Self::ClientCpu,
        Self::ServerInstructions,
        Self::ClientInstructions,
        Self::ClientMemory,
        Self::Errors,
        Self::HitRatio,
        Self::Reconnect,
        Self::PoolRecovery,
        Self::Outage,
        Self::Lost,
        Self::Twice,
    ];

    /// The times of a fault.
    pub const FAULT: [Self; 3] = [Self::Reconnect, Self::PoolRecovery, Self::Outage];

    /// The counts of an audit after a fault. No limit judges them.
    pub const AUDIT: [Self; 2] = [Self::Lost, Self::Twice];

    /// The metrics of work.
    pub const WORK: [Self; 2] = [Self::ServerInstructions, Self::ClientInstructions];

    /// The name in files.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Throughput => "throughput_ops_per_s",
            Self::TimePerOp => "time_per_op_ns",
            Self::Mean => "response_time_ns_mean",
            Self::P50 => "response_time_ns_p50",
            Self::P90 => "response_time_ns_p90",
            Self::P95 => "response_time_ns_p95",
            Self::P99 => "response_time_ns_p99",
            Self::P999 => "response_time_ns_p999",
            Self::Max => "response_time_ns_max",
            Self::CorrectedP99 => "corrected_time_ns_p99",
            Self::ServerCpu => "server_cpu_ns_per_op",
            Self::ClientCpu => "client_cpu_ns_per_op",
            Self::ServerInstructions => "server_instructions_per_op",
            Self::ClientInstructions => "client_instructions_per_op",
            Self::ClientMemory => "client_bytes_per_connection",
            Self::Errors => "error_share",
            Self::HitRatio => "hit_ratio",
            Self::Reconnect => "reconnect_ns",
            Self::PoolRecovery => "pool_recovery_ns",
            Self::Outage => "outage_ns",
            Self::Lost => "lost_writes",
            Self::Twice => "writes_executed_twice",
        }
    }

    /// The name in limits and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::TimePerOp => "time_per_op",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Max => "max",
            Self::CorrectedP99 => "corrected_p99",
            Self::ServerCpu => "server_cpu",
            Self::ClientCpu => "client_cpu",
            Self::ServerInstructions => "server_instructions",
            Self::ClientInstructions => "client_instructions",
            Self::ClientMemory => "client_memory",
            Self::Errors => "errors",
            Self::HitRatio => "hit_ratio",
            Self::Reconnect => "reconnect",
            Self::PoolRecovery => "pool_recovery",
            Self::Outage => "outage",
            Self::Lost => "lost",
            Self::Twice => "twice",
        }
    }

    /// The metric with a name, as returned by [`name`](Self::name); `p999` is an alias of `p99.9`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "p999" {
            return Some(Self::P999);
        }
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// The metric with a name in files, as returned by [`key`](Self::key).
    #[must_use]
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.key() == key)
    }

    /// The direction in which it improves.
    #[must_use]
    pub fn direction(self) -> Direction {
        match self {
            Self::Throughput | Self::HitRatio => Direction::MoreIsBetter,
            _ => Direction::LessIsBetter,
        }
    }

    /// The unit.
    #[must_use]
    pub fn quantity(self) -> Quantity {
        match self {
            Self::Throughput => Quantity::Rate,
            Self::Errors | Self::HitRatio => Quantity::Share,
            Self::ClientMemory => Quantity::Bytes,
            Self::ServerInstructions | Self::ClientInstructions | Self::Lost | Self::Twice => {
                Quantity::Count
            }
            _ => Quantity::Time,
        }
    }

    /// Whether it counts work and not time; see [`work`](crate::work).
    #[must_use]
    pub fn is_work(self) -> bool {
        Self::WORK.contains(&self)
    }

    /// The counts of a case that it is taken from; `None` if they were not made, or it counts no work.
    #[must_use]
    pub fn work_of(self, case: &Case) -> Option<&Work> {
        match self {
            Self::ServerInstructions => case.work.as_ref(),
            Self::ClientInstructions => case.client_work.as_ref(),
            _ => None,
        }
    }

    /// The quantile (0 to 1) of the response time, if it is one.
    #[must_use]
    pub fn response_quantile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
            _ => None,
        }
    }

    /// The words for a change for the worse and for the better: a cost is higher, not slower.
    #[must_use]
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::ServerCpu
            | Self::ClientCpu
            | Self::ServerInstructions
            | Self::ClientInstructions
            | Self::ClientMemory
            | Self::Errors
            | Self::Lost
            | Self::Twice => ("higher", "lower"),
            Self::HitRatio => ("lower", "higher"),
            _ => ("slower", "faster"),
        }
    }

    /// The value over a whole case, from merged histograms if it is a percentile. `None` if it was not
    /// measured or has too few samples.
    #[must_use]
    pub fn of_case(self, case: &Case) -> Option<f64> {
        let times = &case.response_time_ns;
        let whole = |value: Option<u64>| value.map(|ns| ns as f64);
        match self {
            Self::Throughput => Some(case.throughput_ops_per_s),
            Self::TimePerOp => per_op(case.duration_ns, case.ops),
            Self::Mean => times.mean,
            Self::P50 => whole(times.p50),
            Self::P90 => whole(times.p90),
            Self::P95 => whole(times.p95),
            Self::P99 => whole(times.p99),
            Self::P999 => whole(times.p999),
            Self::Max => whole(times.max),
            Self::CorrectedP99 => whole(case.tail.and_then(|tail| tail.corrected.p99)),
            Self::ServerCpu => case.cost.server_cpu_ns_per_op,
            Self::ClientCpu => case.cost.client_cpu_ns_per_op,
            Self::ServerInstructions | Self::ClientInstructions => {
                let work = self.work_of(case)?.estimate().ok()?;
                Some(work.instructions_per_op)
            }
            Self::ClientMemory => case.cost.client_bytes_per_connection,
            Self::Errors => per_op(case.error_count(), case.ops),
            Self::HitRatio => case.hit_ratio,
            Self::Reconnect | Self::PoolRecovery | Self::Outage | Self::Lost | Self::Twice => None,
        }
    }

    /// The value in one round; `None` if the round lacks it.
    #[must_use]
    pub fn of_round(self, round: &RoundSummary) -> Option<f64> {
        match self {
            Self::Throughput => Some(round.throughput_ops_per_s),
            Self::TimePerOp => per_op(round.duration_ns, round.ops),
            Self::Mean => round.response_time_ns_mean,
            Self::P50 => round.response_time_ns_p50.map(|ns| ns as f64),
            Self::P99 => round.response_time_ns_p99.map(|ns| ns as f64),
            Self::CorrectedP99 => round.tail.map(|tail| tail.corrected_ns_p99 as f64),
            Self::ServerCpu => round.server_cpu_ns_per_op,
            Self::ClientCpu => round.client_cpu_ns_per_op,
            _ => None,
        }
    }
}

impl Metric {
    /// Whether both cases have enough operations for this metric; every percentile of a tail needs some, which single
    /// rounds do not show.
    #[must_use]
    pub fn is_published(self, a: &Case, b: &Case) -> bool {
        let is_tail = matches!(self, Self::P99 | Self::CorrectedP99);
        !is_tail || (self.of_case(a).is_some() && self.of_case(b).is_some())
    }

    /// The values in the rounds of two cases that were measured together. A round in which either value is
    /// missing, such as a median of too few operations, is skipped; `None` if fewer than half of the rounds
    /// remain.
    #[must_use]
    pub fn of_pairs(self, a: &Case, b: &Case) -> Option<(Vec<f64>, Vec<f64>)> {
        let value = |round: &RoundSummary| self.of_round(round).filter(|value| *value > 0.0);
        let rounds = a.rounds.iter().zip(&b.rounds);
        let pairs: (Vec<f64>, Vec<f64>) = rounds
            .clone()
            .filter_map(|(a, b)| value(a).zip(value(b)))
            .unzip();
        (!pairs.0.is_empty() && 2 * pairs.0.len() >= rounds.len()).then_some(pairs)
    }
}

fn per_op(total: u64, ops: u64) -> Option<f64> {
    (ops > 0).then(|| total as f64 / ops as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corrected::Corrected;
    use crate::record::{Tail, TailSummary};

    #[test]
    fn names_lead_back_to_their_metric_and_keys_are_those_of_files() {
        for metric in Metric::ALL {
            assert_eq!(Metric::from_name(metric.name()), Some(metric));
            assert_eq!(Metric::from_key(metric.key()), Some(metric));
            let key = serde_json::to_value(metric).unwrap();
            assert_eq!(key, metric.key());
        }
        assert_eq!(Metric::from_name("p999"), Some(Metric::P999));
        assert_eq!(Metric::from_name("p42"), None);
    }

    #[test]
    fn rounds_that_both_hold_are_pairs() {
        let case = |medians: &[Option<u64>]| Case {
            rounds: medians
                .iter()
                .map(|median| RoundSummary {
                    response_time_ns_p50: *median,
                    ..RoundSummary::default()
                })
                .collect(),
            ..Case::default()
        };
        let a = case(&[Some(1), None, Some(3), Some(4), Some(9)]);
        let b = case(&[Some(5), Some(6), Some(0), Some(8)]);
        assert_eq!(
            Metric::P50.of_pairs(&a, &b),
            Some((vec![1.0, 4.0], vec![5.0, 8.0]))
        );
        let few = case(&[None, None, None, Some(8)]);
        assert_eq!(Metric::P50.of_pairs(&a, &few), None);
        assert_eq!(Metric::P50.of_pairs(&case(&[]), &case(&[])), None);
    }

    #[test]
    fn case_without_operations_has_no_time_per_operation() {
        let mut case = Case {
            ops: 0,
            duration_ns: 5,
            ..Case::default()
        };
        assert_eq!(Metric::TimePerOp.of_case(&case), None);
        assert_eq!(Metric::Errors.of_case(&case), None);
        case.ops = 2;
        case.errors.insert("ERR".to_owned(), 1);
        assert_eq!(Metric::TimePerOp.of_case(&case), Some(2.5));
        assert_eq!(Metric::Errors.of_case(&case), Some(0.5));
    }

    #[test]
    fn corrected_tail_is_of_all_rounds_or_of_one() {
        let mut times = Corrected::default();
        times.raw.record_n(50_000, 10_000);
        times.corrected.record_n(40_000, 10_000);
        let mut case = Case {
            tail: Some(Tail::from(&times)),
            rounds: vec![RoundSummary {
                tail: TailSummary::of(&times),
                ..RoundSummary::default()
            }],
            ..Case::default()
        };
        let (of_case, of_round) = (
            Metric::CorrectedP99.of_case(&case).unwrap(),
            Metric::CorrectedP99.of_round(&case.rounds[0]).unwrap(),
        );
        assert_eq!(of_case, of_round);
        assert!((of_case - 40_000.0).abs() < 40.0, "{of_case}");
        let text = serde_json::to_string(&case).unwrap();
        assert_eq!(serde_json::from_str::<Case>(&text).unwrap(), case);
        // Too few to publish for a case, enough to compare rounds.
        let mut few = Corrected::default();
        few.raw.record_n(50_000, 2_500);
        few.corrected.record_n(40_000, 2_500);
        case.tail = Some(Tail::from(&few));
        assert_eq!(Metric::CorrectedP99.of_case(&case), None);
        assert_eq!(TailSummary::of(&few).map(|tail| tail.ops), Some(2_500));
        assert_eq!(TailSummary::of(&Corrected::default()), None);
        case.tail = None;
        assert_eq!(Metric::CorrectedP99.of_case(&case), None);
    }
}
