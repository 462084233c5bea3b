//! A member: an agent that starts its cases when the leader says, and reports what it measures.

use std::collections::VecDeque;
use std::time::Duration;

use super::clock::{ClockWatch, nanoseconds};
use super::inbox::Inbox;
use super::{BEAT, ClockOffset, Exchange, Order, Ordered, Report, Said};

/// Exchanges before an agent joins, which show how long they take.
const FIRST_EXCHANGES: u32 = 8;
/// Exchanges that determine the offset of the coordinator's clock before a start.
const EXCHANGES: u32 = 4;
/// A start that is further away is refused.
const LONGEST_NOTICE: Duration = Duration::from_secs(60);
/// Interval of further exchanges, which show whether the clock was set.
const EXCHANGE_EVERY: Duration = Duration::from_millis(100);

/// The identity of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its rank.
    pub rank: u32,
    /// Random number of its process.
    pub incarnation: u64,
    /// Version of Loadline.
    pub version: String,
    /// The identifier of its own run.
    pub run: String,
    /// Digest of its plan.
    pub plan: String,
    /// Time without contact after which it stops.
    pub lease: Duration,
}

/// The activity of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It prepares or runs a case.
    Working,
    /// It waits for the order to start a case.
    Waiting,
    /// It starts a case.
    Starting {
        /// Index of the case.
        case: u32,
        /// The start by its own clock.
        at: Duration,
        /// The offset from which it follows.
        clock: ClockOffset,
    },
    /// It must end its run, and hand in its record.
    Stopped {
        /// The reason, in a sentence.
        why: String,
        /// Whether the leader or the coordinator cannot be reached.
        is_cut_off: bool,
    },
    /// It is done, and the leader has its record.
    Done,
}

/// The state machine of an agent. `T` is what it measures.
#[derive(Debug)]
pub struct Member<T> {
    identity: Identity,
    state: State,
    /// The case that it is ready for.
    case: u32,
    /// The case whose start was ordered, and the start, until the offset of the clock is known.
    ordered: Option<(u32, u64)>,
    clock: ClockWatch,
    /// The last start, until an exchange after it shows that the clock was not set before it: an agent that read the clock
    /// after that would have started at another time.
    unconfirmed: Option<Duration>,
    exchange_at: Duration,
    has_joined: bool,
    has_ended: bool,
    inbox: Inbox<Ordered>,
    /// When the leader was heard.
    heard: Duration,
    /// When the last message was sent that the coordinator acknowledged.
    renewed: Duration,
    beat_at: Duration,
    out: VecDeque<Report<T>>,
    number: u64,
}

impl<T> Member<T> {
    /// An agent that has read its plan at `now`.
    #[must_use]
    pub fn new(identity: Identity, now: Duration) -> Self {
        Self {
            identity,
            state: State::Working,
            case: 0,
            ordered: None,
            clock: ClockWatch::default(),
            unconfirmed: None,
            exchange_at: now,
            has_joined: false,
            has_ended: false,
            inbox: Inbox::default(),
            heard: now,
            renewed: now,
            beat_at: now + BEAT,
            out: VecDeque::new(),
            number: 0,
        }
    }

    /// The present activity of the agent.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The rank of the agent.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.identity.rank
    }

    /// Whether the coordinator's clock should be read at `now`.
    #[must_use]
    pub fn wants_exchange(&self, now: Duration) -> bool {
        match self.state {
            State::Stopped { .. } | State::Done => false,
            _ if !self.has_joined || self.ordered.is_some() => true,
            _ if self.unconfirmed.is_some_and(|start| now >= start) => true,
            _ => now >= self.exchange_at,
        }
    }

    /// Takes a reading of the coordinator's clock.
    pub fn exchanged(&mut self, exchange: &Exchange) {
        self.clock.add(exchange);
        self.exchange_at = exchange.received
            + match self.state {
                State::Working => BEAT,
                _ => EXCHANGE_EVERY,
            };
        if !self.has_joined {
            self.renewed = exchange.sent;
        }
        if !self.has_joined && self.clock.samples() >= FIRST_EXCHANGES {
            self.has_joined = true;
            self.say(Said::Join {
                version: self.identity.version.clone(),
                run: self.identity.run.clone(),
                round_trip_ns: nanoseconds(self.clock.longest_trip()),
            });
        }
        let is_near = self.unconfirmed.is_some() || self.ordered.is_some();
        self.unconfirmed.take_if(|start| exchange.sent >= *start);
        if is_near && self.clock.take_step() {
            self.fail("the clock of the coordinator was set while a start was near");
        } else if self.clock.samples() >= EXCHANGES
            && let Some((case, start_ns)) = self.ordered.take()
        {
            self.arm(exchange.received, case, start_ns);
        }
    }

    fn arm(&mut self, now: Duration, case: u32, start_ns: u64) {
        let clock = self.clock.best().expect("there were exchanges");
        match clock.own_time(start_ns) {
            Some(at) if at > now && at - now <= LONGEST_NOTICE => {
                self.state = State::Starting { case, at, clock };
                self.unconfirmed = Some(at);
                self.say(Said::Armed { case });
            }
            _ => self.fail("the order to start a case came too late"),
        }
    }

    /// The connections and keys of `case` are ready.
    pub fn ready(&mut self, case: u32) {
        // A short case can be over before a tick has seen its start.
        let is_over = matches!(self.state, State::Starting { case: begun, .. } if begun < case);
        if self.state == State::Working || is_over {
            self.state = State::Waiting;
            self.case = case;
            self.say(Said::Ready { case });
        }
    }

    /// Takes a message that was received at `now`.
    pub fn hear(&mut self, now: Duration, order: Order) {
        if order.plan != self.identity.plan {
            return;
        }
        let Some(ready) = self.inbox.take(order.number, order.body) else {
            return;
        };
        self.heard = now;
        for body in ready {
            match body {
                Ordered::Beat => {}
                Ordered::Arm { case, start_ns } => {
                    if self.state == State::Waiting && case == self.case {
                        self.clock.refresh();
                        // A step before the order does not matter: the offset is measured after it.
                        let _ = self.clock.take_step();
                        self.ordered = Some((case, start_ns));
                    }
                }
                Ordered::Stop { why } => self.stop(why, false),
                Ordered::Done => {
                    if self.has_ended {
                        self.state = State::Done;
                    }
                }
            }
        }
    }

    /// Lets time pass until `now`. Calls `difference` for what was measured since the last call if a beat is due.
    pub fn tick(&mut self, now: Duration, difference: impl FnOnce() -> Option<T>) {
        if self.state == State::Done {
            return;
        }
        let is_renewed = now.saturating_sub(self.renewed) <= self.identity.lease;
        let is_led = now.saturating_sub(self.heard) <= self.identity.lease;
        if !is_renewed {
            self.cut_off("the coordinator could not be reached in time");
        } else if !is_led {
            self.cut_off("the leader of the run is not heard any more");
        }
        if matches!(self.state, State::Starting { at, .. } if now >= at) {
            self.state = State::Working;
        }
        if self.has_joined && now >= self.beat_at {
            self.beat_at = now + BEAT;
            let difference = if self.has_ended { None } else { difference() };
            self.say(Said::Beat { difference });
        }
    }

    /// The run has ended with `total` in its record, early because of `failure`. Since the last beat, `rest` was
    /// measured. `has_record` says whether the coordinator has the record.
    pub fn end(&mut self, rest: T, total: T, failure: Option<String>, has_record: bool) {
        if self.has_ended {
            return;
        }
        let difference = Some(rest);
        self.say(Said::Beat { difference });
        self.has_ended = true;
        let of_group = match &self.state {
            State::Stopped { why, .. } => Some(why.clone()),
            _ => None,
        };
        self.say(Said::End {
            total,
            failure: failure.or(of_group),
            has_record,
        });
    }

    /// The next message to send. The end of the run waits for an exchange after the last start.
    #[must_use]
    pub fn outgoing(&self) -> Option<&Report<T>> {
        let waits = |report: &Report<T>| matches!(report.body, Said::End { .. });
        let next = self.out.front()?;
        (self.unconfirmed.is_none() || !waits(next)).then_some(next)
    }

    /// The coordinator has acknowledged the next message, which was last sent at `sent`.
    pub fn acknowledged(&mut self, sent: Duration) {
        self.out.pop_front();
        self.renewed = self.renewed.max(sent);
    }

    fn say(&mut self, body: Said<T>) {
        self.out.push_back(Report {
            rank: self.identity.rank,
            incarnation: self.identity.incarnation,
            plan: self.identity.plan.clone(),
            number: self.number,
            body,
        });
        self.number += 1;
    }

    fn fail(&mut self, why: &str) {
        for report in &mut self.out {
            if let Said::End { failure, .. } = &mut report.body {
                failure.get_or_insert_with(|| why.to_owned());
            }
        }
        self.stop(why.to_owned(), false);
    }

    fn cut_off(&mut self, why: &str) {
        match &mut self.state {
            State::Stopped { is_cut_off, .. } => *is_cut_off = true,
            _ => self.stop(why.to_owned(), true),
        }
    }

    fn stop(&mut self, why: String, is_cut_off: bool) {
        if !matches!(self.state, State::Stopped { .. } | State::Done) {
            (self.ordered, self.unconfirmed) = (None, None);
            self.state = State::Stopped { why, is_cut_off };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LEASE;
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const EPOCH: Duration = Duration::from_secs(1_700_000_000);

    /// Reads a clock that is ahead by `EPOCH` and `ahead`.
    fn read(member: &mut Member<u64>, now: Duration, ahead: Duration) {
        member.exchanged(&Exchange {
            sent: now,
            time: EPOCH + now + ahead,
            received: now + MS / 10,
        });
    }

    fn sent(member: &mut Member<u64>) -> Vec<Said<u64>> {
        let mut all = Vec::new();
        while let Some(report) = member.outgoing() {
            all.push(report.body.clone());
            member.acknowledged(Duration::ZERO);
        }
        all
    }

    /// A member that starts its first case after half a second.
    fn starting() -> Member<u64> {
        let identity = Identity {
            rank: 0,
            incarnation: 1,
            version: "1".to_owned(),
            run: "run".to_owned(),
            plan: "plan".to_owned(),
            lease: LEASE,
        };
        let mut member = Member::new(identity, Duration::ZERO);
        (0..FIRST_EXCHANGES).for_each(|trip| read(&mut member, MS * trip, Duration::ZERO));
        member.ready(0);
        let start_ns = nanoseconds(EPOCH + MS * 500);
        member.hear(
            MS * 10,
            Order {
                plan: "plan".to_owned(),
                number: 0,
                body: Ordered::Arm { case: 0, start_ns },
            },
        );
        (10..10 + EXCHANGES).for_each(|at| read(&mut member, MS * at, Duration::ZERO));
        assert!(matches!(member.state(), State::Starting { .. }));
        member
    }

    /// The end of a run of an instant, after whose start the clock is ahead by `ahead` of the time before.
    fn end_of_an_instant(ahead: Duration) -> Said<u64> {
        let mut member = starting();
        member.tick(MS * 500, || None);
        member.end(7, 7, None, true);
        let before = sent(&mut member);
        let is_end = |said: &Said<u64>| matches!(said, Said::End { .. });
        assert!(!before.iter().any(is_end), "{before:?}");
        assert!(member.wants_exchange(MS * 501));
        read(&mut member, MS * 501, ahead);
        let after = sent(&mut member);
        after.into_iter().find(is_end).expect("it is over")
    }

    #[test]
    fn case_that_is_over_before_a_tick_is_followed_by_the_next_one() {
        let mut member = starting();
        sent(&mut member);
        // The first case is announced once.
        member.ready(0);
        assert_eq!(sent(&mut member), []);
        member.ready(1);
        assert_eq!(sent(&mut member), [Said::Ready { case: 1 }]);
        assert_eq!(*member.state(), State::Waiting);
    }

    #[test]
    fn end_of_a_run_waits_until_the_clock_is_known_to_have_been_right_at_its_start() {
        let failure = |said| match said {
            Said::End { failure, .. } => failure,
            other => panic!("{other:?}"),
        };
        assert_eq!(failure(end_of_an_instant(Duration::ZERO)), None);
        let why = failure(end_of_an_instant(MS * 400)).expect("the clock was set");
        assert!(why.contains("was set while a start was near"), "{why}");
    }
}
