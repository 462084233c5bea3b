//! The events that a reader for one thread has read and not handed out, and its patience.

use std::time::{Duration, Instant};

use crate::Error;
use crate::streams::{Event, LOADING_PAUSE, passes};

/// What a reader has read ahead: the rest of a batch.
#[derive(Debug)]
pub(super) struct Feed {
    batch: std::vec::IntoIter<Event>,
    /// How long an outage may last before the caller is told.
    patience: Duration,
    broken_since: Option<Instant>,
}

impl Feed {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            batch: Vec::new().into_iter(),
            patience,
            broken_since: None,
        }
    }

    /// The next event, if there is one within this time. `read` asks for more, and is told how much of the
    /// time is left; it goes on at the same place after an error.
    ///
    /// # Errors
    /// What `read` said, if that does not pass within the patience.
    pub(super) fn next(
        &mut self,
        timeout: Duration,
        mut read: impl FnMut(Option<Duration>) -> Result<Vec<Event>, Error>,
    ) -> Result<Option<Event>, Error> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if let Some(event) = self.batch.next() {
                return Ok(Some(event));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match read(left) {
                Ok(events) => {
                    self.broken_since = None;
                    self.batch = events.into_iter();
                }
                Err(error) if self.is_patient(&error) => {
                    if matches!(error, Error::Server(_)) {
                        std::thread::sleep(LOADING_PAUSE);
                    }
                }
                Err(error) => {
                    self.broken_since = None;
                    return Err(error);
                }
            }
            let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if over && self.batch.len() == 0 {
                return Ok(None);
            }
        }
    }

    fn is_patient(&mut self, error: &Error) -> bool {
        let since = *self.broken_since.get_or_insert_with(Instant::now);
        passes(error) && since.elapsed() < self.patience
    }
}
