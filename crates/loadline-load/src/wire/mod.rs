//! The load generator: non-blocking sockets driven by one event loop per thread.
//!
//! Speed: whole pipelines are patched into preformatted bytes and written with one system call; sockets are
//! registered once, edge-triggered; one clock reading and one histogram entry cover all replies of a read;
//! replies are skipped, not built; there is no allocation, lock or formatting per operation. A single
//! connection, which has no other one to fill its waits, sends its window in two halves and waits in the read
//! itself, spinning as long as that pays off.
//!
//! Correctness: an operation's response time counts from its intended start, which is the schedule's in an
//! open loop and the moment its place became free in a closed one, so that rate times mean response time is
//! the number in flight (Little's law). Planned operations are either sent or reported as not sent.

mod conn;
mod filler;
mod lone;
mod session;
mod system;
#[cfg(test)]
mod tests;
mod transport;
mod unread;
mod vigil;
#[cfg(test)]
mod virtual_tests;
mod worker;

pub use session::{Lane, Session, Shape, threads_over};
pub use transport::{Connect, Framing, Transport};
