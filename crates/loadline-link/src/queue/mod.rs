//! The pure part: when bytes are due, and the queues that hold them until then.
//!
//! Nothing here reads a clock: `now` is an argument. A [`Schedule`] computes when data that arrives now is
//! due at the far end of a lane; [`ByteLine`] and [`PacketLine`] hold the data in flight in order and within
//! bounds.

mod bytes;
mod packets;
mod schedule;

pub use bytes::{ByteLine, End};
pub use packets::PacketLine;
pub use schedule::Schedule;
