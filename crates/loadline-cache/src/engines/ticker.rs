//! A sync at regular intervals, for engines that have none of their own.

use std::fmt::Display;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::failed;
use crate::Error;

/// A thread that syncs until this value is dropped.
#[derive(Debug)]
pub struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    fault: Arc<OnceLock<String>>,
}

impl Ticker {
    /// Calls `sync` every `interval`, until its first error.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start<E: Display>(
        interval: Duration,
        sync: impl Fn() -> Result<(), E> + Send + 'static,
    ) -> Result<Self, Error> {
        let (stop, stopped) = mpsc::channel();
        let fault = Arc::new(OnceLock::new());
        let noted = Arc::clone(&fault);
        let work = move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = sync() {
                    noted.get_or_init(|| format!("{error:#}"));
                    break;
                }
            }
        };
        let thread = thread::Builder::new().name("engine-sync".into());
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread.spawn(work).map_err(failed)?),
            fault,
        })
    }

    /// Returns the error of the last sync, if there was one. Without a ticker, there is none.
    ///
    /// # Errors
    /// The error of `sync`.
    pub fn check(ticker: Option<&Self>) -> Result<(), Error> {
        match ticker.and_then(|ticker| ticker.fault.get()) {
            None => Ok(()),
            Some(fault) => Err(failed(format!("the last sync failed: {fault}"))),
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn ticker_syncs_until_it_is_dropped_or_fails() {
        let count = Arc::new(AtomicU32::new(0));
        let counting = Arc::clone(&count);
        let ticker = Ticker::start(Duration::from_millis(1), move || {
            match counting.fetch_add(1, Ordering::Relaxed) < 2 {
                true => Ok(()),
                false => Err("disk full"),
            }
        })
        .unwrap();
        while Ticker::check(Some(&ticker)).is_ok() {
            thread::yield_now();
        }
        let error = Ticker::check(Some(&ticker)).unwrap_err().to_string();
        assert!(error.contains("disk full"), "{error}");
        drop(ticker);
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }
}
