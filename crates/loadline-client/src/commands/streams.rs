//! Streams. An entry is a pair of its id and its fields: `(String, HashMap<String, String>)`.

use super::*;

/// The reply of `XREAD` and `XREADGROUP`: for each stream its key and its entries, or nil if there are none.
pub type StreamReads<F> = Option<Vec<(String, Vec<(String, F)>)>>;

const GROUP_READ: Meta = Meta {
    name: "XREADGROUP",
    flags: Flags::BLOCKS,
    keys: Keys::Streams,
};

commands! {
    /// Acknowledges entries of a consumer group. Replies with the number of entries that were pending.
    ///
    /// Redis documentation: [`XACK`](https://redis.io/docs/latest/commands/xack/).
    xack(key: impl Arg, group: impl Arg, ids: impl ToArgs) -> u64
        = "XACK"(key, group, ids), IDEMPOTENT, Keys::First;
    /// Adds an entry with these fields, given as pairs or a map, to a stream. Replies with its id.
    ///
    /// Redis documentation: [`XADD`](https://redis.io/docs/latest/commands/xadd/).
    xadd(key: impl Arg, fields: impl ToArgs) -> String = "XADD"(key, "*", fields), NONE, Keys::First;
    /// Adds an entry, and removes the oldest entries if the stream has clearly more than `about`. Replies with the
    /// id of the new entry.
    ///
    /// Redis documentation: [`XADD`](https://redis.io/docs/latest/commands/xadd/).
    xadd_capped(key: impl Arg, about: u64, fields: impl ToArgs) -> String
        = "XADD"(key, "MAXLEN", "~", about, "*", fields), NONE, Keys::First;
    /// Assigns pending entries that were idle for at least this time to another consumer. Replies with the id at
    /// which the next call continues, the entries, and the ids of entries that no longer exist.
    ///
    /// Redis documentation: [`XAUTOCLAIM`](https://redis.io/docs/latest/commands/xautoclaim/).
    xautoclaim<F>(key: impl Arg, group: impl Arg, consumer: impl Arg, idle: Duration, from: impl Arg)
        -> (String, Vec<(String, F)>, Vec<String>)
        = "XAUTOCLAIM"(key, group, consumer, millis(idle), from), NONE, Keys::First;
    /// Removes entries of a stream. Replies with the number of entries that existed.
    ///
    /// Redis documentation: [`XDEL`](https://redis.io/docs/latest/commands/xdel/).
    xdel(key: impl Arg, ids: impl ToArgs) -> u64 = "XDEL"(key, ids), IDEMPOTENT, Keys::First;
    /// Creates a consumer group that starts after an id (`"0"` is the beginning, `"$"` the end), and the stream if
    /// it does not exist. The reply is a `BUSYGROUP` error if the group exists.
    ///
    /// Redis documentation: [`XGROUP CREATE`](https://redis.io/docs/latest/commands/xgroup-create/).
    xgroup_create(key: impl Arg, group: impl Arg, after: impl Arg) -> ()
        = "XGROUP"("CREATE", key, group, after, "MKSTREAM"), NONE, Keys::At(1);
    /// Removes a consumer group. Replies with whether it existed.
    ///
    /// Redis documentation: [`XGROUP DESTROY`](https://redis.io/docs/latest/commands/xgroup-destroy/).
    xgroup_destroy(key: impl Arg, group: impl Arg) -> bool
        = "XGROUP"("DESTROY", key, group), IDEMPOTENT, Keys::At(1);
    /// Counts the entries of a stream. Replies with 0 if the key does not exist.
    ///
    /// Redis documentation: [`XLEN`](https://redis.io/docs/latest/commands/xlen/).
    xlen(key: impl Arg) -> u64 = "XLEN"(key), READ_ONLY, Keys::First;
    /// Gets the entries from one id to another, including both; `"-"` and `"+"` are the ends of the stream.
    ///
    /// Redis documentation: [`XRANGE`](https://redis.io/docs/latest/commands/xrange/).
    xrange<F>(key: impl Arg, from: impl Arg, to: impl Arg) -> Vec<(String, F)>
        = "XRANGE"(key, from, to), READ_ONLY, Keys::First;
    /// Gets up to `count` entries from one id back to another, latest first.
    ///
    /// Redis documentation: [`XREVRANGE`](https://redis.io/docs/latest/commands/xrevrange/).
    xrevrange<F>(key: impl Arg, from: impl Arg, to: impl Arg, count: u64) -> Vec<(String, F)>
        = "XREVRANGE"(key, from, to, "COUNT", count), READ_ONLY, Keys::First;
    /// Gets up to `count` entries of each stream after the id given for it. Replies with nil if there are none.
    ///
    /// Redis documentation: [`XREAD`](https://redis.io/docs/latest/commands/xread/).
    xread<F>(keys: impl ToArgs, after: impl ToArgs, count: u64) -> StreamReads<F>
        = "XREAD"("COUNT", count, "STREAMS", keys, after), READ_ONLY, Keys::Streams;
    /// Removes the oldest entries if the stream has more than `len`. Replies with the number of removed entries.
    ///
    /// Redis documentation: [`XTRIM`](https://redis.io/docs/latest/commands/xtrim/).
    xtrim(key: impl Arg, len: u64) -> u64 = "XTRIM"(key, "MAXLEN", len), NONE, Keys::First;
}

/// Gets entries as [`xread`] does, and waits for one up to `timeout` (`Duration::MAX` is no limit). Replies
/// with nil after the timeout. Needs a dedicated connection.
///
/// Redis documentation: [`XREAD`](https://redis.io/docs/latest/commands/xread/).
#[must_use]
pub fn xread_waiting<F: FromReply>(
    keys: impl ToArgs,
    after: impl ToArgs,
    count: u64,
    timeout: Duration,
) -> Command<impl ToArgs, StreamReads<F>> {
    const META: Meta = Meta {
        name: "XREAD",
        flags: Flags::READ_ONLY.with(Flags::BLOCKS),
        keys: Keys::Streams,
    };
    let block = block_millis(timeout);
    let args = ("COUNT", count, "BLOCK", block, "STREAMS", keys, after);
    Command::new(META, args).waiting(timeout)
}

/// Gets up to `count` entries of each stream as a consumer of a group: entries that no consumer has received
/// for the id `">"`, and the pending entries of this consumer after any other id. Replies with nil if there are
/// no new entries.
///
/// Redis documentation: [`XREADGROUP`](https://redis.io/docs/latest/commands/xreadgroup/).
#[must_use]
pub fn xread_group<F: FromReply>(
    group: impl Arg,
    consumer: impl Arg,
    keys: impl ToArgs,
    after: impl ToArgs,
    count: u64,
) -> Command<impl ToArgs, StreamReads<F>> {
    let meta = Meta {
        flags: Flags::NONE,
        ..GROUP_READ
    };
    let who = ("GROUP", group, consumer);
    Command::new(meta, (who, "COUNT", count, "STREAMS", keys, after))
}

/// Gets entries as [`xread_group`] does, and waits for one up to `timeout` (`Duration::MAX` is no limit).
/// Replies with nil after the timeout. Needs a dedicated connection.
///
/// Redis documentation: [`XREADGROUP`](https://redis.io/docs/latest/commands/xreadgroup/).
#[must_use]
pub fn xread_group_waiting<F: FromReply>(
    group: impl Arg,
    consumer: impl Arg,
    keys: impl ToArgs,
    after: impl ToArgs,
    count: u64,
    timeout: Duration,
) -> Command<impl ToArgs, StreamReads<F>> {
    let who = ("GROUP", group, consumer);
    let how = ("COUNT", count, "BLOCK", block_millis(timeout));
    Command::new(GROUP_READ, (who, how, "STREAMS", keys, after)).waiting(timeout)
}
