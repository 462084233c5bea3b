//! The thread of the leader: starts the cases of all agents, and collects their records.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use loadline_measure::agents::Part;
use loadline_measure::agents::protocol::{Cause, Exchange, Leader, Lost, Outcome, Tally};
use loadline_measure::record::Record;

use super::spawn;
use crate::exit::Failure;
use crate::files;
use crate::systems::coordinator::{Coordinator, Cursor, Stream};

pub(crate) use loadline_measure::agents::protocol::Terms;

/// Pause between two rounds of messages.
const PAUSE: Duration = Duration::from_millis(20);
/// Exchanges that determine the offset of the coordinator's clock.
const EXCHANGES: usize = 4;

/// The end of a run, as the leader knows it.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// The end of the run; `None` if the coordinator was lost.
    pub(crate) outcome: Option<Outcome>,
    /// The records of the agents.
    pub(crate) parts: Vec<Part>,
}

/// A leader that runs.
#[derive(Debug)]
pub(crate) struct Leading(JoinHandle<Parts>);

impl Leading {
    /// Starts to lead the agents of `terms`.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn start(coordinator: Coordinator, terms: Terms) -> Result<Self, Failure> {
        spawn("leader", move || run(coordinator, terms)).map(Self)
    }

    /// Waits for the end.
    pub(crate) fn finish(self) -> Parts {
        match self.0.join() {
            Ok(parts) => parts,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

struct Running {
    coordinator: Coordinator,
    begun: Instant,
    leader: Leader<Tally>,
    reports: Cursor,
    /// The last time that the coordinator answered.
    answered: Duration,
    told: usize,
}

fn run(coordinator: Coordinator, terms: Terms) -> Parts {
    let (agents, lease) = (terms.agents, terms.lease);
    let mut running = Running {
        coordinator,
        begun: Instant::now(),
        leader: Leader::new(terms, Duration::ZERO),
        reports: Cursor::new(Stream::Reports),
        answered: Duration::ZERO,
        told: 0,
    };
    let mut outcome = loop {
        if running.converse().is_ok() {
            running.answered = running.begun.elapsed();
        } else if running.begun.elapsed() - running.answered > lease {
            return Parts::default();
        }
        running.tell();
        if let Some(outcome) = running.leader.outcome() {
            break outcome;
        }
        thread::sleep(PAUSE);
    };
    let parts = running.collect(&mut outcome);
    running.leader.dismiss();
    while running.leader.outgoing().is_some() && running.begun.elapsed() - running.answered < lease
    {
        if running.send().is_err() {
            thread::sleep(PAUSE);
        }
    }
    // Keys that cannot be removed expire.
    let _ = running.coordinator.tidy(agents);
    Parts {
        outcome: Some(outcome),
        parts,
    }
}

impl Running {
    fn converse(&mut self) -> Result<(), loadline_client::Error> {
        // Before time passes: a message that is there already counts.
        for message in self.coordinator.read(&mut self.reports)? {
            // Only an agent can have signed it, and agents of another version have no plan.
            if let Ok(report) = serde_json::from_str(&message) {
                self.leader.hear(self.begun.elapsed(), report);
            }
        }
        let clock = if self.leader.wants_time() {
            Some(self.clock()?)
        } else {
            None
        };
        self.leader.tick(self.begun.elapsed(), clock);
        self.send()
    }

    fn send(&mut self) -> Result<(), loadline_client::Error> {
        while let Some(order) = self.leader.outgoing() {
            let text = serde_json::to_string(order).expect("an order holds texts and numbers");
            self.coordinator.add(Stream::Orders, &text)?;
            self.leader.sent();
            self.answered = self.begun.elapsed();
        }
        Ok(())
    }

    /// The time of the coordinator's clock now, in nanoseconds since 1970.
    fn clock(&mut self) -> Result<u64, loadline_client::Error> {
        let mut offsets = Vec::with_capacity(EXCHANGES);
        for _ in 0..EXCHANGES {
            let sent = self.begun.elapsed();
            let time = self.coordinator.time()?;
            let received = self.begun.elapsed();
            let exchange = Exchange {
                sent,
                time,
                received,
            };
            offsets.push(exchange.offset());
        }
        let best = offsets.into_iter().min_by_key(|offset| offset.bound_ns);
        let best = best.expect("there were exchanges");
        Ok(best.coordinator_ns(self.begun.elapsed()))
    }

    /// Tells the user about agents that were lost.
    fn tell(&mut self) {
        for lost in &self.leader.lost()[self.told..] {
            files::warn(&lost.to_string());
        }
        self.told = self.leader.lost().len();
    }

    /// The records of the agents that have handed one in.
    fn collect(&mut self, outcome: &mut Outcome) -> Vec<Part> {
        parts(outcome, |rank| {
            // The agents wait meanwhile, and must hear of the leader.
            self.leader.tick(self.begun.elapsed(), None);
            let _ = self.send();
            let json = self.coordinator.record(rank);
            let json = json.map_err(|error| error.to_string())?;
            let json = json.ok_or("the coordinator does not have it")?;
            Record::from_json(json.as_bytes()).map_err(|error| error.to_string())
        })
    }
}

/// The records of `outcome`, as `read` returns them. A run without one of them is incomplete.
fn parts(outcome: &mut Outcome, mut read: impl FnMut(u32) -> Result<Record, String>) -> Vec<Part> {
    let mut parts = Vec::new();
    for rank in outcome.records.clone() {
        match read(rank) {
            Ok(record) if record.cases.is_empty() => {}
            Ok(record) => parts.push(Part {
                name: format!("the record of agent {rank}"),
                record,
            }),
            Err(why) => {
                let cause = Cause::Failed(format!("its record cannot be read ({why})"));
                outcome.lost.push(Lost {
                    rank,
                    cause,
                    run: None,
                });
                outcome.is_stopped = true;
            }
        }
    }
    parts
}

/// The lost agents in a sentence without its full stop.
pub(crate) fn listed(lost: &[Lost]) -> String {
    let all: Vec<String> = lost.iter().map(ToString::to_string).collect();
    all.join("; ")
}

#[cfg(test)]
mod tests {
    use loadline_measure::record::{Case, Environment, Run};

    use super::*;

    #[test]
    fn run_without_a_record_that_was_handed_in_is_incomplete() {
        let mut outcome = Outcome {
            lost: Vec::new(),
            is_stopped: false,
            records: vec![0, 1],
        };
        let record = |rank| match rank {
            0 => {
                let mut record = Record::new(Run::default(), Environment::default());
                record.cases.push(Case::default());
                Ok(record)
            }
            _ => Err("it is gone".to_owned()),
        };
        assert_eq!(parts(&mut outcome, record).len(), 1);
        assert!(outcome.is_stopped);
        assert_eq!(
            listed(&outcome.lost),
            "agent 1 failed: its record cannot be read (it is gone)"
        );
    }
}
