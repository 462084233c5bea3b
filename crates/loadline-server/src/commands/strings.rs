//! Strings and counters.

use loadline_store::{Change, Entry, Value};

use super::{
    ALL, Call, Known, NOT_INTEGER, ONE, Refusal, SYNTAX, WRONG_TYPE, Words, float, float_text,
    integer, is, known,
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
    known("INCRBYFLOAT", 3, true, ONE, incr_by_float),
    known("MSETNX", -3, true, (1, -1, 2), msetnx),
    known("GETEX", -2, true, ONE, getex),
    known("GETRANGE", 4, false, ONE, getrange),
    known("SUBSTR", 4, false, ONE, getrange),
    known("SETRANGE", 4, true, ONE, setrange),
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

/// The options of time that SET and GETEX share: their unit in milliseconds, and whether the time
/// counts from now.
fn time_option(word: &[u8]) -> Option<(u64, bool)> {
    let options = [
        ("EX", 1_000, true),
        ("PX", 1, true),
        ("EXAT", 1_000, false),
        ("PXAT", 1, false),
    ];
    let (_, unit, relative) = options.into_iter().find(|(name, ..)| is(word, name))?;
    Some((unit, relative))
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
        match time_option(word) {
            Some((unit, relative)) if options.expires_at.is_none() && !options.keep => {
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

fn incr_by_float(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let not_float = "ERR value is not a valid float";
    let text = call.change(
        words[1],
        || Value::String(b"0".to_vec()),
        |value| {
            let Value::String(bytes) = value else {
                return Err(WRONG_TYPE.into());
            };
            let old = float(bytes).ok_or(not_float)?;
            let sum = old + float(words[2]).ok_or(not_float)?;
            if !sum.is_finite() {
                return Err("ERR increment would produce NaN or Infinity".into());
            }
            *bytes = float_text(sum).into_bytes();
            Ok(bytes.clone())
        },
    )?;
    call.bulk(&text);
    Ok(())
}

fn msetnx(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let pairs = &words[1..];
    if !pairs.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'msetnx' command".into());
    }
    let pairs = pairs.chunks_exact(2);
    let is_there = |key: &[u8]| call.store().read(key, call.now(), |value| value.is_some());
    let all_new = !pairs.clone().any(|pair| is_there(pair[0]));
    if all_new {
        for pair in pairs {
            put(call, pair[0], pair[1], &Options::default());
        }
    }
    call.integer(i64::from(all_new));
    Ok(())
}

fn getex(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let now = call.now();
    // `Some(None)` takes the time to live away.
    let expires_at = match words[2..] {
        [] => None,
        [word] if is(word, "PERSIST") => Some(None),
        [word, number] => {
            let (unit, relative) = time_option(word).ok_or(SYNTAX)?;
            let base = if relative { now } else { 0 };
            Some(Some(deadline(integer(number)?, unit, base, "getex")?))
        }
        _ => return Err(SYNTAX.into()),
    };
    let found = reply_string(call, words[1])?;
    call.looked_up(found);
    if let Some(expires_at) = expires_at.filter(|_| found) {
        call.store().modify(words[1], now, |entry| {
            if let Some(entry) = entry {
                entry.expires_at = expires_at;
            }
            // A time that is over already removes the key on its way.
            ((), Change::Keep)
        });
    }
    Ok(())
}

fn getrange(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (start, end) = (integer(words[2])?, integer(words[3])?);
    let part = call
        .store()
        .read(words[1], call.now(), |value| match value {
            Some(Value::String(bytes)) => Ok(range(bytes, start, end).to_vec()),
            Some(_) => Err(WRONG_TYPE),
            None => Ok(Vec::new()),
        })?;
    call.bulk(&part);
    Ok(())
}

/// The bytes from `start` to `end`, both included; negative places count from the end.
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
    let offset = usize::try_from(integer(words[2])?).map_err(|_| "ERR offset is out of range")?;
    let patch = words[3];
    let length = call.change(
        words[1],
        || Value::String(Vec::new()),
        |value| {
            let Value::String(bytes) = value else {
                return Err(WRONG_TYPE.into());
            };
            if patch.is_empty() {
                return Ok(bytes.len());
            }
            let end = offset.saturating_add(patch.len());
            if end > LARGEST {
                return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
            }
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[offset..end].copy_from_slice(patch);
            Ok(bytes.len())
        },
    )?;
    if length == 0 {
        // Nothing was patched into nothing, which leaves nothing behind.
        call.store().take(words[1], call.now());
    }
    call.count(length);
    Ok(())
}
