//! Scripts of faults: what fails, when, and for how long, as a value that is recorded and repeated.
//!
//! A script counts time or the messages of clients. It does not know what a message is: [`Messages`] separates
//! those of a protocol and names them. The part that decides what is due is pure; the proxy acts on it.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::fault::Fault;

/// Faults of a path, in the order in which those that are due together happen. Equal scripts count equally: with the same
/// messages in the same order, the same ones fail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// The seed of gaps that are drawn ([`Again::About`]).
    pub seed: u64,
    /// The steps.
    pub steps: Vec<Step>,
}

/// Something that fails, once or repeatedly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The moments of failure.
    #[serde(flatten)]
    pub when: Trigger,
    /// The failure.
    pub action: Action,
    /// The connections that are affected. A reply that is cut or replaced is always one of the triggering connection.
    #[serde(default)]
    pub scope: Scope,
    /// The duration of a lasting fault; `None` if it lasts until it is cleared.
    #[serde(default, rename = "lasts_ns", with = "optional")]
    pub lasts: Option<Duration>,
}

/// The moments at which a step is due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// The unit of `first` and of the gaps.
    pub counts: Counts,
    /// The first moment: nanoseconds since the start of the proxy, or the number of a message from 1 on.
    pub first: u64,
    /// Later moments.
    #[serde(default)]
    pub again: Again,
    /// The most times that the step is due; `None` is no limit.
    #[serde(default)]
    pub times: Option<u64>,
}

/// The unit of a trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counts {
    /// Nanoseconds since the start of the proxy.
    Time,
    /// Messages of all clients with one of these names, whatever its case; all messages if there are no names.
    Messages(Vec<String>),
}

/// The gaps between the moments of a trigger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Again {
    /// The first moment is the only one.
    #[default]
    Never,
    /// Equal gaps.
    Every(u64),
    /// Gaps with this mean, drawn uniformly from 1 to twice the mean less 1.
    About(u64),
}

/// The connections that a fault affects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// All connections.
    #[default]
    Path,
    /// The connection whose message triggers the fault.
    Connection,
}

/// The event at a step. With a message as its trigger, a fault happens before the message is forwarded, and bytes in
/// flight that the fault loses can include earlier messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// A fault of the path.
    Fault(Fault),
    /// The message is forwarded. Once the server has replied to it, the connection is cut instead of passing the reply on, so
    /// the message was executed and its sender cannot know.
    CutReply,
    /// The message is not forwarded, and these bytes are the reply.
    Answer {
        /// The reply.
        parts: Vec<Part>,
        /// If set, the connection ends this long after the reply.
        #[serde(default, rename = "close_after_ns", with = "optional")]
        close_after: Option<Duration>,
    },
}

/// Text that is repeated, so that a record of a long reply stays short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The text.
    pub text: String,
    /// The number of times that it comes.
    pub times: u32,
}

/// Separates and names the messages of one connection and their replies, of which each message has one.
pub trait Messages: Send {
    /// The bytes at the start of `bytes` up to the end of the first message, and the name of the message. Without a name, the
    /// bytes contain no message; without both, a message is incomplete. The next call gets the bytes behind
    /// those, with more at their end.
    ///
    /// # Errors
    /// If the bytes are not those of the protocol. Everything on the connection is then passed on unseen.
    fn message<'b>(&'b mut self, bytes: &'b [u8]) -> Result<(usize, Option<&'b [u8]>), String>;

    /// The bytes at the start of `bytes` up to the end of the first reply or other data from the server, and what ends there.
    /// The next call gets the bytes behind those.
    ///
    /// # Errors
    /// As [`Messages::message`].
    fn reply(&mut self, bytes: &[u8]) -> Result<(usize, Ends), String>;
}

/// The unit that ends with the last of some bytes from a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Nothing: more bytes follow.
    Nothing,
    /// A reply.
    Reply,
    /// Data that answers no message.
    Other,
}

impl Script {
    /// Checks that the script is possible.
    ///
    /// # Errors
    /// [`Error::Script`] with the problem.
    pub fn check(&self) -> Result<(), Error> {
        self.steps.iter().try_for_each(Step::check)
    }

    /// Whether it counts messages.
    #[must_use]
    pub fn counts_messages(&self) -> bool {
        self.steps.iter().any(Step::counts_messages)
    }
}

impl Step {
    fn counts_messages(&self) -> bool {
        matches!(self.when.counts, Counts::Messages(_))
    }

    fn check(&self) -> Result<(), Error> {
        let problem = |what| Err(Error::Script { what });
        let by_message = self.counts_messages();
        if by_message && self.when.first == 0 {
            return problem("messages are numbered from 1 on");
        }
        if matches!(self.when.again, Again::Every(0) | Again::About(0)) {
            return problem("the gap between two faults must be at least 1");
        }
        match &self.action {
            Action::Fault(fault) => {
                if self.scope == Scope::Connection && !(by_message && fault.fits_a_connection()) {
                    return problem(
                        "only a message selects a connection, and this fault must fit one",
                    );
                }
                if self.lasts.is_some() && !fault.is_lasting() {
                    return problem("a cut, a reset and a half-open connection have no duration");
                }
            }
            Action::CutReply | Action::Answer { .. } if !by_message => {
                return problem("a reply is cut or replaced only at a message");
            }
            Action::CutReply | Action::Answer { .. } if self.lasts.is_some() => {
                return problem("a reply has no duration; `times` says how many are affected");
            }
            Action::CutReply | Action::Answer { .. } => {}
        }
        Ok(())
    }
}

/// The steps of a script that are due as time passes and messages arrive.
#[derive(Debug)]
pub(crate) struct Progress {
    script: Script,
    moments: Vec<Moments>,
}

/// The moments of one step.
#[derive(Debug)]
struct Moments {
    /// Messages so far.
    seen: u64,
    /// The next moment; `None` after the last one.
    next: Option<u64>,
    /// Times that it was due.
    fired: u64,
    rng: SmallRng,
}

impl Progress {
    /// # Errors
    /// As [`Script::check`].
    pub(crate) fn new(script: Script) -> Result<Self, Error> {
        script.check()?;
        let moments = (0..).zip(&script.steps).map(|(place, step)| Moments {
            seen: 0,
            next: Some(step.when.first).filter(|_| step.when.times != Some(0)),
            fired: 0,
            // Steps with equal gaps are not due together.
            rng: SmallRng::seed_from_u64(script.seed.wrapping_add(place)),
        });
        Ok(Self {
            moments: moments.collect(),
            script,
        })
    }

    pub(crate) fn step(&self, step: usize) -> &Step {
        &self.script.steps[step]
    }

    /// The time since the start at which the next step is due.
    pub(crate) fn next_time(&self) -> Option<Duration> {
        let steps = self.script.steps.iter().zip(&self.moments);
        let times = steps.filter(|(step, _)| !step.counts_messages());
        let next = times.filter_map(|(_, moments)| moments.next).min();
        next.map(Duration::from_nanos)
    }

    /// The steps that are due at this time since the start. A step whose moments were missed is due once.
    pub(crate) fn at(&mut self, time: Duration) -> Vec<usize> {
        let now = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut due = Vec::new();
        for (place, (step, moments)) in self.script.steps.iter().zip(&mut self.moments).enumerate()
        {
            if !step.counts_messages() && moments.next.is_some_and(|next| next <= now) {
                due.push(place);
                while moments.next.is_some_and(|next| next <= now) {
                    moments.advance(&step.when);
                }
            }
        }
        due
    }

    /// The steps that are due at a message.
    pub(crate) fn message(&mut self, name: &[u8]) -> Vec<usize> {
        let mut due = Vec::new();
        for (place, (step, moments)) in self.script.steps.iter().zip(&mut self.moments).enumerate()
        {
            let Counts::Messages(names) = &step.when.counts else {
                continue;
            };
            let is_named = |other: &String| name.eq_ignore_ascii_case(other.as_bytes());
            if !(names.is_empty() || names.iter().any(is_named)) {
                continue;
            }
            moments.seen += 1;
            if moments.next == Some(moments.seen) {
                due.push(place);
                moments.advance(&step.when);
            }
        }
        due
    }
}

impl Moments {
    fn advance(&mut self, when: &Trigger) {
        self.fired += 1;
        let gap = match when.again {
            Again::Never => None,
            Again::Every(gap) => Some(gap),
            Again::About(mean) => Some(self.rng.random_range(1..mean.saturating_mul(2))),
        };
        let goes_on = when.times.is_none_or(|times| self.fired < times);
        self.next = self
            .next
            .zip(gap)
            .filter(|_| goes_on)
            .and_then(|(next, gap)| next.checked_add(gap));
    }
}

/// An optional duration as a number of nanoseconds.
mod optional {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let ns = duration.map(|duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        ns.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let ns = Option::<u64>::deserialize(deserializer)?;
        Ok(ns.map(Duration::from_nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(counts: Counts, first: u64, again: Again, times: Option<u64>) -> Step {
        Step {
            when: Trigger {
                counts,
                first,
                again,
                times,
            },
            action: Action::Fault(Fault::Reset),
            scope: Scope::Path,
            lasts: None,
        }
    }

    fn named(name: &str) -> Counts {
        Counts::Messages(vec![name.into()])
    }

    fn progress(steps: Vec<Step>) -> Progress {
        Progress::new(Script { seed: 7, steps }).unwrap()
    }

    /// The numbers of the messages at which the only step is due.
    fn due(progress: &mut Progress, name: &[u8], messages: u64) -> Vec<u64> {
        (1..=messages)
            .filter(|_| !progress.message(name).is_empty())
            .collect()
    }

    #[test]
    fn named_messages_are_counted_and_others_are_not() {
        let mut both = progress(vec![
            step(named("incr"), 2, Again::Every(3), Some(3)),
            step(Counts::Messages(Vec::new()), 4, Again::Never, None),
        ]);
        let names = ["INCR", "GET", "Incr", "incr", "INCR", "incr"];
        let due: Vec<_> = names.map(|name| both.message(name.as_bytes())).into();
        assert_eq!(due, [vec![], vec![], vec![0], vec![1], vec![], vec![0]]);
        assert_eq!(self::due(&mut both, b"incr", 20), [3]);
    }

    #[test]
    fn drawn_gaps_repeat_with_their_seed_and_have_their_mean() {
        let about = || step(named("SET"), 1, Again::About(5), None);
        let drawn = due(&mut progress(vec![about()]), b"SET", 50_000);
        assert_eq!(drawn, due(&mut progress(vec![about()]), b"SET", 50_000));
        let longest = drawn.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert_eq!(longest, Some(9));
        assert!((9_500..10_500).contains(&drawn.len()), "{}", drawn.len());
        let mut other = Progress::new(Script {
            seed: 8,
            steps: vec![about()],
        });
        assert_ne!(drawn, due(other.as_mut().unwrap(), b"SET", 50_000));
    }

    #[test]
    fn missed_moments_are_due_once() {
        let second = 1_000_000_000;
        let mut progress = progress(vec![step(
            Counts::Time,
            second,
            Again::Every(second),
            Some(4),
        )]);
        let seconds = |tenths: u64| Duration::from_millis(100 * tenths);
        assert!(progress.at(seconds(9)).is_empty());
        assert_eq!(progress.next_time(), Some(seconds(10)));
        assert_eq!(progress.at(seconds(35)), [0]);
        assert_eq!(progress.next_time(), Some(seconds(40)));
        assert!(progress.message(b"SET").is_empty());
        assert_eq!(progress.at(seconds(40)), [0]);
        assert_eq!(
            (progress.next_time(), progress.at(seconds(99))),
            (None, vec![])
        );
    }

    #[test]
    fn impossible_steps_are_refused() {
        let good = step(named("SET"), 1, Again::Never, None);
        let timed = |action| Step {
            action,
            ..step(Counts::Time, 0, Again::Never, None)
        };
        let refuse = Action::Fault(Fault::Refuse);
        let second = Some(Duration::from_secs(1));
        for (bad, word) in [
            (step(named("SET"), 0, Again::Never, None), "numbered"),
            (step(Counts::Time, 0, Again::Every(0), None), "gap"),
            (
                Step {
                    scope: Scope::Connection,
                    ..timed(Action::Fault(Fault::Reset))
                },
                "connection",
            ),
            (
                Step {
                    scope: Scope::Connection,
                    action: refuse.clone(),
                    ..good.clone()
                },
                "connection",
            ),
            (
                Step {
                    lasts: second,
                    ..good.clone()
                },
                "duration",
            ),
            (timed(Action::CutReply), "at a message"),
            (
                Step {
                    action: Action::CutReply,
                    lasts: second,
                    ..good.clone()
                },
                "times",
            ),
        ] {
            let script = Script {
                seed: 0,
                steps: vec![good.clone(), bad],
            };
            let refusal = script.check().unwrap_err().to_string();
            assert!(refusal.contains(word), "{refusal}");
        }
        let lasting = Step {
            lasts: second,
            ..timed(refuse)
        };
        assert!(
            Script {
                seed: 0,
                steps: vec![good, lasting]
            }
            .check()
            .is_ok()
        );
    }

    #[test]
    fn script_in_a_record_is_read_back() {
        let script = Script {
            seed: 3,
            steps: vec![
                Step {
                    action: Action::Fault(Fault::Delay {
                        delay: Duration::from_millis(5),
                    }),
                    lasts: Some(Duration::from_secs(2)),
                    ..step(Counts::Time, 10, Again::About(20), None)
                },
                Step {
                    action: Action::CutReply,
                    ..step(named("INCR"), 6, Again::Every(5), Some(9))
                },
            ],
        };
        let text = serde_json::to_string(&script).unwrap();
        assert_eq!(serde_json::from_str::<Script>(&text).unwrap(), script);
        assert_eq!(
            text,
            r#"{"seed":3,"steps":[{"counts":"time","first":10,"again":{"about":20},"times":null,"#
                .to_owned()
                + r#""action":{"fault":{"kind":"delay","delay_ns":5000000}},"scope":"path","lasts_ns":2000000000},"#
                + r#"{"counts":{"messages":["INCR"]},"first":6,"again":{"every":5},"times":9,"#
                + r#""action":"cut-reply","scope":"path","lasts_ns":null}]}"#
        );
    }
}
