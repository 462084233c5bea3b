//! Strings, numbers and bits.

use super::*;

commands! {
    /// Appends to the value; the new length in bytes.
    append(key: impl Arg, value: impl Arg) -> u64 = "APPEND"(key, value), NONE, Keys::First;
    /// Counts down by one.
    decr(key: impl Arg) -> i64 = "DECR"(key), NONE, Keys::First;
    /// Counts down.
    decr_by(key: impl Arg, by: i64) -> i64 = "DECRBY"(key, by), NONE, Keys::First;
    /// The value; nil where there is none.
    get<T>(key: impl Arg) -> T = "GET"(key), READ_ONLY, Keys::First;
    /// The value, which is then deleted.
    get_del<T>(key: impl Arg) -> T = "GETDEL"(key), NONE, Keys::First;
    /// The value, which from now on lives for so long.
    get_ex<T>(key: impl Arg, ttl: Duration) -> T = "GETEX"(key, "PX", millis(ttl)), NONE, Keys::First;
    /// A part of the value, by its first and last byte; negative ones count from the end.
    get_range<T>(key: impl Arg, from: i64, to: i64) -> T = "GETRANGE"(key, from, to), READ_ONLY, Keys::First;
    /// Counts up by one.
    incr(key: impl Arg) -> i64 = "INCR"(key), NONE, Keys::First;
    /// Counts up.
    incr_by(key: impl Arg, by: i64) -> i64 = "INCRBY"(key, by), NONE, Keys::First;
    /// Adds to a number with a fraction.
    incr_by_float(key: impl Arg, by: f64) -> f64 = "INCRBYFLOAT"(key, by), NONE, Keys::First;
    /// The values of several keys, nil for those without one.
    mget<T>(keys: impl ToArgs) -> Vec<T> = "MGET"(keys), READ_ONLY, Keys::All;
    /// Sets several keys, given as pairs or a map.
    mset(pairs: impl ToArgs) -> () = "MSET"(pairs), IDEMPOTENT, Keys::Alternating;
    /// Sets several keys if none of them exists; whether it did.
    mset_nx(pairs: impl ToArgs) -> bool = "MSETNX"(pairs), NONE, Keys::Alternating;
    /// Sets the value, without a time to live.
    set(key: impl Arg, value: impl Arg) -> () = "SET"(key, value), IDEMPOTENT, Keys::First;
    /// Sets the value, which lives for so long.
    set_ex(key: impl Arg, value: impl Arg, ttl: Duration) -> ()
        = "SET"(key, value, "PX", millis(ttl)), IDEMPOTENT, Keys::First;
    /// Sets the value if the key does not exist; nil where it does.
    set_nx(key: impl Arg, value: impl Arg) -> Option<()> = "SET"(key, value, "NX"), NONE, Keys::First;
    /// Sets the value, which lives for so long, if the key does not exist; nil where it does. A lock.
    set_nx_ex(key: impl Arg, value: impl Arg, ttl: Duration) -> Option<()>
        = "SET"(key, value, "NX", "PX", millis(ttl)), NONE, Keys::First;
    /// Sets the value if the key exists; nil where it does not.
    set_xx(key: impl Arg, value: impl Arg) -> Option<()> = "SET"(key, value, "XX"), IDEMPOTENT, Keys::First;
    /// Sets the value; the one before, or nil.
    set_get<T>(key: impl Arg, value: impl Arg) -> T = "SET"(key, value, "GET"), NONE, Keys::First;
    /// Overwrites a part of the value from this byte on; the new length in bytes.
    set_range(key: impl Arg, offset: u64, value: impl Arg) -> u64
        = "SETRANGE"(key, offset, value), IDEMPOTENT, Keys::First;
    /// The length of the value in bytes, 0 where there is none.
    strlen(key: impl Arg) -> u64 = "STRLEN"(key), READ_ONLY, Keys::First;
    /// One bit of the value.
    get_bit(key: impl Arg, offset: u64) -> bool = "GETBIT"(key, offset), READ_ONLY, Keys::First;
    /// Sets one bit of the value; the bit before.
    set_bit(key: impl Arg, offset: u64, bit: bool) -> bool
        = "SETBIT"(key, offset, u32::from(bit)), NONE, Keys::First;
    /// How many bits of the value are set.
    bit_count(key: impl Arg) -> u64 = "BITCOUNT"(key), READ_ONLY, Keys::First;
}
