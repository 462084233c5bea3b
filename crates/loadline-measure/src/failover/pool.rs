//! The pool of a load: the order in which its callers are served, and the connections that it leaves behind.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A pool and its process during a load. Sizes are in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolUse {
    /// Calls for a connection that waited for one.
    pub waited: u64,
    /// Calls that were served before one that had waited longer.
    pub out_of_turn: u64,
    /// Connections that the server still had after the load and that the pool did not count; `None` if that is not known.
    pub leaked: Option<u64>,
    /// Resident memory of the process before the load; `None` if the system does not report it.
    pub memory_before_bytes: Option<u64>,
    /// Resident memory of the process after the load.
    pub memory_after_bytes: Option<u64>,
}

/// The order in which calls for a connection are served.
#[derive(Debug, Default)]
pub struct Turns {
    /// The calls so far that waited; the next one gets this number.
    waited: u64,
    /// Those that still wait, by their numbers.
    waiting: BTreeSet<u64>,
    out_of_turn: u64,
}

impl Turns {
    /// A call begins to wait. Returns its number.
    pub fn wait(&mut self) -> u64 {
        let number = self.waited;
        self.waited += 1;
        self.waiting.insert(number);
        number
    }

    /// A call that waited is served.
    pub fn served(&mut self, number: u64) {
        self.out_of_turn += u64::from(self.waiting.first().is_some_and(|first| *first < number));
        self.waiting.remove(&number);
    }

    /// A call is served without waiting. `others_wait` tells whether calls before it still do.
    pub fn served_at_once(&mut self, others_wait: bool) {
        self.out_of_turn += u64::from(others_wait);
    }

    /// A call ends without a connection.
    pub fn gave_up(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// The number of calls that waited, and of those that were served out of turn.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.waited, self.out_of_turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_before_one_that_waits_longer_are_out_of_turn() {
        let mut turns = Turns::default();
        let numbers: Vec<u64> = (0..5).map(|_| turns.wait()).collect();
        turns.served(numbers[0]);
        turns.served_at_once(false);
        assert_eq!(turns.counts(), (5, 0));
        turns.served(numbers[2]);
        assert_eq!(turns.counts(), (5, 1));
        turns.served_at_once(true);
        assert_eq!(turns.counts(), (5, 2));
        // A call that gave up is no longer overtaken.
        turns.gave_up(numbers[1]);
        turns.served(numbers[3]);
        turns.served(numbers[4]);
        assert_eq!(turns.counts(), (5, 2));
    }
}
