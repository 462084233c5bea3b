//! Lists.

use super::*;

words! {
    /// An end of a list.
    Side {
        /// The head.
        Left = "LEFT",
        /// The tail.
        Right = "RIGHT",
    }
}

commands! {
    /// Gets the element at an index. Negative indexes count from the tail. Replies with nil if the index is out of
    /// range.
    ///
    /// Redis documentation: [`LINDEX`](https://redis.io/docs/latest/commands/lindex/).
    lindex<T>(key: impl Arg, index: i64) -> T = "LINDEX"(key, index);
    /// Inserts a value before the first element that equals `pivot`. Replies with the new length, with -1 if no
    /// element does, and with 0 if the key does not exist.
    ///
    /// Redis documentation: [`LINSERT`](https://redis.io/docs/latest/commands/linsert/).
    linsert_before(key: impl Arg, pivot: impl Arg, value: impl Arg) -> i64
        = "LINSERT"(key, "BEFORE", pivot, value);
    /// Inserts a value after the first element that equals `pivot`. Replies with the new length, with -1 if no
    /// element does, and with 0 if the key does not exist.
    ///
    /// Redis documentation: [`LINSERT`](https://redis.io/docs/latest/commands/linsert/).
    linsert_after(key: impl Arg, pivot: impl Arg, value: impl Arg) -> i64
        = "LINSERT"(key, "AFTER", pivot, value);
    /// Gets the length of a list. Replies with 0 if the key does not exist.
    ///
    /// Redis documentation: [`LLEN`](https://redis.io/docs/latest/commands/llen/).
    llen(key: impl Arg) -> u64 = "LLEN"(key);
    /// Moves an element from an end of one list to an end of another. Replies with the element, or with nil if the
    /// first list is empty.
    ///
    /// Redis documentation: [`LMOVE`](https://redis.io/docs/latest/commands/lmove/).
    lmove<T>(from: impl Arg, to: impl Arg, out_of: Side, into: Side) -> T
        = "LMOVE"(from, to, out_of.word(), into.word());
    /// Removes the first element of a list. Replies with the element, or with nil if the key does not exist.
    ///
    /// Redis documentation: [`LPOP`](https://redis.io/docs/latest/commands/lpop/).
    lpop<T>(key: impl Arg) -> T = "LPOP"(key);
    /// Removes up to `count` elements from the head of a list. Replies with the elements, or with nil if the key
    /// does not exist.
    ///
    /// Redis documentation: [`LPOP`](https://redis.io/docs/latest/commands/lpop/).
    lpop_count<T>(key: impl Arg, count: u64) -> Option<Vec<T>> = "LPOP"(key, count);
    /// Adds values at the head of a list, one after the other. Replies with the new length.
    ///
    /// Redis documentation: [`LPUSH`](https://redis.io/docs/latest/commands/lpush/).
    lpush(key: impl Arg, values: impl ToArgs) -> u64 = "LPUSH"(key, values);
    /// Adds values at the head of a list if the list exists. Replies with the new length, which is 0 if it does
    /// not.
    ///
    /// Redis documentation: [`LPUSHX`](https://redis.io/docs/latest/commands/lpushx/).
    lpushx(key: impl Arg, values: impl ToArgs) -> u64 = "LPUSHX"(key, values);
    /// Gets the elements from one index to another, including both. Negative indexes count from the tail.
    ///
    /// Redis documentation: [`LRANGE`](https://redis.io/docs/latest/commands/lrange/).
    lrange<T>(key: impl Arg, from: i64, to: i64) -> Vec<T> = "LRANGE"(key, from, to);
    /// Removes up to `count` elements that equal a value, starting at the head; at the tail if `count` is negative;
    /// all of them if it is 0. Replies with the number of removed elements.
    ///
    /// Redis documentation: [`LREM`](https://redis.io/docs/latest/commands/lrem/).
    lrem(key: impl Arg, count: i64, value: impl Arg) -> u64 = "LREM"(key, count, value);
    /// Replaces the element at an index. The reply is an error if the index is out of range.
    ///
    /// Redis documentation: [`LSET`](https://redis.io/docs/latest/commands/lset/).
    lset(key: impl Arg, index: i64, value: impl Arg) -> () = "LSET"(key, index, value);
    /// Removes all elements except those from one index to another, including both.
    ///
    /// Redis documentation: [`LTRIM`](https://redis.io/docs/latest/commands/ltrim/).
    ltrim(key: impl Arg, from: i64, to: i64) -> () = "LTRIM"(key, from, to);
    /// Removes the last element of a list. Replies with the element, or with nil if the key does not exist.
    ///
    /// Redis documentation: [`RPOP`](https://redis.io/docs/latest/commands/rpop/).
    rpop<T>(key: impl Arg) -> T = "RPOP"(key);
    /// Removes up to `count` elements from the tail of a list. Replies with the elements, or with nil if the key
    /// does not exist.
    ///
    /// Redis documentation: [`RPOP`](https://redis.io/docs/latest/commands/rpop/).
    rpop_count<T>(key: impl Arg, count: u64) -> Option<Vec<T>> = "RPOP"(key, count);
    /// Adds values at the tail of a list, one after the other. Replies with the new length.
    ///
    /// Redis documentation: [`RPUSH`](https://redis.io/docs/latest/commands/rpush/).
    rpush(key: impl Arg, values: impl ToArgs) -> u64 = "RPUSH"(key, values);
    /// Adds values at the tail of a list if the list exists. Replies with the new length, which is 0 if it does
    /// not.
    ///
    /// Redis documentation: [`RPUSHX`](https://redis.io/docs/latest/commands/rpushx/).
    rpushx(key: impl Arg, values: impl ToArgs) -> u64 = "RPUSHX"(key, values);
    /// Moves an element as [`lmove`] does, and waits for one up to `timeout` (`Duration::MAX` is no limit). Replies
    /// with the element, or with nil after the timeout. Needs a dedicated connection.
    ///
    /// Redis documentation: [`BLMOVE`](https://redis.io/docs/latest/commands/blmove/).
    blmove<T>(from: impl Arg, to: impl Arg, out_of: Side, into: Side, timeout: Duration) -> T
        = "BLMOVE"(from, to, out_of.word(), into.word(), block_seconds(timeout)), waiting(timeout);
    /// Removes an element as [`lmpop`] does, and waits for one up to `timeout` (`Duration::MAX` is no limit). Replies
    /// with nil after the timeout. Needs a dedicated connection.
    ///
    /// Redis documentation: [`BLMPOP`](https://redis.io/docs/latest/commands/blmpop/).
    blmpop<T>(keys: impl ToArgs, side: Side, timeout: Duration) -> Option<(String, Vec<T>)>
        = "BLMPOP"(block_seconds(timeout), counted(keys), side.word()) + PopOptions, waiting(timeout);
    /// Removes the first element of the first list that is not empty, and waits for one up to `timeout`
    /// (`Duration::MAX` is no limit). Replies with the key of the list and the element, or with nil after the
    /// timeout. Needs a dedicated connection.
    ///
    /// Redis documentation: [`BLPOP`](https://redis.io/docs/latest/commands/blpop/).
    blpop<T>(keys: impl ToArgs, timeout: Duration) -> Option<(String, T)>
        = "BLPOP"(keys, block_seconds(timeout)), waiting(timeout);
    /// Removes the last element of the first list that is not empty; otherwise the same as [`blpop`].
    ///
    /// Redis documentation: [`BRPOP`](https://redis.io/docs/latest/commands/brpop/).
    brpop<T>(keys: impl ToArgs, timeout: Duration) -> Option<(String, T)>
        = "BRPOP"(keys, block_seconds(timeout)), waiting(timeout);
    /// Removes an element at an end of the first list that is not empty. Replies with the key of the list and the
    /// elements, or with nil if all lists are empty.
    ///
    /// Redis documentation: [`LMPOP`](https://redis.io/docs/latest/commands/lmpop/).
    lmpop<T>(keys: impl ToArgs, side: Side) -> Option<(String, Vec<T>)>
        = "LMPOP"(counted(keys), side.word()) + PopOptions;
    /// Finds the first element that equals a value. Replies with its index, or with nil if no element does.
    ///
    /// Redis documentation: [`LPOS`](https://redis.io/docs/latest/commands/lpos/).
    lpos(key: impl Arg, value: impl Arg) -> Option<u64>
        = "LPOS"(key, value) + PositionOptions;
}

options! {
    /// The options of [`lmpop`] and [`blmpop`].
    PopOptions {
        /// Removes up to this number of elements.
        count(count: u64) -> R = ("COUNT", count);
    }
    /// The options of [`lpos`].
    PositionOptions {
        /// Finds the match of this number, starting at 1; a negative number counts from the tail.
        rank(rank: i64) -> R = ("RANK", rank);
        /// Finds up to this number of matches; 0 is all. Replies with their indexes.
        count(count: u64) -> Vec<u64> = ("COUNT", count);
        /// Compares up to this number of elements; 0 is all.
        max_len(len: u64) -> R = ("MAXLEN", len);
    }
}
