//! Commands of Redis 7.2 to 8.2 that belong to older groups.

use super::*;

commands! {
    /// Keeps the accesses of this connection from changing how recently keys were used. Needs a dedicated
    /// connection.
    ///
    /// Redis documentation: [`CLIENT`](https://redis.io/docs/latest/commands/client/).
    client_no_touch(on: bool) -> () = "CLIENT" "NO-TOUCH"(if on { "ON" } else { "OFF" });
    /// Gets the id of the shard of this node, which is the same on its master and replicas.
    ///
    /// Redis documentation: [`CLUSTER MYSHARDID`](https://redis.io/docs/latest/commands/cluster-myshardid/).
    cluster_my_shard_id() -> String = "CLUSTER" "MYSHARDID"();
    /// Gets statistics of the slots from one to another, each as the slot and a map. Redis 8.2, Valkey 8.
    ///
    /// Redis documentation: [`CLUSTER SLOT-STATS`](https://redis.io/docs/latest/commands/cluster-slot-stats/).
    cluster_slot_stats<T>(from: u16, to: u16) -> Vec<(u16, T)>
        = "CLUSTER" "SLOT-STATS"("SLOTSRANGE", from, to);
    /// Gets statistics of the slots with the most of a metric, such as `"key-count"`, each as the slot and a map.
    ///
    /// Redis documentation: [`CLUSTER SLOT-STATS`](https://redis.io/docs/latest/commands/cluster-slot-stats/).
    cluster_slot_stats_by<T>(metric: impl Arg) -> Vec<(u16, T)>
        = "CLUSTER" "SLOT-STATS"("ORDERBY", metric) + SlotStatsOptions;
    /// Gets one page of the fields of a hash without their values; otherwise as [`hscan`].
    ///
    /// Redis documentation: [`HSCAN`](https://redis.io/docs/latest/commands/hscan/).
    hscan_fields<T>(key: impl Arg, cursor: u64, count: u64) -> (u64, Vec<T>)
        = "HSCAN"(key, cursor, "COUNT", count, "NOVALUES") + ElementScanOptions;
    /// Waits until the writes of this connection are synced to the disk of the server (`local` is 1) and to those
    /// of this number of replicas, up to `timeout` (`Duration::MAX` is no limit). Replies with the numbers that
    /// did. Needs a dedicated connection.
    ///
    /// Redis documentation: [`WAITAOF`](https://redis.io/docs/latest/commands/waitaof/).
    wait_aof(local: u64, replicas: u64, timeout: Duration) -> (u64, u64)
        = "WAITAOF"(local, replicas, block_millis(timeout)), waiting(timeout);
    /// Acknowledges entries of a group and removes them. Replies for each with 1, 2 if it was acknowledged and not
    /// removed, or -1 if it does not exist.
    ///
    /// Redis documentation: [`XACKDEL`](https://redis.io/docs/latest/commands/xackdel/).
    xack_del(key: impl Arg, group: impl Arg, ids: impl ToArgs) -> Vec<i64>
        = "XACKDEL"(key, group) + EntryRemovalOptions["IDS", counted(ids)];
    /// Removes entries of a stream. Replies for each with 1, 2 if groups still refer to it, or -1 if it does not
    /// exist.
    ///
    /// Redis documentation: [`XDELEX`](https://redis.io/docs/latest/commands/xdelex/).
    xdel_ex(key: impl Arg, ids: impl ToArgs) -> Vec<i64>
        = "XDELEX"(key) + EntryRemovalOptions["IDS", counted(ids)];
    /// Gets the rank of a member in ascending order of scores, starting at 0, and its score. Replies with nil if it is
    /// not a member.
    ///
    /// Redis documentation: [`ZRANK`](https://redis.io/docs/latest/commands/zrank/).
    zrank_with_score(key: impl Arg, member: impl Arg) -> Option<(u64, f64)>
        = "ZRANK"(key, member, "WITHSCORE");
    /// Gets the rank of a member in descending order of scores, starting at 0, and its score. Replies with nil if it
    /// is not a member.
    ///
    /// Redis documentation: [`ZREVRANK`](https://redis.io/docs/latest/commands/zrevrank/).
    zrevrank_with_score(key: impl Arg, member: impl Arg) -> Option<(u64, f64)>
        = "ZREVRANK"(key, member, "WITHSCORE");
}

more_options! {
    ClientKillOptions {
        /// Connections that have existed for at least this time, in whole seconds.
        max_age(time: Duration) -> R = ("MAXAGE", time.as_secs());
    }
    XaddOptions {
        /// With an option that removes entries: keeps what groups know of them, as without an option.
        keep_ref() -> R = ("KEEPREF");
        /// With an option that removes entries: removes what groups know of them too.
        del_ref() -> R = ("DELREF");
        /// With an option that removes entries: removes only those that all groups have acknowledged.
        acked() -> R = ("ACKED");
    }
    TrimOptions {
        /// Keeps what groups know of the entries, as without an option.
        keep_ref() -> R = ("KEEPREF");
        /// Removes what groups know of the entries too.
        del_ref() -> R = ("DELREF");
        /// Removes only entries that all groups have acknowledged.
        acked() -> R = ("ACKED");
    }
}

options! {
    /// The options of [`cluster_slot_stats_by`].
    SlotStatsOptions {
        /// Gets up to this number of slots.
        limit(count: u64) -> R = ("LIMIT", count);
        /// Sorts from the lowest.
        asc() -> R = ("ASC");
        /// Sorts from the highest, as without an option.
        desc() -> R = ("DESC");
    }
    /// The options of [`xack_del`] and [`xdel_ex`].
    EntryRemovalOptions {
        /// Keeps what groups know of the entries, as without an option.
        keep_ref() -> R = ("KEEPREF");
        /// Removes what groups know of the entries too.
        del_ref() -> R = ("DELREF");
        /// Removes only entries that all groups have acknowledged.
        acked() -> R = ("ACKED");
    }
}
