//! The load generator proper: non-blocking sockets driven by one event loop per thread.
//!
//! How it is fast: whole pipelines are patched into preformatted bytes and written with one system
//! call; sockets are registered once, edge-triggered; one clock reading and one histogram entry
//! serve all replies of a read; replies are skipped, not built; nothing is allocated, locked or
//! formatted per operation. A lone connection, which has no other one to fill its waits, sends its
//! window in two halves and waits in the read itself, awake for as long as that pays.
//!
//! How it is honest: an operation's response time counts from its intended start, which is the
//! schedule's in an open loop and the moment its place became free in a closed one, so that rate x
//! mean response time is the number in flight (Little's law). What is planned is sent or reported
//! as not sent.

mod conn;
mod filler;
mod lone;
mod session;
#[cfg(test)]
mod tests;
mod transport;
mod vigil;
mod worker;

pub use session::{Lane, Session, Shape, threads_over};
pub use transport::{Connect, Framing, Transport};
