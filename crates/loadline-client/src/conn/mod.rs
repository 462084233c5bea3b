//! The core of connections, without sockets and clocks: bytes and `now` go in, bytes and replies come out.

pub(crate) mod attempt;
pub(crate) mod backoff;
pub(crate) mod carried;
#[cfg(feature = "tokio")]
pub(crate) mod core;
pub(crate) mod dial;
pub(crate) mod greeting;
pub(crate) mod scan;
pub(crate) mod session;
#[cfg(feature = "tokio")]
pub(crate) mod shell;
pub(crate) mod unwritten;
