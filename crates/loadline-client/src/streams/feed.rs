//! The task that reads ahead of a consumer, by a batch.
//!
//! A read that waits at the server holds up its connection, and cannot be taken back. So it is not the
//! consumer who waits for it, and may stop to at any time, but a task that lives as long as the reader.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{Event, LOADING_PAUSE, passes};
use crate::Error;

type Batch = Result<Vec<Event>, Error>;

/// Something that gives events in order, a batch at a time.
pub(super) trait Source: Send + 'static {
    /// The next events; none where there was nothing new in its time.
    ///
    /// # Errors
    /// Why there are none. The next call goes on at the same place.
    fn read(&mut self) -> impl Future<Output = Batch> + Send;
}

/// The consumer's end.
#[derive(Debug)]
pub(super) struct Feed {
    batches: mpsc::Receiver<Batch>,
    batch: std::vec::IntoIter<Event>,
    task: JoinHandle<()>,
}

impl Feed {
    /// Starts to read. A source that broke is read again for so long before the consumer is told.
    pub(super) fn start(source: impl Source, patience: Duration) -> Self {
        let (sender, batches) = mpsc::channel(1);
        Self {
            batches,
            batch: Vec::new().into_iter(),
            task: tokio::spawn(read_on(source, patience, sender)),
        }
    }

    /// The next event; a future that is dropped loses nothing.
    pub(super) async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.batch.next() {
                return Ok(event);
            }
            let batch = self.batches.recv().await.unwrap_or(Err(Error::Closed {
                maybe_executed: false,
            }));
            self.batch = batch?.into_iter();
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read_on(mut source: impl Source, patience: Duration, sender: mpsc::Sender<Batch>) {
    let mut broken_since: Option<Instant> = None;
    loop {
        let batch = source.read().await;
        if let Err(error) = &batch
            && passes(error)
            && broken_since.get_or_insert_with(Instant::now).elapsed() < patience
        {
            if matches!(error, Error::Server(_)) {
                tokio::time::sleep(LOADING_PAUSE).await;
            }
            continue;
        }
        broken_since = None;
        let nothing = matches!(&batch, Ok(events) if events.is_empty());
        if !nothing && sender.send(batch).await.is_err() {
            return;
        }
    }
}
