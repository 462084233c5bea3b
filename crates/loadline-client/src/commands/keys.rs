//! Keys of any type: existence, expiry, names.

use super::*;

commands! {
    /// Copies a value to another key; whether it did.
    copy(from: impl Arg, to: impl Arg) -> bool = "COPY"(from, to), NONE, Keys::FirstTwo;
    /// Deletes keys; how many there were.
    del(keys: impl ToArgs) -> u64 = "DEL"(keys), IDEMPOTENT, Keys::All;
    /// How many of the keys exist.
    exists(keys: impl ToArgs) -> u64 = "EXISTS"(keys), READ_ONLY, Keys::All;
    /// Lets a key live for so long; whether it exists.
    expire(key: impl Arg, ttl: Duration) -> bool = "PEXPIRE"(key, millis(ttl)), NONE, Keys::First;
    /// Lets a key live until this time, in milliseconds since 1970; whether it exists.
    expire_at(key: impl Arg, unix_ms: u64) -> bool = "PEXPIREAT"(key, unix_ms), IDEMPOTENT, Keys::First;
    /// Lets a key live for ever; whether it had a time to live.
    persist(key: impl Arg) -> bool = "PERSIST"(key), IDEMPOTENT, Keys::First;
    /// The time to live in milliseconds; -1 is without end, -2 no such key.
    pttl(key: impl Arg) -> i64 = "PTTL"(key), READ_ONLY, Keys::First;
    /// A key by chance; nil where there is none.
    random_key<T>() -> T = "RANDOMKEY"(), READ_ONLY, Keys::None;
    /// Renames a key, over another one if need be.
    rename(from: impl Arg, to: impl Arg) -> () = "RENAME"(from, to), NONE, Keys::FirstTwo;
    /// Renames a key if the new name is free; whether it did.
    rename_nx(from: impl Arg, to: impl Arg) -> bool = "RENAMENX"(from, to), NONE, Keys::FirstTwo;
    /// Some keys that match the pattern, and where to go on; 0 is the start, and also the end.
    scan<T>(cursor: u64, pattern: impl Arg, count: u64) -> (u64, Vec<T>)
        = "SCAN"(cursor, "MATCH", pattern, "COUNT", count), READ_ONLY, Keys::None;
    /// Marks keys as used; how many exist.
    touch(keys: impl ToArgs) -> u64 = "TOUCH"(keys), READ_ONLY, Keys::All;
    /// The type of a value: `string`, `hash`, `none` where there is no such key.
    key_type(key: impl Arg) -> String = "TYPE"(key), READ_ONLY, Keys::First;
    /// Deletes keys, and frees their memory later; how many there were.
    unlink(keys: impl ToArgs) -> u64 = "UNLINK"(keys), IDEMPOTENT, Keys::All;
    /// How the server holds a value: `listpack`, `skiplist`; nil where there is no such key.
    object_encoding(key: impl Arg) -> Option<String> = "OBJECT"("ENCODING", key), READ_ONLY, Keys::At(1);
}
