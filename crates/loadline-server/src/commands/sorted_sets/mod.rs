//! Sorted sets.

mod combine;
mod range;

pub(super) use range::store;

use loadline_store::{Edit, SortedSet, SortedView, Value, View};
use rand::RngExt;
use rand::seq::index;

use super::numbers::{double_text, packed_score_text, sample_count, score};
use super::popping::{self, pop_count};
use super::refusal::{NOT_FLOAT, OUT_OF_RANGE, Refusal, SYNTAX, WRONG_TYPE};
use super::reply::Reply;
use super::{Call, Effect, Keys, Listed, ONE, TWO, Words, is, listed, scan};
use crate::settings::Settings;
use loadline_resp::Protocol;

pub(super) const TABLE: &[Listed] = &[
    listed("ZADD", -4, ONE, |call, words| zadd(call, words, false)),
    listed("ZINCRBY", 4, ONE, |call, words| zadd(call, words, true)),
    listed("ZREM", -3, ONE, zrem),
    listed("ZCARD", 2, ONE, |call, words| {
        look(call, words[1], |set, reply| reply.count(set.len()))
    }),
    listed("ZSCORE", 3, ONE, |call, words| {
        look(call, words[1], |set, reply| {
            reply.maybe_double(set.score(words[2]));
        })
    }),
    listed("ZMSCORE", -3, ONE, |call, words| {
        look(call, words[1], |set, reply| {
            reply.array(words.len() - 2);
            for member in &words[2..] {
                reply.maybe_double(set.score(member));
            }
        })
    }),
    listed("ZRANK", 3, ONE, |call, words| rank(call, words, End::Least)),
    listed("ZREVRANK", 3, ONE, |call, words| {
        rank(call, words, End::Greatest)
    }),
    listed("ZPOPMIN", -2, ONE, |call, words| {
        zpop(call, words, End::Least)
    }),
    listed("ZPOPMAX", -2, ONE, |call, words| {
        zpop(call, words, End::Greatest)
    }),
    listed("ZMPOP", -4, Keys::Counted(1), zmpop),
    listed("ZRANDMEMBER", -2, ONE, zrandmember),
    listed("ZSCAN", -3, ONE, zscan),
    listed("ZRANGE", -4, ONE, range::zrange),
    listed("ZRANGESTORE", -5, TWO, range::zrangestore),
    listed("ZRANGEBYSCORE", -4, ONE, range::zrangebyscore),
    listed("ZREVRANGEBYSCORE", -4, ONE, range::zrevrangebyscore),
    listed("ZRANGEBYLEX", -4, ONE, range::zrangebylex),
    listed("ZREVRANGEBYLEX", -4, ONE, range::zrevrangebylex),
    listed("ZREVRANGE", -4, ONE, range::zrevrange),
    listed("ZCOUNT", 4, ONE, range::zcount),
    listed("ZLEXCOUNT", 4, ONE, range::zlexcount),
    listed("ZREMRANGEBYRANK", 4, ONE, range::zremrangebyrank),
    listed("ZREMRANGEBYSCORE", 4, ONE, range::zremrangebyscore),
    listed("ZREMRANGEBYLEX", 4, ONE, range::zremrangebylex),
    listed("ZUNION", -3, Keys::Counted(1), combine::zunion),
    listed("ZINTER", -3, Keys::Counted(1), combine::zinter),
    listed("ZDIFF", -3, Keys::Counted(1), combine::zdiff),
    listed("ZINTERCARD", -3, Keys::Counted(1), combine::zintercard),
    listed(
        "ZUNIONSTORE",
        -4,
        Keys::TargetAndCounted,
        combine::zunionstore,
    ),
    listed(
        "ZINTERSTORE",
        -4,
        Keys::TargetAndCounted,
        combine::zinterstore,
    ),
    listed(
        "ZDIFFSTORE",
        -4,
        Keys::TargetAndCounted,
        combine::zdiffstore,
    ),
];

/// An end of a sorted set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Least,
    Greatest,
}

/// A member with its score, taken out of a set.
pub(super) type Scored = (Vec<u8>, f64);

fn fresh() -> Value {
    Value::Sorted(SortedSet::new())
}

fn set_of(value: &mut Value) -> Result<&mut SortedSet, Refusal> {
    match value {
        Value::Sorted(set) => Ok(set),
        _ => Err(WRONG_TYPE.into()),
    }
}

/// Sets the score of a member and returns the old one. The set is unpacked for good when Redis would convert it to a skip list.
pub(super) fn set_score(
    set: &mut SortedSet,
    member: &[u8],
    score: f64,
    settings: &Settings,
) -> Option<f64> {
    let is_long = member.len() as u64 > settings.zset_max_listpack_value;
    let is_full = || set.len() as u64 >= settings.zset_max_listpack_entries;
    if set.is_packed() && (is_long || is_full()) && set.view().score(member).is_none() {
        set.unpack();
    }
    set.insert(member, score)
}

/// Passes the set at `key` to a closure; an empty one if there is no key.
fn look<R>(
    call: &mut Call<'_>,
    key: &[u8],
    look: impl FnOnce(SortedView<'_>, &mut Reply<'_>) -> R,
) -> Result<R, Refusal> {
    call.show(key, |value, reply| match value {
        Some(View::Sorted(set)) => Ok(look(set, reply)),
        Some(_) => Err(WRONG_TYPE.into()),
        None => Ok(look(SortedView::empty(), reply)),
    })
}

/// The options of ZADD.
#[derive(Debug, Clone, Copy, Default)]
struct Options {
    only_new: bool,
    only_existing: bool,
    greater: bool,
    less: bool,
    counts_changes: bool,
    increments: bool,
}

impl Options {
    /// Reads the options in front of the first score and returns them with their number.
    fn parse(words: &[&[u8]]) -> (Self, usize) {
        let mut options = Self::default();
        for (at, word) in words.iter().enumerate() {
            let flag = match () {
                () if is(word, "NX") => &mut options.only_new,
                () if is(word, "XX") => &mut options.only_existing,
                () if is(word, "GT") => &mut options.greater,
                () if is(word, "LT") => &mut options.less,
                () if is(word, "CH") => &mut options.counts_changes,
                () if is(word, "INCR") => &mut options.increments,
                () => return (options, at),
            };
            *flag = true;
        }
        (options, words.len())
    }

    fn check(self, pairs: usize) -> Result<(), Refusal> {
        if self.only_new && self.only_existing {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        let exclusive = [self.greater, self.less, self.only_new];
        if exclusive.iter().filter(|is_set| **is_set).count() > 1 {
            return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
        }
        if self.increments && pairs > 1 {
            return Err("ERR INCR option supports a single increment-element pair".into());
        }
        Ok(())
    }

    /// Whether members get the given scores, whatever the old ones are.
    fn are_unconditional(self) -> bool {
        !(self.only_new || self.only_existing || self.greater || self.less || self.increments)
    }

    /// The new score of a member, or `None` if it stays as it is because of the options.
    fn score(self, old: Option<f64>, given: f64) -> Result<Option<f64>, Refusal> {
        let Some(old) = old else {
            return Ok((!self.only_existing).then_some(given));
        };
        if self.only_new {
            return Ok(None);
        }
        let new = if self.increments { old + given } else { given };
        if new.is_nan() {
            return Err("ERR resulting score is not a number (NaN)".into());
        }
        let is_kept = self.less && new >= old || self.greater && new <= old;
        Ok((!is_kept).then_some(new))
    }
}

/// The effect of ZADD.
#[derive(Debug, Default)]
struct Added<'w> {
    added: usize,
    /// Members that were added or got another score, with it.
    changed: Vec<(&'w [u8], f64)>,
    /// The last score, unless the options kept it from being set.
    score: Option<f64>,
}

/// Adds members; `words` are those of ZADD.
pub(super) fn zadd(call: &mut Call<'_>, words: Words<'_>, increments: bool) -> Result<(), Refusal> {
    // ZINCRBY takes the options of ZADD for such, too.
    let (mut options, count) = Options::parse(&words[2..]);
    options.increments |= increments;
    let rest = &words[2 + count..];
    if rest.is_empty() || rest.len() % 2 == 1 {
        return Err(SYNTAX.into());
    }
    options.check(rest.len() / 2)?;
    let pairs = rest.chunks_exact(2);
    let pairs = pairs.map(|pair| Ok((score(pair[0]).ok_or(NOT_FLOAT)?, pair[1])));
    let pairs: Vec<(f64, &[u8])> = pairs.collect::<Result<_, Refusal>>()?;
    let settings = call.shared.settings.clone();
    let done = call.change_part(
        words[1],
        fresh,
        |value| {
            let set = set_of(value)?;
            let mut done = Added::default();
            for (given, member) in pairs {
                // One look-up is enough then.
                let old = if options.are_unconditional() {
                    done.score = Some(given);
                    set_score(set, member, given, &settings)
                } else {
                    let old = set.view().score(member);
                    done.score = options.score(old, given)?;
                    if let Some(score) = done.score {
                        set_score(set, member, score, &settings);
                    }
                    old
                };
                if let Some(score) = done.score.filter(|score| old != Some(*score)) {
                    done.added += usize::from(old.is_none());
                    done.changed.push((member, score));
                }
            }
            Ok(Effect::of(!done.changed.is_empty(), done))
        },
        |done, note| note(Edit::SetScores(&done.changed)),
    )?;
    call.count_elements(done.changed.len());
    let mut reply = call.reply();
    if options.increments {
        reply.maybe_double(done.score);
    } else if options.counts_changes {
        reply.count(done.changed.len());
    } else {
        reply.count(done.added);
    }
    Ok(())
}

fn zrem(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let removed = call.change_part(
        words[1],
        fresh,
        |value| {
            let set = set_of(value)?;
            let members = words[2..].iter();
            let removed = members.filter(|member| set.remove(member).is_some());
            let removed = removed.count();
            Ok(Effect::of(removed > 0, removed))
        },
        |_, note| note(Edit::RemoveScored(&words[2..])),
    )?;
    call.count_elements(removed);
    call.reply().count(removed);
    Ok(())
}

fn rank(call: &mut Call<'_>, words: Words<'_>, end: End) -> Result<(), Refusal> {
    look(call, words[1], |set, reply| match set.rank(words[2]) {
        Some((rank, _)) if end == End::Least => reply.count(rank),
        Some((rank, _)) => reply.count(set.len() - 1 - rank),
        None => reply.null(),
    })
}

/// Takes up to `count` members from an end of the set at `key`, the outermost first; `None` if there is no key.
pub(super) fn take(
    call: &mut Call<'_>,
    key: &[u8],
    end: End,
    count: usize,
) -> Result<Option<Vec<Scored>>, Refusal> {
    let take = |value: &mut Value| {
        let set = set_of(value)?;
        let length = set.len();
        let count = count.min(length);
        let owned = |(member, score): (&[u8], f64)| (member.to_vec(), score);
        let (ranks, taken): (_, Vec<Scored>) = match end {
            End::Least => (0..count, set.view().range(0..count).map(owned).collect()),
            End::Greatest => {
                let ranks = length - count..length;
                let taken = set.view().range_reversed(ranks.clone());
                (ranks, taken.map(owned).collect())
            }
        };
        set.remove_range(ranks);
        Ok(taken)
    };
    popping::take(call, key, fresh, take, |taken, note| {
        let names: Vec<&[u8]> = taken.iter().map(|(member, _)| &**member).collect();
        note(Edit::RemoveScored(&names));
    })
}

fn zpop(call: &mut Call<'_>, words: Words<'_>, end: End) -> Result<(), Refusal> {
    let count = popping::count(&words[2..], || SYNTAX.into())?;
    let taken = take(call, words[1], end, count.unwrap_or(1))?;
    let taken = taken.unwrap_or_default();
    let mut reply = call.reply();
    let is_nested = reply.protocol == Protocol::Resp3 && count.is_some();
    reply.array(taken.len() * if is_nested { 1 } else { 2 });
    for (member, score) in &taken {
        if is_nested {
            reply.array(2);
        }
        reply.bulk(member);
        reply.double(*score);
    }
    Ok(())
}

fn zmpop(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (keys, options) = popping::keys(words, 1)?;
    let (end, count) = mpop_options(options)?;
    popping::first_of(call, keys, |call, key| pop_with_key(call, key, end, count))
}

/// The words of ZMPOP behind the keys.
pub(super) fn mpop_options(words: &[&[u8]]) -> Result<(End, usize), Refusal> {
    let end = match words.first() {
        Some(word) if is(word, "MIN") => End::Least,
        Some(word) if is(word, "MAX") => End::Greatest,
        _ => return Err(SYNTAX.into()),
    };
    Ok((end, pop_count(&words[1..])?))
}

/// Takes members of the set at `key` and writes them with the key. Returns false without a reply if there is no key.
pub(super) fn pop_with_key(
    call: &mut Call<'_>,
    key: &[u8],
    end: End,
    count: usize,
) -> Result<bool, Refusal> {
    let Some(taken) = take(call, key, end, count)? else {
        return Ok(false);
    };
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(key);
    reply.array(taken.len());
    for (member, score) in &taken {
        reply.array(2);
        reply.bulk(member);
        reply.double(*score);
    }
    Ok(true)
}

fn zrandmember(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let mut rng = rand::rng();
    let (count, has_scores) = match words[2..] {
        [] => {
            return look(call, words[1], |set, reply| {
                let length = set.len();
                let rank = (length > 0).then(|| rng.random_range(0..length));
                reply.maybe(
                    rank.and_then(|rank| set.get(rank))
                        .map(|(member, _)| member),
                );
            });
        }
        [count] => (sample_count(count)?, false),
        [count, word] if is(word, "WITHSCORES") => (sample_count(count)?, true),
        [count, ..] => {
            sample_count(count)?;
            return Err(SYNTAX.into());
        }
    };
    if has_scores && count > i64::MAX / 2 {
        return Err(OUT_OF_RANGE.into());
    }
    look(call, words[1], |set, reply| {
        let length = set.len();
        let ranks: Vec<usize> = match usize::try_from(count) {
            // In the order of Redis.
            Ok(count) if count >= length => (0..length).rev().collect(),
            Ok(count) => index::sample(&mut rng, length, count).into_vec(),
            // A negative count can return a member several times.
            Err(_) if length == 0 => vec![],
            Err(_) => (0..count.unsigned_abs())
                .map(|_| rng.random_range(0..length))
                .collect(),
        };
        // A packed set is read once from front to back.
        let all: Vec<(&[u8], f64)> = match set.is_packed() {
            true => set.iter().collect(),
            false => vec![],
        };
        let member = |rank: usize| match set.is_packed() {
            true => all.get(rank).copied(),
            false => set.get(rank),
        };
        let chosen = ranks.iter().filter_map(|rank| member(*rank));
        reply_members(ranks.len(), chosen, has_scores, reply);
    })
}

/// Writes members, with their scores if requested: as pairs in RESP3, flat in RESP2.
fn reply_members<'m>(
    count: usize,
    members: impl Iterator<Item = (&'m [u8], f64)>,
    has_scores: bool,
    reply: &mut Reply<'_>,
) {
    let is_nested = has_scores && reply.protocol == Protocol::Resp3;
    let words_each = if has_scores && !is_nested { 2 } else { 1 };
    reply.array(count * words_each);
    for (member, score) in members {
        if is_nested {
            reply.array(2);
        }
        reply.bulk(member);
        if has_scores {
            reply.double(score);
        }
    }
}

fn zscan(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    scan::elements(call, words, "zset", |value, places, show| {
        if let View::Sorted(set) = value {
            let text = match set.is_packed() {
                true => packed_score_text,
                false => double_text,
            };
            for (member, score) in set.page(places) {
                show(member, Some(text(score).as_bytes()));
            }
        }
    })
}
