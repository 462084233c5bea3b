//! The events of a history as JSON lines in the form of Jepsen, for checkers of other projects.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde_json::{Value, json};

use super::{History, Kind, Outcome, WriteId};

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

/// A call of a load.
struct Call {
    /// Its beginning and its end.
    times_ns: (u64, u64),
    end: &'static str,
    function: &'static str,
    key: String,
    /// The value at its beginning.
    called: Value,
    /// The value at its end.
    value: Value,
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
        let (calls, moments) = self.calls(history);
        let fault_at = moments.partition_point(|(at_ns, ..)| *at_ns < history.fault_ns);
        let mut of_place = vec![0; calls.len()];
        for (number, (time_ns, is_end, place)) in moments.iter().copied().enumerate() {
            if number == fault_at {
                self.fault(fault, history);
            }
            let call = &calls[place];
            if !is_end {
                of_place[place] = self.processes.take();
            }
            let process = of_place[place];
            if is_end && call.end != "info" {
                self.processes.free.push(Reverse(process));
            }
            let (kind, value) = match is_end {
                false => ("invoke", &call.called),
                true => (call.end, &call.value),
            };
            self.push(&Event {
                process: process.into(),
                kind,
                function: call.function.to_owned(),
                value: json!([call.key, value]),
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

    /// The calls of a load, and the moments of their beginnings and ends in order.
    fn calls(&self, history: &History) -> (Vec<Call>, Vec<(u64, bool, usize)>) {
        let writes = history.operations.iter().map(|operation| Call {
            times_ns: (operation.invoked_ns, operation.completed_ns),
            end: match operation.outcome {
                Outcome::Acknowledged => "ok",
                Outcome::Refused => "fail",
                Outcome::Ambiguous | Outcome::Unconfirmed => "info",
            },
            function: functions(&history.kinds[operation.kind]).0,
            key: self.key(history, operation.kind, operation.id),
            called: 1.into(),
            value: 1.into(),
        });
        let reads = history.reads.iter().map(|read| Call {
            times_ns: (read.invoked_ns, read.completed_ns),
            end: read.found.map_or("fail", |_| "ok"),
            function: functions(&history.kinds[read.kind]).1,
            key: self.key(history, read.kind, read.write),
            called: Value::Null,
            value: read.found.into(),
        });
        let calls: Vec<Call> = writes.chain(reads).collect();
        let mut moments = Vec::with_capacity(2 * calls.len());
        for (place, call) in calls.iter().enumerate() {
            let (invoked_ns, completed_ns) = call.times_ns;
            moments.push((invoked_ns, false, place));
            // A call comes before its end, even if the clock has not moved.
            moments.push((completed_ns.max(invoked_ns), true, place));
        }
        moments.sort_unstable();
        (calls, moments)
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
            let key = self.key(history, operation.kind, operation.id);
            let found = operation.executions;
            let (_, function) = functions(&history.kinds[operation.kind]);
            for (kind, value) in [("invoke", Value::Null), ("ok", found.into())] {
                self.push(&Event {
                    process: process.into(),
                    kind,
                    function: function.to_owned(),
                    value: json!([key, value]),
                    time_ns,
                });
            }
        }
        self.processes.free.push(Reverse(process));
    }

    fn key(&self, history: &History, kind: usize, id: WriteId) -> String {
        let kind = &history.kinds[kind];
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

/// The functions of a model: the one of a write, and the one that shows its executions.
fn functions(kind: &Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Set => ("write", "read"),
        Kind::Publish => ("publish", "receive"),
        _ => ("add", "read"),
    }
}
