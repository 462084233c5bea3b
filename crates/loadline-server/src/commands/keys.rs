//! Keys of any kind: existence, expiry, names, walks.

use loadline_store::{Change, Value};
use rand::RngExt;
use rand::seq::IndexedRandom;

use super::{
    ALL, Call, Known, NONE, ONE, Refusal, SYNTAX, Words, glob, integer, is, known,
    subcommand_refused,
};

pub(super) const TABLE: &[Known] = &[
    known("DEL", -2, true, ALL, del),
    known("UNLINK", -2, true, ALL, del),
    known("EXISTS", -2, false, ALL, exists),
    known("TYPE", 2, false, ONE, kind),
    known("EXPIRE", -3, true, ONE, |call, words| {
        expire(call, words, 1_000, true)
    }),
    known("PEXPIRE", -3, true, ONE, |call, words| {
        expire(call, words, 1, true)
    }),
    known("EXPIREAT", -3, true, ONE, |call, words| {
        expire(call, words, 1_000, false)
    }),
    known("PEXPIREAT", -3, true, ONE, |call, words| {
        expire(call, words, 1, false)
    }),
    known("TTL", 2, false, ONE, |call, words| {
        ttl(call, words[1], 1_000)
    }),
    known("PTTL", 2, false, ONE, |call, words| ttl(call, words[1], 1)),
    known("EXPIRETIME", 2, false, ONE, |call, words| {
        expire_time(call, words[1], 1_000)
    }),
    known("PEXPIRETIME", 2, false, ONE, |call, words| {
        expire_time(call, words[1], 1)
    }),
    known("TOUCH", -2, false, ALL, exists),
    known("RENAMENX", 3, true, (1, 2, 1), renamenx),
    known("COPY", -3, true, (1, 2, 1), copy),
    known("RANDOMKEY", 1, false, NONE, random_key),
    known("OBJECT", -2, false, (2, 2, 1), object),
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
    let condition = Condition::parse(&words[3..])?;
    let set = call.store().modify(words[1], now, |entry| match entry {
        None => (false, Change::Keep),
        Some(entry) if !condition.allows(entry.expires_at, at) => (false, Change::Keep),
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

/// When EXPIRE and its like may set a time.
#[derive(Debug, Default)]
struct Condition {
    only_without: bool,
    only_with: bool,
    only_later: bool,
    only_earlier: bool,
}

impl Condition {
    fn parse(words: &[&[u8]]) -> Result<Self, Refusal> {
        let mut condition = Self::default();
        for word in words {
            if is(word, "NX") {
                condition.only_without = true;
            } else if is(word, "XX") {
                condition.only_with = true;
            } else if is(word, "GT") {
                condition.only_later = true;
            } else if is(word, "LT") {
                condition.only_earlier = true;
            } else {
                let word = String::from_utf8_lossy(word);
                return Err(Refusal(format!("ERR Unsupported option {word}")));
            }
        }
        let others = condition.only_with || condition.only_later || condition.only_earlier;
        if condition.only_without && others {
            return Err(
                "ERR NX and XX, GT or LT options at the same time are not compatible".into(),
            );
        }
        if condition.only_later && condition.only_earlier {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(condition)
    }

    /// Whether a time that was `old` may become `new`; a key without one stays for ever.
    fn allows(&self, old: Option<u64>, new: i64) -> bool {
        let later = old.is_some_and(|old| i64::try_from(old).is_ok_and(|old| new > old));
        let earlier = old.is_none_or(|old| i64::try_from(old).is_ok_and(|old| new < old));
        !(self.only_without && old.is_some()
            || self.only_with && old.is_none()
            || self.only_later && !later
            || self.only_earlier && !earlier)
    }
}

/// When a key goes, in `unit` milliseconds since the Unix epoch.
fn expire_time(call: &mut Call<'_>, key: &[u8], unit: u64) -> Result<(), Refusal> {
    let at = call.store().modify(key, call.now(), |entry| {
        let at = match entry.map(|entry| entry.expires_at) {
            None => -2,
            Some(None) => -1,
            Some(Some(at)) => i64::try_from(at / unit).unwrap_or(i64::MAX),
        };
        (at, Change::Keep)
    });
    call.integer(at);
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

fn renamenx(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let is_there = |key| call.store().read(key, call.now(), |value| value.is_some());
    if !is_there(words[1]) {
        return Err("ERR no such key".into());
    }
    if is_there(words[2]) {
        call.integer(0);
        return Ok(());
    }
    let entry = call
        .store()
        .take(words[1], call.now())
        .ok_or("ERR no such key")?;
    call.store()
        .modify(words[2], call.now(), |_| ((), Change::Put(entry)));
    call.integer(1);
    Ok(())
}

fn copy(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (mut database, mut replace) = (call.session.database, false);
    let mut rest = words[3..].iter();
    while let Some(word) = rest.next() {
        if is(word, "REPLACE") {
            replace = true;
        } else if is(word, "DB") {
            let index = integer(rest.next().ok_or(SYNTAX)?)
                .map_err(|_| "ERR value is not an integer or out of range")?;
            database = usize::try_from(index)
                .ok()
                .filter(|index| *index < call.shared.databases.len())
                .ok_or("ERR DB index is out of range")?;
        } else {
            return Err(SYNTAX.into());
        }
    }
    if database == call.session.database && words[1] == words[2] {
        return Err("ERR source and destination objects are the same".into());
    }
    let now = call.now();
    let entry = call
        .store()
        .modify(words[1], now, |entry| (entry.cloned(), Change::Keep));
    let copied = entry.is_some_and(|entry| {
        call.shared.databases[database].modify(words[2], now, |current| {
            if current.is_some() && !replace {
                (false, Change::Keep)
            } else {
                (true, Change::Put(entry))
            }
        })
    });
    if copied && database != call.session.database {
        call.shared.watched.touch(database, words[2]);
    }
    call.integer(i64::from(copied));
    Ok(())
}

fn random_key(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    let mut rng = rand::rng();
    // A walk from a random place, and from the start where nothing follows it.
    let from = u64::from(rng.random::<u8>());
    let mut found: Vec<Vec<u8>> = Vec::new();
    for cursor in [from, 0] {
        call.store()
            .scan(cursor, 1, call.now(), |key, _| found.push(key.to_vec()));
        if !found.is_empty() {
            break;
        }
    }
    match found.choose(&mut rng) {
        Some(key) => call.bulk(key),
        None => call.null(),
    }
    Ok(())
}

/// What can be said of a value without the encodings of Redis: they are named as Redis would choose
/// them, by size.
fn object(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    const SUBCOMMANDS: [&str; 4] = ["ENCODING", "REFCOUNT", "IDLETIME", "FREQ"];
    let &[_, word, key] = words else {
        return Err(subcommand_refused(words, &SUBCOMMANDS));
    };
    if !SUBCOMMANDS.iter().any(|name| is(word, name)) {
        return Err(subcommand_refused(words, &SUBCOMMANDS));
    }
    let encoding = call
        .store()
        .read(key, call.now(), |value| value.map(encoding));
    match encoding {
        None => call.null(),
        Some(encoding) if is(word, "ENCODING") => call.bulk(encoding.as_bytes()),
        Some(_) if is(word, "REFCOUNT") => call.integer(1),
        Some(_) if is(word, "IDLETIME") => call.integer(0),
        Some(_) => {
            return Err("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.".into());
        }
    }
    Ok(())
}

fn encoding(value: &Value) -> &'static str {
    const FEW: usize = 128;
    const SHORT: usize = 64;
    match value {
        Value::String(bytes) if integer(bytes).is_ok() => "int",
        Value::String(bytes) if bytes.len() <= 44 => "embstr",
        Value::String(_) => "raw",
        Value::Set(members)
            if members.len() <= 512 && members.iter().all(|member| integer(member).is_ok()) =>
        {
            "intset"
        }
        Value::Hash(fields)
            if fields.len() <= FEW
                && fields
                    .iter()
                    .all(|(field, value)| field.len() <= SHORT && value.len() <= SHORT) =>
        {
            "listpack"
        }
        Value::Set(_) | Value::Hash(_) => "hashtable",
    }
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
