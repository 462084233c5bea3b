//! The fields of a hash, some of which go at a time of their own.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::table::{Bytes, Table};

/// The fields of a hash. A field can have an expiry.
///
/// Reads are those of [`Table`]. Fields whose time has come are there until [`take_expired`](Self::take_expired); a
/// [`Keyspace`](crate::Keyspace) calls it before it shows a hash.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Fields {
    table: Table<Bytes>,
    /// Most hashes have none.
    expiries: Option<Box<Expiries>>,
}

/// The expiries of fields, in milliseconds since the Unix epoch.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Expiries {
    by_field: HashMap<Arc<[u8]>, u64>,
    in_order: BTreeSet<(u64, Arc<[u8]>)>,
    /// Bytes of the names of these fields.
    held: usize,
}

impl Expiries {
    fn remove(&mut self, field: &[u8]) {
        if let Some((field, at)) = self.by_field.remove_entry(field) {
            self.held -= field.len();
            self.in_order.remove(&(at, field));
        }
    }

    fn insert(&mut self, field: &[u8], at: u64) {
        self.remove(field);
        let field: Arc<[u8]> = field.into();
        self.held += field.len();
        self.by_field.insert(Arc::clone(&field), at);
        self.in_order.insert((at, field));
    }

    fn memory_bytes(&self) -> usize {
        /// An entry of each table, the counters of the shared name, and the part of the tables that is free.
        const EACH_BYTES: usize = 3 * size_of::<(u64, Arc<[u8]>)>();
        size_of::<Self>() + self.held + self.by_field.len() * EACH_BYTES
    }
}

impl Fields {
    /// No fields, in order.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the value of `field`, which has no expiry then, and returns the old value.
    pub fn insert(&mut self, field: &[u8], value: Bytes) -> Option<Bytes> {
        self.set_expiry(field, None);
        self.table.insert(field, value)
    }

    /// Takes `field` out, with its value.
    pub fn remove(&mut self, field: &[u8]) -> Option<Bytes> {
        self.set_expiry(field, None);
        self.table.remove(field)
    }

    /// Gives up the order of the fields, for good.
    pub fn relax(&mut self) {
        self.table.relax();
    }

    /// Sets the expiry of `field` in milliseconds since the Unix epoch, if the field is there; `None` for never.
    pub fn set_expiry(&mut self, field: &[u8], expires_at: Option<u64>) {
        if let Some(at) = expires_at {
            if self.table.contains(field) {
                let expiries = self.expiries.get_or_insert_default();
                expiries.insert(field, at);
            }
        } else if let Some(expiries) = &mut self.expiries {
            expiries.remove(field);
            if expiries.by_field.is_empty() {
                self.expiries = None;
            }
        }
    }

    /// The expiry of `field`; `None` for a field that stays, and for one that is not there.
    #[must_use]
    pub fn expires_at(&self, field: &[u8]) -> Option<u64> {
        self.expiries.as_ref()?.by_field.get(field).copied()
    }

    /// Whether a field has an expiry.
    #[must_use]
    pub fn have_expiries(&self) -> bool {
        self.expiries.is_some()
    }

    /// Whether the time of a field has come.
    pub(crate) fn are_due(&self, now: u64) -> bool {
        let first = self.expiries.as_ref().and_then(|it| it.in_order.first());
        first.is_some_and(|(at, _)| *at <= now)
    }

    /// Takes the fields out whose time has come, and returns their names.
    pub fn take_expired(&mut self, now: u64) -> Vec<Bytes> {
        let mut gone = Vec::new();
        while let Some(expiries) = &self.expiries
            && let Some((at, field)) = expiries.in_order.first()
            && *at <= now
        {
            let field = Bytes::from(&**field);
            self.remove(&field);
            gone.push(field);
        }
        gone
    }

    /// Bytes of memory that the fields take, without what an allocator adds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let expiries = self.expiries.as_ref();
        self.table.memory_bytes() + expiries.map_or(0, |expiries| expiries.memory_bytes())
    }
}

impl Deref for Fields {
    type Target = Table<Bytes>;

    fn deref(&self) -> &Table<Bytes> {
        &self.table
    }
}

impl<'n> FromIterator<(&'n [u8], Bytes)> for Fields {
    fn from_iter<I: IntoIterator<Item = (&'n [u8], Bytes)>>(pairs: I) -> Self {
        Self {
            table: pairs.into_iter().collect(),
            expiries: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u8),
        Remove(u8),
        Expire(u8, Option<u64>),
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            any::<u8>().prop_map(Step::Insert),
            any::<u8>().prop_map(Step::Remove),
            (any::<u8>(), proptest::option::of(0..100_u64))
                .prop_map(|(field, at)| Step::Expire(field, at)),
            (0..100_u64).prop_map(Step::Pass),
        ]
    }

    proptest! {
        /// Against a map of expiries.
        #[test]
        fn fields_go_when_their_time_has_come(steps in proptest::collection::vec(step(), 1..200)) {
            let mut fields = Fields::new();
            let mut model: BTreeMap<[u8; 1], Option<u64>> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Insert(field) => {
                        fields.insert(&[field % 9], Bytes::from(&b"v"[..]));
                        model.insert([field % 9], None);
                    }
                    Step::Remove(field) => {
                        let removed = fields.remove(&[field % 9]);
                        prop_assert_eq!(removed.is_some(), model.remove(&[field % 9]).is_some());
                    }
                    Step::Expire(field, at) => {
                        fields.set_expiry(&[field % 9], at);
                        model.entry([field % 9]).and_modify(|is| *is = at);
                    }
                    Step::Pass(now) => {
                        let is_over = |at: &Option<u64>| at.is_some_and(|at| at <= now);
                        prop_assert_eq!(fields.are_due(now), model.values().any(is_over));
                        let mut gone = fields.take_expired(now);
                        gone.sort();
                        let over = model.iter().filter(|(_, at)| is_over(at));
                        prop_assert!(gone.iter().map(|name| &**name).eq(over.map(|(name, _)| &name[..])));
                        model.retain(|_, at| !is_over(at));
                    }
                }
                prop_assert_eq!(fields.len(), model.len());
                for (field, at) in &model {
                    prop_assert_eq!(fields.expires_at(field), *at);
                }
                prop_assert_eq!(fields.have_expiries(), model.values().any(Option::is_some));
                let held = fields.expiries.as_ref().map_or(0, |expiries| expiries.held);
                prop_assert_eq!(held, model.values().flatten().count());
            }
        }
    }
}
