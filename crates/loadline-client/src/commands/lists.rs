//! Lists.

use super::*;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The head.
    Left,
    /// The tail.
    Right,
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Self::Left => "LEFT",
            Self::Right => "RIGHT",
        }
    }
}

commands! {
    /// The element at this place; nil beyond the ends.
    lindex<T>(key: impl Arg, index: i64) -> T = "LINDEX"(key, index), READ_ONLY, Keys::First;
    /// Inserts before the first element that equals `pivot`; the new length, or -1 where there is none.
    linsert_before(key: impl Arg, pivot: impl Arg, value: impl Arg) -> i64
        = "LINSERT"(key, "BEFORE", pivot, value), NONE, Keys::First;
    /// Inserts after the first element that equals `pivot`; the new length, or -1 where there is none.
    linsert_after(key: impl Arg, pivot: impl Arg, value: impl Arg) -> i64
        = "LINSERT"(key, "AFTER", pivot, value), NONE, Keys::First;
    /// The length.
    llen(key: impl Arg) -> u64 = "LLEN"(key), READ_ONLY, Keys::First;
    /// Moves an element from one list to another; nil where there is none.
    lmove<T>(from: impl Arg, to: impl Arg, out_of: Side, into: Side) -> T
        = "LMOVE"(from, to, out_of.word(), into.word()), NONE, Keys::FirstTwo;
    /// Takes the first element; nil where there is none.
    lpop<T>(key: impl Arg) -> T = "LPOP"(key), NONE, Keys::First;
    /// Takes up to so many elements from the head; nil where there is no such key.
    lpop_count<T>(key: impl Arg, count: u64) -> Option<Vec<T>> = "LPOP"(key, count), NONE, Keys::First;
    /// The place of the first such element; nil where there is none.
    lpos(key: impl Arg, value: impl Arg) -> Option<u64> = "LPOS"(key, value), READ_ONLY, Keys::First;
    /// Adds at the head, one after the other; the new length.
    lpush(key: impl Arg, values: impl ToArgs) -> u64 = "LPUSH"(key, values), NONE, Keys::First;
    /// Adds at the head if the list exists; the new length.
    lpushx(key: impl Arg, values: impl ToArgs) -> u64 = "LPUSHX"(key, values), NONE, Keys::First;
    /// The elements from one place to another, both included; negative ones count from the end.
    lrange<T>(key: impl Arg, from: i64, to: i64) -> Vec<T> = "LRANGE"(key, from, to), READ_ONLY, Keys::First;
    /// Removes so many such elements from the head (from the tail where negative, all where 0); how many.
    lrem(key: impl Arg, count: i64, value: impl Arg) -> u64 = "LREM"(key, count, value), NONE, Keys::First;
    /// Replaces the element at this place.
    lset(key: impl Arg, index: i64, value: impl Arg) -> () = "LSET"(key, index, value), IDEMPOTENT, Keys::First;
    /// Keeps only the elements from one place to another.
    ltrim(key: impl Arg, from: i64, to: i64) -> () = "LTRIM"(key, from, to), NONE, Keys::First;
    /// Takes the last element; nil where there is none.
    rpop<T>(key: impl Arg) -> T = "RPOP"(key), NONE, Keys::First;
    /// Takes up to so many elements from the tail; nil where there is no such key.
    rpop_count<T>(key: impl Arg, count: u64) -> Option<Vec<T>> = "RPOP"(key, count), NONE, Keys::First;
    /// Adds at the tail, one after the other; the new length.
    rpush(key: impl Arg, values: impl ToArgs) -> u64 = "RPUSH"(key, values), NONE, Keys::First;
    /// Adds at the tail if the list exists; the new length.
    rpushx(key: impl Arg, values: impl ToArgs) -> u64 = "RPUSHX"(key, values), NONE, Keys::First;
}

/// Waits for an element at the head of one of the lists, at most so long (`Duration::MAX` is without end);
/// its key and the element, or nil. It needs a connection of its own.
#[must_use]
pub fn blpop<T: FromReply>(
    keys: impl ToArgs,
    timeout: Duration,
) -> Command<impl ToArgs, Option<(String, T)>> {
    waiting_pop("BLPOP", keys, timeout)
}

/// As [`blpop`], at the tail.
#[must_use]
pub fn brpop<T: FromReply>(
    keys: impl ToArgs,
    timeout: Duration,
) -> Command<impl ToArgs, Option<(String, T)>> {
    waiting_pop("BRPOP", keys, timeout)
}

/// As [`lmove`], but it waits for an element, at most so long. It needs a connection of its own.
#[must_use]
pub fn blmove<T: FromReply>(
    from: impl Arg,
    to: impl Arg,
    out_of: Side,
    into: Side,
    timeout: Duration,
) -> Command<impl ToArgs, T> {
    const META: Meta = Meta {
        name: "BLMOVE",
        flags: Flags::BLOCKS,
        keys: Keys::FirstTwo,
    };
    let seconds = block_seconds(timeout);
    Command::new(META, (from, to, out_of.word(), into.word(), seconds)).waiting(timeout)
}

fn waiting_pop<T: FromReply>(
    name: &'static str,
    keys: impl ToArgs,
    timeout: Duration,
) -> Command<impl ToArgs, T> {
    let meta = Meta {
        name,
        flags: Flags::BLOCKS,
        keys: Keys::AllButLast,
    };
    Command::new(meta, (keys, block_seconds(timeout))).waiting(timeout)
}
