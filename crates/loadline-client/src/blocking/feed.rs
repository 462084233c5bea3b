//! The rest of a batch that a reader for one thread has read and not handed out.

use std::time::{Duration, Instant};

use crate::Error;
use crate::streams::Event;
use crate::streams::patience::Patience;

/// The rest of a batch.
#[derive(Debug)]
pub(super) struct Leftover {
    batch: std::vec::IntoIter<Event>,
    patience: Patience,
}

impl Leftover {
    pub(super) fn new(patience: Patience) -> Self {
        Self {
            batch: Vec::new().into_iter(),
            patience,
        }
    }

    /// The next event, if there is one within `timeout`. `read` gets more, and takes the time that is left; it
    /// continues at the same position after an error.
    ///
    /// # Errors
    /// The error of `read`, if it does not pass in time.
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
                    self.patience.recovered();
                    self.batch = events.into_iter();
                }
                Err(error) => match self.patience.retry(&error, Instant::now()) {
                    Some(pause) => std::thread::sleep(pause),
                    None => return Err(error),
                },
            }
            let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if over && self.batch.len() == 0 {
                return Ok(None);
            }
        }
    }
}
