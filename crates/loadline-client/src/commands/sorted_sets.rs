//! Sorted sets: members in the order of their scores.
//!
//! A score stands before its member in arguments, as in Redis: `zadd("board", [(1.5, "ann")])`. A bound of scores
//! is a number, `"(1.5"` to exclude the number itself, `"-inf"` or `"+inf"`.

use super::*;

commands! {
    /// Adds members with their scores to a sorted set, or changes the scores of existing members. Replies with the
    /// number of new members.
    ///
    /// Redis documentation: [`ZADD`](https://redis.io/docs/latest/commands/zadd/).
    zadd(key: impl Arg, scores: impl ToArgs) -> u64 = "ZADD"(key, scores), IDEMPOTENT, Keys::First;
    /// Counts the members of a sorted set. Replies with 0 if the key does not exist.
    ///
    /// Redis documentation: [`ZCARD`](https://redis.io/docs/latest/commands/zcard/).
    zcard(key: impl Arg) -> u64 = "ZCARD"(key), READ_ONLY, Keys::First;
    /// Counts the members with a score between two bounds.
    ///
    /// Redis documentation: [`ZCOUNT`](https://redis.io/docs/latest/commands/zcount/).
    zcount(key: impl Arg, from: impl Arg, to: impl Arg) -> u64 = "ZCOUNT"(key, from, to), READ_ONLY, Keys::First;
    /// Adds to the score of a member. Replies with the new score.
    ///
    /// Redis documentation: [`ZINCRBY`](https://redis.io/docs/latest/commands/zincrby/).
    zincr_by(key: impl Arg, by: f64, member: impl Arg) -> f64 = "ZINCRBY"(key, by, member), NONE, Keys::First;
    /// Gets the scores of several members. Replies with nil for each value that is not a member.
    ///
    /// Redis documentation: [`ZMSCORE`](https://redis.io/docs/latest/commands/zmscore/).
    zmscore(key: impl Arg, members: impl ToArgs) -> Vec<Option<f64>>
        = "ZMSCORE"(key, members), READ_ONLY, Keys::First;
    /// Removes up to `count` members with the highest scores. Replies with the members and their scores.
    ///
    /// Redis documentation: [`ZPOPMAX`](https://redis.io/docs/latest/commands/zpopmax/).
    zpop_max<T>(key: impl Arg, count: u64) -> Vec<(T, f64)> = "ZPOPMAX"(key, count), NONE, Keys::First;
    /// Removes up to `count` members with the lowest scores. Replies with the members and their scores.
    ///
    /// Redis documentation: [`ZPOPMIN`](https://redis.io/docs/latest/commands/zpopmin/).
    zpop_min<T>(key: impl Arg, count: u64) -> Vec<(T, f64)> = "ZPOPMIN"(key, count), NONE, Keys::First;
    /// Gets the members from one rank to another, including both, in ascending order of scores. Negative ranks
    /// count from the highest score.
    ///
    /// Redis documentation: [`ZRANGE`](https://redis.io/docs/latest/commands/zrange/).
    zrange<T>(key: impl Arg, from: i64, to: i64) -> Vec<T> = "ZRANGE"(key, from, to), READ_ONLY, Keys::First;
    /// Gets the members from one rank to another with their scores, including both ranks, in ascending order of
    /// scores.
    ///
    /// Redis documentation: [`ZRANGE`](https://redis.io/docs/latest/commands/zrange/).
    zrange_with_scores<T>(key: impl Arg, from: i64, to: i64) -> Vec<(T, f64)>
        = "ZRANGE"(key, from, to, "WITHSCORES"), READ_ONLY, Keys::First;
    /// Gets the members with a score between two bounds, in ascending order of scores.
    ///
    /// Redis documentation: [`ZRANGE`](https://redis.io/docs/latest/commands/zrange/).
    zrange_by_score<T>(key: impl Arg, from: impl Arg, to: impl Arg) -> Vec<T>
        = "ZRANGE"(key, from, to, "BYSCORE"), READ_ONLY, Keys::First;
    /// Gets the members from one rank to another, including both, in descending order of scores.
    ///
    /// Redis documentation: [`ZRANGE`](https://redis.io/docs/latest/commands/zrange/).
    zrevrange<T>(key: impl Arg, from: i64, to: i64) -> Vec<T>
        = "ZRANGE"(key, from, to, "REV"), READ_ONLY, Keys::First;
    /// Gets the rank of a member in ascending order of scores, starting at 0. Replies with nil if it is not a
    /// member.
    ///
    /// Redis documentation: [`ZRANK`](https://redis.io/docs/latest/commands/zrank/).
    zrank(key: impl Arg, member: impl Arg) -> Option<u64> = "ZRANK"(key, member), READ_ONLY, Keys::First;
    /// Gets the rank of a member in descending order of scores, starting at 0. Replies with nil if it is not a
    /// member.
    ///
    /// Redis documentation: [`ZREVRANK`](https://redis.io/docs/latest/commands/zrevrank/).
    zrevrank(key: impl Arg, member: impl Arg) -> Option<u64> = "ZREVRANK"(key, member), READ_ONLY, Keys::First;
    /// Removes members of a sorted set. Replies with the number of members that existed.
    ///
    /// Redis documentation: [`ZREM`](https://redis.io/docs/latest/commands/zrem/).
    zrem(key: impl Arg, members: impl ToArgs) -> u64 = "ZREM"(key, members), IDEMPOTENT, Keys::First;
    /// Removes the members from one rank to another, including both. Replies with the number of removed members.
    ///
    /// Redis documentation: [`ZREMRANGEBYRANK`](https://redis.io/docs/latest/commands/zremrangebyrank/).
    zrem_range_by_rank(key: impl Arg, from: i64, to: i64) -> u64
        = "ZREMRANGEBYRANK"(key, from, to), NONE, Keys::First;
    /// Removes the members with a score between two bounds. Replies with the number of removed members.
    ///
    /// Redis documentation: [`ZREMRANGEBYSCORE`](https://redis.io/docs/latest/commands/zremrangebyscore/).
    zrem_range_by_score(key: impl Arg, from: impl Arg, to: impl Arg) -> u64
        = "ZREMRANGEBYSCORE"(key, from, to), IDEMPOTENT, Keys::First;
    /// Gets the score of a member. Replies with nil if it is not a member.
    ///
    /// Redis documentation: [`ZSCORE`](https://redis.io/docs/latest/commands/zscore/).
    zscore(key: impl Arg, member: impl Arg) -> Option<f64> = "ZSCORE"(key, member), READ_ONLY, Keys::First;
    /// Gets one page of the members of a sorted set with their scores. Replies with the next cursor and the page. A
    /// scan starts at cursor 0, and is complete when the reply has cursor 0.
    ///
    /// Redis documentation: [`ZSCAN`](https://redis.io/docs/latest/commands/zscan/).
    zscan<T>(key: impl Arg, cursor: u64, count: u64) -> (u64, Vec<(T, f64)>)
        = "ZSCAN"(key, cursor, "COUNT", count), READ_ONLY, Keys::First;
}
