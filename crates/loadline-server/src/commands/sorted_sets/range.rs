//! Intervals of a sorted set: by rank, by score and by the bytes of members.

use std::ops::Range;

use loadline_store::{Edit, Entry, SortedSet, SortedView, Value};

use super::super::numbers::{integer, interval_end, places};
use super::super::refusal::{Refusal, SYNTAX};
use super::super::{Call, Effect, Words, is};
use super::{fresh, look, reply_members, set_of, set_score};

const NOT_SCORE: &str = "ERR min or max is not a float";
const NOT_LEX: &str = "ERR min or max not valid string range item";

/// The kind of the ends of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// An interval.
#[derive(Debug, Clone, Copy)]
enum Interval<'w> {
    /// The first and the last rank; a negative one counts from the end.
    Ranks(i64, i64),
    Scores(ScoreEnd, ScoreEnd),
    Lex(LexEnd<'w>, LexEnd<'w>),
}

/// An end of an interval of scores.
#[derive(Debug, Clone, Copy)]
struct ScoreEnd {
    score: f64,
    is_open: bool,
}

impl ScoreEnd {
    fn parse(word: &[u8]) -> Result<Self, Refusal> {
        let open = word.strip_prefix(b"(");
        Ok(Self {
            score: interval_end(open.unwrap_or(word)).ok_or(NOT_SCORE)?,
            is_open: open.is_some(),
        })
    }
}

/// An end of an interval of members.
#[derive(Debug, Clone, Copy)]
enum LexEnd<'w> {
    Least,
    Greatest,
    Open(&'w [u8]),
    Closed(&'w [u8]),
}

impl<'w> LexEnd<'w> {
    fn parse(word: &'w [u8]) -> Result<Self, Refusal> {
        match word {
            // As for Redis, the word ends with a zero byte.
            [b'-'] | [b'-', 0, ..] => Ok(Self::Least),
            [b'+'] | [b'+', 0, ..] => Ok(Self::Greatest),
            [b'(', member @ ..] => Ok(Self::Open(member)),
            [b'[', member @ ..] => Ok(Self::Closed(member)),
            _ => Err(NOT_LEX.into()),
        }
    }

    /// Whether a member is before an interval that begins here.
    fn lies_behind(self, member: &[u8]) -> bool {
        match self {
            Self::Least => false,
            Self::Greatest => true,
            Self::Open(end) => member <= end,
            Self::Closed(end) => member < end,
        }
    }

    /// Whether a member is behind an interval that ends here.
    fn lies_before(self, member: &[u8]) -> bool {
        match self {
            Self::Least => true,
            Self::Greatest => false,
            Self::Open(end) => member >= end,
            Self::Closed(end) => member > end,
        }
    }
}

impl<'w> Interval<'w> {
    fn parse(by: By, first: &'w [u8], last: &'w [u8]) -> Result<Self, Refusal> {
        Ok(match by {
            By::Rank => Self::Ranks(integer(first)?, integer(last)?),
            By::Score => Self::Scores(ScoreEnd::parse(first)?, ScoreEnd::parse(last)?),
            By::Lex => Self::Lex(LexEnd::parse(first)?, LexEnd::parse(last)?),
        })
    }

    /// The ranks of the members in it, counted from the front, or from the end if it is `reversed`.
    fn ranks(self, set: SortedView<'_>, is_reversed: bool) -> Range<usize> {
        let between = |is_before: &dyn Fn(&[u8], f64) -> bool,
                       is_behind: &dyn Fn(&[u8], f64) -> bool| {
            if is_reversed {
                set.between_reversed(is_before, is_behind)
            } else {
                set.between(is_before, is_behind)
            }
        };
        match self {
            Self::Ranks(first, last) => {
                let ranks = places(first, last, set.len());
                if is_reversed {
                    set.len() - ranks.end..set.len() - ranks.start
                } else {
                    ranks
                }
            }
            Self::Scores(first, last) => between(
                &|_, score| score < first.score || first.is_open && score == first.score,
                &|_, score| score > last.score || last.is_open && score == last.score,
            ),
            Self::Lex(first, last) => {
                between(&|member, _| first.lies_behind(member), &|member, _| {
                    last.lies_before(member)
                })
            }
        }
    }
}

/// A part of a set that a command asks for.
#[derive(Debug, Clone, Copy)]
struct Part<'w> {
    interval: Interval<'w>,
    is_reversed: bool,
    has_scores: bool,
    offset: i64,
    /// Negative for all.
    limit: i64,
}

impl<'w> Part<'w> {
    /// Reads the words behind the key. `by` and `is_reversed` are `None` where options state them.
    fn parse(
        words: &[&'w [u8]],
        mut by: Option<By>,
        mut is_reversed: Option<bool>,
        may_have_scores: bool,
    ) -> Result<Self, Refusal> {
        let (mut has_scores, mut offset, mut limit) = (false, 0, -1);
        let mut rest = words[2..].iter();
        while let Some(word) = rest.next() {
            if may_have_scores && is(word, "WITHSCORES") {
                has_scores = true;
            } else if is(word, "LIMIT") && rest.len() >= 2 {
                let mut number = || integer(rest.next().ok_or(SYNTAX)?);
                (offset, limit) = (number()?, number()?);
            } else if is_reversed.is_none() && is(word, "REV") {
                is_reversed = Some(true);
            } else if by.is_none() && is(word, "BYLEX") {
                by = Some(By::Lex);
            } else if by.is_none() && is(word, "BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(SYNTAX.into());
            }
        }
        let (by, is_reversed) = (by.unwrap_or(By::Rank), is_reversed.unwrap_or(false));
        if limit != -1 && by == By::Rank {
            return Err("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX".into());
        }
        if has_scores && by == By::Lex {
            return Err(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX".into(),
            );
        }
        // Scores and members are given from the greatest to the least.
        let (first, last) = match is_reversed && by != By::Rank {
            true => (words[1], words[0]),
            false => (words[0], words[1]),
        };
        Ok(Self {
            interval: Interval::parse(by, first, last)?,
            is_reversed,
            has_scores,
            offset,
            limit,
        })
    }

    /// The ranks of the members, without those that LIMIT leaves out.
    fn ranks(&self, set: SortedView<'_>) -> Range<usize> {
        let Range { start, end } = self.interval.ranks(set, self.is_reversed);
        if matches!(self.interval, Interval::Ranks(..)) {
            return start..end;
        }
        let count = end - start;
        // A negative offset is behind all members.
        let offset = usize::try_from(self.offset).unwrap_or(count).min(count);
        let count = usize::try_from(self.limit)
            .unwrap_or(count)
            .min(count - offset);
        if self.is_reversed {
            let end = end - offset;
            end - count..end
        } else {
            let start = start + offset;
            start..start + count
        }
    }

    fn reply(&self, call: &mut Call<'_>, key: &[u8]) -> Result<(), Refusal> {
        look(call, key, |set, reply| {
            let ranks = self.ranks(set);
            let count = ranks.len();
            if self.is_reversed {
                reply_members(count, set.range_reversed(ranks), self.has_scores, reply);
            } else {
                reply_members(count, set.range(ranks), self.has_scores, reply);
            }
        })
    }
}

pub(super) fn zrange(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    Part::parse(&words[2..], None, None, true)?.reply(call, words[1])
}

pub(super) fn zrevrange(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    Part::parse(&words[2..], Some(By::Rank), Some(true), true)?.reply(call, words[1])
}

pub(super) fn zrangebyscore(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    Part::parse(&words[2..], Some(By::Score), Some(false), true)?.reply(call, words[1])
}

pub(super) fn zrevrangebyscore(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    Part::parse(&words[2..], Some(By::Score), Some(true), true)?.reply(call, words[1])
}

pub(super) fn zrangebylex(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    Part::parse(&words[2..], Some(By::Lex), Some(false), true)?.reply(call, words[1])
}

pub(super) fn zrevrangebylex(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    Part::parse(&words[2..], Some(By::Lex), Some(true), true)?.reply(call, words[1])
}

pub(super) fn zrangestore(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (target, key) = (words[1], words[2]);
    let part = Part::parse(&words[3..], None, None, false)?;
    let settings = call.shared.settings.clone();
    let result = look(call, key, |set, _| {
        let mut result = SortedSet::new();
        for (member, score) in set.range(part.ranks(set)) {
            set_score(&mut result, member, score, &settings);
        }
        result
    })?;
    store(call, target, result);
    Ok(())
}

/// Stores a set in the place of what is at `target`, and writes the number of its members.
pub(in crate::commands) fn store(call: &mut Call<'_>, target: &[u8], set: SortedSet) {
    let count = set.len();
    if count == 0 {
        call.remove(target);
    } else {
        call.put(target, Entry::lasting(Value::Sorted(set)));
    }
    call.reply().count(count);
}

pub(super) fn zcount(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    count(call, words, By::Score)
}

pub(super) fn zlexcount(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    count(call, words, By::Lex)
}

fn count(call: &mut Call<'_>, words: Words<'_>, by: By) -> Result<(), Refusal> {
    let interval = Interval::parse(by, words[2], words[3])?;
    look(call, words[1], |set, reply| {
        reply.count(interval.ranks(set, false).len());
    })
}

pub(super) fn zremrangebyrank(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    remove(call, words, By::Rank)
}

pub(super) fn zremrangebyscore(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    remove(call, words, By::Score)
}

pub(super) fn zremrangebylex(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    remove(call, words, By::Lex)
}

fn remove(call: &mut Call<'_>, words: Words<'_>, by: By) -> Result<(), Refusal> {
    let interval = Interval::parse(by, words[2], words[3])?;
    // The names are needed only where they are logged.
    let is_logged = call.shared.persistence.is_some();
    let (count, _) = call.change_part(
        words[1],
        fresh,
        |value| {
            let set = set_of(value)?;
            let ranks = interval.ranks(set.view(), false);
            let count = ranks.len();
            let logged = if is_logged { ranks.clone() } else { 0..0 };
            let members = set.view().range(logged);
            let removed: Vec<Vec<u8>> = members.map(|(member, _)| member.to_vec()).collect();
            set.remove_range(ranks);
            Ok(Effect::of(count > 0, (count, removed)))
        },
        |(_, removed), note| {
            let names: Vec<&[u8]> = removed.iter().map(|member| &**member).collect();
            note(Edit::RemoveScored(&names));
        },
    )?;
    call.count_elements(count);
    call.reply().count(count);
    Ok(())
}
