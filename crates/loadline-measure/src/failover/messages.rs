//! Published messages, and the part of them that a subscriber received.

use std::collections::BTreeMap;

use super::{Operation, WriteId};

/// An event of a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// A message.
    Message(WriteId),
    /// The client announced that messages can be missing here.
    Gap,
}

/// Notes how many times each message of the kind `kind` was received, from the events of the subscriber in their order, and
/// whether a gap was announced in the place of one that was not.
///
/// A message arrives behind those that were acknowledged before its call, and before those that were called after its end.
/// So the place of a missing one is between these.
pub fn receive(operations: &mut [Operation], kind: usize, heard: &[Heard]) {
    let mut received = BTreeMap::<_, (u64, usize)>::new();
    let mut gaps = Vec::new();
    for (place, event) in heard.iter().enumerate() {
        match event {
            Heard::Message(id) => {
                let known = received.entry((id.writer, id.sequence));
                known.or_insert((0, place)).0 += 1;
            }
            Heard::Gap => gaps.push(place),
        }
    }
    let (mut ends, mut calls) = (Vec::new(), Vec::new());
    for one in operations.iter_mut().filter(|one| one.kind == kind) {
        let known = received.get(&(one.id.writer, one.id.sequence));
        one.executions = known.map_or(0, |(times, _)| *times);
        if let Some((_, place)) = known {
            ends.push((one.completed_ns, *place));
            calls.push((one.invoked_ns, *place));
        }
    }
    // The last place of all that ended up to a time, and the first one of all that began from a time on.
    ends.sort_unstable();
    let mut last = 0;
    for (_, place) in &mut ends {
        last = last.max(*place);
        *place = last;
    }
    calls.sort_unstable();
    let mut first = heard.len();
    for (_, place) in calls.iter_mut().rev() {
        first = first.min(*place);
        *place = first;
    }
    let missing = operations.iter_mut();
    for one in missing.filter(|one| one.kind == kind && one.executions == 0) {
        let before = ends.partition_point(|(end_ns, _)| *end_ns < one.invoked_ns);
        let from = before.checked_sub(1).map_or(0, |at| ends[at].1);
        let behind = calls.partition_point(|(call_ns, _)| *call_ns <= one.completed_ns);
        let to = calls.get(behind).map_or(heard.len(), |(_, place)| *place);
        let gap = gaps.partition_point(|gap| *gap < from);
        one.announced = gaps.get(gap).is_some_and(|gap| *gap < to);
    }
}
