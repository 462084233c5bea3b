//! Sets.

use super::*;

commands! {
    /// Adds members; how many are new.
    sadd(key: impl Arg, members: impl ToArgs) -> u64 = "SADD"(key, members), IDEMPOTENT, Keys::First;
    /// How many members there are.
    scard(key: impl Arg) -> u64 = "SCARD"(key), READ_ONLY, Keys::First;
    /// The members of the first set that are in none of the others.
    sdiff<T>(keys: impl ToArgs) -> T = "SDIFF"(keys), READ_ONLY, Keys::All;
    /// Stores that difference; how many members it has.
    sdiff_store(to: impl Arg, keys: impl ToArgs) -> u64 = "SDIFFSTORE"(to, keys), NONE, Keys::All;
    /// The members that are in all the sets.
    sinter<T>(keys: impl ToArgs) -> T = "SINTER"(keys), READ_ONLY, Keys::All;
    /// Stores that intersection; how many members it has.
    sinter_store(to: impl Arg, keys: impl ToArgs) -> u64 = "SINTERSTORE"(to, keys), NONE, Keys::All;
    /// Whether this is a member.
    sismember(key: impl Arg, member: impl Arg) -> bool = "SISMEMBER"(key, member), READ_ONLY, Keys::First;
    /// All members, as a set or a list.
    smembers<T>(key: impl Arg) -> T = "SMEMBERS"(key), READ_ONLY, Keys::First;
    /// Whether each of these is a member.
    smismember(key: impl Arg, members: impl ToArgs) -> Vec<bool>
        = "SMISMEMBER"(key, members), READ_ONLY, Keys::First;
    /// Moves a member from one set to another; whether it was there.
    smove(from: impl Arg, to: impl Arg, member: impl Arg) -> bool
        = "SMOVE"(from, to, member), NONE, Keys::FirstTwo;
    /// Takes a member by chance; nil where there is none.
    spop<T>(key: impl Arg) -> T = "SPOP"(key), NONE, Keys::First;
    /// Takes up to so many members by chance.
    spop_count<T>(key: impl Arg, count: u64) -> Vec<T> = "SPOP"(key, count), NONE, Keys::First;
    /// So many different members by chance.
    srandmember<T>(key: impl Arg, count: u64) -> Vec<T> = "SRANDMEMBER"(key, count), READ_ONLY, Keys::First;
    /// Removes members; how many there were.
    srem(key: impl Arg, members: impl ToArgs) -> u64 = "SREM"(key, members), IDEMPOTENT, Keys::First;
    /// Some members, and where to go on; 0 is the start, and also the end.
    sscan<T>(key: impl Arg, cursor: u64, count: u64) -> (u64, Vec<T>)
        = "SSCAN"(key, cursor, "COUNT", count), READ_ONLY, Keys::First;
    /// The members that are in any of the sets.
    sunion<T>(keys: impl ToArgs) -> T = "SUNION"(keys), READ_ONLY, Keys::All;
    /// Stores that union; how many members it has.
    sunion_store(to: impl Arg, keys: impl ToArgs) -> u64 = "SUNIONSTORE"(to, keys), NONE, Keys::All;
}
