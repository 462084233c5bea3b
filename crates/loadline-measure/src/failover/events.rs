//! The events of a history as JSON lines in the form of Jepsen, for checkers of other projects.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde_json::{Value, json};

use super::{History, Kind, Operation, Outcome};

/// Events of the loads of a run, one JSON object a line: `index`, `trial`, `process`, `type`, `f`, `value` and `time`.
///
/// A process has one operation under way at a time, and none after an `info`. Each trial has keys of its own.
#[derive(Debug, Default)]
pub struct Events {
    lines: String,
    index: u64,
    trials: u64,
    processes: Processes,
}

/// Processes, which are taken again once their operation has ended.
#[derive(Debug, Default)]
struct Processes {
    free: BinaryHeap<Reverse<u64>>,
    count: u64,
}

impl Processes {
    fn take(&mut self) -> u64 {
        self.free.pop().map_or_else(
            || {
                self.count += 1;
                self.count - 1
            },
            |Reverse(process)| process,
        )
    }
}

/// An event without its place in the file.
struct Event {
    process: Value,
    kind: &'static str,
    function: String,
    value: Value,
    time_ns: u64,
}

impl Events {
    /// Adds the load around the fault `fault`, and the reads of the audit after it.
    pub fn add(&mut self, fault: &str, history: &History) {
        let mut moments: Vec<(u64, bool, usize)> = Vec::new();
        for (place, operation) in history.operations.iter().enumerate() {
            moments.push((operation.invoked_ns, false, place));
            // A call comes before its end, even if the clock has not moved.
            let end_ns = operation.completed_ns.max(operation.invoked_ns);
            moments.push((end_ns, true, place));
        }
        moments.sort_unstable();
        let fault_at = moments.partition_point(|(at_ns, ..)| *at_ns < history.fault_ns);
        let mut of_place = vec![0; history.operations.len()];
        for (number, (time_ns, is_end, place)) in moments.iter().copied().enumerate() {
            if number == fault_at {
                self.fault(fault, history);
            }
            let operation = &history.operations[place];
            let kind = match (is_end, operation.outcome) {
                (false, _) => "invoke",
                (true, Outcome::Acknowledged) => "ok",
                (true, Outcome::Refused) => "fail",
                (true, Outcome::Ambiguous) => "info",
            };
            if !is_end {
                of_place[place] = self.processes.take();
            }
            let process = of_place[place];
            if is_end && operation.outcome != Outcome::Ambiguous {
                self.processes.free.push(Reverse(process));
            }
            self.push(&Event {
                process: process.into(),
                kind,
                function: function(history, operation).to_owned(),
                value: json!([self.key(history, operation), 1]),
                time_ns,
            });
        }
        if fault_at == moments.len() {
            self.fault(fault, history);
        }
        let last_ns = moments.last().map_or(0, |(at_ns, ..)| *at_ns);
        self.reads(last_ns.max(history.end_ns), history);
        self.trials += 1;
    }

    fn fault(&mut self, fault: &str, history: &History) {
        self.push(&Event {
            process: "nemesis".into(),
            kind: "info",
            function: fault.to_owned(),
            value: Value::Null,
            time_ns: history.fault_ns,
        });
    }

    /// The reads of the audit, one after the other by one process.
    fn reads(&mut self, time_ns: u64, history: &History) {
        let process = self.processes.take();
        for operation in &history.operations {
            let key = self.key(history, operation);
            let found = operation.executions;
            for (kind, value) in [("invoke", Value::Null), ("ok", found.into())] {
                self.push(&Event {
                    process: process.into(),
                    kind,
                    function: "read".to_owned(),
                    value: json!([key, value]),
                    time_ns,
                });
            }
        }
        self.processes.free.push(Reverse(process));
    }

    fn key(&self, history: &History, operation: &Operation) -> String {
        let (kind, id) = (&history.kinds[operation.kind], operation.id);
        format!("{}:{kind}:{}:{}", self.trials, id.writer, id.sequence)
    }

    fn push(&mut self, event: &Event) {
        let line = json!({
            "index": self.index,
            "trial": self.trials,
            "process": event.process,
            "type": event.kind,
            "f": event.function,
            "value": event.value,
            "time": event.time_ns,
        });
        self.lines.push_str(&line.to_string());
        self.lines.push('\n');
        self.index += 1;
    }

    /// The lines.
    #[must_use]
    pub fn into_lines(self) -> String {
        self.lines
    }
}

/// The function of a model: `write` of a register, or `add` to a counter.
fn function(history: &History, operation: &Operation) -> &'static str {
    match history.kinds[operation.kind] {
        Kind::Set => "write",
        _ => "add",
    }
}
