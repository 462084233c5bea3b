//! Events of connections, in a bounded queue.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::cluster::Node;
use crate::{Address, Error};

/// Something that happened to a connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// A new connection is ready for requests.
    Connected {
        /// The address of the server.
        address: Address,
    },
    /// A connection that was lost is ready again.
    Reconnected {
        /// The address of the server.
        address: Address,
        /// The time from the last byte of the lost connection until now.
        outage: Duration,
    },
    /// A connection broke. It is made again automatically.
    Lost {
        /// The address of the server.
        address: Address,
        /// The reason.
        error: Error,
    },
    /// An attempt to connect failed.
    Failed {
        /// The address of the server.
        address: Address,
        /// The reason.
        error: Error,
    },
    /// The server refused [credentials](crate::Credentials) that were replaced while the connection was open. It stays
    /// logged in as it was.
    LoginRefused {
        /// The address of the server.
        address: Address,
        /// The reason.
        error: Error,
    },
    /// A node of a cluster said that a slot is on another node by now.
    Moved {
        /// The slot.
        slot: u16,
        /// The node that serves it.
        node: Node,
    },
    /// The queue was full, and older events were dropped.
    Missed {
        /// The number of events.
        events: u64,
    },
}

/// The events of all connections of a client, of its pools, clusters and subscribers too. A clone is the same queue,
/// and each event goes to one consumer.
///
/// ```
/// # let url = &include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/server.rs"));
/// use loadline_client::{Client, ConnectionEvent, ConnectionEvents};
///
/// let events = ConnectionEvents::new(100);
/// let client = Client::builder().url(url)?.events(events.clone()).build();
/// let connection = client.blocking()?;
/// assert!(matches!(events.try_next(), Some(ConnectionEvent::Connected { .. })));
/// # drop(connection);
/// # Ok::<(), loadline_client::Error>(())
/// ```
#[derive(Clone)]
pub struct ConnectionEvents {
    shared: Arc<EventQueue>,
}

struct EventQueue {
    queue: Mutex<Queue>,
    changed: Condvar,
}

struct Queue {
    events: VecDeque<ConnectionEvent>,
    capacity: usize,
    missed: u64,
    wakers: Vec<Waker>,
}

impl ConnectionEvents {
    /// A queue of up to this number of events, at least one. When it is full, the oldest event is dropped, and
    /// [`ConnectionEvent::Missed`] says so.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let queue = Queue {
            events: VecDeque::new(),
            capacity: capacity.max(1),
            missed: 0,
            wakers: Vec::new(),
        };
        Self {
            shared: Arc::new(EventQueue {
                queue: Mutex::new(queue),
                changed: Condvar::new(),
            }),
        }
    }

    /// Returns the next event if there is one by now.
    #[must_use]
    pub fn try_next(&self) -> Option<ConnectionEvent> {
        self.lock().take()
    }

    /// Waits up to `timeout` for the next event, in this thread.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> Option<ConnectionEvent> {
        let deadline = Instant::now().checked_add(timeout);
        let mut queue = self.lock();
        loop {
            if let Some(event) = queue.take() {
                return Some(event);
            }
            let changed = &self.shared.changed;
            queue = match deadline {
                None => changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    let waited = changed.wait_timeout(queue, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Waits for the next event, on any runtime. A future that is dropped loses nothing.
    pub async fn next(&self) -> ConnectionEvent {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<ConnectionEvent> {
        let mut queue = self.lock();
        if let Some(event) = queue.take() {
            return Poll::Ready(event);
        }
        if !queue.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            queue.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Appends an event.
    pub(crate) fn push(&self, event: ConnectionEvent) {
        let mut queue = self.lock();
        if queue.events.len() == queue.capacity {
            queue.events.pop_front();
            queue.missed += 1;
        }
        queue.events.push_back(event);
        let wakers = std::mem::take(&mut queue.wakers);
        drop(queue);
        self.shared.changed.notify_one();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.shared
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn take(&mut self) -> Option<ConnectionEvent> {
        match std::mem::take(&mut self.missed) {
            0 => self.events.pop_front(),
            events => Some(ConnectionEvent::Missed { events }),
        }
    }
}

/// As [`ConnectionEvents::next`]. It never ends.
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
impl futures_core::Stream for ConnectionEvents {
    type Item = ConnectionEvent;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<ConnectionEvent>> {
        self.poll(cx).map(Some)
    }
}

/// The number of events that wait.
impl fmt::Debug for ConnectionEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionEvents")
            .field("waiting", &self.lock().events.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(slot: u16) -> ConnectionEvent {
        ConnectionEvent::Moved {
            slot,
            node: Node::new("a", 1),
        }
    }

    #[test]
    fn full_queue_drops_the_oldest_events_and_says_how_many() {
        let events = ConnectionEvents::new(2);
        (0..5).for_each(|slot| events.push(moved(slot)));
        let missed = events.try_next();
        assert!(
            matches!(missed, Some(ConnectionEvent::Missed { events: 3 })),
            "{missed:?}"
        );
        for expected in [3, 4] {
            let next = events.wait(Duration::ZERO);
            assert!(matches!(next, Some(ConnectionEvent::Moved { slot, .. }) if slot == expected));
        }
        assert!(events.wait(Duration::from_millis(1)).is_none());
    }

    #[test]
    fn thread_that_waits_gets_the_next_event() {
        let events = ConnectionEvents::new(2);
        let waiting = events.clone();
        let waiter = std::thread::spawn(move || waiting.wait(Duration::from_secs(20)));
        events.push(moved(7));
        let got = waiter.join().unwrap();
        assert!(
            matches!(got, Some(ConnectionEvent::Moved { slot: 7, .. })),
            "{got:?}"
        );
    }
}
