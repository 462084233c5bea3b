//! Hashes: fields and values under one key.

use super::*;

commands! {
    /// Deletes fields; how many there were.
    hdel(key: impl Arg, fields: impl ToArgs) -> u64 = "HDEL"(key, fields), IDEMPOTENT, Keys::First;
    /// Whether the field exists.
    hexists(key: impl Arg, field: impl Arg) -> bool = "HEXISTS"(key, field), READ_ONLY, Keys::First;
    /// The value of a field; nil where there is none.
    hget<T>(key: impl Arg, field: impl Arg) -> T = "HGET"(key, field), READ_ONLY, Keys::First;
    /// All fields and values, as a map or a list of pairs; empty where there is no such key.
    hgetall<T>(key: impl Arg) -> T = "HGETALL"(key), READ_ONLY, Keys::First;
    /// Counts a field up.
    hincr_by(key: impl Arg, field: impl Arg, by: i64) -> i64 = "HINCRBY"(key, field, by), NONE, Keys::First;
    /// Adds to a field with a fraction.
    hincr_by_float(key: impl Arg, field: impl Arg, by: f64) -> f64
        = "HINCRBYFLOAT"(key, field, by), NONE, Keys::First;
    /// The names of all fields.
    hkeys<T>(key: impl Arg) -> Vec<T> = "HKEYS"(key), READ_ONLY, Keys::First;
    /// How many fields there are.
    hlen(key: impl Arg) -> u64 = "HLEN"(key), READ_ONLY, Keys::First;
    /// The values of several fields, nil for those that do not exist.
    hmget<T>(key: impl Arg, fields: impl ToArgs) -> Vec<T> = "HMGET"(key, fields), READ_ONLY, Keys::First;
    /// So many different fields by chance.
    hrandfield<T>(key: impl Arg, count: u64) -> Vec<T> = "HRANDFIELD"(key, count), READ_ONLY, Keys::First;
    /// Some fields and values, and where to go on; 0 is the start, and also the end.
    hscan<T>(key: impl Arg, cursor: u64, count: u64) -> (u64, T)
        = "HSCAN"(key, cursor, "COUNT", count), READ_ONLY, Keys::First;
    /// Sets fields, given as pairs or a map; how many are new.
    hset(key: impl Arg, pairs: impl ToArgs) -> u64 = "HSET"(key, pairs), IDEMPOTENT, Keys::First;
    /// Sets a field if it does not exist; whether it did.
    hset_nx(key: impl Arg, field: impl Arg, value: impl Arg) -> bool
        = "HSETNX"(key, field, value), NONE, Keys::First;
    /// The length of a value in bytes.
    hstrlen(key: impl Arg, field: impl Arg) -> u64 = "HSTRLEN"(key, field), READ_ONLY, Keys::First;
    /// All values.
    hvals<T>(key: impl Arg) -> Vec<T> = "HVALS"(key), READ_ONLY, Keys::First;
}
