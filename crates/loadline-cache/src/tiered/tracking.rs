//! Notices of changes in the tier below memory, for threads and for tasks.

use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use loadline_client::Client;

use super::core::Core;
use super::key::Key;
use crate::Error;
use crate::place::Place;

/// How soon after its last handle the connection of a cache is closed.
const LOOK: Duration = Duration::from_secs(1);
/// Pauses between attempts to begin.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Where the notices come from.
pub(crate) struct Notices {
    client: Client,
    prefix: Vec<u8>,
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
        match url.map(Place::parse).transpose()? {
            Some(Place::Server(url, _)) => Ok(Self {
                client: Client::open(&url)?,
                prefix: prefix.to_vec(),
            }),
            _ => Err(Error::Settings(
                "only a Redis server that is named by its URL reports changes",
            )),
        }
    }

    /// Takes notices until the cache is gone.
    pub(crate) fn take<K: Key, V>(&self, shared: &Weak<impl AsRef<Core<K, V>>>) {
        let mut pause = FIRST_PAUSE;
        while shared.strong_count() > 0 {
            let Ok(mut tracking) = self.client.blocking_tracking(&self.prefix[..]) else {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            };
            let mut notice = Some(loadline_client::tracking::Invalidation::All);
            loop {
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                let core: &Core<K, V> = (*shared).as_ref();
                core.set_tracking(tracking.outage().is_none());
                if notice
                    .take()
                    .is_some_and(|notice| !core.take_notice(notice))
                {
                    break;
                }
                drop(shared);
                notice = tracking.next(LOOK);
            }
            pause = LONGEST_PAUSE;
            std::thread::sleep(pause);
        }
    }

    /// The same for tasks.
    #[cfg(feature = "tokio")]
    pub(crate) async fn take_on_task<K: Key, V>(&self, shared: Weak<impl AsRef<Core<K, V>>>) {
        let mut pause = FIRST_PAUSE;
        while shared.strong_count() > 0 {
            let Ok(mut tracking) = self.client.tracking(&self.prefix[..]).await else {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            };
            let mut notice = Some(loadline_client::tracking::Invalidation::All);
            loop {
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                let core: &Core<K, V> = (*shared).as_ref();
                core.set_tracking(tracking.outage().is_none());
                if notice
                    .take()
                    .is_some_and(|notice| !core.take_notice(notice))
                {
                    break;
                }
                drop(shared);
                notice = match tokio::time::timeout(LOOK, tracking.next()).await {
                    Ok(Some(notice)) => Some(notice),
                    // The runtime has ended.
                    Ok(None) => return,
                    Err(_) => None,
                };
            }
            pause = LONGEST_PAUSE;
            tokio::time::sleep(pause).await;
        }
    }
}

impl<K: Key, V> Core<K, V> {
    fn set_tracking(&self, is_tracking: bool) {
        if let Some(lower) = &self.lower {
            (lower.metrics.is_tracking).store(is_tracking, Relaxed);
        }
    }
}
