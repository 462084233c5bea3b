//! A run as one of several agents: a thread talks to the coordinator while this one measures.

mod leader;
mod member;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use loadline_load::Control;
use loadline_measure::agents::protocol::{ClockOffset, Tally};
use loadline_measure::record::{self, Record};

use crate::exit::{Exit, Failure};
use crate::systems::coordinator::{Coordinator, LONGEST_RECORD};

pub(crate) use leader::{Leading, Parts, Terms, listed};
pub(crate) use member::Identity;

/// An agent of a run.
#[derive(Debug, Clone)]
pub(crate) struct AgentId {
    /// The name of the common run.
    pub(crate) run: String,
    /// The identifier of its own run, which is part of its keys.
    pub(crate) own_run: String,
    pub(crate) rank: u32,
    pub(crate) agents: u32,
    /// Determines the order of targets in each round, the same for all agents.
    pub(crate) order: u64,
}

/// The membership of this run in a group.
#[derive(Debug)]
pub(crate) struct Group {
    id: AgentId,
    shared: Arc<Shared>,
    /// The block that started last, and the number of starts before it.
    last_start: Mutex<Option<(Block, u32)>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A block that starts together with those of the other agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) case: usize,
    pub(crate) round: usize,
    /// Index of the target.
    pub(crate) target: usize,
}

/// The end of a membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Parting {
    /// The leader has the record, or does not want it.
    Dismissed,
    /// The leader or the coordinator was lost, for this reason, and did not get the record.
    CutOff(String),
}

/// The state that both threads share.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The case that is ready to start.
    ready: Option<u32>,
    /// Start of a case.
    start: Option<Start>,
    /// The reason to stop.
    stopped: Option<String>,
    /// The measured part of the run, after its end.
    ended: Option<Ended>,
    parting: Option<Parting>,
    /// The largest error of the clock at any start, with the offset of the clock of this machine.
    clock: Option<(i64, u64)>,
}

#[derive(Debug, Clone, Copy)]
struct Start {
    case: u32,
    at: Instant,
}

#[derive(Debug)]
struct Ended {
    total: Tally,
    failure: Option<String>,
    record: Option<String>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Group {
    /// Joins the group as `identity`, and reports what `control` measures.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn join(
        coordinator: Coordinator,
        id: AgentId,
        identity: Identity,
        control: Arc<Control>,
    ) -> Result<Self, Failure> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = spawn("member", move || {
            member::run(coordinator, identity, &control, &of_thread);
        })?;
        Ok(Self {
            id,
            shared,
            last_start: Mutex::default(),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Waits until all agents are ready, and makes `block` start with theirs, later by `offset`. The number of the first
    /// start of its case is `first`. Returns at once when the group has stopped; the run is then interrupted.
    pub(crate) fn await_start(
        &self,
        block: Block,
        first: u32,
        offset: Duration,
        control: &Control,
    ) {
        let case = self.number_of(block, first);
        let mut state = self.shared.lock();
        // A block that is announced twice is ready once.
        if state.start.is_none_or(|start| start.case != case) {
            state.ready = Some(case);
        }
        while !control.interrupted() {
            if let Some(start) = state.start.filter(|start| start.case == case) {
                control.start.set(start.at + offset);
                return;
            }
            let waited = self
                .shared
                .changed
                .wait_timeout(state, Duration::from_millis(20));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The number of the start of `block`; that of the first of its case is `first`. A block can be announced twice.
    fn number_of(&self, block: Block, first: u32) -> u32 {
        let last = self.last_start.lock();
        let mut last = last.unwrap_or_else(PoisonError::into_inner);
        let number = match *last {
            Some((same, number)) if same == block => number,
            Some((before, number)) if before.case == block.case => number + 1,
            _ => first,
        };
        *last = Some((block, number));
        number
    }

    /// The reason why the group stopped before its plan was done, if it did.
    pub(crate) fn stopped(&self) -> Option<String> {
        self.shared.lock().stopped.clone()
    }

    /// The membership in the form of the record.
    pub(crate) fn describe(&self) -> record::Membership {
        let (clock_offset_ns, clock_bound_ns) = self.shared.lock().clock.unwrap_or_default();
        record::Membership {
            group: self.id.run.clone(),
            rank: self.id.rank.into(),
            agents: self.id.agents.into(),
            clock_offset_ns,
            clock_bound_ns,
        }
    }

    pub(crate) fn id(&self) -> &AgentId {
        &self.id
    }

    /// Hands in the record of the run, which ended early because of `failure`, and waits until the group is dissolved.
    ///
    /// # Errors
    /// An internal error for a record that cannot be encoded.
    pub(crate) fn hand_in(
        &self,
        record: Option<&Record>,
        failure: Option<String>,
    ) -> Result<Parting, Failure> {
        let internal = |why: String| Failure::new(Exit::Internal, why);
        let total = record.map(Tally::of_record).transpose();
        let total = total.map_err(|error| internal(error.to_string()))?;
        let json = record.map(serde_json::to_string).transpose();
        let json = json.map_err(|error| internal(error.to_string()))?;
        let (json, failure) = match json {
            Some(json) if json.len() > LONGEST_RECORD => (
                None,
                Some(format!("its record of {} bytes is too long", json.len())),
            ),
            json => (json, failure),
        };
        self.shared.lock().ended = Some(Ended {
            total: total.unwrap_or_default(),
            failure,
            record: json,
        });
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(Err(panic)) = thread.map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
        let parting = self.shared.lock().parting.take();
        parting.ok_or_else(|| internal("an agent was neither dismissed nor cut off".to_owned()))
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Failure> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(run)
        .map_err(|error| Failure::new(Exit::Internal, format!("Cannot start a thread: {error}.")))
}

/// Nanoseconds to add to the clock of this machine to get the coordinator's, at `now` of the agent's own clock.
fn wall_offset_ns(clock: &ClockOffset, now: Duration) -> i64 {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let wall_ns = i128::try_from(wall.unwrap_or_default().as_nanos()).unwrap_or(i128::MAX);
    let difference = i128::from(clock.coordinator_ns(now)) - wall_ns;
    i64::try_from(difference).unwrap_or(0)
}
