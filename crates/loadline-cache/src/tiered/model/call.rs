//! One call, step by step.

use std::sync::Arc;

use super::super::failure::Failure;
use super::super::fetch::writes::Writes;
use super::super::fetch::{Leasing, Loading, Question, Work};
use super::super::lower::Written;
use super::world::World;
use super::{Call, MS, Model};
use crate::Leased;

/// The next thing that a call waits for, and its result.
pub(super) enum Stage<'c> {
    Next,
    Asked(Question<'c>, Option<Result<Vec<Option<Vec<u8>>>, Failure>>),
    Leasing(Leasing<'c>, Option<Result<Vec<Leased>, Failure>>),
    Loading(Loading<'c>, Option<u64>),
    Writing(Writes<'c>, Option<Written>),
}

/// Moves a call on by a step. Returns whether it is over.
pub(super) fn step<'c>(
    core: &'c Model,
    call: &mut Call,
    stage: Stage<'c>,
    world: &mut World,
) -> (Stage<'c>, bool) {
    let next = match stage {
        Stage::Asked(question, None) => {
            let values = world.read(&call.keys(&question));
            Stage::Asked(question, Some(values))
        }
        Stage::Asked(question, Some(values)) => {
            core.answered(call, question, values, MS);
            Stage::Next
        }
        Stage::Leasing(leasing, None) => {
            let leased = world.lease(&leasing.keys(call), &leasing.token);
            Stage::Leasing(leasing, Some(leased))
        }
        Stage::Leasing(leasing, Some(leased)) => {
            core.leased(call, leasing, leased, MS);
            Stage::Next
        }
        Stage::Loading(loading, None) => {
            let version = world.source[*call.key(&loading) as usize];
            Stage::Loading(loading, Some(version))
        }
        Stage::Loading(loading, Some(version)) => {
            let result = match world.random.one_in(12) {
                true => Err(Arc::new(std::fmt::Error) as _),
                false => Ok(Some(version.to_le_bytes().to_vec())),
            };
            core.loaded(call, loading, result, MS);
            Stage::Next
        }
        Stage::Writing(writes, None) => {
            let result = world.write(&writes.writes);
            Stage::Writing(writes, Some(result))
        }
        Stage::Writing(writes, Some(result)) => {
            core.written(call, writes, &result, MS);
            Stage::Next
        }
        Stage::Next => match core.next(call) {
            Some(Work::Ask(question)) => Stage::Asked(question, None),
            Some(Work::Lease(leasing)) => Stage::Leasing(leasing, None),
            Some(Work::Load(loading)) => Stage::Loading(loading, None),
            Some(Work::Write(writes)) => Stage::Writing(writes, None),
            Some(Work::Wait(index, flight)) => {
                if let Some(outcome) = flight.outcome_now() {
                    core.waited(call, index, outcome);
                }
                Stage::Next
            }
            Some(Work::Release(_) | Work::Pause(_)) => unreachable!("loads are not shared"),
            None => return (Stage::Next, true),
        },
    };
    (next, false)
}
