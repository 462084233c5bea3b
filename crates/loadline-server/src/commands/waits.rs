//! Commands that take elements of lists and sorted sets, and wait for them where there are none.

use loadline_store::View;

use super::blocking::owned;
use super::popping;
use super::refusal::{Refusal, WRONG_TYPE};
use super::{Call, Keys, Listed, TWO, Words, listed, lists, sorted_sets};

/// All words but the first and the last.
const ALL_BUT_LAST: Keys = Keys::At(1, -2, 1);

pub(super) const LISTS: &[Listed] = &[
    listed("BLPOP", -3, ALL_BUT_LAST, |call, words| {
        pop_item(call, words, lists::End::Front)
    }),
    listed("BRPOP", -3, ALL_BUT_LAST, |call, words| {
        pop_item(call, words, lists::End::Back)
    }),
    listed("BLMOVE", 6, TWO, |call, words| {
        let ends = (lists::End::parse(words[3])?, lists::End::parse(words[4])?);
        let deadline = call.deadline(words[5])?;
        move_item(call, words, ends, deadline)
    }),
    listed("BRPOPLPUSH", 4, TWO, |call, words| {
        let deadline = call.deadline(words[3])?;
        move_item(call, words, (lists::End::Back, lists::End::Front), deadline)
    }),
    listed("BLMPOP", -5, Keys::Counted(2), |call, words| {
        let (keys, options) = popping::keys(words, 2)?;
        let (end, count) = lists::mpop_options(options)?;
        take(call, words, keys, words[1], Kind::List, |call, key| {
            lists::pop_with_key(call, key, end, count).map(drop)
        })
    }),
];

pub(super) const SORTED_SETS: &[Listed] = &[
    listed("BZPOPMIN", -3, ALL_BUT_LAST, |call, words| {
        pop_member(call, words, sorted_sets::End::Least)
    }),
    listed("BZPOPMAX", -3, ALL_BUT_LAST, |call, words| {
        pop_member(call, words, sorted_sets::End::Greatest)
    }),
    listed("BZMPOP", -5, Keys::Counted(2), |call, words| {
        let (keys, options) = popping::keys(words, 2)?;
        let (end, count) = sorted_sets::mpop_options(options)?;
        take(call, words, keys, words[1], Kind::SortedSet, |call, key| {
            sorted_sets::pop_with_key(call, key, end, count).map(drop)
        })
    }),
];

/// The kind of value that a command takes elements of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    List,
    SortedSet,
}

impl Kind {
    fn is_of(self, value: View<'_>) -> bool {
        match value {
            View::List(_) => self == Self::List,
            View::Sorted(_) => self == Self::SortedSet,
            _ => false,
        }
    }
}

/// The first of the keys with a value of this kind. Others are passed over if the client has waited for them, and an error
/// otherwise.
fn first_of<'w>(
    call: &Call<'_>,
    keys: &'w [&'w [u8]],
    kind: Kind,
) -> Result<Option<&'w [u8]>, Refusal> {
    for key in call.candidates(keys) {
        let is_of = call.store().inspect(key, call.now(), |value| {
            value.map(|value| kind.is_of(value))
        });
        match is_of {
            Some(true) => return Ok(Some(key)),
            Some(false) if !call.has_waited() => return Err(WRONG_TYPE.into()),
            Some(false) | None => {}
        }
    }
    Ok(None)
}

/// Takes elements of the first key that has some, or waits for one.
fn take(
    call: &mut Call<'_>,
    words: Words<'_>,
    keys: &[&[u8]],
    timeout: &[u8],
    kind: Kind,
    take: impl FnOnce(&mut Call<'_>, &[u8]) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let deadline = call.deadline(timeout)?;
    match first_of(call, keys, kind)? {
        Some(key) => take(call, key),
        None if call.session.may_not_block => {
            call.reply().null_array();
            Ok(())
        }
        None => {
            call.wait_for(owned(words), keys, deadline, false);
            Ok(())
        }
    }
}

fn pop_item(call: &mut Call<'_>, words: Words<'_>, end: lists::End) -> Result<(), Refusal> {
    let (keys, timeout) = (&words[1..words.len() - 1], words[words.len() - 1]);
    take(call, words, keys, timeout, Kind::List, |call, key| {
        let taken = lists::take(call, key, end, 1)?;
        let mut reply = call.reply();
        reply.array(2);
        reply.bulk(key);
        taken.iter().flatten().for_each(|item| reply.bulk(item));
        Ok(())
    })
}

fn pop_member(call: &mut Call<'_>, words: Words<'_>, end: sorted_sets::End) -> Result<(), Refusal> {
    let (keys, timeout) = (&words[1..words.len() - 1], words[words.len() - 1]);
    take(call, words, keys, timeout, Kind::SortedSet, |call, key| {
        let taken = sorted_sets::take(call, key, end, 1)?;
        let mut reply = call.reply();
        reply.array(3);
        reply.bulk(key);
        for (member, score) in taken.iter().flatten() {
            reply.bulk(member);
            reply.double(*score);
        }
        Ok(())
    })
}

fn move_item(
    call: &mut Call<'_>,
    words: Words<'_>,
    (from, to): (lists::End, lists::End),
    deadline: Option<u64>,
) -> Result<(), Refusal> {
    let sources = &words[1..2];
    if first_of(call, sources, Kind::List)?.is_some() {
        let item = lists::move_item(call, (words[1], from), (words[2], to))?;
        call.reply().maybe(item.as_deref());
    } else if call.session.may_not_block {
        call.reply().null();
    } else {
        call.wait_for(owned(words), sources, deadline, false);
    }
    Ok(())
}
