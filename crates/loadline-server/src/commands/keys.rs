//! Commands for keys of any kind: existence, names, scans.

use loadline_store::{AccessMetric, Keyspace, Shape, View};
use rand::RngExt;
use rand::seq::IndexedRandom;

use super::glob::glob;
use super::numbers::{integer, small_integer};
use super::refusal::{NO_DATABASE, NO_KEY, Refusal, SYNTAX, no_such_form};
use super::{ALL, Call, Keys, Listed, ONE, TWO, Words, is, listed, scan, sub};
use crate::state::DATABASES;

pub(super) const TABLE: &[Listed] = &[
    listed("DEL", -2, ALL, del),
    listed("UNLINK", -2, ALL, del),
    listed("EXISTS", -2, ALL, exists),
    listed("TOUCH", -2, ALL, touch),
    listed("TYPE", 2, ONE, kind),
    listed("RENAME", 3, TWO, rename),
    listed("RENAMENX", 3, TWO, renamenx),
    listed("COPY", -3, TWO, copy),
    listed("MOVE", 3, ONE, move_key),
    scan::SCAN,
    listed("KEYS", 2, Keys::None, keys),
    listed("RANDOMKEY", 1, Keys::None, random_key),
    listed("OBJECT", -2, Keys::At(2, 2, 1), object).with(&[
        sub(
            "ENCODING",
            3,
            "<key>\nReturn the kind of internal representation used in order to store the value\nassociated with a <key>.",
        ),
        sub(
            "FREQ",
            3,
            "<key>\nReturn the access frequency index of the <key>. The returned integer is\nproportional to the logarithm of the recent access frequency of the key.",
        ),
        sub(
            "IDLETIME",
            3,
            "<key>\nReturn the idle time of the <key>, that is the approximated number of\nseconds elapsed since the last access to the key.",
        ),
        sub(
            "REFCOUNT",
            3,
            "<key>\nReturn the number of references of the value associated with the specified\n<key>.",
        ),
    ]),
];

fn del(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let removed = words[1..].iter().filter(|key| call.remove(key)).count();
    call.reply().count(removed);
    Ok(())
}

fn exists(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let mut there = 0;
    for key in &words[1..] {
        there += usize::from(call.kind_of(key).is_some());
    }
    call.reply().count(there);
    Ok(())
}

fn touch(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let mut there = 0;
    for key in &words[1..] {
        there += usize::from(call.show(key, |value, _| value.is_some()));
    }
    call.reply().count(there);
    Ok(())
}

fn kind(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let kind = call.kind_of(words[1]);
    call.reply().simple(kind.unwrap_or("none"));
    Ok(())
}

fn rename(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    give_name(call, words[1], words[2])?;
    call.reply().ok();
    Ok(())
}

fn renamenx(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    if !call.has(words[1]) {
        return Err(NO_KEY.into());
    }
    let is_free = !call.finds(words[2]);
    if is_free {
        give_name(call, words[1], words[2])?;
    } else {
        call.finds(words[1]);
    }
    call.reply().flag(is_free);
    Ok(())
}

fn give_name(call: &mut Call<'_>, from: &[u8], to: &[u8]) -> Result<(), Refusal> {
    if from == to {
        return if call.finds(from) {
            Ok(())
        } else {
            Err(NO_KEY.into())
        };
    }
    if !call.store().rename(from, to, call.now()) {
        return Err(NO_KEY.into());
    }
    let before = call.shared.watched.changes;
    call.touched(from);
    call.touched(to);
    call.count_as(before, 1);
    Ok(())
}

/// Reads the number of a database.
pub(super) fn database(word: &[u8]) -> Result<usize, Refusal> {
    let index = usize::try_from(small_integer(word)?).ok();
    Ok(index
        .filter(|index| *index < DATABASES)
        .ok_or(NO_DATABASE)?)
}

fn copy(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (mut target, mut replaces) = (call.session.database, false);
    let mut rest = words[3..].iter();
    while let Some(word) = rest.next() {
        if is(word, "REPLACE") {
            replaces = true;
        } else if is(word, "DB")
            && let Some(index) = rest.next()
        {
            target = database(index)?;
        } else {
            return Err(SYNTAX.into());
        }
    }
    if target == call.session.database && words[1] == words[2] {
        return Err("ERR source and destination objects are the same".into());
    }
    let is_there = call.show(words[1], |value, _| value.is_some());
    let (now, databases) = (call.now(), &call.shared.databases);
    let (from, to) = (&databases[call.session.database], &databases[target]);
    let is_free = || to.view(words[2], now, |value| value.is_none());
    let is_copied = is_there && (replaces || is_free()) && from.copy(words[1], to, words[2], now);
    if is_copied {
        call.shared.touched(target, words[2]);
    }
    call.reply().flag(is_copied);
    Ok(())
}

fn move_key(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (key, now) = (words[1], call.now());
    let target = database(words[2])?;
    if target == call.session.database {
        return Err("ERR source and destination objects are the same".into());
    }
    let to = &call.shared.databases[target];
    let is_free = to.view(key, now, |value| value.is_none());
    let is_moved = is_free && call.store().move_to(to, key, now);
    if is_moved {
        let before = call.shared.watched.changes;
        call.touched(key);
        call.shared.touched(target, key);
        call.count_as(before, 1);
    }
    call.reply().flag(is_moved);
    Ok(())
}

fn keys(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    call.store().scan(0, usize::MAX, call.now(), |key, _| {
        if glob(words[1], key) {
            found.push(key.to_vec());
        }
    });
    let mut reply = call.reply();
    reply.array(found.len());
    found.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

fn random_key(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    let mut rng = rand::rng();
    // Scans from a random place, and from the start if nothing follows it.
    let from = rng.random_range(0..Keyspace::CURSORS);
    let mut found: Vec<Vec<u8>> = Vec::new();
    for cursor in [from, 0] {
        call.store()
            .scan(cursor, 1, call.now(), |key, _| found.push(key.to_vec()));
        if !found.is_empty() {
            break;
        }
    }
    let chosen = found.choose(&mut rng).map(Vec::as_slice);
    call.reply().maybe(chosen);
    Ok(())
}

/// Encodings have the names of Redis, which depend on a value's size and history. The only difference is an
/// integer written by INCRBYFLOAT: `int` here, `embstr` there.
fn object(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let &[_, word, key] = words else {
        return Err(no_such_form(words));
    };
    let last = call.store().last_access(key, call.now());
    let found = encoding_of(call, key).zip(last);
    let access = call.shared.settings.eviction.access();
    let mut reply = call.reply();
    let Some((encoding, last)) = found else {
        reply.null();
        return Ok(());
    };
    match access {
        _ if is(word, "ENCODING") => reply.bulk(encoding.as_bytes()),
        _ if is(word, "REFCOUNT") => reply.integer(1),
        AccessMetric::Time if is(word, "IDLETIME") => reply.integer(last.idle_seconds as i64),
        AccessMetric::Frequency if is(word, "IDLETIME") => {
            return Err("ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.".into());
        }
        AccessMetric::Frequency => reply.integer(last.frequency.into()),
        AccessMetric::Time => {
            return Err("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.".into());
        }
    }
    Ok(())
}

/// The name of the encoding of a value.
pub(super) fn encoding_of(call: &Call<'_>, key: &[u8]) -> Option<&'static str> {
    let (store, now) = (call.store(), call.now());
    let shape = store.shape(key, now)?;
    store.inspect(key, now, |value| Some(encoding(value?, shape)))
}

fn encoding(value: View<'_>, shape: Shape) -> &'static str {
    const EMBEDDED_BYTES: usize = 44;
    match (value, shape) {
        (View::String(bytes), Shape::Packed) if integer(bytes).is_ok() => "int",
        (View::String(bytes), Shape::Packed | Shape::PackedText)
            if bytes.len() <= EMBEDDED_BYTES =>
        {
            "embstr"
        }
        (View::String(_), _) => "raw",
        (View::Set(_), Shape::Ordered) => "intset",
        (View::Hash(fields), Shape::Ordered) if fields.have_expiries() => "listpackex",
        (View::Hash(_), Shape::Ordered) => "listpack",
        (View::Set(_) | View::Hash(_), _) => "hashtable",
        (View::List(_), _) => "quicklist",
        (View::Sorted(_), Shape::Ordered) => "listpack",
        (View::Sorted(_), _) => "skiplist",
        (View::Stream(_), _) => "stream",
    }
}
