//! Redis Cluster: keys are divided into slots, and slots between nodes.

mod slot;

pub use slot::{SLOTS, slot_of};
