//! Keyspace notifications: events of keys, published to the subscribers of their channels.

use crate::notify::{Class, What};
use crate::pubsub::Kind;
use crate::state::{DATABASES, Shared};

impl Shared {
    /// Publishes an event.
    pub(crate) fn notify(&mut self, class: Class, event: &str, database: usize, key: &[u8]) {
        let classes = self.settings.notified;
        if !classes.has(class) || database >= DATABASES {
            return;
        }
        let limit = self.settings.output_limits.pubsub;
        let mut publish = |channel: &[u8], text: &[u8]| {
            let message = (channel, text);
            self.pubsub
                .publish(Kind::Channel, message, None, limit, |_| {});
        };
        if classes.has(Class::KEYSPACE) {
            let channel = [format!("__keyspace@{database}__:").as_bytes(), key].concat();
            publish(&channel, event.as_bytes());
        }
        if classes.has(Class::KEYEVENT) {
            publish(format!("__keyevent@{database}__:{event}").as_bytes(), key);
        }
    }

    /// Whether events are published.
    #[inline]
    pub(crate) fn notifies(&self) -> bool {
        self.watched.is_noting()
    }

    /// Publishes the events of keys that have expired, and of those that were evicted.
    pub(crate) fn notify_gone(&mut self) {
        for database in 0..DATABASES {
            self.note_expired_in(database);
        }
        for noted in self.watched.take_noted() {
            if noted.what == What::Evicted {
                self.notify(Class::EVICTED, "evicted", noted.database, &noted.key);
            }
        }
    }
}
