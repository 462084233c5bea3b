//! A way for other threads to wake the event loop.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// Wakes the event loop from other threads. One without a loop does nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waker(Option<Arc<OwnedFd>>);

impl Waker {
    /// Creates one whose descriptor becomes readable at each call of [`wake`](Self::wake).
    pub(crate) fn new() -> rustix::io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(Some(Arc::new(eventfd(0, flags)?))))
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|event| event.as_fd())
    }

    pub(crate) fn wake(&self) {
        if let Some(event) = &self.0 {
            // Without it, the loop looks ten times a second.
            let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        }
    }
}
