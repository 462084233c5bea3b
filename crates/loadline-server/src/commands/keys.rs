//! Keys of any kind: existence, expiry, names, walks.

use loadline_store::Change;

use super::{ALL, Call, Known, NONE, ONE, Refusal, SYNTAX, Words, glob, integer, is, known};

pub(super) const TABLE: &[Known] = &[
    known("DEL", -2, true, ALL, del),
    known("UNLINK", -2, true, ALL, del),
    known("EXISTS", -2, false, ALL, exists),
    known("TYPE", 2, false, ONE, kind),
    known("EXPIRE", 3, true, ONE, |call, words| {
        expire(call, words, 1_000, true)
    }),
    known("PEXPIRE", 3, true, ONE, |call, words| {
        expire(call, words, 1, true)
    }),
    known("EXPIREAT", 3, true, ONE, |call, words| {
        expire(call, words, 1_000, false)
    }),
    known("PEXPIREAT", 3, true, ONE, |call, words| {
        expire(call, words, 1, false)
    }),
    known("TTL", 2, false, ONE, |call, words| {
        ttl(call, words[1], 1_000)
    }),
    known("PTTL", 2, false, ONE, |call, words| ttl(call, words[1], 1)),
    known("PERSIST", 2, true, ONE, persist),
    known("RENAME", 3, true, (1, 2, 1), rename),
    known("SCAN", -2, false, NONE, scan),
    known("KEYS", 2, false, NONE, keys),
    known("DBSIZE", 1, false, NONE, |call, _| {
        let keys = call.store().len();
        call.count(keys);
        Ok(())
    }),
];

/// Keys that SCAN shows where nothing is said.
const SCAN_COUNT: usize = 10;

fn del(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let removed = words[1..]
        .iter()
        .filter(|key| call.store().take(key, call.now()).is_some())
        .count();
    call.count(removed);
    Ok(())
}

fn exists(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let there = words[1..]
        .iter()
        .filter(|key| call.store().read(key, call.now(), |value| value.is_some()))
        .count();
    call.count(there);
    Ok(())
}

fn kind(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let kind = call.store().read(words[1], call.now(), |value| {
        value.map_or("none", loadline_store::Value::kind)
    });
    call.simple(kind);
    Ok(())
}

fn expire(call: &mut Call<'_>, words: Words<'_>, unit: i64, relative: bool) -> Result<(), Refusal> {
    let now = call.now();
    let base = if relative {
        i64::try_from(now).unwrap_or(i64::MAX)
    } else {
        0
    };
    let at = integer(words[2])?
        .checked_mul(unit)
        .and_then(|ms| ms.checked_add(base));
    let at = at.ok_or_else(|| {
        Refusal(format!(
            "ERR invalid expire time in '{}' command",
            String::from_utf8_lossy(words[0]).to_lowercase()
        ))
    })?;
    let set = call.store().modify(words[1], now, |entry| match entry {
        None => (false, Change::Keep),
        Some(entry) => match u64::try_from(at) {
            Ok(at) if at > now => {
                entry.expires_at = Some(at);
                (true, Change::Keep)
            }
            // A time that is over removes the key.
            _ => (true, Change::Remove),
        },
    });
    call.integer(i64::from(set));
    Ok(())
}

fn ttl(call: &mut Call<'_>, key: &[u8], unit: u64) -> Result<(), Refusal> {
    let now = call.now();
    let left = call.store().modify(key, now, |entry| {
        let left = match entry.map(|entry| entry.expires_at) {
            None => -2,
            Some(None) => -1,
            // Seconds are rounded to the nearest, as in Redis.
            Some(Some(at)) => i64::try_from((at - now + unit / 2) / unit).unwrap_or(i64::MAX),
        };
        (left, Change::Keep)
    });
    call.integer(left);
    Ok(())
}

fn persist(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let had = call.store().modify(words[1], call.now(), |entry| {
        (
            entry.is_some_and(|entry| entry.expires_at.take().is_some()),
            Change::Keep,
        )
    });
    call.integer(i64::from(had));
    Ok(())
}

fn rename(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let entry = call
        .store()
        .take(words[1], call.now())
        .ok_or("ERR no such key")?;
    call.store()
        .modify(words[2], call.now(), |_| ((), Change::Put(entry)));
    call.simple("OK");
    Ok(())
}

fn scan(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let cursor: u64 = std::str::from_utf8(words[1])
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or("ERR invalid cursor")?;
    let (mut pattern, mut count, mut wanted) = (None, SCAN_COUNT, None);
    let options = &words[2..];
    if !options.len().is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    for option in options.chunks_exact(2) {
        if is(option[0], "MATCH") {
            pattern = Some(option[1]);
        } else if is(option[0], "COUNT") {
            count = usize::try_from(integer(option[1])?)
                .ok()
                .filter(|count| *count > 0)
                .ok_or(SYNTAX)?;
        } else if is(option[0], "TYPE") {
            wanted = Some(option[1]);
        } else {
            return Err(SYNTAX.into());
        }
    }
    let mut found: Vec<Vec<u8>> = Vec::new();
    let next = call.store().scan(cursor, count, call.now(), |key, value| {
        if pattern.is_none_or(|pattern| glob(pattern, key))
            && wanted.is_none_or(|wanted| is(wanted, value.kind()))
        {
            found.push(key.to_vec());
        }
    });
    call.array(2);
    call.bulk(next.to_string().as_bytes());
    call.array(found.len());
    found.iter().for_each(|key| call.bulk(key));
    Ok(())
}

fn keys(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    call.store().scan(0, usize::MAX, call.now(), |key, _| {
        if glob(words[1], key) {
            found.push(key.to_vec());
        }
    });
    call.array(found.len());
    found.iter().for_each(|key| call.bulk(key));
    Ok(())
}
