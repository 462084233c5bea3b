//! The operations of a comparison of clients, by their names.

use std::fmt;

use loadline_measure::record::{Mode, Scenario};

use super::DriverMode;
use crate::args::OpArg;

/// The most commands of a pipeline and the most callers.
const MOST: u32 = 10_000;

/// An operation with the way it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) is_set: bool,
    pub(crate) mode: DriverMode,
    /// Commands of a call, or concurrent callers.
    pub(crate) size: u32,
}

impl Op {
    /// Reads `get`, `set-pipeline-100`, `multiplexed-64` and the like.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (is_set, rest) = match text.strip_prefix("set-") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("get-").unwrap_or(text)),
        };
        let one = |is_set| Self {
            is_set,
            mode: DriverMode::Sync,
            size: 1,
        };
        match text {
            "get" => return Ok(one(false)),
            "set" => return Ok(one(true)),
            _ => {}
        }
        let modes = [
            DriverMode::Pipeline,
            DriverMode::Multiplexed,
            DriverMode::Pool,
        ];
        let sized = modes.into_iter().find_map(|mode| {
            let size = rest.strip_prefix(mode.name())?.strip_prefix('-')?;
            Some((mode, size))
        });
        let Some((mode, size)) = sized else {
            return Err("expected get, set, pipeline-N, multiplexed-N or pool-N, the last three with or without `set-` before them".into());
        };
        match size.parse() {
            Ok(size) if (2..=MOST).contains(&size) => Ok(Self { is_set, mode, size }),
            _ => Err(format!(
                "expected a number from 2 to {MOST} after `{mode}-`"
            )),
        }
    }

    /// The workload.
    pub(crate) fn workload(self) -> OpArg {
        if self.is_set { OpArg::Set } else { OpArg::Get }
    }

    /// The command in the protocol.
    pub(crate) fn command(self) -> &'static str {
        if self.is_set { "set" } else { "get" }
    }

    /// The name of the operation of a scenario.
    pub(crate) fn name_of(scenario: &Scenario) -> String {
        let is_set = scenario.workload == "set";
        let size = |size: u64| u32::try_from(size).unwrap_or(u32::MAX);
        let in_flight = size(scenario.in_flight.unwrap_or(1));
        let (mode, size) = match scenario.mode {
            Mode::Pipeline => (DriverMode::Pipeline, size(scenario.pipeline)),
            Mode::Async if scenario.connections > 1 => (DriverMode::Pool, in_flight),
            Mode::Async => (DriverMode::Multiplexed, in_flight),
            _ => (DriverMode::Sync, 1),
        };
        Self { is_set, mode, size }.to_string()
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.mode, self.is_set) {
            (DriverMode::Sync, _) => f.write_str(self.command()),
            (mode, true) => write!(f, "set-{mode}-{}", self.size),
            (mode, false) => write!(f, "{mode}-{}", self.size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_one_name() {
        for text in [
            "get",
            "set",
            "pipeline-10",
            "set-pipeline-100",
            "multiplexed-64",
            "set-pool-8",
        ] {
            assert_eq!(Op::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            Op::parse("get-pipeline-10").unwrap().to_string(),
            "pipeline-10"
        );
        for text in [
            "",
            "del",
            "get-get",
            "set-set",
            "pipeline",
            "pipeline-",
            "pipeline-1",
            "pool-99999",
            "multiplexed--2",
            "set-",
        ] {
            assert!(Op::parse(text).is_err(), "{text}");
        }
    }
}
