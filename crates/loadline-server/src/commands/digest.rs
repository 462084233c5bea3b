//! The digests of DEBUG DIGEST and DEBUG DIGEST-VALUE, which are those of Redis: equal data has equal digests, in whatever
//! order keys, members and fields are stored.

use std::fmt;

use loadline_store::{Keyspace, StreamId, View};
use sha1_smol::Sha1;

use super::numbers::double_text;

/// A SHA-1 hash, or several of them combined.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Digest([u8; 20]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Digest {
    /// The digest of the keys of databases, with their values.
    pub(super) fn of_databases(databases: &[Keyspace], now: u64) -> Self {
        let mut all = Self::default();
        for (number, database) in (0_u32..).zip(databases) {
            let mut cursor = 0;
            let mut is_empty = true;
            loop {
                // The expiry is not shown while keys are walked.
                let mut keys: Vec<Vec<u8>> = Vec::new();
                cursor = database.scan(cursor, 1, now, |key, _| keys.push(key.to_vec()));
                for key in keys {
                    if std::mem::take(&mut is_empty) {
                        all.append(&number.to_be_bytes());
                    }
                    let mut digest = Self::default();
                    digest.append(&key);
                    digest.add_value(database, &key, now);
                    all.add(&digest.0);
                }
                if cursor == 0 {
                    break;
                }
            }
        }
        all
    }

    /// Combines the digest with that of the value of a key, if the key is there.
    pub(super) fn add_value(&mut self, database: &Keyspace, key: &[u8], now: u64) {
        database.peek(key, now, |found| {
            let Some((value, expires_at)) = found else {
                return;
            };
            self.append_view(value);
            if expires_at.is_some() {
                self.add(b"!!expire!!");
            }
        });
    }

    fn append_view(&mut self, value: View<'_>) {
        let kind: u32 = match value {
            View::String(_) => 0,
            View::List(_) => 1,
            View::Set(_) => 2,
            View::Sorted(_) => 3,
            View::Hash(_) => 4,
            View::Stream(_) => 6,
        };
        self.append(&kind.to_be_bytes());
        match value {
            View::String(bytes) => self.append(bytes),
            View::List(items) => items.iter().for_each(|item| self.append(item)),
            View::Set(members) => members.iter().for_each(|(member, ())| self.add(member)),
            View::Sorted(set) => {
                let pairs = set.iter();
                pairs.for_each(|(member, score)| {
                    self.add_pair(member, double_text(score).as_bytes());
                });
            }
            View::Hash(fields) => {
                let pairs = fields.iter();
                pairs.for_each(|(field, value)| self.add_pair(field, value));
            }
            View::Stream(stream) => {
                for entry in stream.range(StreamId::MIN, StreamId::MAX) {
                    self.append(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
                    for (field, value) in entry.pairs() {
                        self.append(field);
                        self.append(value);
                    }
                }
            }
        }
    }

    /// Combines the digest with bytes, in any order.
    fn add(&mut self, bytes: &[u8]) {
        let hash = Sha1::from(bytes).digest().bytes();
        self.0
            .iter_mut()
            .zip(hash)
            .for_each(|(byte, other)| *byte ^= other);
    }

    /// Combines the digest with bytes whose order counts.
    fn append(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.0 = Sha1::from(self.0).digest().bytes();
    }

    fn add_pair(&mut self, name: &[u8], value: &[u8]) {
        let mut pair = Self::default();
        pair.append(name);
        pair.append(value);
        self.add(&pair.0);
    }
}
