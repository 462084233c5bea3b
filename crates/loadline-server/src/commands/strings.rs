//! Strings and counters.

use loadline_store::{Edit, Expiry, Value, View};

use super::expiry::{Deadline, deadline};
use super::lcs::LCS;
use super::numbers::{Digits, add_floats, integer, unsigned};
use super::refusal::{
    NOT_FLOAT, NOT_INTEGER, OVERFLOW, Refusal, SYNTAX, TOO_LONG, WRONG_TYPE, wrong_number,
};
use super::reply::Reply;
use super::{ALL, Call, Effect, LARGEST, Listed, ONE, PAIRS, Words, is, listed};
use crate::state::Shared;

pub(super) const TABLE: &[Listed] = &[
    listed("GET", 2, ONE, get),
    listed("SET", -3, ONE, |call, words| {
        let options = Options::parse(&words[3..], call.now())?;
        set(call, words[1], words[2], options)
    }),
    listed("SETNX", 3, ONE, setnx),
    listed("SETEX", 4, ONE, |call, words| {
        set_for(call, words, Deadline::SECONDS_FROM_NOW, "setex")
    }),
    listed("PSETEX", 4, ONE, |call, words| {
        set_for(call, words, Deadline::MILLISECONDS_FROM_NOW, "psetex")
    }),
    listed("GETSET", 3, ONE, |call, words| {
        let options = Options {
            returns: true,
            ..Options::default()
        };
        set(call, words[1], words[2], options)
    }),
    listed("GETDEL", 2, ONE, getdel),
    listed("GETEX", -2, ONE, getex),
    listed("MGET", -2, ALL, mget),
    listed("MSET", -3, PAIRS, mset),
    listed("MSETNX", -3, PAIRS, msetnx),
    listed("APPEND", 3, ONE, append),
    listed("STRLEN", 2, ONE, strlen),
    listed("GETRANGE", 4, ONE, getrange),
    listed("SUBSTR", 4, ONE, getrange),
    listed("SETRANGE", 4, ONE, setrange),
    listed("INCR", 2, ONE, |call, words| add(call, words[1], 1)),
    listed("DECR", 2, ONE, |call, words| add(call, words[1], -1)),
    listed("INCRBY", 3, ONE, |call, words| {
        add(call, words[1], integer(words[2])?)
    }),
    listed("DECRBY", 3, ONE, |call, words| {
        let number = integer(words[2])?.checked_neg();
        add(
            call,
            words[1],
            number.ok_or("ERR decrement would overflow")?,
        )
    }),
    listed("INCRBYFLOAT", 3, ONE, incr_by_float),
    LCS,
];

fn get(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    call.show(words[1], reply_string)?;
    Ok(())
}

/// Writes a string, or nil if there is none, and returns whether there was one.
fn reply_string(value: Option<View<'_>>, reply: &mut Reply<'_>) -> Result<bool, Refusal> {
    match value {
        Some(View::String(bytes)) => {
            reply.bulk(bytes);
            Ok(true)
        }
        Some(_) => Err(WRONG_TYPE.into()),
        None => {
            reply.null();
            Ok(false)
        }
    }
}

/// The options of SET.
#[derive(Debug, Default, Clone, Copy)]
struct Options {
    expires_at: Option<u64>,
    keeps_expiry: bool,
    only_new: bool,
    only_old: bool,
    /// Whether the old string is the reply (GET).
    returns: bool,
}

impl Options {
    fn parse(words: Words<'_>, now: u64) -> Result<Self, Refusal> {
        let mut options = Self::default();
        let mut until: Option<(Deadline, &[u8])> = None;
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if is(word, "NX") && !options.only_old {
                options.only_new = true;
            } else if is(word, "XX") && !options.only_new {
                options.only_old = true;
            } else if is(word, "GET") {
                options.returns = true;
            } else if is(word, "KEEPTTL") && until.is_none() {
                options.keeps_expiry = true;
            } else if let Some(unit) = Deadline::named(word)
                && until.is_none()
                && !options.keeps_expiry
            {
                until = Some((unit, rest.next().ok_or(SYNTAX)?));
            } else {
                return Err(SYNTAX.into());
            }
        }
        if let Some((unit, number)) = until {
            options.expires_at = Some(deadline(number, unit, now, "set")?);
        }
        Ok(options)
    }
}

fn set(call: &mut Call<'_>, key: &[u8], bytes: &[u8], options: Options) -> Result<(), Refusal> {
    let Shared {
        databases,
        stats,
        now,
        ..
    } = &mut *call.shared;
    let mut reply = Reply {
        out: call.out,
        protocol: call.session.protocol,
    };
    let mut refusal = None;
    let until = |current: Option<(View<'_>, Option<u64>)>| {
        if options.returns {
            stats.count_lookup(current.is_some());
            let value = current.map(|(value, _)| value);
            refusal = reply_string(value, &mut reply).err();
        }
        let is_refused = refusal.is_some()
            || (options.only_new && current.is_some())
            || (options.only_old && current.is_none());
        let kept = current.and_then(|(_, expires_at)| expires_at);
        (!is_refused).then_some(if options.keeps_expiry {
            kept
        } else {
            options.expires_at
        })
    };
    let was_put = databases[call.session.database].put_string(key, bytes, *now, until);
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    match (was_put, options.returns) {
        (_, true) => {}
        (true, false) => reply.ok(),
        (false, false) => reply.null(),
    }
    if was_put && options.keeps_expiry {
        call.touched(key);
    } else if was_put {
        call.string_touched(key, bytes, options.expires_at);
    }
    Ok(())
}

fn setnx(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let is_new = !call.finds(words[1]);
    if is_new {
        call.put_string(words[1], words[2], None);
    }
    call.reply().flag(is_new);
    Ok(())
}

fn set_for(
    call: &mut Call<'_>,
    words: Words<'_>,
    unit: Deadline,
    command: &str,
) -> Result<(), Refusal> {
    let expires_at = deadline(words[2], unit, call.now(), command)?;
    call.put_string(words[1], words[3], Some(expires_at));
    call.reply().ok();
    Ok(())
}

fn getdel(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    if call.show(words[1], reply_string)? {
        call.remove(words[1]);
    }
    Ok(())
}

fn getex(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (key, now) = (words[1], call.now());
    let until = match words[2..] {
        [] => None,
        [word] if is(word, "PERSIST") => Some(None),
        [word, number] => Some(Some((Deadline::named(word).ok_or(SYNTAX)?, number))),
        _ => return Err(SYNTAX.into()),
    };
    // Without a key the numbers are ignored; a wrong kind is refused before an invalid number.
    let is_there = call.show(key, |value, reply| match value {
        Some(View::String(_)) => Ok(true),
        Some(_) => Err(Refusal::from(WRONG_TYPE)),
        None => {
            reply.null();
            Ok(false)
        }
    })?;
    if !is_there {
        return Ok(());
    }
    let expiry = match until {
        None => Expiry::Keep,
        Some(None) => Expiry::At(None),
        Some(Some((unit, number))) => Expiry::At(Some(deadline(number, unit, now, "getex")?)),
    };
    call.show_again(key, reply_string)?;
    let has_changed = call.store().modify_expiry(key, now, |was| {
        // PERSIST does not change a key without expiry.
        let is_other = expiry != Expiry::Keep && Expiry::At(was.flatten()) != expiry;
        (is_other, expiry)
    });
    if has_changed {
        call.expiry_touched(key);
    }
    Ok(())
}

fn mget(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    call.warm(words[1..].iter().copied());
    call.reply().array(words.len() - 1);
    for key in &words[1..] {
        call.show(key, |value, reply| match value {
            Some(View::String(bytes)) => reply.bulk(bytes),
            // A key of another kind reads as nil.
            _ => reply.null(),
        });
    }
    Ok(())
}

/// The keys and values of MSET and MSETNX.
fn pairs<'w>(
    words: Words<'w>,
    command: &str,
) -> Result<std::slice::ChunksExact<'w, &'w [u8]>, Refusal> {
    let pairs = words[1..].chunks_exact(2);
    if pairs.remainder().is_empty() {
        Ok(pairs)
    } else {
        Err(wrong_number(command))
    }
}

fn mset(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let pairs = pairs(words, "mset")?;
    call.warm(pairs.clone().map(|pair| pair[0]));
    for pair in pairs {
        call.put_string(pair[0], pair[1], None);
    }
    call.reply().ok();
    Ok(())
}

fn msetnx(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let pairs = pairs(words, "msetnx")?;
    let all_are_new = !pairs.clone().any(|pair| call.finds(pair[0]));
    if all_are_new {
        for pair in pairs {
            call.put_string(pair[0], pair[1], None);
        }
    }
    call.reply().flag(all_are_new);
    Ok(())
}

pub(super) fn fresh() -> Value {
    Value::String(Vec::new())
}

pub(super) fn bytes_of(value: &mut Value) -> Result<&mut Vec<u8>, Refusal> {
    match value {
        Value::String(bytes) => Ok(bytes),
        _ => Err(WRONG_TYPE.into()),
    }
}

/// The string to read a number from; `0` if there is no key.
fn numeral<'v>(value: Option<View<'v>>) -> Result<&'v [u8], Refusal> {
    match value {
        Some(View::String(bytes)) => Ok(bytes),
        Some(_) => Err(WRONG_TYPE.into()),
        None => Ok(b"0"),
    }
}

fn add(call: &mut Call<'_>, key: &[u8], number: i64) -> Result<(), Refusal> {
    let mut sum = 0;
    let (digits, expires_at) = call.store().replace_string(key, call.now(), |value| {
        let old = integer(numeral(value)?).map_err(|_| NOT_INTEGER)?;
        sum = old.checked_add(number).ok_or(OVERFLOW)?;
        Ok::<_, Refusal>(Digits::new(sum))
    })?;
    call.string_touched(key, digits.as_ref(), expires_at);
    call.reply().digits(&digits);
    Ok(())
}

fn incr_by_float(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (sum, _) = call.store().replace_string(words[1], call.now(), |value| {
        add_floats((numeral(value)?, NOT_FLOAT), (words[2], NOT_FLOAT))
    })?;
    call.store().keep_as_text(words[1], call.now());
    call.touched(words[1]);
    call.reply().bulk(sum.as_bytes());
    Ok(())
}

fn append(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    // Only the encoding changes.
    let is_kept = words[2].is_empty() && call.has(words[1]);
    let length = call.change_part(
        words[1],
        fresh,
        |value| {
            let bytes = bytes_of(value)?;
            if bytes.len() + words[2].len() > LARGEST {
                return Err(TOO_LONG.into());
            }
            bytes.extend_from_slice(words[2]);
            Ok(Effect::Changed(bytes.len()))
        },
        |length, note| note(Edit::Write(length - words[2].len(), words[2])),
    )?;
    if is_kept {
        call.store().make_growing(words[1], call.now());
    }
    call.reply().count(length);
    Ok(())
}

fn strlen(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    call.show(words[1], |value, reply| {
        match value {
            Some(View::String(bytes)) => reply.count(bytes.len()),
            Some(_) => return Err(WRONG_TYPE.into()),
            None => reply.count(0),
        }
        Ok(())
    })
}

fn getrange(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (start, end) = (integer(words[2])?, integer(words[3])?);
    call.show(words[1], |value, reply| {
        match value {
            Some(View::String(bytes)) => reply.bulk(range(bytes, start, end)),
            Some(_) => return Err(WRONG_TYPE.into()),
            None => reply.bulk(b""),
        }
        Ok(())
    })
}

/// The bytes from `start` to `end`, inclusive; negative indexes count from the end.
fn range(bytes: &[u8], start: i64, end: i64) -> &[u8] {
    let length = bytes.len() as i64;
    if start < 0 && end < 0 && start > end {
        return &[];
    }
    let place = |at: i64| if at < 0 { (at + length).max(0) } else { at };
    let (start, end) = (place(start), place(end).min(length - 1));
    if start > end || length == 0 {
        return &[];
    }
    &bytes[start as usize..=end as usize]
}

fn setrange(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    integer(words[2])?;
    let offset = unsigned(words[2], "ERR offset is out of range")?;
    let patch = words[3];
    if patch.is_empty() {
        return strlen(call, words);
    }
    let end = offset.saturating_add(patch.len());
    // A wrong kind is refused before an invalid length.
    if end <= LARGEST {
        call.make_growing(words[1]);
    }
    let length = call.change_part(
        words[1],
        fresh,
        |value| {
            let bytes = bytes_of(value)?;
            if end > LARGEST {
                return Err(TOO_LONG.into());
            }
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[offset..end].copy_from_slice(patch);
            Ok(Effect::Changed(bytes.len()))
        },
        |_, note| note(Edit::Write(offset, patch)),
    )?;
    call.reply().count(length);
    Ok(())
}
