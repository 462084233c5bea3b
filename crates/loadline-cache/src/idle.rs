//! Connections that wait for their next use.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// The most that wait for each place; others are closed.
const MOST_IDLE: usize = 16;

/// Connections by the place that they lead to.
#[derive(Debug)]
pub(crate) struct Idle<K, C> {
    connections: Mutex<HashMap<K, Vec<C>>>,
}

impl<K: Hash + Eq, C> Idle<K, C> {
    pub(crate) fn new() -> Self {
        Self {
            connections: Mutex::default(),
        }
    }

    pub(crate) fn take(&self, place: &K) -> Option<C> {
        let connections = self.connections.lock();
        let mut connections = connections.unwrap_or_else(PoisonError::into_inner);
        connections.get_mut(place)?.pop()
    }

    pub(crate) fn give_back(&self, place: K, connection: C) {
        let connections = self.connections.lock();
        let mut connections = connections.unwrap_or_else(PoisonError::into_inner);
        let waiting = connections.entry(place).or_default();
        if waiting.len() < MOST_IDLE {
            waiting.push(connection);
        }
    }
}
