//! Sorted sets: members in the order of their scores.
//!
//! A score precedes its member in arguments, as in Redis: `zadd("board", [(1.5, "ann")])`. A bound of scores
//! is a number, `"(1.5"` to exclude the number itself, `"-inf"` or `"+inf"`.

use super::*;

words! {
    /// The function that combines the scores of a member of several sorted sets.
    Aggregate {
        /// They are added.
        Sum = "SUM",
        /// The lowest.
        Min = "MIN",
        /// The highest.
        Max = "MAX",
    }

    /// An end of the order of scores.
    Extreme {
        /// The lowest score.
        Min = "MIN",
        /// The highest score.
        Max = "MAX",
    }
}

commands! {
    /// Counts the members of a sorted set. Replies with 0 if the key does not exist.
    ///
    /// Redis documentation: [`ZCARD`](https://redis.io/docs/latest/commands/zcard/).
    zcard(key: impl Arg) -> u64 = "ZCARD"(key);
    /// Counts the members with a score between two bounds.
    ///
    /// Redis documentation: [`ZCOUNT`](https://redis.io/docs/latest/commands/zcount/).
    zcount(key: impl Arg, from: impl Arg, to: impl Arg) -> u64 = "ZCOUNT"(key, from, to);
    /// Adds to the score of a member. Replies with the new score.
    ///
    /// Redis documentation: [`ZINCRBY`](https://redis.io/docs/latest/commands/zincrby/).
    zincr_by(key: impl Arg, by: f64, member: impl Arg) -> f64 = "ZINCRBY"(key, by, member);
    /// Gets the scores of several members. Replies with nil for each value that is not a member.
    ///
    /// Redis documentation: [`ZMSCORE`](https://redis.io/docs/latest/commands/zmscore/).
    zmscore(key: impl Arg, members: impl ToArgs) -> Vec<Option<f64>>
        = "ZMSCORE"(key, members);
    /// Removes up to `count` members with the highest scores. Replies with the members and their scores.
    ///
    /// Redis documentation: [`ZPOPMAX`](https://redis.io/docs/latest/commands/zpopmax/).
    zpop_max<T>(key: impl Arg, count: u64) -> Vec<(T, f64)> = "ZPOPMAX"(key, count);
    /// Removes up to `count` members with the lowest scores. Replies with the members and their scores.
    ///
    /// Redis documentation: [`ZPOPMIN`](https://redis.io/docs/latest/commands/zpopmin/).
    zpop_min<T>(key: impl Arg, count: u64) -> Vec<(T, f64)> = "ZPOPMIN"(key, count);
    /// Gets the members from one rank to another with their scores, including both ranks, in ascending order of
    /// scores.
    ///
    /// Redis documentation: [`ZRANGE`](https://redis.io/docs/latest/commands/zrange/).
    zrange_with_scores<T>(key: impl Arg, from: i64, to: i64) -> Vec<(T, f64)>
        = "ZRANGE"(key, from, to, "WITHSCORES");
    /// Gets the members from one rank to another, including both, in descending order of scores.
    ///
    /// Redis documentation: [`ZRANGE`](https://redis.io/docs/latest/commands/zrange/).
    zrevrange<T>(key: impl Arg, from: i64, to: i64) -> Vec<T>
        = "ZRANGE"(key, from, to, "REV");
    /// Gets the rank of a member in ascending order of scores, starting at 0. Replies with nil if it is not a
    /// member.
    ///
    /// Redis documentation: [`ZRANK`](https://redis.io/docs/latest/commands/zrank/).
    zrank(key: impl Arg, member: impl Arg) -> Option<u64> = "ZRANK"(key, member);
    /// Gets the rank of a member in descending order of scores, starting at 0. Replies with nil if it is not a
    /// member.
    ///
    /// Redis documentation: [`ZREVRANK`](https://redis.io/docs/latest/commands/zrevrank/).
    zrevrank(key: impl Arg, member: impl Arg) -> Option<u64> = "ZREVRANK"(key, member);
    /// Removes members of a sorted set. Replies with the number of members that existed.
    ///
    /// Redis documentation: [`ZREM`](https://redis.io/docs/latest/commands/zrem/).
    zrem(key: impl Arg, members: impl ToArgs) -> u64 = "ZREM"(key, members);
    /// Removes the members from one rank to another, including both. Replies with the number of removed members.
    ///
    /// Redis documentation: [`ZREMRANGEBYRANK`](https://redis.io/docs/latest/commands/zremrangebyrank/).
    zrem_range_by_rank(key: impl Arg, from: i64, to: i64) -> u64
        = "ZREMRANGEBYRANK"(key, from, to);
    /// Removes the members with a score between two bounds. Replies with the number of removed members.
    ///
    /// Redis documentation: [`ZREMRANGEBYSCORE`](https://redis.io/docs/latest/commands/zremrangebyscore/).
    zrem_range_by_score(key: impl Arg, from: impl Arg, to: impl Arg) -> u64
        = "ZREMRANGEBYSCORE"(key, from, to);
    /// Gets the score of a member. Replies with nil if it is not a member.
    ///
    /// Redis documentation: [`ZSCORE`](https://redis.io/docs/latest/commands/zscore/).
    zscore(key: impl Arg, member: impl Arg) -> Option<f64> = "ZSCORE"(key, member);
    /// Removes members as [`zmpop`] does, and waits for one up to `timeout` (`Duration::MAX` is no limit). Replies
    /// with nil after the timeout. Needs a dedicated connection.
    ///
    /// Redis documentation: [`BZMPOP`](https://redis.io/docs/latest/commands/bzmpop/).
    bzmpop<T>(keys: impl ToArgs, order: Extreme, timeout: Duration) -> Option<(String, Vec<(T, f64)>)>
        = "BZMPOP"(block_seconds(timeout), counted(keys), order.word()) + PopOptions, waiting(timeout);
    /// Removes the member with the highest score of the first sorted set that is not empty, and waits for one up to
    /// `timeout` (`Duration::MAX` is no limit). Replies with the key, the member and its score, or with nil after the
    /// timeout. Needs a dedicated connection.
    ///
    /// Redis documentation: [`BZPOPMAX`](https://redis.io/docs/latest/commands/bzpopmax/).
    bzpop_max<T>(keys: impl ToArgs, timeout: Duration) -> Option<(String, T, f64)>
        = "BZPOPMAX"(keys, block_seconds(timeout)), waiting(timeout);
    /// Removes the member with the lowest score; otherwise the same as [`bzpop_max`].
    ///
    /// Redis documentation: [`BZPOPMIN`](https://redis.io/docs/latest/commands/bzpopmin/).
    bzpop_min<T>(keys: impl ToArgs, timeout: Duration) -> Option<(String, T, f64)>
        = "BZPOPMIN"(keys, block_seconds(timeout)), waiting(timeout);
    /// Adds members with their scores to a sorted set, or changes the scores of existing members. Replies with the
    /// number of new members.
    ///
    /// Redis documentation: [`ZADD`](https://redis.io/docs/latest/commands/zadd/).
    zadd(key: impl Arg, scores: impl ToArgs) -> u64 = "ZADD"(key) + ZaddOptions[scores];
    /// Gets the members of the first sorted set that are in none of the others.
    ///
    /// Redis documentation: [`ZDIFF`](https://redis.io/docs/latest/commands/zdiff/).
    zdiff<T>(keys: impl ToArgs) -> Vec<T> = "ZDIFF"(counted(keys)) + ScoresOptions;
    /// Stores the difference of sorted sets at a key. Replies with the number of its members.
    ///
    /// Redis documentation: [`ZDIFFSTORE`](https://redis.io/docs/latest/commands/zdiffstore/).
    zdiff_store(to: impl Arg, keys: impl ToArgs) -> u64 = "ZDIFFSTORE"(to, counted(keys));
    /// Gets the members that are in all of the sorted sets.
    ///
    /// Redis documentation: [`ZINTER`](https://redis.io/docs/latest/commands/zinter/).
    zinter<T>(keys: impl ToArgs) -> Vec<T> = "ZINTER"(counted(keys)) + AggregateOptions;
    /// Counts the members that are in all of the sorted sets.
    ///
    /// Redis documentation: [`ZINTERCARD`](https://redis.io/docs/latest/commands/zintercard/).
    zinter_card(keys: impl ToArgs) -> u64
        = "ZINTERCARD"(counted(keys)) + CardinalityOptions;
    /// Stores the intersection of sorted sets at a key. Replies with the number of its members.
    ///
    /// Redis documentation: [`ZINTERSTORE`](https://redis.io/docs/latest/commands/zinterstore/).
    zinter_store(to: impl Arg, keys: impl ToArgs) -> u64
        = "ZINTERSTORE"(to, counted(keys)) + AggregateStoreOptions;
    /// Counts the members between two bounds in alphabetical order: `"[a"` includes the bound, `"(a"` excludes it,
    /// `"-"` and `"+"` are the ends.
    ///
    /// Redis documentation: [`ZLEXCOUNT`](https://redis.io/docs/latest/commands/zlexcount/).
    zlex_count(key: impl Arg, from: impl Arg, to: impl Arg) -> u64
        = "ZLEXCOUNT"(key, from, to);
    /// Removes a member with the lowest or highest score of the first sorted set that is not empty. Replies with the
    /// key and the members with their scores, or with nil if all are empty.
    ///
    /// Redis documentation: [`ZMPOP`](https://redis.io/docs/latest/commands/zmpop/).
    zmpop<T>(keys: impl ToArgs, order: Extreme) -> Option<(String, Vec<(T, f64)>)>
        = "ZMPOP"(counted(keys), order.word()) + PopOptions;
    /// Gets up to `count` different random members of a sorted set.
    ///
    /// Redis documentation: [`ZRANDMEMBER`](https://redis.io/docs/latest/commands/zrandmember/).
    zrandmember<T>(key: impl Arg, count: u64) -> Vec<T>
        = "ZRANDMEMBER"(key, count) + ScoresOptions;
    /// Gets the members from one rank to another, including both, in ascending order of scores. Negative ranks count
    /// from the highest score. With [`by_score`](Command::by_score) or [`by_lex`](Command::by_lex) the bounds are
    /// scores or members.
    ///
    /// Redis documentation: [`ZRANGE`](https://redis.io/docs/latest/commands/zrange/).
    zrange<T>(key: impl Arg, from: impl Arg, to: impl Arg) -> Vec<T>
        = "ZRANGE"(key, from, to) + RangeOptions;
    /// Gets the members with a score between two bounds, in ascending order of scores.
    ///
    /// Redis documentation: [`ZRANGE`](https://redis.io/docs/latest/commands/zrange/).
    zrange_by_score<T>(key: impl Arg, from: impl Arg, to: impl Arg) -> Vec<T>
        = "ZRANGE"(key, from, to, "BYSCORE") + RangeOptions;
    /// Stores a range of members, as [`zrange`] gets it, at a key. Replies with the number of its members.
    ///
    /// Redis documentation: [`ZRANGESTORE`](https://redis.io/docs/latest/commands/zrangestore/).
    zrange_store(to: impl Arg, source: impl Arg, from: impl Arg, last: impl Arg) -> u64
        = "ZRANGESTORE"(to, source, from, last) + RangeStoreOptions;
    /// Removes the members between two bounds in alphabetical order; see [`zlex_count`]. Replies with the number of
    /// removed members.
    ///
    /// Redis documentation: [`ZREMRANGEBYLEX`](https://redis.io/docs/latest/commands/zremrangebylex/).
    zrem_range_by_lex(key: impl Arg, from: impl Arg, to: impl Arg) -> u64
        = "ZREMRANGEBYLEX"(key, from, to);
    /// Gets one page of the members of a sorted set with their scores. Replies with the next cursor and the page. A
    /// scan starts at cursor 0, and is complete when the reply has cursor 0.
    ///
    /// Redis documentation: [`ZSCAN`](https://redis.io/docs/latest/commands/zscan/).
    zscan<T>(key: impl Arg, cursor: u64, count: u64) -> (u64, Vec<(T, f64)>)
        = "ZSCAN"(key, cursor, "COUNT", count) + ElementScanOptions;
    /// Gets the members that are in any of the sorted sets.
    ///
    /// Redis documentation: [`ZUNION`](https://redis.io/docs/latest/commands/zunion/).
    zunion<T>(keys: impl ToArgs) -> Vec<T> = "ZUNION"(counted(keys)) + AggregateOptions;
    /// Stores the union of sorted sets at a key. Replies with the number of its members.
    ///
    /// Redis documentation: [`ZUNIONSTORE`](https://redis.io/docs/latest/commands/zunionstore/).
    zunion_store(to: impl Arg, keys: impl ToArgs) -> u64
        = "ZUNIONSTORE"(to, counted(keys)) + AggregateStoreOptions;
}

options! {
    /// The options of [`zadd`].
    ZaddOptions {
        /// Adds new members only.
        nx() -> R = ("NX"), NONE;
        /// Changes the scores of existing members only.
        xx() -> R = ("XX");
        /// Changes the score of an existing member only if the new one is higher. New members are added.
        gt() -> R = ("GT"), NONE;
        /// Changes the score of an existing member only if the new one is lower. New members are added.
        lt() -> R = ("LT"), NONE;
        /// Counts the members whose score changed too.
        ch() -> R = ("CH");
        /// Adds to the score of the one member that is given. Replies with the new score, or with nil if another option
        /// prevented it.
        incr() -> Option<f64> = ("INCR"), NONE;
    }
    /// The options of [`zrange`] and [`zrange_by_score`].
    RangeOptions {
        /// The bounds are scores: a number, `"(1.5"` to exclude the number itself, `"-inf"` or `"+inf"`. With
        /// [`rev`](Command::rev) the higher bound comes first.
        by_score() -> R = ("BYSCORE");
        /// The bounds are members in alphabetical order: `"[a"` includes the bound, `"(a"` excludes it, `"-"` and `"+"`
        /// are the ends. With [`rev`](Command::rev) the higher bound comes first.
        by_lex() -> R = ("BYLEX");
        /// In descending order.
        rev() -> R = ("REV");
        /// Leaves out `offset` members, and takes up to `count`; -1 is all. Needs bounds of scores or members.
        limit(offset: i64, count: i64) -> R = ("LIMIT", offset, count);
        /// Adds the scores to the reply.
        with_scores() -> R::WithScores where Scored = ("WITHSCORES");
    }
    /// The options of [`zrange_store`].
    RangeStoreOptions {
        /// The bounds are scores: a number, `"(1.5"` to exclude the number itself, `"-inf"` or `"+inf"`. With
        /// [`rev`](Command::rev) the higher bound comes first.
        by_score() -> R = ("BYSCORE");
        /// The bounds are members in alphabetical order: `"[a"` includes the bound, `"(a"` excludes it, `"-"` and `"+"`
        /// are the ends. With [`rev`](Command::rev) the higher bound comes first.
        by_lex() -> R = ("BYLEX");
        /// In descending order.
        rev() -> R = ("REV");
        /// Leaves out `offset` members, and takes up to `count`; -1 is all. Needs bounds of scores or members.
        limit(offset: i64, count: i64) -> R = ("LIMIT", offset, count);
    }
    /// The options of [`zinter`] and [`zunion`].
    AggregateOptions {
        /// Multiplies the scores of each set by a number, given for each key.
        weights(weights: impl ToArgs) -> R = ("WEIGHTS", weights);
        /// Sets how the scores of a member become one. Without it they are added.
        aggregate(aggregate: Aggregate) -> R = ("AGGREGATE", aggregate.word());
        /// Adds the scores to the reply.
        with_scores() -> R::WithScores where Scored = ("WITHSCORES");
    }
    /// The options of [`zinter_store`] and [`zunion_store`].
    AggregateStoreOptions {
        /// Multiplies the scores of each set by a number, given for each key.
        weights(weights: impl ToArgs) -> R = ("WEIGHTS", weights);
        /// Sets how the scores of a member become one. Without it they are added.
        aggregate(aggregate: Aggregate) -> R = ("AGGREGATE", aggregate.word());
    }
    /// The options of [`zdiff`] and [`zrandmember`].
    ScoresOptions {
        /// Adds the scores to the reply.
        with_scores() -> R::WithScores where Scored = ("WITHSCORES");
    }
}
