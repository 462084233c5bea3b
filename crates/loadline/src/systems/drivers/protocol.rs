//! The lines between the lab and a driver (docs/driver-protocol.md). What a driver says is not trusted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use loadline_load::cost::ThreadCost;
use loadline_load::outcome::Outcome;
use loadline_measure::Histogram;
use serde::{Deserialize, Serialize};

use crate::plan::{Driver, DriverMode};

/// The version of the lines between the lab and a driver.
pub(crate) const PROTOCOL: u32 = 1;
/// The longest line of a driver, in bytes: a histogram in which every slot is used has about half of that.
pub(super) const LONGEST_LINE: usize = 1 << 20;
/// The longest name, version, runtime or kind of error, in bytes.
const LONGEST_WORD: usize = 64;
/// The most options, and kinds of errors.
const MOST_WORDS: usize = 32;

/// The first line from the lab.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Config {
    pub(crate) protocol: u32,
    pub(crate) client: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whether the server is a node of a cluster.
    pub(crate) cluster: bool,
    /// The sentinels that name the server.
    pub(crate) sentinel: Option<SentinelConfig>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
    pub(crate) resp: u8,
    pub(crate) mode: &'static str,
    pub(crate) depth: u32,
    pub(crate) concurrency: u32,
    /// Operations per second of an open loop; 0 for a closed one.
    pub(crate) rate: u64,
    pub(crate) operation: &'static str,
    pub(crate) key_prefix: String,
    pub(crate) keys: u64,
    pub(crate) value_bytes: u64,
    pub(crate) decode: &'static str,
}

/// A master by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SentinelConfig {
    pub(crate) master: String,
    /// The sentinels.
    pub(crate) addresses: Vec<HostPort>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostPort {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl From<SocketAddr> for HostPort {
    fn from(address: SocketAddr) -> Self {
        Self {
            host: address.ip().to_string(),
            port: address.port(),
        }
    }
}

impl Config {
    /// That of a run with faults: INCR of keys that begin with `prefix`, with the default protocol of the client as far as its
    /// manifest says.
    pub(crate) fn with_faults(driver: &Driver, server: SocketAddr, prefix: String) -> Self {
        Self {
            protocol: PROTOCOL,
            client: driver.name.clone(),
            host: server.ip().to_string(),
            port: server.port(),
            cluster: false,
            sentinel: None,
            user: None,
            password: None,
            database: 0,
            resp: driver.resp.iter().copied().max().unwrap_or(2),
            mode: DriverMode::Faults.name(),
            depth: 1,
            concurrency: 1,
            rate: 0,
            operation: "get",
            key_prefix: prefix,
            keys: 1,
            value_bytes: 1,
            decode: "bytes",
        }
    }
}

/// A line of a driver.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Message {
    /// The client is connected.
    Ready(About),
    /// A block has ended.
    Result(Block),
    /// An operation of a run with faults has ended.
    Op(Op),
    /// Further connections are open.
    Opened(u64),
}

/// A driver's description of its client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct About {
    pub(crate) client: String,
    pub(crate) version: String,
    pub(crate) runtime: String,
    #[serde(default)]
    pub(crate) options: Vec<String>,
}

/// A driver's account of a block.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Block {
    pub(crate) ops: u64,
    #[serde(default)]
    pub(crate) errors: BTreeMap<String, u64>,
    #[serde(default)]
    pub(crate) misses: u64,
    pub(crate) elapsed_ns: u64,
    pub(crate) user_cpu_ns: u64,
    pub(crate) system_cpu_ns: u64,
    #[serde(default)]
    pub(crate) max_rss_bytes: u64,
    #[serde(default)]
    pub(crate) gc_ns: Option<u64>,
    #[serde(default)]
    pub(crate) histogram: Vec<(u64, u64)>,
    /// Times since calls began, instead of since they were due (open loop).
    #[serde(default)]
    pub(crate) service_histogram: Option<Vec<(u64, u64)>>,
    /// Lag of the driver itself: lateness of the starts of calls (open loop).
    #[serde(default)]
    pub(crate) lag_histogram: Option<Vec<(u64, u64)>>,
}

/// A driver's account of an operation of a run with faults.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Op {
    pub(crate) sequence: u64,
    pub(crate) outcome: OpOutcome,
    #[serde(default)]
    pub(crate) error: Option<String>,
    pub(crate) ns: u64,
}

/// The outcome of an operation for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OpOutcome {
    /// With a reply.
    Acknowledged,
    /// With an error reply of the server.
    Failed,
    /// With any other error.
    Unknown,
}

/// Whether `word` can be shown as a name.
fn is_word(word: &str) -> bool {
    word.len() <= LONGEST_WORD && !word.chars().any(char::is_control)
}

impl About {
    /// Refuses what cannot be shown.
    pub(super) fn check(self) -> Result<Self, &'static str> {
        let words = [&self.client, &self.version, &self.runtime];
        let are_fit = words
            .into_iter()
            .chain(&self.options)
            .all(|word| is_word(word) && !word.trim().is_empty());
        if !are_fit || self.options.len() > MOST_WORDS {
            return Err(
                "client, version, runtime and options of `ready` are words of 1 to 64 bytes, with up to 32 options",
            );
        }
        Ok(self)
    }

    /// The client with its version and what is switched on.
    pub(crate) fn name(&self) -> String {
        let mut name = format!("{} {}", self.client, self.version);
        for option in &self.options {
            name.push(' ');
            name.push_str(option);
        }
        name
    }
}

impl Op {
    /// The kind of the error, as far as it can be shown.
    pub(crate) fn kind(&self) -> Option<&str> {
        self.error
            .as_deref()
            .filter(|kind| !kind.is_empty() && is_word(kind))
    }
}

impl Block {
    /// A histogram that counts the operations of the block.
    fn times(&self, slots: &[(u64, u64)]) -> Result<Histogram, String> {
        let histogram = Histogram::of_slots(slots).map_err(|error| error.to_string())?;
        if histogram.count() != self.ops {
            return Err(format!(
                "the histogram counts {} operations and the result {}",
                histogram.count(),
                self.ops
            ));
        }
        Ok(histogram)
    }

    /// The block as the lab's own outcome, if its figures agree with each other.
    pub(super) fn outcome(&self, is_open: bool) -> Result<Outcome, String> {
        let histogram = self.times(&self.histogram)?;
        if self.ops > 0 && self.elapsed_ns == 0 {
            return Err("the block took no time".into());
        }
        let failed = self
            .errors
            .values()
            .try_fold(0_u64, |all, count| all.checked_add(*count));
        let failed = failed.and_then(|failed| failed.checked_add(self.misses));
        if failed.is_none_or(|failed| failed > self.ops) {
            return Err("more operations failed than there were".into());
        }
        let are_words = self
            .errors
            .keys()
            .all(|kind| is_word(kind) && !kind.is_empty());
        if self.errors.len() > MOST_WORDS || !are_words {
            return Err("errors are counted by up to 32 kinds of up to 64 bytes".into());
        }
        let cpu = self.user_cpu_ns.saturating_add(self.system_cpu_ns);
        let mut outcome = Outcome::empty();
        for (kind, count) in &self.errors {
            outcome.errors.add(kind, *count);
        }
        outcome.ops = self.ops;
        outcome.nils = self.misses;
        outcome.duration = Duration::from_nanos(self.elapsed_ns);
        outcome.service = histogram.clone();
        if is_open {
            let all = self
                .service_histogram
                .as_ref()
                .zip(self.lag_histogram.as_ref());
            let (service, lag) = all
                .ok_or("the result of an open loop has `service_histogram` and `lag_histogram`")?;
            outcome.service = self.times(service)?;
            outcome.lag = self.times(lag)?;
        }
        outcome.response = histogram;
        outcome.clock_reads = self.ops;
        outcome.generator = ThreadCost {
            cpu: Duration::from_nanos(cpu),
            run_wait: None,
            busiest: (cpu as f64 / self.elapsed_ns.max(1) as f64).min(1.0),
        };
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Block {
        Block {
            ops: 3,
            elapsed_ns: 1_000,
            histogram: vec![(5, 1), (9, 2)],
            ..Block::default()
        }
    }

    #[test]
    fn figures_that_contradict_each_other_are_refused() {
        assert_eq!(block().outcome(false).unwrap().ops, 3);
        let with = |change: fn(&mut Block)| {
            let mut block = block();
            change(&mut block);
            block.outcome(false).unwrap_err()
        };
        assert!(with(|block| block.ops = 4).contains("counts 3 operations"));
        assert!(with(|block| block.histogram.push((1 << 40, 1))).contains("slot"));
        assert!(with(|block| block.elapsed_ns = 0).contains("no time"));
        assert!(with(|block| block.misses = u64::MAX).contains("more operations failed"));
        assert!(
            with(|block| {
                block.errors = [("ERR".into(), u64::MAX), ("OOM".into(), 9)].into();
            })
            .contains("more operations failed")
        );
        assert!(with(|block| block.errors = [("a\nb".into(), 1)].into()).contains("kinds"));
        let many = |block: &mut Block| {
            block.errors = (0..40).map(|kind| (kind.to_string(), 0)).collect();
        };
        assert!(with(many).contains("up to 32"));
    }

    #[test]
    fn open_loop_has_three_times() {
        let mut block = block();
        let lacking = block.outcome(true).unwrap_err();
        assert!(lacking.contains("service_histogram"), "{lacking}");
        block.service_histogram = Some(vec![(4, 3)]);
        block.lag_histogram = Some(vec![(1, 2)]);
        let short = block.outcome(true).unwrap_err();
        assert!(short.contains("counts 2 operations"), "{short}");
        block.lag_histogram = Some(vec![(1, 3)]);
        let outcome = block.outcome(true).unwrap();
        assert_eq!(outcome.service.value_at(0.5), Some(4));
        assert_eq!(outcome.lag.value_at(0.5), Some(1));
        assert_eq!(outcome.response.value_at(1.0), Some(9));
    }

    #[test]
    fn names_that_cannot_be_shown_are_refused() {
        let about = |client: &str| About {
            client: client.into(),
            version: "1".into(),
            runtime: "C".into(),
            options: vec!["fast".into()],
        };
        assert_eq!(about("x").check().unwrap().name(), "x 1 fast");
        for client in ["", " ", "\u{1b}[31m", &"x".repeat(65)] {
            assert!(about(client).check().is_err(), "{client:?}");
        }
    }
}
