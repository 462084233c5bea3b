//! What can go wrong on a path, as values.

use std::time::Duration;

/// What goes wrong on a path. [`Fault::Cut`], [`Fault::Reset`] and [`Fault::HalfOpen`] happen once, to
/// the connections that are open; the others last until they are cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Both ends receive an orderly end of the stream, in the middle of the data that was under
    /// way: bytes in flight are lost, and what is still sent is thrown away.
    Cut,
    /// Both ends get a reset; bytes in flight are lost.
    Reset,
    /// The server's end is closed and the client does not notice: its connection looks alive, takes what
    /// is sent and never answers.
    HalfOpen,
    /// Nothing passes any more in either direction, and neither end notices. Nothing is lost either: it
    /// passes when the fault is cleared, as after retransmission. New connections are completed by the
    /// kernel of this side and then hear nothing.
    BlackHole,
    /// New connections are refused; open ones go on.
    Refuse,
    /// A close, in order, is passed on this much later than bytes are.
    SlowClose {
        /// How much later.
        delay: Duration,
    },
}
