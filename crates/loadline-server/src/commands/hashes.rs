//! Hashes.

use loadline_resp::Protocol;
use loadline_store::{Bytes, Edit, Fields, Value, View};
use rand::seq::IteratorRandom;

use super::numbers::{
    Digits, add_floats, check_finite, integer, random_below, sample_count, write_integer,
};
use super::refusal::{NOT_FLOAT, OVERFLOW, Refusal, SYNTAX, WRONG_TYPE, wrong_number};
use super::reply::Reply;
use super::{Call, Effect, Listed, ONE, Words, is, listed, scan};
use crate::settings::Settings;

pub(super) const TABLE: &[Listed] = &[
    listed("HSET", -4, ONE, |call, words| {
        let added = put(call, words, "hset")?;
        call.reply().count(added);
        Ok(())
    }),
    listed("HMSET", -4, ONE, |call, words| {
        put(call, words, "hmset")?;
        call.reply().ok();
        Ok(())
    }),
    listed("HSETNX", 4, ONE, hsetnx),
    listed("HGET", 3, ONE, |call, words| {
        look(call, words[1], |fields, reply| {
            reply.maybe(fields.get(words[2]).map(|value| &**value));
        })
    }),
    listed("HMGET", -3, ONE, hmget),
    listed("HGETALL", 2, ONE, hgetall),
    listed("HDEL", -3, ONE, hdel),
    listed("HLEN", 2, ONE, |call, words| {
        look(call, words[1], |fields, reply| reply.count(fields.len()))
    }),
    listed("HEXISTS", 3, ONE, |call, words| {
        look(call, words[1], |fields, reply| {
            reply.flag(fields.contains(words[2]));
        })
    }),
    listed("HSTRLEN", 3, ONE, |call, words| {
        look(call, words[1], |fields, reply| {
            reply.count(fields.get(words[2]).map_or(0, |value| value.len()));
        })
    }),
    listed("HKEYS", 2, ONE, |call, words| {
        look(call, words[1], |fields, reply| {
            reply.array(fields.len());
            fields.iter().for_each(|(field, _)| reply.bulk(field));
        })
    }),
    listed("HVALS", 2, ONE, |call, words| {
        look(call, words[1], |fields, reply| {
            reply.array(fields.len());
            fields.iter().for_each(|(_, value)| reply.bulk(value));
        })
    }),
    listed("HINCRBY", 4, ONE, hincrby),
    listed("HINCRBYFLOAT", 4, ONE, hincrbyfloat),
    listed("HRANDFIELD", -2, ONE, hrandfield),
    listed("HSCAN", -3, ONE, hscan),
];

pub(super) fn fresh() -> Value {
    Value::Hash(Fields::new())
}

pub(super) fn fields_of(value: &mut Value) -> Result<&mut Fields, Refusal> {
    match value {
        Value::Hash(fields) => Ok(fields),
        _ => Err(WRONG_TYPE.into()),
    }
}

/// Sets a field, which has no expiry then. The hash permanently loses its order when Redis would convert it to a hash table.
pub(super) fn set_field(fields: &mut Fields, field: &[u8], value: Bytes, settings: &Settings) {
    let is_long = |bytes: &[u8]| bytes.len() as u64 > settings.hash_max_listpack_value;
    let has_long = is_long(field) || is_long(&value);
    fields.insert(field, value);
    if has_long || fields.len() as u64 > settings.hash_max_listpack_entries {
        fields.relax();
    }
}

/// Sets a field as [`set_field`] does, but keeps its expiry, which it returns.
fn renew_field(
    fields: &mut Fields,
    field: &[u8],
    value: Bytes,
    settings: &Settings,
) -> Option<u64> {
    let expires_at = fields.expires_at(field);
    set_field(fields, field, value, settings);
    fields.set_expiry(field, expires_at);
    expires_at
}

/// Notes what [`renew_field`] has done.
fn note_renewed(
    field: &[u8],
    value: &[u8],
    expires_at: Option<u64>,
    note: &mut dyn FnMut(Edit<'_>),
) {
    note(Edit::SetFields(&[field, value]));
    if expires_at.is_some() {
        note(Edit::SetFieldExpiries(&[(field, expires_at)]));
    }
}

/// Passes the fields at `key` to a closure; none if there is no key.
pub(super) fn look<R>(
    call: &mut Call<'_>,
    key: &[u8],
    look: impl FnOnce(&Fields, &mut Reply<'_>) -> R,
) -> Result<R, Refusal> {
    call.show(key, |value, reply| match value {
        Some(View::Hash(fields)) => Ok(look(fields, reply)),
        Some(_) => Err(WRONG_TYPE.into()),
        None => Ok(look(&Fields::new(), reply)),
    })
}

/// Sets fields and returns the number of new ones.
fn put(call: &mut Call<'_>, words: Words<'_>, command: &str) -> Result<usize, Refusal> {
    let pairs = words[2..].chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(wrong_number(command));
    }
    let settings = call.shared.settings.clone();
    let new = call.change_part(
        words[1],
        fresh,
        |value| {
            let fields = fields_of(value)?;
            let before = fields.len();
            for pair in pairs {
                set_field(fields, pair[0], Bytes::from(pair[1]), &settings);
            }
            Ok(Effect::Changed(fields.len() - before))
        },
        |_, note| note(Edit::SetFields(&words[2..])),
    )?;
    call.count_elements(words.len() / 2 - 1);
    Ok(new)
}

fn hsetnx(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let settings = call.shared.settings.clone();
    let is_new = call.change_part(
        words[1],
        fresh,
        |value| {
            let fields = fields_of(value)?;
            let is_new = !fields.contains(words[2]);
            if is_new {
                set_field(fields, words[2], Bytes::from(words[3]), &settings);
            }
            Ok(Effect::of(is_new, is_new))
        },
        |_, note| note(Edit::SetFields(&words[2..])),
    )?;
    call.reply().flag(is_new);
    Ok(())
}

fn hmget(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    look(call, words[1], |fields, reply| {
        reply.array(words.len() - 2);
        for field in &words[2..] {
            reply.maybe(fields.get(field).map(|value| &**value));
        }
    })
}

fn hgetall(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    look(call, words[1], |fields, reply| {
        reply.map(fields.len());
        for (field, value) in fields.iter() {
            reply.bulk(field);
            reply.bulk(value);
        }
    })
}

fn hdel(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let removed = call.change_part(
        words[1],
        fresh,
        |value| {
            let fields = fields_of(value)?;
            let removed = words[2..]
                .iter()
                .filter(|field| fields.remove(field).is_some())
                .count();
            Ok(Effect::of(removed > 0, removed))
        },
        |_, note| note(Edit::RemoveFields(&words[2..])),
    )?;
    call.count_elements(removed);
    call.reply().count(removed);
    Ok(())
}

fn hincrby(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let number = integer(words[3])?;
    let settings = call.shared.settings.clone();
    let (sum, _) = call.change_part(
        words[1],
        fresh,
        |value| {
            let fields = fields_of(value)?;
            let old = match fields.get(words[2]) {
                Some(old) => integer(old).map_err(|_| "ERR hash value is not an integer")?,
                None => 0,
            };
            let sum = old.checked_add(number).ok_or(OVERFLOW)?;
            let mut text = Vec::new();
            write_integer(&mut text, sum);
            let at = renew_field(fields, words[2], text.into_boxed_slice(), &settings);
            Ok(Effect::Changed((sum, at)))
        },
        |(sum, at), note| note_renewed(words[2], Digits::new(*sum).as_ref(), *at, note),
    )?;
    call.reply().integer(sum);
    Ok(())
}

fn hincrbyfloat(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    // An invalid increment is refused before the kind and the old value are checked.
    check_finite(words[3], NOT_FLOAT)?;
    let settings = call.shared.settings.clone();
    let (sum, _) = call.change_part(
        words[1],
        fresh,
        |value| {
            let fields = fields_of(value)?;
            let old = fields.get(words[2]).map_or(&b"0"[..], |old| old);
            let sum = add_floats(
                (old, "ERR hash value is not a float"),
                (words[3], NOT_FLOAT),
            )?;
            let at = renew_field(fields, words[2], sum.as_bytes().into(), &settings);
            Ok(Effect::Changed((sum, at)))
        },
        |(sum, at), note| note_renewed(words[2], sum.as_bytes(), *at, note),
    )?;
    call.reply().bulk(sum.as_bytes());
    Ok(())
}

fn hrandfield(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let mut rng = rand::rng();
    let (count, has_values) = match words[2..] {
        [] => {
            return look(call, words[1], |fields, reply| {
                let chosen = fields.choose(random_below(&mut rng));
                reply.maybe(chosen.map(|(field, _)| field));
            });
        }
        [count] => (sample_count(count)?, false),
        [count, word] if is(word, "WITHVALUES") => (sample_count(count)?, true),
        _ => return Err(SYNTAX.into()),
    };
    look(call, words[1], |fields, reply| {
        let chosen: Vec<(&[u8], &Bytes)> = if count >= 0 {
            fields.iter().sample(&mut rng, count as usize)
        } else {
            // A negative count can return a field several times.
            (0..count.unsigned_abs())
                .filter_map(|_| fields.choose(random_below(&mut rng)))
                .collect()
        };
        reply_pairs(&chosen, has_values, reply);
    })
}

/// Writes fields, with their values if requested: as pairs in RESP3, flat in RESP2.
fn reply_pairs(pairs: &[(&[u8], &Bytes)], has_values: bool, reply: &mut Reply<'_>) {
    let is_nested = has_values && reply.protocol == Protocol::Resp3;
    let words_each = if has_values && !is_nested { 2 } else { 1 };
    reply.array(pairs.len() * words_each);
    for (field, value) in pairs {
        if is_nested {
            reply.array(2);
        }
        reply.bulk(field);
        if has_values {
            reply.bulk(value);
        }
    }
}

fn hscan(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    scan::elements(call, words, "hash", |value, places, show| {
        if let View::Hash(fields) = value {
            for (field, value) in fields.page(places) {
                show(field, Some(value));
            }
        }
    })
}
