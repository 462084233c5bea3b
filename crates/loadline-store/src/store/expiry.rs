//! Expiries in the log.
//!
//! An entry expires for good: once it was freed, or a reader missed it, it must not return, also where the clock of the
//! machine is set back and the store is opened again. So an expiry is a deletion in the log, as in that of Redis. A high-water
//! mark of the time would take less room, but new entries could not expire until a clock that was set back has passed it.

use std::sync::{Arc, PoisonError};

use crate::keyspace::{Keyspace, OnExpiry};
use crate::log::op::{DATABASES, Elements, Form, Kind, Op};
use crate::log::record::with_draft;
use crate::log::{Log, Room};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::table::Bytes;

/// Bytes from which on deletions are written as a record.
const RECORD_BYTES: usize = 64 << 10;

/// Lets the expiries in all databases be written to `log`.
pub(super) fn log_expiries(log: &Arc<Log>, databases: &mut [Keyspace]) {
    for (number, database) in databases.iter_mut().enumerate() {
        database.on_expiry(Arc::new(Logged {
            log: Arc::clone(log),
            // A log has few databases.
            database: number as u8,
        }));
    }
}

/// Writes the expiries in a database to the log, while the shard of their keys is locked.
#[derive(Debug)]
struct Logged {
    log: Arc<Log>,
    database: u8,
}

impl OnExpiry for Logged {
    fn expired(&self, keys: &mut dyn Iterator<Item = &[u8]>) {
        let database = self.database;
        let mut keys = keys.peekable();
        while keys.peek().is_some() {
            let appended = with_draft(|draft| {
                let body = draft.begin();
                while body.len() < RECORD_BYTES
                    && let Some(key) = keys.next()
                {
                    let kind = Kind::Delete { key };
                    Op { database, kind }.encode(body);
                }
                draft.finish();
                self.log.append(draft, Room::Deletions)
            });
            if appended.is_err() {
                // Readers miss the entries all the same. Writes say that the log has failed or the disk is full.
                return;
            }
        }
    }

    fn fields_expired(&self, key: &[u8], fields: &[Bytes]) {
        let appended = with_draft(|draft| {
            encode_fields(self.database, key, fields, draft.begin());
            draft.finish();
            self.log.append(draft, Room::Deletions)
        });
        // As above.
        drop(appended);
    }
}

/// Appends the removal of fields.
fn encode_fields(database: u8, key: &[u8], fields: &[Bytes], body: &mut Vec<u8>) {
    let mut elements = Vec::new();
    for field in fields {
        Elements::push(&mut elements, field);
    }
    let kind = Kind::Take {
        key,
        form: Form::Hash,
        at_front: false,
        elements: Elements::new(&elements),
    };
    Op { database, kind }.encode(body);
}

/// Expiries in the databases of a server, which become a part of its next record.
#[derive(Debug, Default)]
pub(super) struct Expired {
    /// Deletions as the log holds them.
    ops: Mutex<Vec<u8>>,
    bytes: AtomicUsize,
    /// The numbers that the databases have now.
    numbers: [AtomicUsize; DATABASES as usize],
}

/// One of the databases.
#[derive(Debug)]
struct Queued {
    expired: Arc<Expired>,
    index: usize,
}

impl Expired {
    /// Collects the expiries in all databases.
    pub(super) fn collect(databases: &mut [Keyspace]) -> Arc<Self> {
        let expired = Arc::new(Self::default());
        for (index, database) in databases.iter_mut().enumerate() {
            expired.numbers[index].store(index, Ordering::Relaxed);
            database.on_expiry(Arc::new(Queued {
                expired: Arc::clone(&expired),
                index,
            }));
        }
        expired
    }

    /// Bytes of the deletions.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Moves the deletions to a record.
    #[cold]
    pub(super) fn move_to(&self, body: &mut Vec<u8>) {
        let mut ops = self.ops.lock().unwrap_or_else(PoisonError::into_inner);
        body.append(&mut ops);
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Exchanges the numbers of two databases.
    pub(super) fn exchange(&self, one: usize, other: usize) {
        for number in &self.numbers {
            match number.load(Ordering::Relaxed) {
                it if it == one => number.store(other, Ordering::Relaxed),
                it if it == other => number.store(one, Ordering::Relaxed),
                _ => {}
            }
        }
    }
}

impl OnExpiry for Queued {
    fn expired(&self, keys: &mut dyn Iterator<Item = &[u8]>) {
        let expired = &self.expired;
        let database = expired.numbers[self.index].load(Ordering::Relaxed) as u8;
        let mut ops = expired.ops.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            let kind = Kind::Delete { key };
            Op { database, kind }.encode(&mut ops);
        }
        expired.bytes.store(ops.len(), Ordering::Relaxed);
    }

    fn fields_expired(&self, key: &[u8], fields: &[Bytes]) {
        let expired = &self.expired;
        let database = expired.numbers[self.index].load(Ordering::Relaxed) as u8;
        let mut ops = expired.ops.lock().unwrap_or_else(PoisonError::into_inner);
        encode_fields(database, key, fields, &mut ops);
        expired.bytes.store(ops.len(), Ordering::Relaxed);
    }
}
