//! Keys of any type: existence, expiry, names.

use super::*;

commands! {
    /// Copies a value to another key. Replies with whether it was copied.
    ///
    /// Redis documentation: [`COPY`](https://redis.io/docs/latest/commands/copy/).
    copy(from: impl Arg, to: impl Arg) -> bool = "COPY"(from, to), NONE, Keys::FirstTwo;
    /// Deletes keys. Replies with the number of keys that existed.
    ///
    /// Redis documentation: [`DEL`](https://redis.io/docs/latest/commands/del/).
    del(keys: impl ToArgs) -> u64 = "DEL"(keys), IDEMPOTENT, Keys::All;
    /// Counts how many of the keys exist.
    ///
    /// Redis documentation: [`EXISTS`](https://redis.io/docs/latest/commands/exists/).
    exists(keys: impl ToArgs) -> u64 = "EXISTS"(keys), READ_ONLY, Keys::All;
    /// Sets the time to live of a key. Replies with whether the key exists.
    ///
    /// Redis documentation: [`PEXPIRE`](https://redis.io/docs/latest/commands/pexpire/).
    expire(key: impl Arg, ttl: Duration) -> bool = "PEXPIRE"(key, millis(ttl)), NONE, Keys::First;
    /// Sets the time at which a key expires, in milliseconds since 1970. Replies with whether the key exists.
    ///
    /// Redis documentation: [`PEXPIREAT`](https://redis.io/docs/latest/commands/pexpireat/).
    expire_at(key: impl Arg, unix_ms: u64) -> bool = "PEXPIREAT"(key, unix_ms), IDEMPOTENT, Keys::First;
    /// Removes the time to live of a key. Replies with whether it had one.
    ///
    /// Redis documentation: [`PERSIST`](https://redis.io/docs/latest/commands/persist/).
    persist(key: impl Arg) -> bool = "PERSIST"(key), IDEMPOTENT, Keys::First;
    /// Gets the time to live of a key in milliseconds. Replies with -1 if the key does not expire, and with -2 if
    /// it does not exist.
    ///
    /// Redis documentation: [`PTTL`](https://redis.io/docs/latest/commands/pttl/).
    pttl(key: impl Arg) -> i64 = "PTTL"(key), READ_ONLY, Keys::First;
    /// Gets a random key. Replies with nil if the database is empty.
    ///
    /// Redis documentation: [`RANDOMKEY`](https://redis.io/docs/latest/commands/randomkey/).
    random_key<T>() -> T = "RANDOMKEY"(), READ_ONLY, Keys::None;
    /// Renames a key, and overwrites the new name if it exists. The reply is an error if the key does not exist.
    ///
    /// Redis documentation: [`RENAME`](https://redis.io/docs/latest/commands/rename/).
    rename(from: impl Arg, to: impl Arg) -> () = "RENAME"(from, to), NONE, Keys::FirstTwo;
    /// Renames a key if the new name does not exist. Replies with whether it was renamed.
    ///
    /// Redis documentation: [`RENAMENX`](https://redis.io/docs/latest/commands/renamenx/).
    rename_nx(from: impl Arg, to: impl Arg) -> bool = "RENAMENX"(from, to), NONE, Keys::FirstTwo;
    /// Gets one page of the keys that match a pattern. Replies with the next cursor and the page. A scan starts at
    /// cursor 0, and is complete when the reply has cursor 0. [`Scan`](crate::Scan) also notices a restart of the
    /// server.
    ///
    /// Redis documentation: [`SCAN`](https://redis.io/docs/latest/commands/scan/).
    scan<T>(cursor: u64, pattern: impl Arg, count: u64) -> (u64, Vec<T>)
        = "SCAN"(cursor, "MATCH", pattern, "COUNT", count), READ_ONLY, Keys::None;
    /// Marks keys as used. Replies with the number of keys that exist.
    ///
    /// Redis documentation: [`TOUCH`](https://redis.io/docs/latest/commands/touch/).
    touch(keys: impl ToArgs) -> u64 = "TOUCH"(keys), READ_ONLY, Keys::All;
    /// Gets the type of a value, such as `string` or `hash`. Replies with `none` if the key does not exist.
    ///
    /// Redis documentation: [`TYPE`](https://redis.io/docs/latest/commands/type/).
    key_type(key: impl Arg) -> String = "TYPE"(key), READ_ONLY, Keys::First;
    /// Deletes keys, and frees their memory in the background. Replies with the number of keys that existed.
    ///
    /// Redis documentation: [`UNLINK`](https://redis.io/docs/latest/commands/unlink/).
    unlink(keys: impl ToArgs) -> u64 = "UNLINK"(keys), IDEMPOTENT, Keys::All;
    /// Gets the internal encoding of a value, such as `listpack` or `skiplist`. Replies with nil if the key does
    /// not exist.
    ///
    /// Redis documentation: [`OBJECT ENCODING`](https://redis.io/docs/latest/commands/object-encoding/).
    object_encoding(key: impl Arg) -> Option<String> = "OBJECT"("ENCODING", key), READ_ONLY, Keys::At(1);
}
