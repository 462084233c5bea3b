//! The task that reads ahead of a consumer, by one batch.
//!
//! A read that blocks at the server holds up its connection, and cannot be taken back. So the consumer, whose
//! future can be dropped at any time, does not wait for it itself: a task that lives as long as the reader does.

use std::future::{Future, poll_fn};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Event;
use super::patience::Patience;
use crate::Error;

type Events = Result<Vec<Event>, Error>;

/// Something that gives events in order, a batch at a time.
pub(super) trait Source: Send + 'static {
    /// The next events; none if there was nothing new in its time.
    ///
    /// # Errors
    /// The reason why there are none. The next call continues at the same position.
    fn read(&mut self) -> impl Future<Output = Events> + Send;
}

/// The consumer's end.
#[derive(Debug)]
pub(super) struct ReadAhead {
    batches: mpsc::Receiver<Events>,
    batch: std::vec::IntoIter<Event>,
    task: JoinHandle<()>,
}

impl ReadAhead {
    /// Starts to read. Errors that pass in time are hidden from the consumer.
    pub(super) fn start(source: impl Source, patience: Patience) -> Self {
        let (sender, batches) = mpsc::channel(1);
        Self {
            batches,
            batch: Vec::new().into_iter(),
            task: tokio::spawn(read_on(source, patience, sender)),
        }
    }

    /// The next event; a future that is dropped loses nothing.
    pub(super) async fn next(&mut self) -> Result<Event, Error> {
        let closed = Err(Error::Closed {
            maybe_executed: false,
        });
        poll_fn(|cx| self.poll_next(cx)).await.unwrap_or(closed)
    }

    /// The next event; `None` once the runtime of the task has ended.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Event, Error>>> {
        loop {
            if let Some(event) = self.batch.next() {
                return Poll::Ready(Some(Ok(event)));
            }
            match ready!(self.batches.poll_recv(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(batch)) => self.batch = batch.into_iter(),
            }
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read_on(mut source: impl Source, mut patience: Patience, sender: mpsc::Sender<Events>) {
    loop {
        let events = source.read().await;
        match &events {
            Ok(events) => {
                patience.recovered();
                if events.is_empty() {
                    continue;
                }
            }
            Err(error) => {
                if let Some(pause) = patience.retry(error, Instant::now()) {
                    tokio::time::sleep(pause).await;
                    continue;
                }
            }
        }
        if sender.send(events).await.is_err() {
            return;
        }
    }
}
