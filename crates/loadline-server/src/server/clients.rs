//! The limit of the memory of all clients.

use super::Server;
use crate::state::Shared;

impl Server {
    /// Counts the memory of the connections of a turn, and closes the largest ones while all of them together take more than
    /// `maxmemory-clients`. When the limit is set, all connections are counted first.
    #[cold]
    pub(super) fn limit_clients(&mut self, turn: &[u64]) {
        let limit = self.shared.client_limit();
        if std::mem::replace(&mut self.weighs_clients, limit.is_some()) {
            turn.iter().for_each(|token| self.weigh(*token));
        } else {
            let all = self.net.connections.tokens_where(|_| true);
            all.into_iter().for_each(|token| self.weigh(token));
        }
        let is_over = |bytes: usize| limit.is_some_and(|limit| bytes as u64 >= limit);
        if !is_over(self.shared.client_bytes) {
            return;
        }
        for token in self.largest_first() {
            if !is_over(self.shared.client_bytes) {
                break;
            }
            self.close(token);
            self.shared.stats.evicted_clients += 1;
        }
        let bytes = self.shared.client_bytes;
        self.shared.warnings.warn(|| {
            format!(
                "closed clients that took more memory than maxmemory-clients; {bytes} bytes are left"
            )
        });
    }

    /// Closes the clients that exchanged nothing for longer than `timeout`, except for those that wait for a key or messages.
    #[cold]
    pub(super) fn close_idle(&mut self) {
        let Shared {
            peers,
            monitors,
            settings,
            now,
            ..
        } = &self.shared;
        // Redis compares whole seconds.
        let since = (now / 1_000).saturating_sub(settings.timeout) * 1_000;
        let idle = peers.values().filter(|peer| peer.is_idle_since(since));
        let idle = idle.filter(|peer| !monitors.has(peer.id));
        let idle: Vec<u64> = idle.map(|peer| self.net.token_of(peer.id)).collect();
        idle.into_iter().for_each(|token| self.close(token));
    }

    fn weigh(&mut self, token: u64) {
        if let Some(connection) = self.net.connections.get_mut(&token) {
            connection.weigh(&mut self.shared);
        }
    }

    /// The connections that can be closed. As in Redis, sizes are compared by their powers of two, and of similar sizes the oldest
    /// connection comes first.
    fn largest_first(&mut self) -> Vec<u64> {
        let mut tokens = self
            .net
            .connections
            .tokens_where(|connection| !connection.is_kept());
        let connections = &mut self.net.connections;
        tokens.sort_by_cached_key(|token| {
            let connection = connections.get_mut(token);
            let weight = connection.map_or(0, |connection| connection.weight());
            (weight.max(SMALLEST).leading_zeros(), *token)
        });
        tokens
    }
}

/// Clients below this size are all alike, as in Redis.
const SMALLEST: usize = 1 << 14;
