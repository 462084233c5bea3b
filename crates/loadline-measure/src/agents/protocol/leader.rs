//! The leader: starts the cases of all agents together, and notices which of them are lost.

use std::collections::VecDeque;
use std::ops::AddAssign;
use std::time::Duration;

use super::inbox::Inbox;
use super::{BEAT, Cause, Lost, NOTICE_ROUND_TRIPS, Order, Ordered, Report, SHORTEST_NOTICE, Said};

/// Time for agents to hand in their records after an order to stop.
const STOPPING: Duration = Duration::from_secs(10);

/// Longer round trips do not postpone a start any further.
const LONGEST_ROUND_TRIP: Duration = Duration::from_secs(2);

/// The terms that all agents of a run share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Number of agents.
    pub agents: u32,
    /// The fewest agents with which the run goes on.
    pub fewest: u32,
    /// Number of cases.
    pub cases: u32,
    /// Digest of the plan.
    pub plan: String,
    /// Version of Loadline.
    pub version: String,
    /// Time for all agents to join.
    pub join: Duration,
    /// Time without a message after which an agent is lost.
    pub lease: Duration,
}

/// The end of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The agents that were lost, in order of time.
    pub lost: Vec<Lost>,
    /// Whether the run was stopped before its plan was done.
    pub is_stopped: bool,
    /// The ranks whose record the coordinator has, as far as they got.
    pub records: Vec<u32>,
}

/// The state machine of the leader. `T` is what agents measure.
#[derive(Debug)]
pub struct Leader<T> {
    terms: Terms,
    phase: Phase,
    seats: Vec<Seat<T>>,
    lost: Vec<Lost>,
    is_stopped: bool,
    out: VecDeque<Order>,
    number: u64,
    beat_at: Duration,
}

/// The place of an agent.
#[derive(Debug)]
struct Seat<T> {
    incarnation: Option<u64>,
    /// The identifier of its own run.
    run: Option<String>,
    inbox: Inbox<Said<T>>,
    heard: Duration,
    round_trip: Duration,
    /// Cases that it was ready for, and that it confirmed.
    ready: u32,
    armed: u32,
    sum: T,
    has_ended: bool,
    has_record: bool,
    is_lost: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Joining {
        until: Duration,
    },
    /// Until all agents are ready for a case; the one after the last is the end.
    Gathering {
        case: u32,
    },
    /// Until all have confirmed the start, which is at `until`.
    Arming {
        case: u32,
        until: Duration,
    },
    Stopping {
        until: Duration,
    },
    Over,
}

impl<T: Default + PartialEq + for<'t> AddAssign<&'t T>> Leader<T> {
    /// A leader at `now`.
    #[must_use]
    pub fn new(terms: Terms, now: Duration) -> Self {
        let seat = |_| Seat {
            incarnation: None,
            run: None,
            inbox: Inbox::default(),
            heard: now,
            round_trip: Duration::ZERO,
            ready: 0,
            armed: 0,
            sum: T::default(),
            has_ended: false,
            has_record: false,
            is_lost: false,
        };
        Self {
            seats: (0..terms.agents).map(seat).collect(),
            phase: Phase::Joining {
                until: now + terms.join,
            },
            terms,
            lost: Vec::new(),
            is_stopped: false,
            out: VecDeque::new(),
            number: 0,
            beat_at: now,
        }
    }

    /// Takes a message that was received at `now`.
    pub fn hear(&mut self, now: Duration, report: Report<T>) {
        let Ok(index) = usize::try_from(report.rank) else {
            return;
        };
        let Some(seat) = self.seats.get_mut(index) else {
            return;
        };
        if seat.is_lost {
            return;
        }
        if report.plan != self.terms.plan {
            self.lose(now, index, Cause::Plan);
            return;
        }
        if *seat.incarnation.get_or_insert(report.incarnation) != report.incarnation {
            self.lose(now, index, Cause::Restarted);
            return;
        }
        let Some(ready) = seat.inbox.take(report.number, report.body) else {
            return;
        };
        seat.heard = now;
        for said in ready {
            self.apply(now, index, said);
        }
    }

    fn apply(&mut self, now: Duration, index: usize, said: Said<T>) {
        let seat = &mut self.seats[index];
        match said {
            Said::Join {
                version,
                run,
                round_trip_ns,
            } => {
                seat.run = Some(run);
                seat.round_trip = Duration::from_nanos(round_trip_ns).min(LONGEST_ROUND_TRIP);
                if version != self.terms.version {
                    self.lose(now, index, Cause::Version(version));
                }
            }
            Said::Ready { case } => seat.ready = case.saturating_add(1),
            Said::Armed { case } => seat.armed = case.saturating_add(1),
            Said::Beat { difference } => {
                if let Some(difference) = difference {
                    seat.sum += &difference;
                }
            }
            Said::End {
                total,
                failure,
                has_record,
            } => {
                seat.has_ended = true;
                seat.has_record = has_record;
                let is_whole = seat.sum == total;
                match failure {
                    Some(why) if !self.is_stopped => self.lose(now, index, Cause::Failed(why)),
                    None if !is_whole => {
                        seat.has_record = false;
                        self.lose(now, index, Cause::WrongSum);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Lets time pass until `now`, when the coordinator's clock shows `coordinator_ns` since 1970, if that is known.
    pub fn tick(&mut self, now: Duration, coordinator_ns: Option<u64>) {
        if now >= self.beat_at {
            self.beat_at = now + BEAT;
            self.order(Ordered::Beat);
        }
        if self.phase == Phase::Over {
            return;
        }
        for index in 0..self.seats.len() {
            let seat = &self.seats[index];
            let is_silent = now.saturating_sub(seat.heard) > self.terms.lease;
            if seat.is_present() && !seat.has_ended && is_silent {
                self.lose(now, index, Cause::Silent(self.terms.lease));
            }
        }
        self.advance(now, coordinator_ns);
    }

    fn advance(&mut self, now: Duration, coordinator_ns: Option<u64>) {
        match self.phase {
            Phase::Joining { until } => {
                if self
                    .seats
                    .iter()
                    .all(|seat| seat.is_lost || seat.is_present())
                {
                    self.phase = Phase::Gathering { case: 0 };
                } else if now >= until {
                    self.phase = Phase::Gathering { case: 0 };
                    self.lose_all(now, |seat| !seat.is_present(), &Cause::Missing);
                }
            }
            Phase::Gathering { case } => match self.next_case(case) {
                Some(next) if next == self.terms.cases => self.phase = Phase::Over,
                Some(next) => {
                    if let Some(coordinator_ns) = coordinator_ns {
                        self.arm(now, next, coordinator_ns);
                    }
                }
                None => {}
            },
            Phase::Arming { case, until } => {
                if self.here().all(|seat| seat.armed > case) {
                    self.phase = Phase::Gathering { case: case + 1 };
                } else if now >= until {
                    self.phase = Phase::Gathering { case: case + 1 };
                    self.lose_all(now, |seat| seat.armed <= case, &Cause::NotArmed);
                }
            }
            Phase::Stopping { until } => {
                if now >= until || self.here().all(|seat| seat.has_ended) {
                    self.phase = Phase::Over;
                }
            }
            Phase::Over => {}
        }
    }

    /// Time from the order to start to the start.
    fn notice(&self) -> Duration {
        let longest = self.here().map(|seat| seat.round_trip).max();
        let trips = longest.unwrap_or_default() * NOTICE_ROUND_TRIPS;
        trips.max(SHORTEST_NOTICE)
    }

    /// The case that all agents are ready for, or the number of cases if all have ended; `None` until then. Before it, from
    /// `case` on, there are only cases that the target does not support. If it supports one for some agents only, those
    /// are behind.
    fn next_case(&self, case: u32) -> Option<u32> {
        let mut places = self.here().map(|seat| seat.place(case, self.terms.cases));
        places.try_fold(self.terms.cases, |first, place| Some(first.min(place?)))
    }

    /// Orders the start of `case`, which agents that are past it have left out.
    fn arm(&mut self, now: Duration, case: u32, coordinator_ns: u64) {
        let cases = self.terms.cases;
        let is_past = |seat: &Seat<T>| {
            let place = seat.place(case, cases);
            seat.is_present() && place.is_some_and(|place| place > case)
        };
        self.lose_all(now, is_past, &Cause::LeftOut);
        if self.is_stopped {
            return;
        }
        let notice = self.notice();
        self.order(Ordered::Arm {
            case,
            start_ns: coordinator_ns.saturating_add(notice.as_nanos() as u64),
        });
        let until = now + notice;
        self.phase = Phase::Arming { case, until };
    }

    /// The agents that are part of the run.
    fn here(&self) -> impl Iterator<Item = &Seat<T>> {
        self.seats.iter().filter(|seat| seat.is_present())
    }

    fn lose_all(&mut self, now: Duration, which: impl Fn(&Seat<T>) -> bool, cause: &Cause) {
        for index in 0..self.seats.len() {
            if !self.seats[index].is_lost && which(&self.seats[index]) {
                self.lose(now, index, cause.clone());
            }
        }
    }

    fn lose(&mut self, now: Duration, index: usize, cause: Cause) {
        let seat = &mut self.seats[index];
        if seat.is_lost || self.phase == Phase::Over {
            return;
        }
        seat.is_lost = true;
        let rank = u32::try_from(index).expect("there are as many seats as ranks");
        // An agent that has ended has removed its keys.
        let run = seat.run.clone().filter(|_| !seat.has_ended);
        self.lost.push(Lost { rank, cause, run });
        let left = self.seats.iter().filter(|seat| !seat.is_lost).count();
        if (left as u64) < u64::from(self.terms.fewest) && !self.is_stopped {
            let lost: Vec<String> = self.lost.iter().map(ToString::to_string).collect();
            self.stop(now, &lost.join("; "));
        }
    }

    /// Stops the run.
    pub fn stop(&mut self, now: Duration, why: &str) {
        if self.is_stopped || self.phase == Phase::Over {
            return;
        }
        self.is_stopped = true;
        self.phase = Phase::Stopping {
            until: now + STOPPING,
        };
        self.order(Ordered::Stop {
            why: why.to_owned(),
        });
    }

    /// Dismisses the agents, once their records were read.
    pub fn dismiss(&mut self) {
        self.order(Ordered::Done);
    }

    /// Whether all agents are ready, so that the next tick needs the time of the coordinator's clock.
    #[must_use]
    pub fn wants_time(&self) -> bool {
        match self.phase {
            Phase::Gathering { case } => {
                let next = self.next_case(case);
                next.is_some_and(|next| next < self.terms.cases)
            }
            _ => false,
        }
    }

    /// The end, once all agents that are left have ended.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        let is_read = |seat: &Seat<T>| seat.has_record && (self.is_stopped || !seat.is_lost);
        let ranks = (0..self.terms.agents).zip(&self.seats);
        (self.phase == Phase::Over).then(|| Outcome {
            lost: self.lost.clone(),
            is_stopped: self.is_stopped,
            records: ranks
                .filter(|(_, seat)| is_read(seat))
                .map(|(rank, _)| rank)
                .collect(),
        })
    }

    /// The agents that were lost so far, in order of time.
    #[must_use]
    pub fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// The sum of the differences of an agent so far.
    #[must_use]
    pub fn measured(&self, rank: u32) -> Option<&T> {
        let seat = self.seats.get(usize::try_from(rank).ok()?)?;
        Some(&seat.sum)
    }

    /// The next message to send.
    #[must_use]
    pub fn outgoing(&self) -> Option<&Order> {
        self.out.front()
    }

    /// The next message was sent.
    pub fn sent(&mut self) {
        self.out.pop_front();
    }

    fn order(&mut self, body: Ordered) {
        self.out.push_back(Order {
            plan: self.terms.plan.clone(),
            number: self.number,
            body,
        });
        self.number += 1;
    }
}

impl<T> Seat<T> {
    /// Whether the agent has joined and is not lost.
    fn is_present(&self) -> bool {
        self.incarnation.is_some() && !self.is_lost
    }

    /// The case from `case` on that the agent is ready for, or the number of all `cases` if it has ended.
    fn place(&self, case: u32, cases: u32) -> Option<u32> {
        match self.ready.checked_sub(1) {
            _ if self.has_ended => Some(cases),
            Some(ready) if (case..cases).contains(&ready) => Some(ready),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LEASE;
    use super::*;

    /// Operations.
    #[derive(Debug, Clone, Default, PartialEq)]
    struct Ops(u64);

    impl AddAssign<&Ops> for Ops {
        fn add_assign(&mut self, other: &Ops) {
            self.0 += other.0;
        }
    }

    fn leader(agents: u32) -> Leader<Ops> {
        let terms = Terms {
            agents,
            fewest: agents,
            cases: 1,
            plan: "plan".to_owned(),
            version: "1".to_owned(),
            join: Duration::from_secs(5),
            lease: LEASE,
        };
        Leader::new(terms, Duration::ZERO)
    }

    /// Messages of the agent `rank`, in order.
    fn hear(leader: &mut Leader<Ops>, rank: u32, said: impl IntoIterator<Item = Said<Ops>>) {
        for (number, body) in (0..).zip(said) {
            let report = Report {
                rank,
                incarnation: 1,
                plan: "plan".to_owned(),
                number,
                body,
            };
            leader.hear(Duration::from_millis(number), report);
        }
    }

    fn join(version: &str) -> Said<Ops> {
        Said::Join {
            version: version.to_owned(),
            run: "run".to_owned(),
            round_trip_ns: 1_000_000,
        }
    }

    fn whole_run(measured: u64, total: u64) -> [Said<Ops>; 5] {
        [
            join("1"),
            Said::Ready { case: 0 },
            Said::Armed { case: 0 },
            Said::Beat {
                difference: Some(Ops(measured)),
            },
            Said::End {
                total: Ops(total),
                failure: None,
                has_record: true,
            },
        ]
    }

    #[test]
    fn record_that_differs_from_its_messages_is_not_used() {
        let mut leader = leader(2);
        hear(&mut leader, 0, whole_run(7, 7));
        hear(&mut leader, 1, whole_run(7, 8));
        leader.tick(Duration::from_secs(1), None);
        let outcome = leader.outcome().expect("all have ended");
        let [lost] = &outcome.lost[..] else {
            panic!("{outcome:?}")
        };
        assert_eq!((lost.rank, &lost.cause), (1, &Cause::WrongSum));
        assert_eq!((outcome.is_stopped, outcome.records), (true, vec![0]));
    }

    #[test]
    fn case_that_one_agent_alone_leaves_out_ends_the_run() {
        let mut leader = leader(2);
        leader.terms.cases = 2;
        // The second case is the first that they measure.
        let ready = |case| [join("1"), Said::Ready { case }];
        hear(&mut leader, 0, ready(1));
        assert!(!leader.wants_time());
        hear(&mut leader, 1, ready(0));
        leader.tick(Duration::from_secs(1), None);
        assert!(leader.wants_time());
        leader.tick(Duration::from_secs(1), Some(1));
        let [lost] = leader.lost() else {
            panic!("{leader:?}")
        };
        assert_eq!((lost.rank, &lost.cause), (0, &Cause::LeftOut));
        assert!(leader.is_stopped);
    }

    #[test]
    fn other_version_plan_and_process_are_refused() {
        let cause = |report: Report<Ops>| {
            let mut leader = leader(1);
            hear(&mut leader, 0, [join("1")]);
            leader.hear(Duration::from_millis(9), report);
            leader.lost().first().map(|lost| lost.cause.clone())
        };
        let next = Report {
            rank: 0,
            incarnation: 1,
            plan: "plan".to_owned(),
            number: 1,
            body: Said::Ready { case: 0 },
        };
        assert_eq!(cause(next.clone()), None);
        let other = Report {
            incarnation: 2,
            ..next.clone()
        };
        assert_eq!(cause(other), Some(Cause::Restarted));
        let other = Report {
            plan: "another".to_owned(),
            ..next.clone()
        };
        assert_eq!(cause(other), Some(Cause::Plan));
        let unknown = Report { rank: 9, ..next };
        assert_eq!(cause(unknown), None);
        let mut leader = leader(1);
        hear(&mut leader, 0, [join("2")]);
        assert_eq!(leader.lost()[0].cause, Cause::Version("2".to_owned()));
    }

    #[test]
    fn start_is_ten_of_the_longest_round_trips_ahead() {
        for (trip_ms, notice_ms) in [(1, 500), (80, 800), (3_600_000, 20_000)] {
            let mut leader = leader(1);
            let joined = Said::Join {
                version: "1".to_owned(),
                run: "run".to_owned(),
                round_trip_ns: trip_ms * 1_000_000,
            };
            hear(&mut leader, 0, [joined, Said::Ready { case: 0 }]);
            leader.tick(Duration::from_millis(10), None);
            assert!(leader.wants_time());
            leader.tick(Duration::from_millis(20), Some(7_000_000_000));
            let orders = leader.out.iter().map(|order| &order.body);
            let start = Ordered::Arm {
                case: 0,
                start_ns: 7_000_000_000 + notice_ms * 1_000_000,
            };
            assert!(orders.into_iter().any(|body| *body == start), "{trip_ms}");
        }
    }
}
