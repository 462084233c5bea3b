//! Performing the operations of a log again.

use std::thread;

use super::options::Options;
use super::writer::new_string;
use crate::clock::now_ms;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::log::Appended;
use crate::log::op::{Kind, Op, Ops};
use crate::log::record::{HEADER_BYTES, bodies};
use crate::log::recovery::Recovered;
use crate::log::segment::{self, HEAD_BYTES, Segment};
use crate::storage::{Storage, with_bytes};

/// Performs the operations of all segments. Several threads do it, each for some of the shards, so that the order
/// of what happens to a key stays.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn replay(
    storage: &dyn Storage,
    recovered: &Recovered,
    options: &Options,
    databases: &[Keyspace],
) -> Result<(), Error> {
    const MOST_THREADS: usize = 4;
    /// A log shorter than this is read before a thread has started.
    const SHORT_BYTES: u64 = 1 << 20;
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
    let threads = if recovered.position < SHORT_BYTES {
        1
    } else {
        threads.min(MOST_THREADS)
    };
    let part = |part| Part {
        databases,
        options,
        now: now_ms(),
        part,
        parts: threads,
    };
    thread::scope(|scope| {
        let part = &part;
        let others: Vec<_> = (1..threads)
            .map(|number| scope.spawn(move || part(number).replay(storage, recovered)))
            .collect();
        let first = part(0).replay(storage, recovered);
        others.into_iter().fold(first, |result, other| {
            result.and(other.join().unwrap_or_else(|panic| {
                std::panic::resume_unwind(panic);
            }))
        })
    })
}

/// Some of the shards of every database.
struct Part<'d> {
    databases: &'d [Keyspace],
    options: &'d Options,
    now: u64,
    part: usize,
    parts: usize,
}

impl Part<'_> {
    fn replay(&self, storage: &dyn Storage, recovered: &Recovered) -> Result<(), Error> {
        for segment in &recovered.segments {
            let read = with_bytes(&*segment.file, 0, segment.end() as usize, |file| {
                self.replay_segment(segment, file);
            });
            let path = || storage.path(&segment::name(segment.head.id));
            read.map_err(|error| Error::io(&path(), error))?;
        }
        Ok(())
    }

    fn replay_segment(&self, segment: &Segment, file: &[u8]) {
        for (offset, body) in bodies(&file[HEAD_BYTES..]) {
            let place = Appended {
                segment: segment.head.id,
                offset: (HEAD_BYTES + offset) as u32,
                end: 0,
                bytes: (HEADER_BYTES + body.len()) as u64,
                body_bytes: body.len(),
                is_first: false,
            };
            for (end, op) in Ops::new(body) {
                self.perform(&op, &place, end);
            }
        }
    }

    fn perform(&self, op: &Op<'_>, place: &Appended, end: usize) {
        let keyspace = &self.databases[usize::from(op.database)];
        let Some(key) = op.key() else {
            if op.kind == Kind::Clear {
                keyspace.clear_part(self.part, self.parts);
            }
            return;
        };
        let hash = keyspace.hash(key);
        if keyspace.shard_index(hash) % self.parts != self.part {
            return;
        }
        let mut locked = keyspace.lock_hashed(hash);
        let is_over = |expires_at: Option<u64>| expires_at.is_some_and(|at| at <= self.now);
        match op.kind {
            Kind::Put {
                value, expires_at, ..
            } if !is_over(expires_at) => {
                let new = new_string(self.options, value, Some(place), end);
                locked.put(key, new, expires_at);
            }
            Kind::Expire { expires_at, .. } if !is_over(expires_at) => {
                locked.set_expiry(key, expires_at);
            }
            _ => locked.remove(key),
        }
    }
}
