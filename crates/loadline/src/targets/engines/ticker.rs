//! A sync at regular intervals, for engines that have none of their own.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A thread that syncs until this value is dropped.
#[derive(Debug)]
pub(super) struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    fault: Arc<OnceLock<String>>,
}

impl Ticker {
    /// Calls `sync` every `interval`, until its first error.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn start(
        interval: Duration,
        sync: impl Fn() -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let fault = Arc::new(OnceLock::new());
        let noted = Arc::clone(&fault);
        let thread = thread::Builder::new()
            .name("engine-sync".into())
            .spawn(move || {
                while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    if let Err(error) = sync() {
                        noted.get_or_init(|| format!("{error:#}"));
                        break;
                    }
                }
            })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
            fault,
        })
    }

    /// Returns the error of `sync`, if there was one.
    ///
    /// # Errors
    /// The error of `sync`.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        match self.fault.get() {
            None => Ok(()),
            Some(fault) => anyhow::bail!("the last sync failed: {fault}"),
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
    fn it_syncs_until_it_is_dropped_or_fails() {
        let count = Arc::new(AtomicU32::new(0));
        let counting = Arc::clone(&count);
        let ticker = Ticker::start(Duration::from_millis(1), move || {
            anyhow::ensure!(counting.fetch_add(1, Ordering::Relaxed) < 2, "disk full");
            Ok(())
        })
        .unwrap();
        while ticker.check().is_ok() {
            thread::yield_now();
        }
        assert!(
            ticker
                .check()
                .unwrap_err()
                .to_string()
                .contains("disk full")
        );
        drop(ticker);
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }
}
