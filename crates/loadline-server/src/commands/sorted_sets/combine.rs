//! Unions, intersections and differences of sorted sets and sets.

use std::cmp::Ordering;

use hashbrown::HashMap;
use loadline_store::{SortedSet, View};

use super::super::numbers::{integer, score, unsigned};
use super::super::refusal::{Refusal, SYNTAX, WRONG_TYPE, lower};
use super::super::{Call, Words, is};
use super::range::store;
use super::{Scored, reply_members, set_score};

/// The operation that combines sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Combination {
    Union,
    Intersection,
    Difference,
}

/// The operation that makes one score of two.
#[derive(Debug, Clone, Copy)]
enum Aggregate {
    Sum,
    Least,
    Greatest,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // The infinities of both signs add up to nothing.
            Self::Sum if (one + other).is_nan() => 0.0,
            Self::Sum => one + other,
            Self::Least if other < one => other,
            Self::Greatest if other > one => other,
            Self::Least | Self::Greatest => one,
        }
    }
}

/// The purpose of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Reply,
    Store,
    Count,
}

/// The sets that are combined, and how.
#[derive(Debug)]
struct Request<'w> {
    keys: &'w [&'w [u8]],
    weights: Vec<f64>,
    aggregate: Aggregate,
    has_scores: bool,
    /// The most members to be counted; 0 for all.
    limit: usize,
}

impl<'w> Request<'w> {
    /// Reads the words from the number of keys on. The kinds of the values are checked between keys and options.
    fn parse(
        call: &mut Call<'_>,
        words: Words<'w>,
        at: usize,
        (combination, purpose): (Combination, Purpose),
    ) -> Result<Self, Refusal> {
        let count = integer(words[at])?;
        if count < 1 {
            let name = lower(words[0]);
            return Err(format!("ERR at least 1 input key is needed for '{name}' command").into());
        }
        let rest = &words[at + 1..];
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let (keys, options) = rest.split_at_checked(count).ok_or(SYNTAX)?;
        for key in keys {
            let is_set = |value: Option<View<'_>>| {
                matches!(value, None | Some(View::Set(_) | View::Sorted(_)))
            };
            if !call.show(key, |value, _| is_set(value)) {
                return Err(WRONG_TYPE.into());
            }
        }
        let mut request = Self {
            keys,
            weights: vec![1.0; keys.len()],
            aggregate: Aggregate::Sum,
            has_scores: false,
            limit: 0,
        };
        request.read_options(options, combination, purpose)?;
        Ok(request)
    }

    fn read_options(
        &mut self,
        options: &[&[u8]],
        combination: Combination,
        purpose: Purpose,
    ) -> Result<(), Refusal> {
        let may_weigh = combination != Combination::Difference && purpose != Purpose::Count;
        let mut rest = options.iter();
        while let Some(word) = rest.next() {
            if may_weigh && is(word, "WEIGHTS") && rest.len() >= self.keys.len() {
                for (weight, word) in self.weights.iter_mut().zip(&mut rest) {
                    *weight = score(word).ok_or("ERR weight value is not a float")?;
                }
            } else if may_weigh && is(word, "AGGREGATE") && rest.len() >= 1 {
                self.aggregate = match rest.next() {
                    Some(word) if is(word, "SUM") => Aggregate::Sum,
                    Some(word) if is(word, "MIN") => Aggregate::Least,
                    Some(word) if is(word, "MAX") => Aggregate::Greatest,
                    _ => return Err(SYNTAX.into()),
                };
            } else if purpose == Purpose::Reply && is(word, "WITHSCORES") {
                self.has_scores = true;
            } else if purpose == Purpose::Count && is(word, "LIMIT") && rest.len() >= 1 {
                let limit = rest.next().ok_or(SYNTAX)?;
                self.limit = unsigned(limit, "ERR LIMIT can't be negative")?;
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(())
    }

    /// The members of the result with their scores, in order.
    fn combined(&self, call: &Call<'_>, combination: Combination) -> Vec<Scored> {
        let mut result = match combination {
            Combination::Union => self.union(call),
            Combination::Intersection => self.intersection(call),
            Combination::Difference => self.difference(call),
        };
        result.sort_by(|(member, score), (other, other_score)| {
            let by_score = score.partial_cmp(other_score);
            let by_score = by_score.unwrap_or(Ordering::Equal);
            by_score.then_with(|| member.cmp(other))
        });
        result
    }

    /// The keys with their weights, the smallest set first, as Redis takes them: the sum of floating-point numbers depends
    /// on their order.
    fn by_size(&self, call: &Call<'_>) -> Vec<(&'w [u8], f64)> {
        let weights = self.weights.iter().copied();
        let mut keys: Vec<(&[u8], f64)> = self.keys.iter().copied().zip(weights).collect();
        keys.sort_by_key(|(key, _)| with(call, key, length));
        keys
    }

    fn union(&self, call: &Call<'_>) -> Vec<Scored> {
        let mut union: HashMap<Vec<u8>, f64> = HashMap::new();
        for (key, weight) in self.by_size(call) {
            with(call, key, |value| {
                each(value, |member, score| {
                    let weighed = weigh(score, weight);
                    let sum = |score: &mut f64| *score = self.aggregate.of(*score, weighed);
                    union.entry_ref(member).and_modify(sum).or_insert(weighed);
                });
            });
        }
        union.into_iter().collect()
    }

    fn intersection(&self, call: &Call<'_>) -> Vec<Scored> {
        let keys = self.by_size(call);
        let (first, weight) = keys[0];
        let mut members = members(call, first);
        members
            .iter_mut()
            .for_each(|(_, score)| *score = weigh(*score, weight));
        for (key, weight) in &keys[1..] {
            with(call, key, |value| {
                members.retain_mut(|(member, score)| {
                    let other = score_of(value, member);
                    if let Some(other) = other {
                        *score = self.aggregate.of(*score, other * weight);
                    }
                    other.is_some()
                });
            });
        }
        members
    }

    fn difference(&self, call: &Call<'_>) -> Vec<Scored> {
        let mut members = members(call, self.keys[0]);
        for key in &self.keys[1..] {
            with(call, key, |value| {
                members.retain(|(member, _)| score_of(value, member).is_none());
            });
        }
        members
    }
}

/// A score times a weight. An infinity times 0 is 0.
fn weigh(score: f64, weight: f64) -> f64 {
    let weighed = score * weight;
    if weighed.is_nan() { 0.0 } else { weighed }
}

/// Passes the value at `key` to a closure.
fn with<R>(call: &Call<'_>, key: &[u8], look: impl FnOnce(Option<View<'_>>) -> R) -> R {
    call.store().view(key, call.now(), look)
}

fn length(value: Option<View<'_>>) -> usize {
    match value {
        Some(View::Set(members)) => members.len(),
        Some(View::Sorted(set)) => set.len(),
        _ => 0,
    }
}

/// Passes the members of a set to a closure. Those without a score have the score 1.
fn each(value: Option<View<'_>>, mut show: impl FnMut(&[u8], f64)) {
    match value {
        Some(View::Set(members)) => members.iter().for_each(|(member, ())| show(member, 1.0)),
        Some(View::Sorted(set)) => set.iter().for_each(|(member, score)| show(member, score)),
        _ => {}
    }
}

fn score_of(value: Option<View<'_>>, member: &[u8]) -> Option<f64> {
    match value {
        Some(View::Set(members)) => members.contains(member).then_some(1.0),
        Some(View::Sorted(set)) => set.score(member),
        _ => None,
    }
}

fn members(call: &Call<'_>, key: &[u8]) -> Vec<Scored> {
    let mut members = Vec::new();
    with(call, key, |value| {
        each(value, |member, score| {
            members.push((member.to_vec(), score));
        });
    });
    members
}

fn reply(call: &mut Call<'_>, words: Words<'_>, combination: Combination) -> Result<(), Refusal> {
    let request = Request::parse(call, words, 1, (combination, Purpose::Reply))?;
    let result = request.combined(call, combination);
    let members = result.iter().map(|(member, score)| (&**member, *score));
    reply_members(result.len(), members, request.has_scores, &mut call.reply());
    Ok(())
}

pub(super) fn zunion(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    reply(call, words, Combination::Union)
}

pub(super) fn zinter(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    reply(call, words, Combination::Intersection)
}

pub(super) fn zdiff(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    reply(call, words, Combination::Difference)
}

fn combine_into(
    call: &mut Call<'_>,
    words: Words<'_>,
    combination: Combination,
) -> Result<(), Refusal> {
    let request = Request::parse(call, words, 2, (combination, Purpose::Store))?;
    let result = request.combined(call, combination);
    let settings = call.shared.settings.clone();
    let mut set = SortedSet::new();
    if result.len() as u64 > settings.zset_max_listpack_entries {
        set.unpack();
    }
    for (member, score) in &result {
        set_score(&mut set, member, *score, &settings);
    }
    store(call, words[1], set);
    Ok(())
}

pub(super) fn zunionstore(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    combine_into(call, words, Combination::Union)
}

pub(super) fn zinterstore(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    combine_into(call, words, Combination::Intersection)
}

pub(super) fn zdiffstore(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    combine_into(call, words, Combination::Difference)
}

pub(super) fn zintercard(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let combination = Combination::Intersection;
    let request = Request::parse(call, words, 1, (combination, Purpose::Count))?;
    let count = request.intersection(call).len();
    let limit = if request.limit == 0 {
        count
    } else {
        request.limit
    };
    call.reply().count(count.min(limit));
    Ok(())
}
