//! The core of a connection, without sockets and clocks: bytes and `now` go in, bytes and replies come out.

pub(crate) mod backoff;
pub(crate) mod greeting;
pub(crate) mod scan;
