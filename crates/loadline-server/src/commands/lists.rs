//! Lists.

use loadline_store::{Bytes, Edit, List, Value, View};

use super::numbers::{integer, unsigned};
use super::refusal::{NO_KEY, Refusal, WRONG_TYPE, wrong_number};
use super::reply::Reply;
use super::{Call, Effect, Known, ONE, Words, read, write};

pub(super) const TABLE: &[Known] = &[
    write("LPUSH", -3, ONE, |call, words| {
        push(call, words, End::Front)
    }),
    write("RPUSH", -3, ONE, |call, words| push(call, words, End::Back)),
    write("LPUSHX", -3, ONE, |call, words| {
        push_where_there(call, words, End::Front)
    }),
    write("RPUSHX", -3, ONE, |call, words| {
        push_where_there(call, words, End::Back)
    }),
    write("LPOP", -2, ONE, |call, words| pop(call, words, End::Front)),
    write("RPOP", -2, ONE, |call, words| pop(call, words, End::Back)),
    read("LLEN", 2, ONE, |call, words| {
        look(call, words[1], |items, reply| reply.count(items.len()))
    }),
    read("LRANGE", 4, ONE, lrange),
    read("LINDEX", 3, ONE, lindex),
    write("LSET", 4, ONE, lset),
];

/// An end of a list.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    Front,
    Back,
}

impl End {
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
    let length = call.change_part(
        words[1],
        fresh,
        |value| {
            let items = items_of(value)?;
            words[2..].iter().for_each(|item| end.push(items, item));
            Ok(Effect::Changed(items.len()))
        },
        |_, note| note(end.pushed(&words[2..])),
    )?;
    call.reply().count(length);
    Ok(())
}

fn push_where_there(call: &mut Call<'_>, words: Words<'_>, end: End) -> Result<(), Refusal> {
    if call.has(words[1]) {
        return push(call, words, end);
    }
    call.reply().count(0);
    Ok(())
}

fn pop(call: &mut Call<'_>, words: Words<'_>, end: End) -> Result<(), Refusal> {
    let count = match words[2..] {
        [] => None,
        [count] => Some(unsigned(
            count,
            "ERR value is out of range, must be positive",
        )?),
        _ => {
            let name = String::from_utf8_lossy(words[0]);
            return Err(wrong_number(&name));
        }
    };
    let is_there = call.has(words[1]);
    let taken = take(call, words[1], end, count.unwrap_or(1))?;
    let mut reply = call.reply();
    match count {
        None => reply.maybe(taken.first().map(|item| &**item)),
        Some(_) if !is_there => reply.null_array(),
        Some(_) => {
            reply.array(taken.len());
            taken.iter().for_each(|item| reply.bulk(item));
        }
    }
    Ok(())
}

/// Takes up to `count` items from an end of the list at `key`.
pub(super) fn take(
    call: &mut Call<'_>,
    key: &[u8],
    end: End,
    count: usize,
) -> Result<Vec<Bytes>, Refusal> {
    call.change_part(
        key,
        fresh,
        |value| {
            let items = items_of(value)?;
            let wanted = count.min(items.len());
            let taken: Vec<Bytes> = (0..wanted).filter_map(|_| end.pop(items)).collect();
            Ok(Effect::of(!taken.is_empty(), taken))
        },
        |taken, note| note(end.popped(taken.len())),
    )
}

fn lrange(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (start, end) = (integer(words[2])?, integer(words[3])?);
    look(call, words[1], |items, reply| {
        let length = items.len() as i64;
        let place = |at: i64| {
            if at < 0 {
                at.saturating_add(length)
            } else {
                at
            }
        };
        let start = place(start).max(0);
        let end = place(end).min(length - 1);
        let count = usize::try_from(end.saturating_sub(start).saturating_add(1)).unwrap_or(0);
        reply.array(count);
        let shown = items.iter().skip(usize::try_from(start).unwrap_or(0));
        shown.take(count).for_each(|item| reply.bulk(item));
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
