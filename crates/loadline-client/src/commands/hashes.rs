//! Hashes: fields and values under one key.

use super::*;

commands! {
    /// Deletes fields of a hash. Replies with the number of fields that existed.
    ///
    /// Redis documentation: [`HDEL`](https://redis.io/docs/latest/commands/hdel/).
    hdel(key: impl Arg, fields: impl ToArgs) -> u64 = "HDEL"(key, fields);
    /// Checks whether a field of a hash exists.
    ///
    /// Redis documentation: [`HEXISTS`](https://redis.io/docs/latest/commands/hexists/).
    hexists(key: impl Arg, field: impl Arg) -> bool = "HEXISTS"(key, field);
    /// Gets the value of a field. Replies with nil if the field does not exist.
    ///
    /// Redis documentation: [`HGET`](https://redis.io/docs/latest/commands/hget/).
    hget<T>(key: impl Arg, field: impl Arg) -> T = "HGET"(key, field);
    /// Gets all fields and values of a hash, as a map or a list of pairs. The reply is empty if the key does not
    /// exist.
    ///
    /// Redis documentation: [`HGETALL`](https://redis.io/docs/latest/commands/hgetall/).
    hgetall<T>(key: impl Arg) -> T = "HGETALL"(key);
    /// Adds an integer to the number in a field. Replies with the new number.
    ///
    /// Redis documentation: [`HINCRBY`](https://redis.io/docs/latest/commands/hincrby/).
    hincr_by(key: impl Arg, field: impl Arg, by: i64) -> i64 = "HINCRBY"(key, field, by);
    /// Adds a fraction to the number in a field. Replies with the new number.
    ///
    /// Redis documentation: [`HINCRBYFLOAT`](https://redis.io/docs/latest/commands/hincrbyfloat/).
    hincr_by_float(key: impl Arg, field: impl Arg, by: f64) -> f64
        = "HINCRBYFLOAT"(key, field, by);
    /// Gets the names of all fields of a hash.
    ///
    /// Redis documentation: [`HKEYS`](https://redis.io/docs/latest/commands/hkeys/).
    hkeys<T>(key: impl Arg) -> Vec<T> = "HKEYS"(key);
    /// Counts the fields of a hash. Replies with 0 if the key does not exist.
    ///
    /// Redis documentation: [`HLEN`](https://redis.io/docs/latest/commands/hlen/).
    hlen(key: impl Arg) -> u64 = "HLEN"(key);
    /// Gets the values of several fields. Replies with nil for each field that does not exist.
    ///
    /// Redis documentation: [`HMGET`](https://redis.io/docs/latest/commands/hmget/).
    hmget<T>(key: impl Arg, fields: impl ToArgs) -> Vec<T> = "HMGET"(key, fields);
    /// Sets fields of a hash, given as pairs or a map. Replies with the number of new fields.
    ///
    /// Redis documentation: [`HSET`](https://redis.io/docs/latest/commands/hset/).
    hset(key: impl Arg, pairs: impl ToArgs) -> u64 = "HSET"(key, pairs);
    /// Sets a field if it does not exist. Replies with whether it was set.
    ///
    /// Redis documentation: [`HSETNX`](https://redis.io/docs/latest/commands/hsetnx/).
    hset_nx(key: impl Arg, field: impl Arg, value: impl Arg) -> bool
        = "HSETNX"(key, field, value);
    /// Gets the length of the value of a field in bytes. Replies with 0 if the field does not exist.
    ///
    /// Redis documentation: [`HSTRLEN`](https://redis.io/docs/latest/commands/hstrlen/).
    hstrlen(key: impl Arg, field: impl Arg) -> u64 = "HSTRLEN"(key, field);
    /// Gets all values of a hash.
    ///
    /// Redis documentation: [`HVALS`](https://redis.io/docs/latest/commands/hvals/).
    hvals<T>(key: impl Arg) -> Vec<T> = "HVALS"(key);
    /// Gets up to `count` different random fields of a hash.
    ///
    /// Redis documentation: [`HRANDFIELD`](https://redis.io/docs/latest/commands/hrandfield/).
    hrandfield<T>(key: impl Arg, count: u64) -> Vec<T>
        = "HRANDFIELD"(key, count) + RandomFieldOptions;
    /// Gets one page of the fields and values of a hash. Replies with the next cursor and the page. A scan starts at
    /// cursor 0, and is complete when the reply has cursor 0.
    ///
    /// Redis documentation: [`HSCAN`](https://redis.io/docs/latest/commands/hscan/).
    hscan<T>(key: impl Arg, cursor: u64, count: u64) -> (u64, T)
        = "HSCAN"(key, cursor, "COUNT", count) + ElementScanOptions;
}

options! {
    /// The options of [`hrandfield`].
    RandomFieldOptions {
        /// Replies with the fields and their values, as a map or a list of pairs.
        with_values<T>() -> T = ("WITHVALUES");
    }
    /// The options of [`hscan`], [`sscan`] and [`zscan`].
    ElementScanOptions {
        /// Only fields or members that match this pattern.
        matching(pattern: impl Arg) -> R = ("MATCH", pattern);
    }
}
