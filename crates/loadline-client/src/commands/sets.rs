//! Sets.

use super::*;

commands! {
    /// Adds members to a set. Replies with the number of new members.
    ///
    /// Redis documentation: [`SADD`](https://redis.io/docs/latest/commands/sadd/).
    sadd(key: impl Arg, members: impl ToArgs) -> u64 = "SADD"(key, members);
    /// Counts the members of a set. Replies with 0 if the key does not exist.
    ///
    /// Redis documentation: [`SCARD`](https://redis.io/docs/latest/commands/scard/).
    scard(key: impl Arg) -> u64 = "SCARD"(key);
    /// Gets the members of the first set that are in none of the others.
    ///
    /// Redis documentation: [`SDIFF`](https://redis.io/docs/latest/commands/sdiff/).
    sdiff<T>(keys: impl ToArgs) -> T = "SDIFF"(keys);
    /// Stores the difference of sets at a key. Replies with the number of its members.
    ///
    /// Redis documentation: [`SDIFFSTORE`](https://redis.io/docs/latest/commands/sdiffstore/).
    sdiff_store(to: impl Arg, keys: impl ToArgs) -> u64 = "SDIFFSTORE"(to, keys);
    /// Gets the members that are in all of the sets.
    ///
    /// Redis documentation: [`SINTER`](https://redis.io/docs/latest/commands/sinter/).
    sinter<T>(keys: impl ToArgs) -> T = "SINTER"(keys);
    /// Stores the intersection of sets at a key. Replies with the number of its members.
    ///
    /// Redis documentation: [`SINTERSTORE`](https://redis.io/docs/latest/commands/sinterstore/).
    sinter_store(to: impl Arg, keys: impl ToArgs) -> u64 = "SINTERSTORE"(to, keys);
    /// Checks whether a value is a member of a set.
    ///
    /// Redis documentation: [`SISMEMBER`](https://redis.io/docs/latest/commands/sismember/).
    sismember(key: impl Arg, member: impl Arg) -> bool = "SISMEMBER"(key, member);
    /// Gets all members of a set, as a set or a list.
    ///
    /// Redis documentation: [`SMEMBERS`](https://redis.io/docs/latest/commands/smembers/).
    smembers<T>(key: impl Arg) -> T = "SMEMBERS"(key);
    /// Checks which values are members of a set. Replies with a value for each.
    ///
    /// Redis documentation: [`SMISMEMBER`](https://redis.io/docs/latest/commands/smismember/).
    smismember(key: impl Arg, members: impl ToArgs) -> Vec<bool>
        = "SMISMEMBER"(key, members);
    /// Moves a member from one set to another. Replies with whether it was a member of the first.
    ///
    /// Redis documentation: [`SMOVE`](https://redis.io/docs/latest/commands/smove/).
    smove(from: impl Arg, to: impl Arg, member: impl Arg) -> bool
        = "SMOVE"(from, to, member);
    /// Removes a random member of a set. Replies with the member, or with nil if the key does not exist.
    ///
    /// Redis documentation: [`SPOP`](https://redis.io/docs/latest/commands/spop/).
    spop<T>(key: impl Arg) -> T = "SPOP"(key);
    /// Removes up to `count` random members of a set. Replies with the members.
    ///
    /// Redis documentation: [`SPOP`](https://redis.io/docs/latest/commands/spop/).
    spop_count<T>(key: impl Arg, count: u64) -> Vec<T> = "SPOP"(key, count);
    /// Gets up to `count` different random members of a set.
    ///
    /// Redis documentation: [`SRANDMEMBER`](https://redis.io/docs/latest/commands/srandmember/).
    srandmember<T>(key: impl Arg, count: u64) -> Vec<T> = "SRANDMEMBER"(key, count);
    /// Removes members of a set. Replies with the number of members that existed.
    ///
    /// Redis documentation: [`SREM`](https://redis.io/docs/latest/commands/srem/).
    srem(key: impl Arg, members: impl ToArgs) -> u64 = "SREM"(key, members);
    /// Gets the members that are in any of the sets.
    ///
    /// Redis documentation: [`SUNION`](https://redis.io/docs/latest/commands/sunion/).
    sunion<T>(keys: impl ToArgs) -> T = "SUNION"(keys);
    /// Stores the union of sets at a key. Replies with the number of its members.
    ///
    /// Redis documentation: [`SUNIONSTORE`](https://redis.io/docs/latest/commands/sunionstore/).
    sunion_store(to: impl Arg, keys: impl ToArgs) -> u64 = "SUNIONSTORE"(to, keys);
    /// Counts the members that are in all of the sets.
    ///
    /// Redis documentation: [`SINTERCARD`](https://redis.io/docs/latest/commands/sintercard/).
    sinter_card(keys: impl ToArgs) -> u64
        = "SINTERCARD"(counted(keys)) + CardinalityOptions;
    /// Gets one page of the members of a set. Replies with the next cursor and the page. A scan starts at cursor 0,
    /// and is complete when the reply has cursor 0.
    ///
    /// Redis documentation: [`SSCAN`](https://redis.io/docs/latest/commands/sscan/).
    sscan<T>(key: impl Arg, cursor: u64, count: u64) -> (u64, Vec<T>)
        = "SSCAN"(key, cursor, "COUNT", count) + ElementScanOptions;
}

options! {
    /// The options of [`sinter_card`] and [`zinter_card`].
    CardinalityOptions {
        /// Stops counting at this number; 0 is no limit.
        limit(limit: u64) -> R = ("LIMIT", limit);
    }
}
