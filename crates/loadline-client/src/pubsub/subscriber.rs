//! The state that the handle of a subscriber and its drivers share.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Instant;

use super::core::{ConnectionId, Core};
use crate::cluster::Node;
use crate::cluster::builder::Plain;
use crate::{Config, Error};

/// The state that the handle and the driver share.
pub(super) struct Subscriber {
    pub(super) config: Arc<Config>,
    /// Connection parameters for the nodes of a cluster.
    plain: Option<Plain>,
    core: Mutex<Core>,
}

/// The address. Buffers and messages are left out.
impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber")
            .field("address", &self.config.address)
            .finish_non_exhaustive()
    }
}

impl Subscriber {
    pub(super) fn new(config: Arc<Config>, plain: Option<Plain>, core: Core) -> Self {
        Self {
            config,
            plain,
            core: Mutex::new(core),
        }
    }

    /// The configuration of connections to a node of a cluster, or to the one server.
    pub(super) fn config_for(&self, node: Option<&Node>) -> Arc<Config> {
        match (&self.plain, node) {
            (Some(plain), Some(node)) => Arc::new(plain.server(node)),
            _ => Arc::clone(&self.config),
        }
    }

    /// Does what is due on a connection, and sees to it that its driver is woken.
    pub(super) fn turn(
        &self,
        id: ConnectionId,
        cx: &mut Context<'_>,
        wake: &mut Vec<Waker>,
    ) -> Result<(), Error> {
        let mut core = self.lock();
        core.register_driver(id, cx.waker());
        let turned = core.turn(id, Instant::now(), wake);
        drop(core);
        wake.drain(..).for_each(Waker::wake);
        turned
    }

    /// Whether a connection is not wanted any more.
    pub(super) fn is_over(&self, id: ConnectionId) -> bool {
        let core = self.lock();
        core.is_closed() || core.has_ended(id)
    }

    /// The state is whole whenever the lock is free.
    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
