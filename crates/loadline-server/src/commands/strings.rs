//! Strings and counters.

use loadline_store::{Change, Entry, Value};

use super::{
    ALL, Call, Known, NOT_INTEGER, ONE, Refusal, SYNTAX, WRONG_TYPE, Words, integer, is, known,
};

pub(super) const TABLE: &[Known] = &[
    known("GET", 2, false, ONE, get),
    known("SET", -3, true, ONE, set),
    known("INCR", 2, true, ONE, |call, words| add(call, words[1], 1)),
    known("DECR", 2, true, ONE, |call, words| add(call, words[1], -1)),
    known("INCRBY", 3, true, ONE, |call, words| {
        add(call, words[1], integer(words[2])?)
    }),
    known("DECRBY", 3, true, ONE, decr_by),
    known("MGET", -2, false, ALL, mget),
    known("MSET", -3, true, (1, -1, 2), mset),
    known("SETNX", 3, true, ONE, setnx),
    known("SETEX", 4, true, ONE, |call, words| {
        set_for(call, words, 1_000, "setex")
    }),
    known("PSETEX", 4, true, ONE, |call, words| {
        set_for(call, words, 1, "psetex")
    }),
    known("GETSET", 3, true, ONE, getset),
    known("GETDEL", 2, true, ONE, getdel),
    known("APPEND", 3, true, ONE, append),
    known("STRLEN", 2, false, ONE, strlen),
];

/// The most that a string may hold, as in Redis.
const LARGEST: usize = 512 << 20;

fn get(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let found = reply_string(call, words[1])?;
    call.looked_up(found);
    Ok(())
}

/// Writes the string at `key`, or nil, and says whether there was one.
fn reply_string(call: &mut Call<'_>, key: &[u8]) -> Result<bool, Refusal> {
    let (session, shared) = (&*call.session, &*call.shared);
    let out = &mut *call.out;
    let protocol = session.protocol;
    shared.databases[session.database].read(key, shared.now, |value| match value {
        Some(Value::String(bytes)) => {
            loadline_resp::encode::bulk(out, bytes);
            Ok(true)
        }
        Some(_) => Err(WRONG_TYPE.into()),
        None => {
            loadline_resp::encode::null(out, protocol);
            Ok(false)
        }
    })
}

/// What SET was asked for beside key and value.
#[derive(Debug, Default)]
struct Options {
    expires_at: Option<u64>,
    keep: bool,
    only_new: bool,
    only_old: bool,
    returns: bool,
}

fn options(words: Words<'_>, now: u64) -> Result<Options, Refusal> {
    let mut options = Options::default();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let unit = [
            ("EX", 1_000, true),
            ("PX", 1, true),
            ("EXAT", 1_000, false),
            ("PXAT", 1, false),
        ]
        .into_iter()
        .find(|(name, ..)| is(word, name));
        match unit {
            Some((_, unit, relative)) if options.expires_at.is_none() && !options.keep => {
                let number = integer(rest.next().ok_or(SYNTAX)?)?;
                options.expires_at = Some(deadline(
                    number,
                    unit,
                    if relative { now } else { 0 },
                    "set",
                )?);
            }
            None if is(word, "NX") && !options.only_old => options.only_new = true,
            None if is(word, "XX") && !options.only_new => options.only_old = true,
            None if is(word, "KEEPTTL") && options.expires_at.is_none() => options.keep = true,
            None if is(word, "GET") => options.returns = true,
            _ => return Err(SYNTAX.into()),
        }
    }
    Ok(options)
}

/// `number` units after `base`, in milliseconds, where that is a time to come into being.
fn deadline(number: i64, unit: u64, base: u64, command: &str) -> Result<u64, Refusal> {
    let milliseconds = u64::try_from(number)
        .ok()
        .filter(|number| *number > 0)
        .and_then(|number| number.checked_mul(unit))
        .and_then(|ms| ms.checked_add(base));
    milliseconds
        .filter(|ms| i64::try_from(*ms).is_ok())
        .ok_or_else(|| Refusal(format!("ERR invalid expire time in '{command}' command")))
}

fn set(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let options = options(&words[3..], call.now())?;
    if options.returns {
        // A wrong kind must be refused before anything is written.
        reply_string(call, words[1])?;
        put(call, words[1], words[2], &options);
        return Ok(());
    }
    if put(call, words[1], words[2], &options) {
        call.simple("OK");
    } else {
        call.null();
    }
    Ok(())
}

/// Stores a string, where the options let it, and says whether they did.
fn put(call: &Call<'_>, key: &[u8], bytes: &[u8], options: &Options) -> bool {
    call.store().modify(key, call.now(), |current| {
        if (options.only_new && current.is_some()) || (options.only_old && current.is_none()) {
            return (false, Change::Keep);
        }
        match current {
            Some(entry) => {
                let expires_at = if options.keep {
                    entry.expires_at
                } else {
                    options.expires_at
                };
                entry.expires_at = expires_at;
                match &mut entry.value {
                    // The memory of the old string serves the new one.
                    Value::String(old) => {
                        old.clear();
                        old.extend_from_slice(bytes);
                    }
                    other => *other = Value::String(bytes.to_vec()),
                }
                (true, Change::Keep)
            }
            None => (
                true,
                Change::Put(Entry {
                    value: Value::String(bytes.to_vec()),
                    expires_at: options.expires_at,
                }),
            ),
        }
    })
}

fn setnx(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let stored = put(
        call,
        words[1],
        words[2],
        &Options {
            only_new: true,
            ..Options::default()
        },
    );
    call.integer(i64::from(stored));
    Ok(())
}

fn set_for(call: &mut Call<'_>, words: Words<'_>, unit: u64, command: &str) -> Result<(), Refusal> {
    let expires_at = Some(deadline(integer(words[2])?, unit, call.now(), command)?);
    put(
        call,
        words[1],
        words[3],
        &Options {
            expires_at,
            ..Options::default()
        },
    );
    call.simple("OK");
    Ok(())
}

fn getset(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let found = reply_string(call, words[1])?;
    call.looked_up(found);
    put(call, words[1], words[2], &Options::default());
    Ok(())
}

fn getdel(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    if reply_string(call, words[1])? {
        call.store().take(words[1], call.now());
    }
    Ok(())
}

fn mget(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    call.array(words.len() - 1);
    for key in &words[1..] {
        // A key of another kind reads as nil here.
        let found = reply_string(call, key).unwrap_or_else(|_| {
            call.null();
            false
        });
        call.looked_up(found);
    }
    Ok(())
}

fn mset(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let pairs = &words[1..];
    if !pairs.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'mset' command".into());
    }
    for pair in pairs.chunks_exact(2) {
        put(call, pair[0], pair[1], &Options::default());
    }
    call.simple("OK");
    Ok(())
}

fn decr_by(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let number = integer(words[2])?
        .checked_neg()
        .ok_or("ERR decrement would overflow")?;
    add(call, words[1], number)
}

fn add(call: &mut Call<'_>, key: &[u8], number: i64) -> Result<(), Refusal> {
    let sum = call.change(
        key,
        || Value::String(b"0".to_vec()),
        |value| {
            let Value::String(bytes) = value else {
                return Err(WRONG_TYPE.into());
            };
            let sum = integer(bytes)
                .map_err(|_| NOT_INTEGER)?
                .checked_add(number)
                .ok_or("ERR increment or decrement would overflow")?;
            bytes.clear();
            bytes.extend_from_slice(sum.to_string().as_bytes());
            Ok(sum)
        },
    )?;
    call.integer(sum);
    Ok(())
}

fn append(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let length = call.change(
        words[1],
        || Value::String(Vec::new()),
        |value| {
            let Value::String(bytes) = value else {
                return Err(WRONG_TYPE.into());
            };
            if bytes.len() + words[2].len() > LARGEST {
                return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
            }
            bytes.extend_from_slice(words[2]);
            Ok(bytes.len())
        },
    )?;
    call.count(length);
    Ok(())
}

fn strlen(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let length = call
        .store()
        .read(words[1], call.now(), |value| match value {
            Some(Value::String(bytes)) => Ok(bytes.len()),
            Some(_) => Err(WRONG_TYPE),
            None => Ok(0),
        })?;
    call.count(length);
    Ok(())
}
