//! Streams. An entry is a pair of its id and its fields: `(String, HashMap<String, String>)`.

use super::*;

/// What `XREAD` and `XREADGROUP` give: for each stream its key and its entries; nil where there is none.
pub type StreamReads<F> = Option<Vec<(String, Vec<(String, F)>)>>;

const GROUP_READ: Meta = Meta {
    name: "XREADGROUP",
    flags: Flags::BLOCKS,
    keys: Keys::Streams,
};

commands! {
    /// Tells a group that entries are done; how many it was waiting for.
    xack(key: impl Arg, group: impl Arg, ids: impl ToArgs) -> u64
        = "XACK"(key, group, ids), IDEMPOTENT, Keys::First;
    /// Adds an entry with these fields, given as pairs or a map; its id.
    xadd(key: impl Arg, fields: impl ToArgs) -> String = "XADD"(key, "*", fields), NONE, Keys::First;
    /// Adds an entry, and removes the oldest ones where there are clearly more than so many; its id.
    xadd_capped(key: impl Arg, about: u64, fields: impl ToArgs) -> String
        = "XADD"(key, "MAXLEN", "~", about, "*", fields), NONE, Keys::First;
    /// Hands entries that their consumer has not acknowledged for so long to another; where to go on, the
    /// entries, and the ids that are gone.
    xautoclaim<F>(key: impl Arg, group: impl Arg, consumer: impl Arg, idle: Duration, from: impl Arg)
        -> (String, Vec<(String, F)>, Vec<String>)
        = "XAUTOCLAIM"(key, group, consumer, millis(idle), from), NONE, Keys::First;
    /// Removes entries; how many there were.
    xdel(key: impl Arg, ids: impl ToArgs) -> u64 = "XDEL"(key, ids), IDEMPOTENT, Keys::First;
    /// Makes a group that starts after this id (`"0"` is the start, `"$"` the end), and the stream if need
    /// be; a `BUSYGROUP` error where the group exists.
    xgroup_create(key: impl Arg, group: impl Arg, after: impl Arg) -> ()
        = "XGROUP"("CREATE", key, group, after, "MKSTREAM"), NONE, Keys::At(1);
    /// Removes a group; whether there was one.
    xgroup_destroy(key: impl Arg, group: impl Arg) -> bool
        = "XGROUP"("DESTROY", key, group), IDEMPOTENT, Keys::At(1);
    /// How many entries there are.
    xlen(key: impl Arg) -> u64 = "XLEN"(key), READ_ONLY, Keys::First;
    /// The entries from one id to another, both included; `"-"` and `"+"` are the ends.
    xrange<F>(key: impl Arg, from: impl Arg, to: impl Arg) -> Vec<(String, F)>
        = "XRANGE"(key, from, to), READ_ONLY, Keys::First;
    /// The same from the latest on, up to so many.
    xrevrange<F>(key: impl Arg, from: impl Arg, to: impl Arg, count: u64) -> Vec<(String, F)>
        = "XREVRANGE"(key, from, to, "COUNT", count), READ_ONLY, Keys::First;
    /// Up to so many entries of each stream after the id given for it.
    xread<F>(keys: impl ToArgs, after: impl ToArgs, count: u64) -> StreamReads<F>
        = "XREAD"("COUNT", count, "STREAMS", keys, after), READ_ONLY, Keys::Streams;
    /// Removes the oldest entries where there are more than so many; how many.
    xtrim(key: impl Arg, len: u64) -> u64 = "XTRIM"(key, "MAXLEN", len), NONE, Keys::First;
}

/// As [`xread`], but it waits for an entry, at most so long (`Duration::MAX` is without end). It needs a
/// connection of its own.
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

/// Up to so many entries that no consumer of the group has got (ids `">"`), or the consumer's own that it
/// has not acknowledged (any other id).
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

/// As [`xread_group`], but it waits for an entry, at most so long. It needs a connection of its own.
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
