//! The callers of all processes, mixed at random.

use std::sync::Arc;

use loadline_client::tracking::Invalidation;

use super::super::clock::ManualClock;
use super::super::fetch::writes::Drain;
use super::super::flights::{Flight, Joined};
use super::super::lower::{WriteMode, Written};
use super::call::{Stage, step};
use super::world::{Change, World};
use super::{Call, KEYS, MS, Model, TICK, version};

pub(super) enum Actor<'c> {
    /// A read of keys, which must be at least these versions.
    Get(Call, Stage<'c>, Vec<(usize, u64)>),
    Refresh(Call, Stage<'c>),
    /// An update that waits for another one of its key.
    Waiting(Change, Arc<Flight<Vec<u8>>>),
    Update(Call, Stage<'c>, Change),
    Drain(Drain<'c, u8, Vec<u8>>, Option<Written>),
}

/// A caller in a process.
pub(super) struct Acting<'c> {
    process: usize,
    actor: Actor<'c>,
}

pub(super) struct Schedule<'c> {
    pub(super) cores: &'c [Model],
    pub(super) clock: ManualClock,
    pub(super) world: World,
    pub(super) actors: Vec<Acting<'c>>,
}

impl<'c> Schedule<'c> {
    fn begin(&mut self) {
        let process = self.world.random.below(self.cores.len() as u64) as usize;
        let key = self.world.random.below(KEYS as u64) as usize;
        let core = &self.cores[process];
        let actor = match self.world.random.below(10) {
            0..5 => {
                let keys: Vec<u8> = match self.world.random.one_in(3) {
                    true => vec![key as u8, ((key + 1) % KEYS) as u8, key as u8],
                    false => vec![key as u8],
                };
                let visible = &self.world.visible[process];
                let least = keys.iter().map(|key| usize::from(*key));
                let least = least.map(|key| (key, visible[key])).collect();
                Some(Actor::Get(core.fetch(keys.iter()), Stage::Next, least))
            }
            5 => {
                let call = core.refresh(&(key as u8));
                call.map(|call| Actor::Refresh(call, Stage::Next))
            }
            6..8 => self.update(process, key),
            _ => core.drain().map(|drain| Actor::Drain(drain, None)),
        };
        let acting = actor.map(|actor| Acting { process, actor });
        self.actors.extend(acting);
    }

    /// Begins an update. Two processes do not insert at the same time, nor does one insert what the other one replaces:
    /// what they have agreed on in the source, they write to the tier in the same order.
    fn update(&mut self, process: usize, key: usize) -> Option<Actor<'c>> {
        let elsewhere = |acting: &&Acting<'_>| acting.process != process;
        let changes: Vec<Change> = (self.actors.iter().filter(elsewhere))
            .filter_map(|acting| match &acting.actor {
                Actor::Waiting(change, _) | Actor::Update(_, _, change) => Some(*change),
                _ => None,
            })
            .filter(|change| change.key == key)
            .collect();
        if changes.iter().any(|change| change.may_insert) {
            return None;
        }
        self.world.source[key] += 1;
        let version = self.world.source[key];
        let is_alone = self.cores.len() == 1;
        // An object that is inserted behind replaces the current one of the tier.
        let is_ordered = self.cores.iter().all(writes_through) && changes.is_empty();
        Some(self.write(
            process,
            Change {
                key,
                version,
                may_insert: is_alone || is_ordered,
                has_landed: false,
            },
        ))
    }

    fn write(&mut self, process: usize, change: Change) -> Actor<'c> {
        let Change { key, version, .. } = change;
        let core = &self.cores[process];
        let lead = match core.flights.write(&(key as u8)) {
            Joined::Wait(flight) => return Actor::Waiting(change, flight),
            Joined::Lead(lead) => lead,
        };
        // An application that inserts must not insert what another caller has replaced meanwhile.
        let is_newest = self.world.source[key] == version && change.may_insert;
        let value = (is_newest && self.world.random.one_in(2))
            .then(|| (Arc::new(version.to_le_bytes().to_vec()), None));
        let call = core.overwrite(&(key as u8), lead, value);
        Actor::Update(call, Stage::Next, change)
    }

    /// Moves an actor on by a step; one that is over is checked and gone.
    fn advance(&mut self, Acting { process, actor }: Acting<'c>) -> Option<Acting<'c>> {
        let core = &self.cores[process];
        let actor = match actor {
            Actor::Get(mut call, stage, least) => {
                let (stage, is_over) = step(core, &mut call, stage, &mut self.world);
                if is_over {
                    for (answer, (key, least)) in call.into_answers().into_iter().zip(least) {
                        if let Ok(value) = answer {
                            let seen = version(&value.expect("every object exists"));
                            assert!(seen >= least, "key {key}: {seen}, but {least} was visible");
                        }
                    }
                    return None;
                }
                Actor::Get(call, stage, least)
            }
            Actor::Refresh(mut call, stage) => {
                let (stage, is_over) = step(core, &mut call, stage, &mut self.world);
                if is_over {
                    return None;
                }
                Actor::Refresh(call, stage)
            }
            Actor::Waiting(change, flight) => match flight.is_closed() {
                true => self.write(process, change),
                false => Actor::Waiting(change, flight),
            },
            Actor::Update(mut call, stage, mut change) => {
                let is_write = matches!(stage, Stage::Writing(_, None));
                let (stage, is_over) = step(core, &mut call, stage, &mut self.world);
                change.has_landed |= is_write && self.world.has_executed;
                if is_over {
                    self.world.returned(process, change);
                    return None;
                }
                Actor::Update(call, stage, change)
            }
            Actor::Drain(drain, None) => {
                let result = self.world.write(&drain.writes);
                Actor::Drain(drain, Some(result))
            }
            Actor::Drain(drain, Some(result)) => {
                drain.written(result, MS);
                return None;
            }
        };
        Some(Acting { process, actor })
    }

    pub(super) fn turn(&mut self) {
        self.clock.advance(TICK);
        match self.world.random.below(40) {
            0 => self.world.is_down = !self.world.is_down,
            1..4 => self.clock.advance(self.world.random.below(30) as u32 * MS),
            4 => self.world.execute_late(),
            // A caller is cancelled. An update that is cancelled promises nothing, so only reads are.
            5 if !self.actors.is_empty() => {
                let index = self.world.random.below(self.actors.len() as u64) as usize;
                let actor = &self.actors[index].actor;
                if matches!(actor, Actor::Get(..) | Actor::Refresh(..)) {
                    self.actors.swap_remove(index);
                }
            }
            6..14 if self.actors.len() < 6 => self.begin(),
            14..18 if !self.world.notices.is_empty() => {
                let process = self.world.random.below(self.cores.len() as u64) as usize;
                self.notice(process);
            }
            _ if self.actors.is_empty() => self.begin(),
            _ => {
                let index = self.world.random.below(self.actors.len() as u64) as usize;
                let acting = self.actors.swap_remove(index);
                let rest = self.advance(acting);
                self.actors.extend(rest);
            }
        }
        self.check_memory();
    }

    /// Tells a process of a change.
    fn notice(&mut self, process: usize) {
        if let Some(key) = self.world.notices[process].pop_front() {
            let notice = Invalidation::Key(key.into());
            assert!(self.cores[process].take_notice(notice));
        }
    }

    /// Checks the memory of the processes that have received all changes.
    fn check_memory(&self) {
        let told = self.cores.iter().zip(&self.world.notices);
        for (core, _) in told.filter(|(_, notices)| notices.is_empty()) {
            for (key, landed) in self.world.landed.iter().enumerate() {
                let entry = core.memory.get(&(key as u8));
                if let Some(value) = entry.and_then(|entry| entry.value) {
                    let seen = version(&value);
                    assert!(
                        seen >= *landed,
                        "key {key}: {seen} is in memory, but the notice of {landed} has arrived"
                    );
                }
            }
        }
    }

    /// Lets all calls end, and the tier get everything.
    pub(super) fn end(&mut self) {
        self.world.is_down = false;
        for _ in 0..10_000 {
            if self.actors.is_empty() {
                let drains = self.cores.iter().enumerate().filter_map(|(process, core)| {
                    let actor = Actor::Drain(core.drain()?, None);
                    Some(Acting { process, actor })
                });
                self.actors.extend(drains);
                if self.actors.is_empty() {
                    self.clock.advance(20 * MS);
                    let backlogs = self.cores.iter().map(|core| core.lower.as_ref().unwrap());
                    if backlogs.map(|lower| lower.backlog().len()).sum::<usize>() == 0 {
                        return;
                    }
                    continue;
                }
            }
            self.clock.advance(TICK);
            let acting = self.actors.remove(0);
            let rest = self.advance(acting);
            self.actors.extend(rest);
        }
        panic!("the calls do not end");
    }
}

fn writes_through(core: &Model) -> bool {
    core.lower.as_ref().unwrap().mode == WriteMode::Through
}
