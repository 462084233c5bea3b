//! Performing the operations of a log again.

use std::io;
use std::thread;

use super::collections;
use super::options::Options;
use super::writer::new_string;
use crate::error::Error;
use crate::keyspace::{Keyspace, LockedKey, NewString, Purpose};
use crate::log::Appended;
use crate::log::hint::{Content, Hint, Sealed};
use crate::log::op::{Kind, Op, Ops};
use crate::log::record::{HEADER_BYTES, bodies};
use crate::log::recovery::Recovered;
use crate::log::segment::{self, HEAD_BYTES, Head, Segment};
use crate::record::Outside;
use crate::storage::{Access, Storage, with_bytes};
use crate::sync;
use crate::value::Entry;

/// Performs the operations of all segments. Several threads do it, each for some of the shards, so that the order
/// of what happens to a key stays. Entries whose time has come are removed at the end only: an operation that was
/// performed before that time can have changed it; that is left to the caller.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn replay(
    storage: &dyn Storage,
    recovered: &Recovered,
    options: &Options,
    databases: &mut Vec<Keyspace>,
) -> Result<(), Error> {
    const MOST_THREADS: usize = 4;
    /// Fewer operations than these are performed before another thread has started. Their values can take many bytes,
    /// which are not read here if they stay in the log.
    const FEW_OPERATIONS: u64 = 4_000;
    let threads = if recovered.operations < FEW_OPERATIONS {
        1
    } else {
        sync::parallel_threads().min(MOST_THREADS)
    };
    let part = |part| Part {
        databases,
        numbers: (0..databases.len()).collect(),
        options,
        recovered,
        part,
        parts: threads,
    };
    let numbers = thread::scope(|scope| {
        let part = &part;
        let others: Vec<_> = (1..threads)
            .map(|number| scope.spawn(move || part(number).replay(storage)))
            .collect();
        let first = part(0).replay(storage);
        others.into_iter().fold(first, |result, other| {
            result.and(other.join().unwrap_or_else(|panic| {
                std::panic::resume_unwind(panic);
            }))
        })
    })?;
    let mut places: Vec<Option<Keyspace>> = databases.drain(..).map(Some).collect();
    databases.extend(numbers.iter().filter_map(|index| places[*index].take()));
    Ok(())
}

/// Operations that a thread looks at before it performs them: the look-ups of their keys wait for the memory together.
const MOST_WAITING: usize = 64;

/// An operation that has not been performed yet.
#[derive(Debug)]
struct Waiting<'f> {
    hash: u64,
    op: Op<'f>,
    /// Its record, and where it ends in the body.
    place: Appended,
    end: usize,
}

/// The reason why a log cannot be replayed.
#[derive(Debug)]
enum Stop {
    Io(io::Error),
    /// A value has another checksum than its hint says.
    Damaged(Outside),
}

impl Stop {
    fn error(self, storage: &dyn Storage, segment: &Segment) -> Error {
        let path = |id| storage.path(&segment::name(id));
        match self {
            Self::Io(error) => Error::io(&path(segment.head.id), error),
            Self::Damaged(outside) => segment::damaged_value(path(outside.segment), outside),
        }
    }
}

/// A record of a segment.
fn place(segment: &Segment, offset: usize, body_bytes: usize) -> Appended {
    Appended {
        segment: segment.head.id,
        // A segment is no longer than an offset can say.
        offset: offset as u32,
        end: 0,
        bytes: (HEADER_BYTES + body_bytes) as u64,
        body_bytes,
        is_first: false,
    }
}

/// Some of the shards of every database.
struct Part<'d> {
    databases: &'d [Keyspace],
    /// Where the database of each number is among them.
    numbers: Vec<usize>,
    options: &'d Options,
    recovered: &'d Recovered,
    part: usize,
    parts: usize,
}

impl Part<'_> {
    /// Performs the operations and returns where the databases are in the end.
    fn replay(mut self, storage: &dyn Storage) -> Result<Vec<usize>, Error> {
        // A table that grows is built again each time. In a store with limits, its room counts.
        if !self.options.has_limit() {
            for (database, puts) in self.databases.iter().zip(self.recovered.puts) {
                database.reserve_part(self.part, self.parts, puts as usize);
            }
        }
        let recovered = self.recovered;
        for (index, segment) in recovered.segments.iter().enumerate() {
            let read = match &recovered.hints[index] {
                Some(hint) => {
                    let next = recovered.segments.get(index + 1);
                    self.replay_hint(segment, next.map(|next| &next.head), hint)
                }
                None => {
                    segment.file.announce(Access::Whole);
                    with_bytes(&*segment.file, 0, segment.end() as usize, |file| {
                        self.replay_segment(segment, file)
                    })
                    .map_err(Stop::Io)
                    .flatten()
                }
            };
            read.map_err(|stop| stop.error(storage, segment))?;
        }
        Ok(self.numbers)
    }

    fn replay_segment(&mut self, segment: &Segment, file: &[u8]) -> Result<(), Stop> {
        let mut waiting = Vec::with_capacity(MOST_WAITING);
        for (offset, body) in bodies(&file[HEAD_BYTES..]) {
            let place = place(segment, HEAD_BYTES + offset, body.len());
            self.replay_record(place, &mut Ops::new(body), &mut waiting)?;
        }
        self.perform_all(&mut waiting)
    }

    /// The same with the hint of the segment.
    fn replay_hint(
        &mut self,
        segment: &Segment,
        next: Option<&Head>,
        hint: &Content,
    ) -> Result<(), Stop> {
        let changed = || Stop::Io(io::ErrorKind::InvalidData.into());
        let sealed = next.and_then(|next| Sealed::new(segment.head, next));
        let sealed = sealed.ok_or_else(changed)?;
        let read = hint.show(|file| {
            let hint = Hint::read(file, &sealed).map_err(|_| changed())?;
            let mut waiting = Vec::with_capacity(MOST_WAITING);
            hint.records(|record, ops| {
                let place = place(segment, record.offset, record.body_bytes);
                self.replay_record(place, ops, &mut waiting)
            })?;
            self.perform_all(&mut waiting)
        });
        read.map_err(Stop::Io).flatten()
    }

    fn replay_record<'f>(
        &mut self,
        place: Appended,
        ops: &mut Ops<'f>,
        waiting: &mut Vec<Waiting<'f>>,
    ) -> Result<(), Stop> {
        for (end, op) in ops {
            let number = usize::from(op.database);
            let keyspace = &self.databases[self.numbers[number]];
            let Some(key) = op.key() else {
                self.perform_all(waiting)?;
                match op.kind {
                    Kind::Clear => keyspace.clear_part(self.part, self.parts),
                    Kind::Exchange { other } => self.numbers.swap(number, usize::from(other)),
                    _ => {}
                }
                continue;
            };
            let hash = keyspace.hash(key);
            if keyspace.shard_index(hash) % self.parts == self.part {
                waiting.push(Waiting {
                    hash,
                    op,
                    place,
                    end,
                });
                if waiting.len() == MOST_WAITING {
                    self.perform_all(waiting)?;
                }
            }
        }
        Ok(())
    }

    /// Performs the operations that wait, those of one key in their order.
    fn perform_all(&self, waiting: &mut Vec<Waiting<'_>>) -> Result<(), Stop> {
        let keyspace = |waiting: &Waiting<'_>| {
            let number = usize::from(waiting.op.database);
            &self.databases[self.numbers[number]]
        };
        waiting.sort_by_key(|waiting| {
            let shard = keyspace(waiting).shard_index(waiting.hash);
            (waiting.op.database, shard)
        });
        for group in waiting.chunk_by(|one, other| one.op.database == other.op.database) {
            let hashes = group.iter().map(|waiting| waiting.hash);
            let mut locked = keyspace(&group[0]).lock_all(hashes, Purpose::Change);
            for waiting in group {
                if let Some(key) = waiting.op.key() {
                    self.perform(locked.key(waiting.hash), key, waiting)?;
                }
            }
        }
        waiting.clear();
        Ok(())
    }

    fn perform(
        &self,
        locked: &mut LockedKey<'_>,
        key: &[u8],
        waiting: &Waiting<'_>,
    ) -> Result<(), Stop> {
        let Waiting { op, place, end, .. } = waiting;
        match op.kind {
            Kind::Put {
                value, expires_at, ..
            } => {
                let new = new_string(self.options, value, Some(place), *end);
                locked.put(key, new, expires_at);
            }
            Kind::PutLeftOut {
                bytes,
                crc,
                expires_at,
                ..
            } => {
                let outside = Outside {
                    unverified: Some(crc),
                    ..place.outside(*end, bytes)
                };
                locked.put(key, NewString::Outside(outside), expires_at);
            }
            Kind::Delete { .. } => locked.remove(key),
            Kind::Expire { expires_at, .. } => locked.set_expiry(key, expires_at),
            Kind::PutCollection {
                form,
                is_ordered,
                expires_at,
                elements,
                ..
            } => {
                let value = collections::value(form, is_ordered, elements);
                locked.put_entry(key, Entry { value, expires_at }, place.segment);
            }
            Kind::Patch { offset, bytes, .. } => {
                let outside = locked.find_any(key).and_then(|slot| slot.record.outside());
                match outside {
                    Some(outside) => {
                        self.patch_outside(locked, key, outside, offset as usize, bytes)?;
                    }
                    None => locked.change(key, |value| collections::perform(value, &op.kind)),
                }
            }
            kind => locked.change(key, |value| collections::perform(value, &kind)),
        }
        Ok(())
    }

    /// Brings a string that is in the log only into memory, changed.
    fn patch_outside(
        &self,
        locked: &mut LockedKey<'_>,
        key: &[u8],
        outside: Outside,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), Stop> {
        let mut segments = self.recovered.segments.iter();
        let segment = segments.find(|segment| segment.head.id == outside.segment);
        let segment = segment.ok_or_else(|| Stop::Io(io::ErrorKind::NotFound.into()))?;
        let string = segment::read_value(&*segment.file, outside, <[u8]>::to_vec);
        let string = string.map_err(Stop::Io)?;
        let mut string = string.ok_or(Stop::Damaged(outside))?;
        collections::patch(&mut string, offset, bytes);
        let expires_at = locked.find_any(key).and_then(|slot| slot.expires_at());
        locked.put(key, NewString::Logged(&string, outside.segment), expires_at);
        Ok(())
    }
}
