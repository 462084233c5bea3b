//! The subscriber of the messages.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use loadline_client::Error;
use loadline_client::pubsub::{Event, PubSub};
use loadline_measure::failover::{Heard, Operation, Outcome, receive};
use tokio::task::JoinHandle;

use super::{LOOK_EVERY, values};

/// Time limit for messages that were published before the end of the load. It passes only where messages are missing without
/// an announcement.
const PATIENCE: Duration = Duration::from_secs(2);

/// A subscriber, which ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Subscriber {
    /// The kind of the messages.
    kind: usize,
    heard: Rc<RefCell<Vec<Heard>>>,
    task: JoinHandle<()>,
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Subscriber {
    /// Receives what is published on `channel` from now on. Must be called on a local set.
    ///
    /// # Errors
    /// If the server refuses the subscription.
    pub(super) async fn start(
        mut pubsub: PubSub,
        channel: &str,
        kind: usize,
    ) -> Result<Self, Error> {
        pubsub.subscribe(channel).await?;
        let heard = Rc::new(RefCell::new(Vec::new()));
        let noted = Rc::clone(&heard);
        let task = tokio::task::spawn_local(async move {
            while let Some(event) = pubsub.next().await {
                let event = match event {
                    Event::Message(message) => {
                        values::read_back(&message.payload).map(Heard::Message)
                    }
                    _ => Some(Heard::Gap),
                };
                noted.borrow_mut().extend(event);
            }
        });
        Ok(Self { kind, heard, task })
    }

    /// Waits for messages that are under way, and notes which ones were received.
    pub(super) async fn note(self, operations: &mut [Operation], is_over: impl Fn() -> bool) {
        let begun = Instant::now();
        loop {
            receive(operations, self.kind, &self.heard.borrow());
            let mut published = operations.iter().filter(|one| one.kind == self.kind);
            let is_complete = published.all(|one| {
                one.executions > 0 || one.announced || one.outcome != Outcome::Acknowledged
            });
            if is_complete || is_over() || begun.elapsed() >= PATIENCE {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
