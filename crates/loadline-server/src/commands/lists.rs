//! Lists.

use loadline_store::{Bytes, Edit, List, Value, View};

use super::numbers::{integer, places, unsigned};
use super::popping::{self, pop_count};
use super::refusal::{NO_KEY, Refusal, SYNTAX, WRONG_TYPE, wrong_number};
use super::reply::Reply;
use super::{Call, Effect, Keys, Listed, ONE, TWO, Words, is, listed};

pub(super) const TABLE: &[Listed] = &[
    listed("LPUSH", -3, ONE, |call, words| {
        push(call, words, End::Front)
    }),
    listed("RPUSH", -3, ONE, |call, words| push(call, words, End::Back)),
    listed("LPUSHX", -3, ONE, |call, words| {
        push_where_there(call, words, End::Front)
    }),
    listed("RPUSHX", -3, ONE, |call, words| {
        push_where_there(call, words, End::Back)
    }),
    listed("LPOP", -2, ONE, |call, words| pop(call, words, End::Front)),
    listed("RPOP", -2, ONE, |call, words| pop(call, words, End::Back)),
    listed("LLEN", 2, ONE, |call, words| {
        look(call, words[1], |items, reply| reply.count(items.len()))
    }),
    listed("LRANGE", 4, ONE, lrange),
    listed("LINDEX", 3, ONE, lindex),
    listed("LSET", 4, ONE, lset),
    listed("LTRIM", 4, ONE, ltrim),
    listed("LREM", 4, ONE, lrem),
    listed("LINSERT", 5, ONE, linsert),
    listed("LPOS", -3, ONE, lpos),
    listed("LMOVE", 5, TWO, |call, words| {
        let (from, to) = (End::parse(words[3])?, End::parse(words[4])?);
        lmove(call, words, from, to)
    }),
    listed("RPOPLPUSH", 3, TWO, |call, words| {
        lmove(call, words, End::Back, End::Front)
    }),
    listed("LMPOP", -4, Keys::Counted(1), lmpop),
];

/// An end of a list.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    Front,
    Back,
}

impl End {
    pub(super) fn parse(word: &[u8]) -> Result<Self, Refusal> {
        match word {
            _ if is(word, "LEFT") => Ok(Self::Front),
            _ if is(word, "RIGHT") => Ok(Self::Back),
            _ => Err(SYNTAX.into()),
        }
    }

    fn push(self, items: &mut List, item: &[u8]) {
        match self {
            Self::Front => items.push_front(item),
            Self::Back => items.push_back(item),
        }
    }

    fn pop(self, items: &mut List) -> Option<Bytes> {
        match self {
            Self::Front => items.pop_front(),
            Self::Back => items.pop_back(),
        }
    }

    fn pushed<'e>(self, items: &'e [&'e [u8]]) -> Edit<'e> {
        match self {
            Self::Front => Edit::PushFront(items),
            Self::Back => Edit::PushBack(items),
        }
    }

    fn popped<'e>(self, count: usize) -> Edit<'e> {
        match self {
            Self::Front => Edit::PopFront(count),
            Self::Back => Edit::PopBack(count),
        }
    }
}

fn fresh() -> Value {
    Value::List(List::new())
}

fn items_of(value: &mut Value) -> Result<&mut List, Refusal> {
    match value {
        Value::List(items) => Ok(items),
        _ => Err(WRONG_TYPE.into()),
    }
}

/// Passes the items at `key` to a closure; none if there is no key.
fn look<R>(
    call: &mut Call<'_>,
    key: &[u8],
    look: impl FnOnce(&List, &mut Reply<'_>) -> R,
) -> Result<R, Refusal> {
    call.show(key, |value, reply| match value {
        Some(View::List(items)) => Ok(look(items, reply)),
        Some(_) => Err(WRONG_TYPE.into()),
        None => Ok(look(&List::new(), reply)),
    })
}

fn push(call: &mut Call<'_>, words: Words<'_>, end: End) -> Result<(), Refusal> {
    let length = push_items(call, words[1], &words[2..], end)?;
    call.reply().count(length);
    Ok(())
}

/// Adds items at an end of a list and returns their number.
fn push_items(call: &mut Call<'_>, key: &[u8], new: &[&[u8]], end: End) -> Result<usize, Refusal> {
    let length = call.change_part(
        key,
        fresh,
        |value| {
            let items = items_of(value)?;
            new.iter().for_each(|item| end.push(items, item));
            Ok(Effect::Changed(items.len()))
        },
        |_, note| note(end.pushed(new)),
    )?;
    call.count_elements(new.len());
    Ok(length)
}

fn push_where_there(call: &mut Call<'_>, words: Words<'_>, end: End) -> Result<(), Refusal> {
    if call.has(words[1]) {
        return push(call, words, end);
    }
    call.reply().count(0);
    Ok(())
}

fn pop(call: &mut Call<'_>, words: Words<'_>, end: End) -> Result<(), Refusal> {
    let wrong = || wrong_number(&String::from_utf8_lossy(words[0]));
    let count = popping::count(&words[2..], wrong)?;
    let taken = take(call, words[1], end, count.unwrap_or(1))?;
    let mut reply = call.reply();
    match (count, taken) {
        (None, taken) => {
            let first = taken.as_ref().and_then(|taken| taken.first());
            reply.maybe(first.map(|item| &**item));
        }
        (Some(_), None) => reply.null_array(),
        (Some(_), Some(taken)) => reply_items(&taken, &mut reply),
    }
    Ok(())
}

/// Takes up to `count` items from an end of the list at `key`, the outermost first; `None` if there is no key.
pub(super) fn take(
    call: &mut Call<'_>,
    key: &[u8],
    end: End,
    count: usize,
) -> Result<Option<Vec<Bytes>>, Refusal> {
    let take = |value: &mut Value| {
        let items = items_of(value)?;
        let wanted = count.min(items.len());
        Ok((0..wanted).filter_map(|_| end.pop(items)).collect())
    };
    popping::take(call, key, fresh, take, |taken, note| {
        note(end.popped(taken.len()));
    })
}

fn reply_items(items: &[Bytes], reply: &mut Reply<'_>) {
    reply.array(items.len());
    items.iter().for_each(|item| reply.bulk(item));
}

fn lmpop(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (keys, options) = popping::keys(words, 1)?;
    let (end, count) = mpop_options(options)?;
    popping::first_of(call, keys, |call, key| pop_with_key(call, key, end, count))
}

/// The words of LMPOP behind the keys.
pub(super) fn mpop_options(words: &[&[u8]]) -> Result<(End, usize), Refusal> {
    let (end, rest) = words.split_first().ok_or(SYNTAX)?;
    Ok((End::parse(end)?, pop_count(rest)?))
}

/// Takes items of the list at `key` and writes them with the key. Returns false without a reply if there is no key.
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
    reply_items(&taken, &mut reply);
    Ok(true)
}

fn lmove(call: &mut Call<'_>, words: Words<'_>, from: End, to: End) -> Result<(), Refusal> {
    let item = move_item(call, (words[1], from), (words[2], to))?;
    call.reply().maybe(item.as_deref());
    Ok(())
}

/// Moves an item from an end of a list to an end of the same or another one, and returns it; `None` if there is no source.
pub(super) fn move_item(
    call: &mut Call<'_>,
    (source, from): (&[u8], End),
    (target, to): (&[u8], End),
) -> Result<Option<Bytes>, Refusal> {
    if !call.has(source) {
        return Ok(None);
    }
    look(call, source, |_, _| ())?;
    look(call, target, |_, _| ())?;
    if source == target {
        let item = call.change_part(
            source,
            fresh,
            |value| {
                let items = items_of(value)?;
                let item = from.pop(items).ok_or(NO_KEY)?;
                to.push(items, &item);
                Ok(Effect::Changed(item))
            },
            |item, note| {
                note(from.popped(1));
                note(to.pushed(&[item]));
            },
        )?;
        return Ok(Some(item));
    }
    let before = call.shared.watched.changes;
    let taken = take(call, source, from, 1)?;
    let Some(item) = taken.and_then(|mut taken| taken.pop()) else {
        return Ok(None);
    };
    push_items(call, target, &[&*item], to)?;
    call.count_as(before, 1);
    Ok(Some(item))
}

fn lrange(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (start, end) = (integer(words[2])?, integer(words[3])?);
    look(call, words[1], |items, reply| {
        let places = places(start, end, items.len());
        reply.array(places.len());
        let shown = items.iter().skip(places.start).take(places.len());
        shown.for_each(|item| reply.bulk(item));
    })
}

fn ltrim(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (start, end) = (integer(words[2])?, integer(words[3])?);
    let before = call.shared.watched.changes;
    let (front, back) = call.change_part(
        words[1],
        fresh,
        |value| {
            let items = items_of(value)?;
            let length = items.len();
            let kept = places(start, end, length);
            let (front, back) = match kept.len() {
                0 => (length, 0),
                _ => (kept.start, length - kept.end),
            };
            for (end, count) in [(End::Front, front), (End::Back, back)] {
                (0..count).for_each(|_| drop(end.pop(items)));
            }
            Ok(Effect::of(length > 0, (front, back)))
        },
        |(front, back), note| {
            for (end, count) in [(End::Front, *front), (End::Back, *back)] {
                if count > 0 {
                    note(end.popped(count));
                }
            }
        },
    )?;
    call.count_as(before, front + back);
    call.reply().ok();
    Ok(())
}

fn lrem(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let count = integer(words[2])?;
    let removed = call.change_part(
        words[1],
        fresh,
        |value| {
            let removed = items_of(value)?.remove_equal(count, words[3]);
            Ok(Effect::of(removed > 0, removed))
        },
        |_, note| note(Edit::RemoveItems(count, words[3])),
    )?;
    call.reply().count(removed);
    Ok(())
}

fn linsert(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let is_behind = is(words[2], "AFTER");
    if !is_behind && !is(words[2], "BEFORE") {
        return Err(SYNTAX.into());
    }
    let (pivot, item) = (words[3], words[4]);
    if !call.has(words[1]) {
        call.reply().count(0);
        return Ok(());
    }
    let inserted = call.change_part(
        words[1],
        fresh,
        |value| {
            let items = items_of(value)?;
            let Some(place) = items.iter().position(|other| other == pivot) else {
                return Ok(Effect::Same(None));
            };
            let place = place + usize::from(is_behind);
            items.insert(place, item);
            Ok(Effect::Changed(Some((place, items.len()))))
        },
        |inserted, note| {
            if let Some((place, _)) = inserted {
                note(Edit::InsertItem(*place, item));
            }
        },
    )?;
    let mut reply = call.reply();
    match inserted {
        Some((_, length)) => reply.count(length),
        None => reply.integer(-1),
    }
    Ok(())
}

/// The options of LPOS.
#[derive(Debug)]
struct Matches {
    /// The first match to be shown, counted from 1.
    first: u64,
    from_end: bool,
    /// The most matches to be shown; 0 for all.
    count: Option<usize>,
    /// The most items to be looked at; 0 for all.
    most: usize,
}

impl Matches {
    fn parse(words: &[&[u8]]) -> Result<Self, Refusal> {
        let mut matches = Self {
            first: 1,
            from_end: false,
            count: None,
            most: 0,
        };
        let mut rest = words.iter();
        while let Some(option) = rest.next() {
            let number = rest.next().ok_or(SYNTAX)?;
            if is(option, "RANK") {
                let rank = integer(number)?;
                if rank == 0 {
                    return Err("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list".into());
                }
                (matches.first, matches.from_end) = (rank.unsigned_abs(), rank < 0);
            } else if is(option, "COUNT") {
                matches.count = Some(unsigned(number, "ERR COUNT can't be negative")?);
            } else if is(option, "MAXLEN") {
                matches.most = unsigned(number, "ERR MAXLEN can't be negative")?;
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(matches)
    }

    /// The places of the items that match.
    fn places(&self, items: &List, item: &[u8]) -> Vec<usize> {
        let all = |limit: usize| if limit == 0 { usize::MAX } else { limit };
        let length = items.len();
        let place = |at: usize| if self.from_end { length - 1 - at } else { at };
        let is_match = |at: &usize| items.get(place(*at)) == Some(item);
        let looked_at = 0..length.min(all(self.most));
        let skipped = usize::try_from(self.first - 1).unwrap_or(usize::MAX);
        let found = looked_at.filter(is_match).skip(skipped);
        found
            .take(all(self.count.unwrap_or(1)))
            .map(place)
            .collect()
    }
}

fn lpos(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let matches = Matches::parse(&words[3..])?;
    look(call, words[1], |items, reply| {
        let places = matches.places(items, words[2]);
        match (matches.count, places.first()) {
            (Some(_), _) => {
                reply.array(places.len());
                places.iter().for_each(|place| reply.count(*place));
            }
            (None, Some(place)) => reply.count(*place),
            (None, None) => reply.null(),
        }
    })
}

/// The position of `index` in a list of this length; a negative one counts from the end.
fn place(index: i64, length: usize) -> Option<usize> {
    let from_end = || {
        let back = usize::try_from(index.unsigned_abs()).ok()?;
        length.checked_sub(back)
    };
    usize::try_from(index).ok().or_else(from_end)
}

fn lindex(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    // Without a key the index is ignored; a wrong kind is refused before an invalid index.
    call.show(words[1], |value, reply| match value {
        Some(View::List(items)) => {
            let index = integer(words[2])?;
            reply.maybe(place(index, items.len()).and_then(|place| items.get(place)));
            Ok(())
        }
        Some(_) => Err(WRONG_TYPE.into()),
        None => {
            reply.null();
            Ok(())
        }
    })
}

fn lset(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    if !call.has(words[1]) {
        return Err(NO_KEY.into());
    }
    call.change_part(
        words[1],
        fresh,
        |value| {
            let items = items_of(value)?;
            let index = integer(words[2])?;
            let place = place(index, items.len());
            let set = place.filter(|place| items.set(*place, words[3]));
            Ok(Effect::Changed(set.ok_or("ERR index out of range")?))
        },
        |place, note| note(Edit::SetItem(*place, words[3])),
    )?;
    call.reply().ok();
    Ok(())
}
