//! Keys of any type: existence, expiry, names.

use super::*;

commands! {
    /// Deletes keys. Replies with the number of keys that existed.
    ///
    /// Redis documentation: [`DEL`](https://redis.io/docs/latest/commands/del/).
    del(keys: impl ToArgs) -> u64 = "DEL"(keys);
    /// Counts how many of the keys exist.
    ///
    /// Redis documentation: [`EXISTS`](https://redis.io/docs/latest/commands/exists/).
    exists(keys: impl ToArgs) -> u64 = "EXISTS"(keys);
    /// Removes the time to live of a key. Replies with whether it had one.
    ///
    /// Redis documentation: [`PERSIST`](https://redis.io/docs/latest/commands/persist/).
    persist(key: impl Arg) -> bool = "PERSIST"(key);
    /// Gets the time to live of a key in milliseconds. Replies with -1 if the key does not expire, and with -2 if
    /// it does not exist.
    ///
    /// Redis documentation: [`PTTL`](https://redis.io/docs/latest/commands/pttl/).
    pttl(key: impl Arg) -> i64 = "PTTL"(key);
    /// Gets a random key. Replies with nil if the database is empty.
    ///
    /// Redis documentation: [`RANDOMKEY`](https://redis.io/docs/latest/commands/randomkey/).
    random_key<T>() -> T = "RANDOMKEY"();
    /// Renames a key, and overwrites the new name if it exists. The reply is an error if the key does not exist.
    ///
    /// Redis documentation: [`RENAME`](https://redis.io/docs/latest/commands/rename/).
    rename(from: impl Arg, to: impl Arg) -> () = "RENAME"(from, to);
    /// Renames a key if the new name does not exist. Replies with whether it was renamed.
    ///
    /// Redis documentation: [`RENAMENX`](https://redis.io/docs/latest/commands/renamenx/).
    rename_nx(from: impl Arg, to: impl Arg) -> bool = "RENAMENX"(from, to);
    /// Marks keys as used. Replies with the number of keys that exist.
    ///
    /// Redis documentation: [`TOUCH`](https://redis.io/docs/latest/commands/touch/).
    touch(keys: impl ToArgs) -> u64 = "TOUCH"(keys);
    /// Gets the type of a value, such as `string` or `hash`. Replies with `none` if the key does not exist.
    ///
    /// Redis documentation: [`TYPE`](https://redis.io/docs/latest/commands/type/).
    key_type(key: impl Arg) -> String = "TYPE"(key);
    /// Deletes keys, and frees their memory in the background. Replies with the number of keys that existed.
    ///
    /// Redis documentation: [`UNLINK`](https://redis.io/docs/latest/commands/unlink/).
    unlink(keys: impl ToArgs) -> u64 = "UNLINK"(keys);
    /// Gets the internal encoding of a value, such as `listpack` or `skiplist`. Replies with nil if the key does
    /// not exist.
    ///
    /// Redis documentation: [`OBJECT ENCODING`](https://redis.io/docs/latest/commands/object-encoding/).
    object_encoding(key: impl Arg) -> Option<String> = "OBJECT"("ENCODING", key);
    /// Copies a value to another key. Replies with whether it was copied.
    ///
    /// Redis documentation: [`COPY`](https://redis.io/docs/latest/commands/copy/).
    copy(from: impl Arg, to: impl Arg) -> bool = "COPY"(from, to) + CopyOptions;
    /// Gets a value in the form that [`restore`] takes. Replies with nil if the key does not exist.
    ///
    /// Redis documentation: [`DUMP`](https://redis.io/docs/latest/commands/dump/).
    dump<T>(key: impl Arg) -> T = "DUMP"(key);
    /// Sets the time to live of a key. Replies with whether it was set; it is not if the key does not exist.
    ///
    /// Redis documentation: [`PEXPIRE`](https://redis.io/docs/latest/commands/pexpire/).
    expire(key: impl Arg, ttl: Duration) -> bool = "PEXPIRE"(key, millis(ttl)) + ExpireOptions;
    /// Sets the time at which a key expires, in milliseconds since 1970. Replies with whether it was set; it is not
    /// if the key does not exist.
    ///
    /// Redis documentation: [`PEXPIREAT`](https://redis.io/docs/latest/commands/pexpireat/).
    expire_at(key: impl Arg, unix_ms: u64) -> bool
        = "PEXPIREAT"(key, unix_ms) + ExpireOptions;
    /// Gets the time at which a key expires, in milliseconds since 1970. Replies with -1 if the key does not expire,
    /// and with -2 if it does not exist.
    ///
    /// Redis documentation: [`PEXPIRETIME`](https://redis.io/docs/latest/commands/pexpiretime/).
    expire_time(key: impl Arg) -> i64 = "PEXPIRETIME"(key);
    /// Gets all keys that match a pattern. It blocks the server while it looks at every key; [`Scan`](crate::Scan)
    /// does not.
    ///
    /// Redis documentation: [`KEYS`](https://redis.io/docs/latest/commands/keys/).
    keys<T>(pattern: impl Arg) -> Vec<T> = "KEYS"(pattern);
    /// Moves a key to another server, which needs it in `timeout`. Replies with `OK`, or with `NOKEY` if it does not
    /// exist.
    ///
    /// Redis documentation: [`MIGRATE`](https://redis.io/docs/latest/commands/migrate/).
    migrate(host: impl Arg, port: u16, key: impl Arg, database: u32, timeout: Duration) -> String
        = "MIGRATE"(host, port, key, database, millis(timeout)) + MigrateOptions;
    /// Moves a key to another database. Replies with whether it was moved; it is not if it does not exist or is there
    /// already.
    ///
    /// Redis documentation: [`MOVE`](https://redis.io/docs/latest/commands/move/).
    move_key(key: impl Arg, database: u32) -> bool = "MOVE"(key, database);
    /// Gets how often a value is used, as the server estimates it for the eviction policies by frequency.
    ///
    /// Redis documentation: [`OBJECT FREQ`](https://redis.io/docs/latest/commands/object-freq/).
    object_freq(key: impl Arg) -> Option<u64> = "OBJECT"("FREQ", key);
    /// Gets the time in seconds since a value was last used. Replies with nil if the key does not exist.
    ///
    /// Redis documentation: [`OBJECT IDLETIME`](https://redis.io/docs/latest/commands/object-idletime/).
    object_idle_time(key: impl Arg) -> Option<u64> = "OBJECT"("IDLETIME", key);
    /// Gets the number of references to a value. Replies with nil if the key does not exist.
    ///
    /// Redis documentation: [`OBJECT REFCOUNT`](https://redis.io/docs/latest/commands/object-refcount/).
    object_ref_count(key: impl Arg) -> Option<u64> = "OBJECT"("REFCOUNT", key);
    /// Creates a key from what [`dump`] replied, with a time to live in milliseconds; 0 is none. The reply is a
    /// `BUSYKEY` error if the key exists.
    ///
    /// Redis documentation: [`RESTORE`](https://redis.io/docs/latest/commands/restore/).
    restore(key: impl Arg, ttl_ms: u64, dumped: impl Arg) -> ()
        = "RESTORE"(key, ttl_ms, dumped) + RestoreOptions;
    /// Gets one page of the keys that match a pattern. Replies with the next cursor and the page. A scan starts at
    /// cursor 0, and is complete when the reply has cursor 0. [`Scan`](crate::Scan) also notices a restart of the
    /// server.
    ///
    /// Redis documentation: [`SCAN`](https://redis.io/docs/latest/commands/scan/).
    scan<T>(cursor: u64, pattern: impl Arg, count: u64) -> (u64, Vec<T>)
        = "SCAN"(cursor, "MATCH", pattern, "COUNT", count) + ScanOptions;
    /// Gets the elements of a list, set or sorted set in order. Elements must be numbers unless
    /// [`alpha`](Command::alpha) is set.
    ///
    /// Redis documentation: [`SORT`](https://redis.io/docs/latest/commands/sort/).
    sort<T>(key: impl Arg) -> Vec<T> = "SORT"(key) + SortOptions;
    /// As [`sort`], and cannot store the result, so it can run on a replica.
    ///
    /// Redis documentation: [`SORT_RO`](https://redis.io/docs/latest/commands/sort_ro/).
    sort_ro<T>(key: impl Arg) -> Vec<T> = "SORT_RO"(key) + SortReadOptions;
}

options! {
    /// The options of [`copy`].
    CopyOptions {
        /// Copies to this database.
        database(database: u32) -> R = ("DB", database);
        /// Overwrites the other key if it exists.
        replace() -> R = ("REPLACE");
    }
    /// The options of [`expire`] and [`expire_at`].
    ExpireOptions {
        /// Only if the key has no time to live.
        nx() -> R = ("NX"), NONE;
        /// Only if the key has a time to live.
        xx() -> R = ("XX");
        /// Only if the new time is later than the present one. A key without a time to live is left alone.
        gt() -> R = ("GT"), NONE;
        /// Only if the new time is earlier than the present one. A key without a time to live gets it.
        lt() -> R = ("LT"), NONE;
    }
    /// The options of [`migrate`].
    MigrateOptions {
        /// Leaves the key on this server.
        copy() -> R = ("COPY");
        /// Overwrites the key on the other server if it exists.
        replace() -> R = ("REPLACE");
        /// The password of the other server.
        auth(password: impl Arg) -> R = ("AUTH", password);
        /// A user of the other server, and the password.
        auth_as(user: impl Arg, password: impl Arg) -> R = ("AUTH2", user, password);
    }
    /// The options of [`restore`].
    RestoreOptions {
        /// Overwrites the key if it exists.
        replace() -> R = ("REPLACE");
        /// The time to live is the time at which the key expires, in milliseconds since 1970.
        absolute_ttl() -> R = ("ABSTTL");
        /// The time in seconds since the value was last used.
        idle_time(seconds: u64) -> R = ("IDLETIME", seconds);
        /// The count of the value's uses, as [`object_freq`] replies.
        frequency(frequency: u8) -> R = ("FREQ", u32::from(frequency));
    }
    /// The options of [`scan`].
    ScanOptions {
        /// Only keys whose values have this type, such as `"hash"`.
        of_type(name: impl Arg) -> R = ("TYPE", name);
    }
    /// The options of [`sort`].
    SortOptions {
        /// Sorts by the value of another key, in whose name the element replaces `*`; `"nosort"` keeps the order.
        by(pattern: impl Arg) -> R = ("BY", pattern);
        /// Leaves out `offset` elements, and takes up to `count`.
        limit(offset: i64, count: i64) -> R = ("LIMIT", offset, count);
        /// Replies with the value of another key, in whose name the element replaces `*`; `"#"` is the element itself. It
        /// can be used several times.
        get(pattern: impl Arg) -> R = ("GET", pattern);
        /// Sorts in ascending order, which is the default.
        asc() -> R = ("ASC");
        /// Sorts in descending order.
        desc() -> R = ("DESC");
        /// Sorts as text.
        alpha() -> R = ("ALPHA");
        /// Stores the result as a list. Replies with its length.
        store(to: impl Arg) -> u64 = ("STORE", to);
    }
    /// The options of [`sort_ro`].
    SortReadOptions {
        /// Sorts by the value of another key, in whose name the element replaces `*`; `"nosort"` keeps the order.
        by(pattern: impl Arg) -> R = ("BY", pattern);
        /// Leaves out `offset` elements, and takes up to `count`.
        limit(offset: i64, count: i64) -> R = ("LIMIT", offset, count);
        /// Replies with the value of another key, in whose name the element replaces `*`; `"#"` is the element itself. It
        /// can be used several times.
        get(pattern: impl Arg) -> R = ("GET", pattern);
        /// Sorts in ascending order, which is the default.
        asc() -> R = ("ASC");
        /// Sorts in descending order.
        desc() -> R = ("DESC");
        /// Sorts as text.
        alpha() -> R = ("ALPHA");
    }
}
