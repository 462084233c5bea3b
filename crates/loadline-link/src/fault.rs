//! Faults of a network path.

use std::time::Duration;

/// A fault of a path. [`Fault::Cut`], [`Fault::Reset`] and [`Fault::HalfOpen`] affect the open connections
/// once; the others last until they are cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Both ends see an orderly end of the stream in the middle of the data. Bytes in flight are lost, and
    /// later bytes are discarded.
    Cut,
    /// Both ends receive a reset. Bytes in flight are lost.
    Reset,
    /// The server's end is closed and the client is not notified: its connection looks open, accepts data and
    /// never answers.
    HalfOpen,
    /// Nothing passes in either direction, and neither end is notified. Data is held and passes once the
    /// fault is cleared, as after a retransmission. The local kernel still completes new connections, which
    /// then receive nothing.
    BlackHole,
    /// New connections are refused; open ones continue.
    Refuse,
    /// An orderly close is forwarded later than data.
    SlowClose {
        /// The additional delay of the close.
        delay: Duration,
    },
}
