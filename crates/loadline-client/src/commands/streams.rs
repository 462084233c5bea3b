//! Streams. An entry is a pair of its id and its fields: `(String, HashMap<String, String>)`.

use super::*;

/// The reply of `XREAD` and `XREADGROUP`: for each stream its key and its entries, or nil if there are none.
pub type StreamReads<F> = Option<Vec<(String, Vec<(String, F)>)>>;

/// The reply of `XPENDING`: the number of pending entries, the lowest and highest of their ids, and the number of each
/// consumer; nil in place of these if there are none.
pub type PendingSummary = (
    u64,
    Option<String>,
    Option<String>,
    Option<Vec<(String, u64)>>,
);

commands! {
    /// Acknowledges entries of a consumer group. Replies with the number of entries that were pending.
    ///
    /// Redis documentation: [`XACK`](https://redis.io/docs/latest/commands/xack/).
    xack(key: impl Arg, group: impl Arg, ids: impl ToArgs) -> u64
        = "XACK"(key, group, ids);
    /// Adds an entry, and removes the oldest entries if the stream has clearly more than `about`. Replies with the
    /// id of the new entry.
    ///
    /// Redis documentation: [`XADD`](https://redis.io/docs/latest/commands/xadd/).
    xadd_capped(key: impl Arg, about: u64, fields: impl ToArgs) -> String
        = "XADD"(key, "MAXLEN", "~", about, "*", fields);
    /// Removes entries of a stream. Replies with the number of entries that existed.
    ///
    /// Redis documentation: [`XDEL`](https://redis.io/docs/latest/commands/xdel/).
    xdel(key: impl Arg, ids: impl ToArgs) -> u64 = "XDEL"(key, ids);
    /// Removes a consumer group. Replies with whether it existed.
    ///
    /// Redis documentation: [`XGROUP DESTROY`](https://redis.io/docs/latest/commands/xgroup-destroy/).
    xgroup_destroy(key: impl Arg, group: impl Arg) -> bool
        = "XGROUP" "DESTROY"(key, group);
    /// Counts the entries of a stream. Replies with 0 if the key does not exist.
    ///
    /// Redis documentation: [`XLEN`](https://redis.io/docs/latest/commands/xlen/).
    xlen(key: impl Arg) -> u64 = "XLEN"(key);
    /// Gets up to `count` entries from one id back to another, latest first.
    ///
    /// Redis documentation: [`XREVRANGE`](https://redis.io/docs/latest/commands/xrevrange/).
    xrevrange<F>(key: impl Arg, from: impl Arg, to: impl Arg, count: u64) -> Vec<(String, F)>
        = "XREVRANGE"(key, from, to, "COUNT", count);
    /// Gets the entries of each stream after the id given for it. Replies with nil if there are none.
    ///
    /// Redis documentation: [`XREAD`](https://redis.io/docs/latest/commands/xread/).
    xread<F>(keys: impl ToArgs, after: impl ToArgs) -> StreamReads<F>
        = "XREAD"() + ReadOptions["STREAMS", keys, after];
    /// Removes the oldest entries if the stream has more than `len`. Replies with the number of removed entries.
    ///
    /// Redis documentation: [`XTRIM`](https://redis.io/docs/latest/commands/xtrim/).
    xtrim(key: impl Arg, len: u64) -> u64 = "XTRIM"(key, "MAXLEN", len);
    /// Adds an entry with these fields, given as pairs or a map, to a stream. Replies with its id.
    ///
    /// Redis documentation: [`XADD`](https://redis.io/docs/latest/commands/xadd/).
    xadd(key: impl Arg, fields: impl ToArgs) -> String = "XADD"(key) + XaddOptions["*", fields];
    /// Adds an entry with an id of the caller's, such as `"5-1"` or `"5-*"`. Replies with its id.
    ///
    /// Redis documentation: [`XADD`](https://redis.io/docs/latest/commands/xadd/).
    xadd_with_id(key: impl Arg, id: impl Arg, fields: impl ToArgs) -> String
        = "XADD"(key) + XaddOptions[id, fields];
    /// Assigns pending entries that were idle for at least this time to another consumer. Replies with the id at
    /// which the next call continues, the entries, and the ids of entries that no longer exist.
    ///
    /// Redis documentation: [`XAUTOCLAIM`](https://redis.io/docs/latest/commands/xautoclaim/).
    xautoclaim<F>(key: impl Arg, group: impl Arg, consumer: impl Arg, idle: Duration, from: impl Arg) -> (String, Vec<(String, F)>, Vec<String>)
        = "XAUTOCLAIM"(key, group, consumer, millis(idle), from) + AutoclaimOptions;
    /// Assigns these pending entries to another consumer if they were idle for at least this time. Replies with the
    /// entries that were assigned.
    ///
    /// Redis documentation: [`XCLAIM`](https://redis.io/docs/latest/commands/xclaim/).
    xclaim<F>(key: impl Arg, group: impl Arg, consumer: impl Arg, idle: Duration, ids: impl ToArgs) -> Vec<(String, F)>
        = "XCLAIM"(key, group, consumer, whole_millis(idle), ids) + ClaimOptions;
    /// Creates a consumer group that starts after an id (`"0"` is the beginning, `"$"` the end), and the stream if it
    /// does not exist. The reply is a `BUSYGROUP` error if the group exists.
    ///
    /// Redis documentation: [`XGROUP CREATE`](https://redis.io/docs/latest/commands/xgroup-create/).
    xgroup_create(key: impl Arg, group: impl Arg, after: impl Arg) -> ()
        = "XGROUP" "CREATE"(key, group, after, "MKSTREAM") + GroupOptions;
    /// Creates a consumer of a group. Replies with whether it is new.
    ///
    /// Redis documentation: [`XGROUP CREATECONSUMER`](https://redis.io/docs/latest/commands/xgroup-createconsumer/).
    xgroup_create_consumer(key: impl Arg, group: impl Arg, consumer: impl Arg) -> bool
        = "XGROUP" "CREATECONSUMER"(key, group, consumer);
    /// Removes a consumer of a group, and its pending entries with it. Replies with their number.
    ///
    /// Redis documentation: [`XGROUP DELCONSUMER`](https://redis.io/docs/latest/commands/xgroup-delconsumer/).
    xgroup_del_consumer(key: impl Arg, group: impl Arg, consumer: impl Arg) -> u64
        = "XGROUP" "DELCONSUMER"(key, group, consumer);
    /// Lets a consumer group continue after an id.
    ///
    /// Redis documentation: [`XGROUP SETID`](https://redis.io/docs/latest/commands/xgroup-setid/).
    xgroup_set_id(key: impl Arg, group: impl Arg, after: impl Arg) -> ()
        = "XGROUP" "SETID"(key, group, after) + GroupOptions;
    /// Describes the consumers of a group, each by a map.
    ///
    /// Redis documentation: [`XINFO CONSUMERS`](https://redis.io/docs/latest/commands/xinfo-consumers/).
    xinfo_consumers<T>(key: impl Arg, group: impl Arg) -> Vec<T>
        = "XINFO"("CONSUMERS", key, group);
    /// Describes the consumer groups of a stream, each by a map.
    ///
    /// Redis documentation: [`XINFO GROUPS`](https://redis.io/docs/latest/commands/xinfo-groups/).
    xinfo_groups<T>(key: impl Arg) -> Vec<T> = "XINFO"("GROUPS", key);
    /// Describes a stream by a map.
    ///
    /// Redis documentation: [`XINFO STREAM`](https://redis.io/docs/latest/commands/xinfo-stream/).
    xinfo_stream<T>(key: impl Arg) -> T = "XINFO"("STREAM", key) + StreamInfoOptions;
    /// Counts the pending entries of a consumer group. Replies with their number, the lowest and highest id, and the
    /// number of each consumer.
    ///
    /// Redis documentation: [`XPENDING`](https://redis.io/docs/latest/commands/xpending/).
    xpending(key: impl Arg, group: impl Arg) -> PendingSummary = "XPENDING"(key, group);
    /// Gets up to `count` pending entries from one id to another, including both. Replies for each with its id, its
    /// consumer, the milliseconds since it was delivered, and how often it was.
    ///
    /// Redis documentation: [`XPENDING`](https://redis.io/docs/latest/commands/xpending/).
    xpending_range(key: impl Arg, group: impl Arg, from: impl Arg, to: impl Arg, count: u64) -> Vec<(String, String, u64, u64)>
        = "XPENDING"(key, group) + PendingOptions[from, to, count];
    /// Gets pending entries of one consumer; otherwise the same as [`xpending_range`].
    ///
    /// Redis documentation: [`XPENDING`](https://redis.io/docs/latest/commands/xpending/).
    xpending_range_of(key: impl Arg, group: impl Arg, consumer: impl Arg, from: impl Arg, to: impl Arg, count: u64) -> Vec<(String, String, u64, u64)>
        = "XPENDING"(key, group) + PendingOptions[from, to, count, consumer];
    /// Gets the entries from one id to another, including both; `"-"` and `"+"` are the ends of the stream.
    ///
    /// Redis documentation: [`XRANGE`](https://redis.io/docs/latest/commands/xrange/).
    xrange<F>(key: impl Arg, from: impl Arg, to: impl Arg) -> Vec<(String, F)>
        = "XRANGE"(key, from, to) + EntriesOptions;
    /// Gets entries of each stream as a consumer of a group: entries that no consumer has received for
    /// the id `">"`, and the pending entries of this consumer after any other id. Replies with nil if there are no
    /// new entries.
    ///
    /// Redis documentation: [`XREADGROUP`](https://redis.io/docs/latest/commands/xreadgroup/).
    xread_group<F>(group: impl Arg, consumer: impl Arg, keys: impl ToArgs, after: impl ToArgs) -> StreamReads<F>
        = "XREADGROUP"("GROUP", group, consumer) + GroupReadOptions["STREAMS", keys, after];
    /// Gets entries as [`xread_group`] does, and waits for one up to `timeout` (`Duration::MAX` is no limit). Replies
    /// with nil after the timeout. Needs a dedicated connection.
    ///
    /// Redis documentation: [`XREADGROUP`](https://redis.io/docs/latest/commands/xreadgroup/).
    xread_group_waiting<F>(group: impl Arg, consumer: impl Arg, keys: impl ToArgs, after: impl ToArgs, timeout: Duration) -> StreamReads<F>
        = "XREADGROUP"("GROUP", group, consumer, "BLOCK", block_millis(timeout)) + GroupReadOptions["STREAMS", keys, after], waiting(timeout);
    /// Sets the last id of a stream, as a copy of another stream needs it.
    ///
    /// Redis documentation: [`XSETID`](https://redis.io/docs/latest/commands/xsetid/).
    xset_id(key: impl Arg, id: impl Arg) -> () = "XSETID"(key, id) + SetIdOptions;
    /// Removes the oldest entries if the stream has clearly more than `len`, which is faster than [`xtrim`]. Replies
    /// with the number of removed entries.
    ///
    /// Redis documentation: [`XTRIM`](https://redis.io/docs/latest/commands/xtrim/).
    xtrim_about(key: impl Arg, len: u64) -> u64 = "XTRIM"(key, "MAXLEN", "~", len) + TrimOptions;
    /// Removes the entries with ids below this one. Replies with the number of removed entries.
    ///
    /// Redis documentation: [`XTRIM`](https://redis.io/docs/latest/commands/xtrim/).
    xtrim_min_id(key: impl Arg, id: impl Arg) -> u64 = "XTRIM"(key, "MINID", id);
    /// Removes most of the entries with ids below this one, which is faster than [`xtrim_min_id`]. Replies with the
    /// number of removed entries.
    ///
    /// Redis documentation: [`XTRIM`](https://redis.io/docs/latest/commands/xtrim/).
    xtrim_min_id_about(key: impl Arg, id: impl Arg) -> u64
        = "XTRIM"(key, "MINID", "~", id) + TrimOptions;
    /// Gets entries as [`xread`] does, and waits for one up to `timeout` (`Duration::MAX` is no limit). Replies
    /// with nil after the timeout. Needs a dedicated connection.
    ///
    /// Redis documentation: [`XREAD`](https://redis.io/docs/latest/commands/xread/).
    xread_waiting<F>(keys: impl ToArgs, after: impl ToArgs, timeout: Duration) -> StreamReads<F>
        = "XREAD"("BLOCK", block_millis(timeout)) + ReadOptions["STREAMS", keys, after], waiting(timeout);
}

options! {
    /// The options of [`xadd`] and [`xadd_with_id`].
    XaddOptions {
        /// Only if the stream exists. Replies with nil if it does not.
        no_mk_stream() -> R::OrNil where OrNil = ("NOMKSTREAM");
        /// Removes the oldest entries if the stream has more than `len`.
        max_len(len: u64) -> R = ("MAXLEN", len);
        /// Removes the oldest entries if the stream has clearly more than `len`, which is faster.
        max_len_about(len: u64) -> R = ("MAXLEN", "~", len);
        /// Removes the entries with ids below this one.
        min_id(id: impl Arg) -> R = ("MINID", id);
        /// Removes most of the entries with ids below this one, which is faster.
        min_id_about(id: impl Arg) -> R = ("MINID", "~", id);
        /// After an option that removes about as many: removes up to this number of entries.
        limit(count: u64) -> R = ("LIMIT", count);
    }
    /// The options of [`xautoclaim`].
    AutoclaimOptions {
        /// Looks at up to this number of pending entries.
        count(count: u64) -> R = ("COUNT", count);
        /// Replies with the ids of the entries only, and does not count this as a delivery.
        just_id() -> (String, Vec<String>, Vec<String>) = ("JUSTID");
    }
    /// The options of [`xclaim`].
    ClaimOptions {
        /// Sets how long the entries have been idle.
        idle(time: Duration) -> R = ("IDLE", whole_millis(time));
        /// Sets when the entries were last delivered, in milliseconds since 1970.
        time(unix_ms: u64) -> R = ("TIME", unix_ms);
        /// Sets how often the entries were delivered.
        retry_count(count: u64) -> R = ("RETRYCOUNT", count);
        /// Assigns entries that are not pending too.
        force() -> R = ("FORCE");
        /// Replies with the ids of the entries only, and does not count this as a delivery.
        just_id() -> Vec<String> = ("JUSTID");
        /// Raises the last id that the group has delivered.
        last_id(id: impl Arg) -> R = ("LASTID", id);
    }
    /// The options of [`xgroup_create`] and [`xgroup_set_id`].
    GroupOptions {
        /// Sets how many entries the group has read, from which the server computes how far it is behind.
        entries_read(entries: u64) -> R = ("ENTRIESREAD", entries);
    }
    /// The options of [`xinfo_stream`].
    StreamInfoOptions {
        /// Describes the first 10 entries and pending entries too.
        full() -> R = ("FULL");
        /// Describes up to this number of entries and pending entries too; 0 is all.
        full_count(count: u64) -> R = ("FULL", "COUNT", count);
    }
    /// The options of [`xpending_range`] and [`xpending_range_of`].
    PendingOptions {
        /// Only entries that were idle for at least this time.
        idle(time: Duration) -> R = ("IDLE", whole_millis(time));
    }
    /// The options of [`xrange`].
    EntriesOptions {
        /// Gets up to this number of entries.
        count(count: u64) -> R = ("COUNT", count);
    }
    /// The options of [`xread`] and [`xread_waiting`].
    ReadOptions {
        /// Gets up to this number of entries of each stream.
        count(count: u64) -> R = ("COUNT", count);
    }
    /// The options of [`xread_group`] and [`xread_group_waiting`].
    GroupReadOptions {
        /// Gets up to this number of entries of each stream.
        count(count: u64) -> R = ("COUNT", count);
        /// The entries need no acknowledgement, so they are lost if the consumer fails.
        no_ack() -> R = ("NOACK");
    }
    /// The options of [`xset_id`].
    SetIdOptions {
        /// Sets how many entries were ever added.
        entries_added(entries: u64) -> R = ("ENTRIESADDED", entries);
        /// Sets the highest id that was removed.
        max_deleted_id(id: impl Arg) -> R = ("MAXDELETEDID", id);
    }
    /// The options of [`xtrim_about`] and [`xtrim_min_id_about`].
    TrimOptions {
        /// Removes up to this number of entries.
        limit(count: u64) -> R = ("LIMIT", count);
    }
}
