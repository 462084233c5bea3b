//! Sorted sets: members in the order of their scores.
//!
//! Scores come before their members in arguments, as Redis wants it: `zadd("board", [(1.5, "ann")])`.
//! Bounds of scores are what Redis takes: a number, `"(1.5"` without the number itself, `"-inf"`, `"+inf"`.

use super::*;

commands! {
    /// Adds members with their scores, or changes these; how many are new.
    zadd(key: impl Arg, scores: impl ToArgs) -> u64 = "ZADD"(key, scores), IDEMPOTENT, Keys::First;
    /// How many members there are.
    zcard(key: impl Arg) -> u64 = "ZCARD"(key), READ_ONLY, Keys::First;
    /// How many members have a score within these bounds.
    zcount(key: impl Arg, from: impl Arg, to: impl Arg) -> u64 = "ZCOUNT"(key, from, to), READ_ONLY, Keys::First;
    /// Adds to a score; the new one.
    zincr_by(key: impl Arg, by: f64, member: impl Arg) -> f64 = "ZINCRBY"(key, by, member), NONE, Keys::First;
    /// The scores of several members, nil for those that are none.
    zmscore(key: impl Arg, members: impl ToArgs) -> Vec<Option<f64>>
        = "ZMSCORE"(key, members), READ_ONLY, Keys::First;
    /// Takes up to so many members with the highest scores.
    zpop_max<T>(key: impl Arg, count: u64) -> Vec<(T, f64)> = "ZPOPMAX"(key, count), NONE, Keys::First;
    /// Takes up to so many members with the lowest scores.
    zpop_min<T>(key: impl Arg, count: u64) -> Vec<(T, f64)> = "ZPOPMIN"(key, count), NONE, Keys::First;
    /// The members from one rank to another, both included, from the lowest score on.
    zrange<T>(key: impl Arg, from: i64, to: i64) -> Vec<T> = "ZRANGE"(key, from, to), READ_ONLY, Keys::First;
    /// The same with their scores.
    zrange_with_scores<T>(key: impl Arg, from: i64, to: i64) -> Vec<(T, f64)>
        = "ZRANGE"(key, from, to, "WITHSCORES"), READ_ONLY, Keys::First;
    /// The members whose scores are within these bounds.
    zrange_by_score<T>(key: impl Arg, from: impl Arg, to: impl Arg) -> Vec<T>
        = "ZRANGE"(key, from, to, "BYSCORE"), READ_ONLY, Keys::First;
    /// The members from one rank to another, both included, from the highest score on.
    zrevrange<T>(key: impl Arg, from: i64, to: i64) -> Vec<T>
        = "ZRANGE"(key, from, to, "REV"), READ_ONLY, Keys::First;
    /// The rank of a member, 0 for the lowest score; nil where it is none.
    zrank(key: impl Arg, member: impl Arg) -> Option<u64> = "ZRANK"(key, member), READ_ONLY, Keys::First;
    /// The rank of a member, 0 for the highest score; nil where it is none.
    zrevrank(key: impl Arg, member: impl Arg) -> Option<u64> = "ZREVRANK"(key, member), READ_ONLY, Keys::First;
    /// Removes members; how many there were.
    zrem(key: impl Arg, members: impl ToArgs) -> u64 = "ZREM"(key, members), IDEMPOTENT, Keys::First;
    /// Removes the members from one rank to another; how many.
    zrem_range_by_rank(key: impl Arg, from: i64, to: i64) -> u64
        = "ZREMRANGEBYRANK"(key, from, to), NONE, Keys::First;
    /// Removes the members whose scores are within these bounds; how many.
    zrem_range_by_score(key: impl Arg, from: impl Arg, to: impl Arg) -> u64
        = "ZREMRANGEBYSCORE"(key, from, to), IDEMPOTENT, Keys::First;
    /// The score of a member; nil where it is none.
    zscore(key: impl Arg, member: impl Arg) -> Option<f64> = "ZSCORE"(key, member), READ_ONLY, Keys::First;
    /// Some members with their scores, and where to go on; 0 is the start, and also the end.
    zscan<T>(key: impl Arg, cursor: u64, count: u64) -> (u64, Vec<(T, f64)>)
        = "ZSCAN"(key, cursor, "COUNT", count), READ_ONLY, Keys::First;
}
