//! Drives subjects that perform operations, and measures their times.
//!
//! A load consists of values: a [`Workload`](workload::Workload) (weighted commands over a [key space](keys)
//! and [payloads](values)), a [`Pacing`](pacing::Pacing) (closed loop, or open loop at a rate) and a
//! [`Stop`](pacing::Stop) rule. They are passed to a loop, which returns an [`Outcome`](outcome::Outcome) and
//! never prints. There is one loop for each kind of subject: [`wire`] (non-blocking sockets, one event loop
//! per thread, preformatted commands; no allocation, lock or formatting per operation), [`call`] (a subject
//! that is called and returns when it is done) and [`task`] (an asynchronous subject shared by tasks).
//!
//! [`runner`] interleaves the blocks of several subjects in rounds of random order.
//!
//! The crate knows no protocol: replies are parsed by a [`Framing`](wire::Framing), and connections are
//! opened by a [`Connect`](wire::Connect).
//!
//! ```
//! use loadline_load::keys::{KeyDist, KeyPicker};
//! use rand::{SeedableRng, rngs::SmallRng};
//!
//! let picker = KeyPicker::new(&KeyDist::Zipf { exponent: 1.2 }, 1_000).expect("1.2 is a valid exponent");
//! let mut rng = SmallRng::seed_from_u64(7);
//! assert!(picker.pick(&mut rng, 1_000) < 1_000);
//! ```

pub mod block;
pub mod call;
mod clock;
pub mod cost;
pub mod error;
#[cfg(test)]
mod goodness;
pub mod group;
pub mod keys;
mod meter;
pub mod outcome;
pub mod pacing;
pub mod pauses;
pub mod reply;
pub mod runner;
pub mod stall;
pub mod task;
pub mod values;
pub mod waits;
pub mod windows;
pub mod wire;
pub mod workload;

pub use error::Error;
pub use meter::Control;
