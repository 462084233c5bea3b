//! A plan for readers: as JSON for the record, and as text for `--dry-run`.

use std::fmt::Write;

use loadline_load::pacing::{ArrivalProcess, Pacing};
use loadline_load::values::ValueData;
use loadline_measure::Limit;
use loadline_measure::compare::MIN_ROUNDS;
use loadline_resp::Protocol;
use serde_json::{Value, json};

use super::{Case, Length, Plan};
use crate::target::Target;
use crate::units::{count_text, duration_text, key_dist_text, nanoseconds, value_size_text};
use crate::workload::Operation;

/// How a cluster is loaded.
const SHARED: &str = "of a cluster, each master gets an equal part of the keys, the operations and the rate, by connections and a thread of its own";

impl Plan {
    /// The plan as it stands in the record; passwords are masked.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "targets": self.targets.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "cases": self.cases.iter().map(Case::to_json).collect::<Vec<_>>(),
            "rounds": self.rounds,
            "until_precise": self.schedule.until_precise.then_some(true),
            "warmup_ns": nanoseconds(self.warmup),
            "latency_ns": nanoseconds(self.latency),
            "path": (!self.path.is_plain()).then(|| self.path.to_json()),
            "seed": self.seed,
            "resp": self.resp(),
            "allow_non_empty": self.allow_non_empty,
            "left_out": super::bundle::left_out(&self.targets, &self.cases),
        })
    }

    /// The plan as a person reads it.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::from("The plan; nothing was touched.\n\nTargets\n");
        for target in &self.targets {
            line(&mut out, &target.to_string());
        }
        if self.targets.iter().any(Target::is_cluster) {
            line(&mut out, SHARED);
        }
        if !self.latency.is_zero() {
            let latency = duration_text(self.latency);
            line(&mut out, &format!("{latency} added to every round trip"));
        }
        if !self.path.is_plain() {
            line(&mut out, &format!("a path with {}", self.path.text()));
        }
        for sentence in super::bundle::left_out(&self.targets, &self.cases) {
            line(&mut out, &sentence);
        }
        for case in &self.cases {
            let _ = writeln!(out, "\nCase: {}", case.name);
            case.lines().iter().for_each(|text| line(&mut out, text));
        }
        let measured = self.targets.len() * self.cases.len();
        out.push_str("\nAll cases\n");
        self.rounds_lines()
            .iter()
            .for_each(|text| line(&mut out, text));
        line(
            &mut out,
            &format!("RESP{}, seed {}", self.resp(), self.seed),
        );
        if let Some(Length::Time(time)) = self.cases.first().map(|case| case.length) {
            let about = if self.schedule.until_precise {
                "at most about"
            } else {
                "about"
            };
            let seconds = ((time + self.warmup).as_secs_f64() * measured as f64).ceil();
            line(
                &mut out,
                &format!("{about} {seconds} s, and the time to load the keys"),
            );
        }
        out
    }

    /// What runs in each round beside the load.
    fn beside(&self) -> impl Iterator<Item = &'static str> {
        let is_direct = self.latency.is_zero() && self.path.is_plain();
        let has_tail = self.schedule.tails && is_direct && self.cases.iter().any(Case::has_tail);
        let lines = [
            (
                self.schedule.brief,
                "a block of a closed loop ends sooner where it has operations enough",
            ),
            (
                self.schedule.reference,
                "an echo over loopback in each round, for reference",
            ),
            (
                has_tail,
                "operations one at a time after each block, for the tail, on servers of this host",
            ),
        ];
        lines
            .into_iter()
            .filter_map(|(is_so, text)| is_so.then_some(text))
    }

    /// How the rounds are laid out.
    fn rounds_lines(&self) -> Vec<String> {
        let schedule = &self.schedule;
        let rounds = match schedule.more_rounds {
            0 if schedule.until_precise => format!(
                "{MIN_ROUNDS} to {}, until the ratios are precise enough",
                counted(self.rounds, "round")
            ),
            0 => counted(self.rounds, "round"),
            _ => format!(
                "{} to {}, until the comparison is precise enough",
                counted(self.rounds, "round"),
                self.most_rounds()
            ),
        };
        let order = if self.targets.len() > 1 {
            ", in each the targets in random order"
        } else {
            ""
        };
        let warmup = duration_text(self.warmup);
        let mut lines = vec![format!("{rounds}{order}, after a warm-up of {warmup} each")];
        if schedule.generations > 1 {
            lines.push(format!(
                "targets are opened {} times, servers of our own in fresh processes",
                schedule.generations
            ));
        }
        if schedule.pinned {
            lines.push(
                "servers on the first CPU, the generator on the others, where there are two".into(),
            );
        }
        lines.extend(self.beside().map(str::to_owned));
        lines
    }

    /// What [`to_text`](Self::to_text) says, and what `limits` are judged.
    pub(crate) fn to_text_with(&self, limits: &[Limit]) -> String {
        let mut out = self.to_text();
        let lines = super::limits::lines(limits, self);
        if !lines.is_empty() {
            out.push_str("\nLimits\n");
        }
        lines.iter().for_each(|text| line(&mut out, text));
        out
    }

    /// The number of the protocol's version.
    pub(crate) fn resp(&self) -> u8 {
        match self.protocol {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        }
    }
}

impl Case {
    fn to_json(&self) -> Value {
        let (ops, duration_ns) = match self.length {
            Length::Ops(ops) => (Some(ops), None),
            Length::Time(time) => (None, Some(nanoseconds(time))),
        };
        json!({
            "name": self.name,
            "workload": self.workload.name,
            "operations": self.workload.operations.iter().map(operation_json).collect::<Vec<_>>(),
            "load": self.workload.load.as_ref().map(|load| load.lines().collect::<Vec<_>>()),
            "connections": self.connections,
            "threads": self.threads,
            "pipeline": self.pipeline,
            "in_flight": self.in_flight(),
            "batch": self.batch,
            "pacing": pacing_json(self.pacing),
            "ops": ops,
            "duration_ns": duration_ns,
            "keys": self.keys,
            "key_dist": key_dist_text(&self.key_dist),
            "value_size": value_size_text(&self.value_size),
            "value_data": value_data_text(self.value_data),
            "verify": self.verify,
            "task": self.workload.rules.job.map(|job| job.description()),
            "before_each_block": self.workload.rules.before.as_ref().map(|before| before.lines().collect::<Vec<_>>()),
            "most_ops_per_block": self.most_per_block(),
        })
    }

    fn lines(&self) -> Vec<String> {
        let length = match self.length {
            Length::Ops(ops) => format!("{} operations per target", count_text(ops)),
            Length::Time(time) => format!("{} per target", duration_text(time)),
        };
        let pacing = match self.pacing {
            Pacing::Closed => "closed loop".into(),
            Pacing::Open { rate, arrivals } => format!(
                "open loop at {rate} operations per second, {} arrivals",
                arrivals_text(arrivals)
            ),
        };
        let mut lines = vec![format!("{pacing}, {length}")];
        lines.push(format!(
            "{}, {}, pipeline {}",
            counted(self.connections, "connection"),
            counted(self.threads, "thread"),
            self.pipeline
        ));
        let mut keys = format!(
            "{} keys, {}",
            count_text(self.keys),
            key_dist_text(&self.key_dist)
        );
        if self.workload.carries_values() {
            let _ = write!(
                keys,
                "; values of {}, {}",
                value_size_text(&self.value_size),
                value_data_text(self.value_data)
            );
        }
        if self.touches_keys() {
            lines.push(keys);
        }
        lines.extend(self.rules_lines());
        let shown =
            |operation: &Operation| shortened(&operation.lines().collect::<Vec<_>>().join(" + "));
        if let Some(load) = &self.workload.load {
            lines.push(format!("loads before   {}", shown(load)));
        }
        if let Some(before) = &self.workload.rules.before {
            lines.push(format!("before a block {}", shown(before)));
        }
        for operation in &self.workload.operations {
            lines.push(format!(
                "sends {:>6}   {}",
                format!("x{}", operation.weight()),
                shown(operation)
            ));
        }
        if self.verify && self.workload.can_be_verified() {
            lines.push("checks every value that it reads".into());
        }
        lines
    }
}

fn operation_json(operation: &Operation) -> Value {
    json!({ "name": operation.name(), "weight": operation.weight(), "commands": operation.lines().collect::<Vec<_>>() })
}

fn pacing_json(pacing: Pacing) -> Value {
    match pacing {
        Pacing::Closed => json!("closed"),
        Pacing::Open { rate, arrivals } => {
            json!({ "rate_ops_per_s": rate, "arrivals": arrivals_text(arrivals) })
        }
    }
}

fn arrivals_text(arrivals: ArrivalProcess) -> &'static str {
    match arrivals {
        ArrivalProcess::Uniform => "uniform",
        ArrivalProcess::Poisson => "poisson",
    }
}

fn value_data_text(data: ValueData) -> &'static str {
    match data {
        ValueData::Random => "random",
        ValueData::Compressible => "compressible",
        ValueData::Binary => "binary",
    }
}

fn counted(count: u32, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count_text(count.into()))
}

/// A line that does not break in a terminal of eighty columns.
fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    let head: String = text.chars().take(MOST - 4).collect();
    format!("{head} ...")
}

fn line(out: &mut String, text: &str) {
    let _ = writeln!(out, "  {text}");
}
