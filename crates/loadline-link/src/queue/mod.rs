//! The pure part: when bytes are due, and the queues that keep them until then.
//!
//! Nothing here reads a clock: `now` is an argument. A [`Schedule`] says when something that arrives
//! now is due at the far end of a lane; a [`ByteLine`] and a [`PacketLine`] keep what is under way in
//! order and within bounds.

mod bytes;
mod packets;
mod schedule;

pub use bytes::{ByteLine, End};
pub use packets::PacketLine;
pub use schedule::Schedule;
