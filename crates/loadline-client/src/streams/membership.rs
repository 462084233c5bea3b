//! The state of a consumer of a group: its next question, and the meaning of the answers. No socket, no clock.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::position::Info;
use super::{BATCH, Event, Reads, Start, StreamId, entries, none_if_missing};
use crate::commands::{xack, xgroup_create, xread_group, xread_group_waiting};
use crate::{Error, Request};

/// A consumer of a group, and its position.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(crate) key: Bytes,
    group: Bytes,
    consumer: Bytes,
    /// Whether a missing group is created.
    create: bool,
    /// The position among the entries that the consumer has already; `None` if it has seen all of them.
    own_after: Option<StreamId>,
    /// The last entry that was read.
    last: StreamId,
}

impl Membership {
    /// A consumer that begins with the entries that it has from before.
    pub(crate) fn new(key: Bytes, group: Bytes, consumer: Bytes, create: bool) -> Self {
        Self {
            key,
            group,
            consumer,
            create,
            own_after: Some(StreamId::MIN),
            last: StreamId::MIN,
        }
    }

    /// Creates the group with this start; [`made`] reads the answer.
    pub(crate) fn make(&self, start: Start) -> impl Request<Output = Result<(), Error>> + use<> {
        let after = match start {
            Start::Oldest => "0".to_owned(),
            Start::Latest => "$".to_owned(),
            Start::After(id) => id.to_string(),
        };
        xgroup_create(self.key.clone(), self.group.clone(), after)
    }

    /// Acknowledges entries.
    pub(crate) fn ack<'a>(
        &self,
        ids: &'a [StreamId],
    ) -> impl Request<Output = Result<u64, Error>> + use<'a> {
        xack(self.key.clone(), self.group.clone(), ids)
    }

    /// The entry after which the consumer has to look for more of the entries that it has already.
    pub(crate) fn own_due(&self) -> Option<StreamId> {
        self.own_after
    }

    /// Reads entries that the consumer has already, after this one.
    pub(crate) fn read_own(
        &self,
        after: StreamId,
    ) -> impl Request<Output = Result<Reads, Error>> + use<> {
        let (group, consumer) = (self.group.clone(), self.consumer.clone());
        xread_group::<()>(group, consumer, self.key.clone(), after)
            .count(BATCH)
            .read_as::<Reads>()
    }

    /// The events of that read, without entries that were handed out before and were not acknowledged when it
    /// was asked.
    ///
    /// # Errors
    /// The error of the read; the position is unchanged.
    pub(crate) fn got_own(
        &mut self,
        reads: Result<Reads, Error>,
        known: &BTreeSet<StreamId>,
    ) -> Result<Vec<Event>, Error> {
        let mut events = self.taken(reads?);
        self.own_after = events.last().and_then(Event::id);
        events.retain(|event| event.id().is_none_or(|id| !known.contains(&id)));
        Ok(events)
    }

    /// Waits up to `wait` for entries that no consumer has received.
    pub(crate) fn wait_new(
        &mut self,
        wait: Duration,
    ) -> impl Request<Output = Result<Reads, Error>> + use<> {
        // Until the answer is here, the server may have assigned entries to the consumer that it has not seen.
        self.own_after = Some(StreamId::MIN);
        let (group, consumer) = (self.group.clone(), self.consumer.clone());
        xread_group_waiting::<()>(group, consumer, self.key.clone(), ">", wait)
            .count(BATCH)
            .read_as::<Reads>()
    }

    /// The events of that read.
    ///
    /// # Errors
    /// The error of the read; the entries that the consumer has already are read next.
    pub(crate) fn got_new(&mut self, reads: Result<Reads, Error>) -> Result<Vec<Event>, Error> {
        let reads = reads?;
        self.own_after = None;
        Ok(self.taken(reads))
    }

    /// Whether the server has lost the group, and it is to be created again.
    pub(crate) fn is_to_be_made(&self, error: &Error) -> bool {
        self.create && error.is_server_code("NOGROUP")
    }

    /// Creates the group again after the last entry that was read.
    pub(crate) fn make_again(&self) -> impl Request<Output = Result<(), Error>> + use<> {
        self.make(Start::After(self.last))
    }

    /// The event about a group that was created again, on a stream in this state.
    ///
    /// # Errors
    /// The reason why it was not created, or why the state of the stream is unknown.
    pub(crate) fn remade(
        &mut self,
        info: Result<Info, Error>,
        group: Result<(), Error>,
    ) -> Result<Vec<Event>, Error> {
        let latest = none_if_missing(info)?.latest;
        made(group)?;
        self.own_after = Some(StreamId::MIN);
        let after = self.last;
        Ok(vec![Event::Rewound { after, latest }])
    }

    /// The entries of a read, which become the position of the consumer.
    fn taken(&mut self, reads: Reads) -> Vec<Event> {
        let entries = entries(reads).inspect(|(id, _)| self.last = self.last.max(*id));
        entries
            .map(|(id, entry)| entry.map_or(Event::Deleted(id), Event::Entry))
            .collect()
    }
}

/// Another consumer may have created the group, or the answer to a first try may have been lost.
pub(crate) fn made(group: Result<(), Error>) -> Result<(), Error> {
    match group {
        Err(error) if error.is_server_code("BUSYGROUP") => Ok(()),
        made => made,
    }
}

/// The entries that a consumer has read and not acknowledged. A clone is the same set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending(Arc<Mutex<BTreeSet<StreamId>>>);

impl Pending {
    /// A copy of the set.
    pub(crate) fn known(&self) -> BTreeSet<StreamId> {
        self.lock().clone()
    }

    /// These were read.
    pub(crate) fn add(&self, events: &[Event]) {
        self.lock().extend(ids(events));
    }

    /// These are acknowledged.
    pub(crate) fn remove(&self, acknowledged: &[StreamId]) {
        let mut pending = self.lock();
        for id in acknowledged {
            pending.remove(id);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<StreamId>> {
        // No panic can leave the set half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ids that acknowledge these events.
fn ids(events: &[Event]) -> impl Iterator<Item = StreamId> {
    events.iter().filter_map(Event::id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice;

    fn id(ms: u64) -> StreamId {
        StreamId { ms, seq: 0 }
    }

    fn reads(ids: &[u64]) -> Result<Reads, Error> {
        let entries = ids.iter().map(|ms| (id(*ms), Some(Vec::new()))).collect();
        Ok(Some(vec![(Bytes::from_static(b"s"), entries)]))
    }

    fn broken() -> Error {
        Error::Closed {
            maybe_executed: true,
        }
    }

    fn consumer() -> Membership {
        let name = Bytes::from_static;
        Membership::new(name(b"s"), name(b"g"), name(b"c"), true)
    }

    #[test]
    fn consumer_looks_at_what_it_has_until_nothing_is_left() {
        let mut consumer = consumer();
        let none = BTreeSet::new();
        assert_eq!(consumer.own_due(), Some(StreamId::MIN));
        let own = consumer.got_own(reads(&[1, 2]), &none).unwrap();
        assert_eq!(ids(&own).collect::<Vec<_>>(), [id(1), id(2)]);
        assert_eq!(consumer.own_due(), Some(id(2)));
        assert!(consumer.got_own(Ok(None), &none).unwrap().is_empty());
        assert_eq!(consumer.own_due(), None);
    }

    #[test]
    fn entries_of_a_lost_read_are_recovered_once() {
        let mut consumer = consumer();
        consumer.got_own(Ok(None), &BTreeSet::new()).unwrap();
        drop(consumer.wait_new(Duration::from_secs(1)));
        let first = consumer.got_new(reads(&[1, 2])).unwrap();
        let known = BTreeSet::from_iter(ids(&first));
        assert_eq!(consumer.own_due(), None);
        drop(consumer.wait_new(Duration::from_secs(1)));
        consumer.got_new(Err(broken())).unwrap_err();
        assert_eq!(consumer.own_due(), Some(StreamId::MIN));
        let found = consumer.got_own(reads(&[1, 2, 3]), &known).unwrap();
        assert_eq!(ids(&found).collect::<Vec<_>>(), [id(3)]);
        // A page that holds nothing new is not the last one.
        consumer.got_own(reads(&[1, 2]), &known).unwrap();
        assert_eq!(consumer.own_due(), Some(id(2)));
        consumer.got_own(Err(broken()), &known).unwrap_err();
        assert_eq!(consumer.own_due(), Some(id(2)));
    }

    #[test]
    fn recreated_group_is_reported_with_the_last_read_entry() {
        let mut consumer = consumer();
        consumer.got_new(reads(&[7])).unwrap();
        let told = consumer.remade(Ok(Info::default()), Ok(())).unwrap();
        let rewound = Event::Rewound {
            after: id(7),
            latest: StreamId::MIN,
        };
        assert_eq!(told, slice::from_ref(&rewound));
        assert_eq!(consumer.own_due(), Some(StreamId::MIN));
        consumer
            .remade(Ok(Info::default()), Err(broken()))
            .unwrap_err();
    }
}
