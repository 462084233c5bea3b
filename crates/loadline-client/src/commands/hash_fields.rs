//! Fields of hashes with a time to live of their own: Redis 7.4, and the last three 8.0.

use super::*;

commands! {
    /// Sets the time to live of fields. Replies for each field: -2 if it does not exist, 0 if a condition is not
    /// met, 1 if it was set, 2 if it was deleted since the time has passed.
    ///
    /// Redis documentation: [`HPEXPIRE`](https://redis.io/docs/latest/commands/hpexpire/).
    hexpire(key: impl Arg, ttl: Duration, fields: impl ToArgs) -> Vec<i64>
        = "HPEXPIRE"(key, millis(ttl)) + FieldExpiryOptions["FIELDS", counted(fields)];
    /// Sets the time at which fields expire, in milliseconds since 1970. Replies for each field: -2 if it does not
    /// exist, 0 if a condition is not met, 1 if it was set, 2 if it was deleted since the time has passed.
    ///
    /// Redis documentation: [`HPEXPIREAT`](https://redis.io/docs/latest/commands/hpexpireat/).
    hexpire_at(key: impl Arg, unix_ms: u64, fields: impl ToArgs) -> Vec<i64>
        = "HPEXPIREAT"(key, unix_ms) + FieldExpiryOptions["FIELDS", counted(fields)];
    /// Gets the times at which fields expire. Replies for each field: -2 if it does not exist, -1 if it has no time
    /// to live, and else the milliseconds since 1970.
    ///
    /// Redis documentation: [`HPEXPIRETIME`](https://redis.io/docs/latest/commands/hpexpiretime/).
    hexpire_time(key: impl Arg, fields: impl ToArgs) -> Vec<i64>
        = "HPEXPIRETIME"(key, "FIELDS", counted(fields));
    /// Removes the time to live of fields. Replies for each field: -2 if it does not exist, -1 if it has no time to
    /// live, and else 1.
    ///
    /// Redis documentation: [`HPERSIST`](https://redis.io/docs/latest/commands/hpersist/).
    hpersist(key: impl Arg, fields: impl ToArgs) -> Vec<i64>
        = "HPERSIST"(key, "FIELDS", counted(fields));
    /// Gets the remaining time to live of fields. Replies for each field: -2 if it does not exist, -1 if it has no
    /// time to live, and else milliseconds.
    ///
    /// Redis documentation: [`HPTTL`](https://redis.io/docs/latest/commands/hpttl/).
    hpttl(key: impl Arg, fields: impl ToArgs) -> Vec<i64>
        = "HPTTL"(key, "FIELDS", counted(fields));
    /// Gets the values of fields and deletes them. Replies with nil for each field that does not exist.
    ///
    /// Redis documentation: [`HGETDEL`](https://redis.io/docs/latest/commands/hgetdel/).
    hget_del<T>(key: impl Arg, fields: impl ToArgs) -> Vec<T>
        = "HGETDEL"(key, "FIELDS", counted(fields));
    /// Gets the values of fields, and sets their time to live by an option. Replies with nil for each field that
    /// does not exist.
    ///
    /// Redis documentation: [`HGETEX`](https://redis.io/docs/latest/commands/hgetex/).
    hget_ex<T>(key: impl Arg, fields: impl ToArgs) -> Vec<T>
        = "HGETEX"(key) + FieldGetOptions["FIELDS", counted(fields)];
    /// Sets fields, given as pairs, with a time to live by an option. Replies with whether they were set.
    ///
    /// Redis documentation: [`HSETEX`](https://redis.io/docs/latest/commands/hsetex/).
    hset_ex(key: impl Arg, pairs: impl ToArgs) -> bool
        = "HSETEX"(key) + FieldSetOptions["FIELDS", pairs_counted(pairs)];
}

options! {
    /// The conditions of [`hexpire`] and [`hexpire_at`].
    FieldExpiryOptions {
        /// Only fields without a time to live.
        nx() -> R = ("NX");
        /// Only fields with a time to live.
        xx() -> R = ("XX");
        /// Only fields whose time to live would become longer.
        gt() -> R = ("GT");
        /// Only fields whose time to live would become shorter.
        lt() -> R = ("LT");
    }
    /// The options of [`hget_ex`].
    FieldGetOptions {
        /// Sets the time to live of the fields.
        expire(ttl: Duration) -> R = ("PX", millis(ttl));
        /// Sets the time at which the fields expire, in milliseconds since 1970.
        expire_at(unix_ms: u64) -> R = ("PXAT", unix_ms);
        /// Removes the time to live of the fields.
        persist() -> R = ("PERSIST");
    }
    /// The options of [`hset_ex`].
    FieldSetOptions {
        /// Only if none of the fields exists.
        fnx() -> R = ("FNX");
        /// Only if all of the fields exist.
        fxx() -> R = ("FXX");
        /// Sets the time to live of the fields.
        expire(ttl: Duration) -> R = ("PX", millis(ttl));
        /// Sets the time at which the fields expire, in milliseconds since 1970.
        expire_at(unix_ms: u64) -> R = ("PXAT", unix_ms);
        /// Keeps the time to live that the fields have.
        keep_ttl() -> R = ("KEEPTTL");
    }
}

/// Fields and values with the number of fields before them.
fn pairs_counted<P: ToArgs>(pairs: P) -> (usize, P) {
    (pairs.count() / 2, pairs)
}
