//! Notices of changes in the tier below memory, for threads and for tasks.

use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use loadline_client::tracking::Invalidation;
use loadline_client::{Client, blocking};

use super::core::Core;
use super::key::Key;
use crate::Error;
use crate::place::Place;

/// The longest time for which the connection of a cache outlives the last handle of the cache.
const LOOK: Duration = Duration::from_secs(1);
/// Pauses between attempts to begin.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Where the notices come from.
pub(crate) struct Notices {
    from: Reporter,
    prefix: Vec<u8>,
}

enum Reporter {
    Server(Client),
    /// The URL of a cluster.
    Cluster(String),
}

impl Notices {
    /// # Errors
    /// [`Error::Settings`] if there can be none.
    pub(crate) fn of<K: Key>(url: Option<&str>, prefix: &[u8]) -> Result<Self, Error> {
        if !K::IS_READABLE {
            return Err(Error::Settings(
                "a tier is tracked by keys that can be read back",
            ));
        }
        // Not within the timeout of the tier: a server that is slow for a moment has lost no notices.
        let from = match url.map(Place::parse).transpose()? {
            Some(Place::Server(url, _)) => Reporter::Server(Client::open(&url)?),
            Some(Place::Cluster(url, _)) => Reporter::Cluster(url),
            _ => {
                return Err(Error::Settings(
                    "only a Redis server or a cluster that is named by its URL reports changes",
                ));
            }
        };
        let prefix = prefix.to_vec();
        Ok(Self { from, prefix })
    }

    fn connect(&self) -> Result<blocking::Tracking, loadline_client::Error> {
        let prefix = &self.prefix[..];
        match &self.from {
            Reporter::Server(client) => client.blocking_tracking(prefix),
            Reporter::Cluster(url) => blocking::Cluster::open(url)?.tracking(prefix),
        }
    }

    #[cfg(feature = "tokio")]
    async fn connect_task(
        &self,
    ) -> Result<loadline_client::tracking::Tracking, loadline_client::Error> {
        let prefix = &self.prefix[..];
        match &self.from {
            Reporter::Server(client) => client.tracking(prefix).await,
            Reporter::Cluster(url) => {
                let cluster = loadline_client::cluster::Cluster::open(url).await?;
                cluster.tracking(prefix).await
            }
        }
    }

    /// Takes notices until the cache is gone.
    pub(crate) fn take<K: Key, V>(&self, shared: &Weak<impl AsRef<Core<K, V>>>) {
        let mut attempts = Attempts::new();
        while shared.strong_count() > 0 {
            if let Ok(mut tracking) = self.connect() {
                attempts.succeeded();
                let mut notice = Some(Invalidation::All);
                loop {
                    match pass_on(shared, tracking.outage().is_none(), notice) {
                        After::Wait => notice = tracking.next(LOOK),
                        After::Reconnect => break,
                        After::End => return,
                    }
                }
            }
            std::thread::sleep(attempts.pause());
        }
    }

    /// The same for tasks.
    #[cfg(feature = "tokio")]
    pub(crate) async fn take_on_task<K: Key, V>(&self, shared: Weak<impl AsRef<Core<K, V>>>) {
        let mut attempts = Attempts::new();
        while shared.strong_count() > 0 {
            if let Ok(mut tracking) = self.connect_task().await {
                attempts.succeeded();
                let mut notice = Some(Invalidation::All);
                loop {
                    match pass_on(&shared, tracking.outage().is_none(), notice) {
                        After::Wait => {}
                        After::Reconnect => break,
                        After::End => return,
                    }
                    notice = match tokio::time::timeout(LOOK, tracking.next()).await {
                        Ok(Some(notice)) => Some(notice),
                        // The runtime has ended.
                        Ok(None) => return,
                        Err(_) => None,
                    };
                }
            }
            tokio::time::sleep(attempts.pause()).await;
        }
    }
}

/// The next step after a notice, or after a time without one.
#[derive(Debug, PartialEq, Eq)]
enum After {
    /// Wait for the next notice.
    Wait,
    /// Connect again: this connection reports no more changes.
    Reconnect,
    /// Stop: the cache is gone.
    End,
}

/// Passes a notice, if there is one, and the state of the connection to the cache.
fn pass_on<K: Key, V>(
    shared: &Weak<impl AsRef<Core<K, V>>>,
    is_tracking: bool,
    notice: Option<Invalidation>,
) -> After {
    let Some(shared) = shared.upgrade() else {
        return After::End;
    };
    let core: &Core<K, V> = (*shared).as_ref();
    core.set_tracking(is_tracking);
    if notice.is_some_and(|notice| !core.take_notice(notice)) {
        return After::Reconnect;
    }
    After::Wait
}

/// The pauses between attempts to begin. They double, and are the longest ones after the first success: then
/// the server ended the tracking.
struct Attempts {
    next: Duration,
}

impl Attempts {
    fn new() -> Self {
        Self { next: FIRST_PAUSE }
    }

    fn succeeded(&mut self) {
        self.next = LONGEST_PAUSE;
    }

    /// The pause before the next attempt.
    fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}

impl<K: Key, V> Core<K, V> {
    fn set_tracking(&self, is_tracking: bool) {
        if let Some(lower) = &self.lower {
            (lower.metrics.is_tracking).store(is_tracking, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_are_long_after_a_success() {
        let mut attempts = Attempts::new();
        let pauses: Vec<u64> = (0..9)
            .map(|_| attempts.pause().as_millis().try_into().unwrap())
            .collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        let mut attempts = Attempts::new();
        attempts.succeeded();
        assert_eq!([attempts.pause(), attempts.pause()], [LONGEST_PAUSE; 2]);
    }
}
