//! Strings, numbers and bits.

use super::*;

commands! {
    /// Appends to a string. Replies with the new length in bytes.
    ///
    /// Redis documentation: [`APPEND`](https://redis.io/docs/latest/commands/append/).
    append(key: impl Arg, value: impl Arg) -> u64 = "APPEND"(key, value);
    /// Subtracts one from a number. Replies with the new number.
    ///
    /// Redis documentation: [`DECR`](https://redis.io/docs/latest/commands/decr/).
    decr(key: impl Arg) -> i64 = "DECR"(key);
    /// Subtracts from a number. Replies with the new number.
    ///
    /// Redis documentation: [`DECRBY`](https://redis.io/docs/latest/commands/decrby/).
    decr_by(key: impl Arg, by: i64) -> i64 = "DECRBY"(key, by);
    /// Gets the value of a key. Replies with nil if the key does not exist.
    ///
    /// Redis documentation: [`GET`](https://redis.io/docs/latest/commands/get/).
    get<T>(key: impl Arg) -> T = "GET"(key);
    /// Gets the value of a key and deletes the key. Replies with nil if the key does not exist.
    ///
    /// Redis documentation: [`GETDEL`](https://redis.io/docs/latest/commands/getdel/).
    get_del<T>(key: impl Arg) -> T = "GETDEL"(key);
    /// Gets the value of a key and sets its time to live. Replies with nil if the key does not exist.
    ///
    /// Redis documentation: [`GETEX`](https://redis.io/docs/latest/commands/getex/).
    get_ex<T>(key: impl Arg, ttl: Duration) -> T = "GETEX"(key, "PX", millis(ttl));
    /// Gets a part of a string, by the offsets of its first and last byte. Negative offsets count from the end. The
    /// reply is empty if the key does not exist.
    ///
    /// Redis documentation: [`GETRANGE`](https://redis.io/docs/latest/commands/getrange/).
    get_range<T>(key: impl Arg, from: i64, to: i64) -> T = "GETRANGE"(key, from, to);
    /// Adds one to a number. Replies with the new number.
    ///
    /// Redis documentation: [`INCR`](https://redis.io/docs/latest/commands/incr/).
    incr(key: impl Arg) -> i64 = "INCR"(key);
    /// Adds to a number. Replies with the new number.
    ///
    /// Redis documentation: [`INCRBY`](https://redis.io/docs/latest/commands/incrby/).
    incr_by(key: impl Arg, by: i64) -> i64 = "INCRBY"(key, by);
    /// Adds a fraction to a number. Replies with the new number.
    ///
    /// Redis documentation: [`INCRBYFLOAT`](https://redis.io/docs/latest/commands/incrbyfloat/).
    incr_by_float(key: impl Arg, by: f64) -> f64 = "INCRBYFLOAT"(key, by);
    /// Gets the values of several keys. Replies with nil for each key that does not exist.
    ///
    /// Redis documentation: [`MGET`](https://redis.io/docs/latest/commands/mget/).
    mget<T>(keys: impl ToArgs) -> Vec<T> = "MGET"(keys);
    /// Sets several keys, given as pairs or a map.
    ///
    /// Redis documentation: [`MSET`](https://redis.io/docs/latest/commands/mset/).
    mset(pairs: impl ToArgs) -> () = "MSET"(pairs);
    /// Sets several keys if none of them exists. Replies with whether they were set.
    ///
    /// Redis documentation: [`MSETNX`](https://redis.io/docs/latest/commands/msetnx/).
    mset_nx(pairs: impl ToArgs) -> bool = "MSETNX"(pairs);
    /// Overwrites a part of a string, starting at an offset in bytes. Replies with the new length in bytes.
    ///
    /// Redis documentation: [`SETRANGE`](https://redis.io/docs/latest/commands/setrange/).
    set_range(key: impl Arg, offset: u64, value: impl Arg) -> u64
        = "SETRANGE"(key, offset, value);
    /// Gets the length of a string in bytes. Replies with 0 if the key does not exist.
    ///
    /// Redis documentation: [`STRLEN`](https://redis.io/docs/latest/commands/strlen/).
    strlen(key: impl Arg) -> u64 = "STRLEN"(key);
    /// Gets the value of a key and sets the time at which it expires, in milliseconds since 1970. Replies with nil if
    /// the key does not exist.
    ///
    /// Redis documentation: [`GETEX`](https://redis.io/docs/latest/commands/getex/).
    get_ex_at<T>(key: impl Arg, unix_ms: u64) -> T = "GETEX"(key, "PXAT", unix_ms);
    /// Gets the value of a key and removes its time to live. Replies with nil if the key does not exist.
    ///
    /// Redis documentation: [`GETEX`](https://redis.io/docs/latest/commands/getex/).
    get_persist<T>(key: impl Arg) -> T = "GETEX"(key, "PERSIST");
    /// Gets the longest common subsequence of two strings.
    ///
    /// Redis documentation: [`LCS`](https://redis.io/docs/latest/commands/lcs/).
    lcs<T>(a: impl Arg, b: impl Arg) -> T = "LCS"(a, b) + LcsOptions;
    /// Sets a value without a time to live. Its options set a time to live, or make it conditional.
    ///
    /// Redis documentation: [`SET`](https://redis.io/docs/latest/commands/set/).
    set(key: impl Arg, value: impl Arg) -> () = "SET"(key, value) + SetOptions;
}

options! {
    /// The options of [`set`].
    SetOptions {
        /// Only if the key does not exist. Replies with nil if it does.
        nx() -> R::OrNil where OrNil = ("NX"), NONE;
        /// Only if the key exists. Replies with nil if it does not.
        xx() -> R::OrNil where OrNil = ("XX");
        /// Replies with the previous value, or with nil if there was none.
        get<T>() -> Option<T> = ("GET"), NONE;
        /// Sets the time to live.
        expire(ttl: Duration) -> R = ("PX", millis(ttl));
        /// Sets the time at which the key expires, in milliseconds since 1970.
        expire_at(unix_ms: u64) -> R = ("PXAT", unix_ms);
        /// Keeps the time to live of the key.
        keep_ttl() -> R = ("KEEPTTL");
    }
    /// The options of [`lcs`].
    LcsOptions {
        /// Replies with the length only.
        len() -> u64 = ("LEN");
        /// Replies with the places of the matches, such as a map of `matches` and `len`.
        idx<T>() -> T = ("IDX");
        /// With [`idx`](Command::idx): leaves out matches that are shorter.
        min_match_len(len: u64) -> R = ("MINMATCHLEN", len);
        /// With [`idx`](Command::idx): adds the length of each match.
        with_match_len() -> R = ("WITHMATCHLEN");
    }
}
