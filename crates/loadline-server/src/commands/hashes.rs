//! Hashes.

use hashbrown::HashMap;
use loadline_resp::Protocol;
use loadline_store::{Bytes, Value};
use rand::seq::{IndexedRandom, IteratorRandom};

use super::scan::{Walk, walk};
use super::{
    Call, Known, ONE, Refusal, SYNTAX, WRONG_TYPE, Words, float, float_text, integer, is, known,
};

pub(super) const TABLE: &[Known] = &[
    known("HSET", -4, true, ONE, hset),
    known("HMSET", -4, true, ONE, hmset),
    known("HGET", 3, false, ONE, hget),
    known("HMGET", -3, false, ONE, hmget),
    known("HGETALL", 2, false, ONE, hgetall),
    known("HDEL", -3, true, ONE, hdel),
    known("HLEN", 2, false, ONE, hlen),
    known("HEXISTS", 3, false, ONE, hexists),
    known("HINCRBY", 4, true, ONE, hincrby),
    known("HINCRBYFLOAT", 4, true, ONE, hincrbyfloat),
    known("HSETNX", 4, true, ONE, hsetnx),
    known("HKEYS", 2, false, ONE, |call, words| {
        list(call, words[1], |(field, _)| field)
    }),
    known("HVALS", 2, false, ONE, |call, words| {
        list(call, words[1], |(_, value)| value)
    }),
    known("HSTRLEN", 3, false, ONE, hstrlen),
    known("HRANDFIELD", -2, false, ONE, hrandfield),
    known("HSCAN", -3, false, ONE, hscan),
];

type Fields = HashMap<Bytes, Bytes>;

fn fresh() -> Value {
    Value::Hash(HashMap::new())
}

fn fields(value: &mut Value) -> Result<&mut Fields, Refusal> {
    match value {
        Value::Hash(fields) => Ok(fields),
        _ => Err(WRONG_TYPE.into()),
    }
}

/// Shows the fields at `key`, none where there is no hash.
fn look<R>(call: &Call<'_>, key: &[u8], look: impl FnOnce(&Fields) -> R) -> Result<R, Refusal> {
    call.store().read(key, call.now(), |value| match value {
        Some(Value::Hash(fields)) => Ok(look(fields)),
        Some(_) => Err(WRONG_TYPE.into()),
        None => Ok(look(&HashMap::new())),
    })
}

fn put(call: &Call<'_>, words: Words<'_>, command: &str) -> Result<usize, Refusal> {
    let pairs = &words[2..];
    if !pairs.len().is_multiple_of(2) {
        return Err(Refusal(format!(
            "ERR wrong number of arguments for '{command}' command"
        )));
    }
    call.change(words[1], fresh, |value| {
        let fields = fields(value)?;
        Ok(pairs
            .chunks_exact(2)
            .filter(|pair| {
                fields
                    .insert(Bytes::from(pair[0]), Bytes::from(pair[1]))
                    .is_none()
            })
            .count())
    })
}

fn hset(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let added = put(call, words, "hset")?;
    call.count(added);
    Ok(())
}

fn hmset(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    put(call, words, "hmset")?;
    call.simple("OK");
    Ok(())
}

fn hget(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let found = look(call, words[1], |fields| fields.get(words[2]).cloned())?;
    call.looked_up(found.is_some());
    match found {
        Some(value) => call.bulk(&value),
        None => call.null(),
    }
    Ok(())
}

fn hmget(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let found: Vec<Option<Bytes>> = look(call, words[1], |fields| {
        words[2..]
            .iter()
            .map(|field| fields.get(*field).cloned())
            .collect()
    })?;
    call.array(found.len());
    for value in found {
        match value {
            Some(value) => call.bulk(&value),
            None => call.null(),
        }
    }
    Ok(())
}

fn hgetall(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let all: Vec<(Bytes, Bytes)> = look(call, words[1], |fields| {
        fields
            .iter()
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect()
    })?;
    call.map(all.len());
    for (field, value) in &all {
        call.bulk(field);
        call.bulk(value);
    }
    Ok(())
}

fn hdel(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let removed = call.change(words[1], fresh, |value| {
        let fields = fields(value)?;
        Ok(words[2..]
            .iter()
            .filter(|field| fields.remove(**field).is_some())
            .count())
    })?;
    call.count(removed);
    Ok(())
}

fn hlen(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let size = look(call, words[1], HashMap::len)?;
    call.count(size);
    Ok(())
}

fn hexists(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let there = look(call, words[1], |fields| fields.contains_key(words[2]))?;
    call.integer(i64::from(there));
    Ok(())
}

fn hincrby(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let number = integer(words[3])?;
    let sum = call.change(words[1], fresh, |value| {
        let fields = fields(value)?;
        let old = match fields.get(words[2]) {
            Some(old) => integer(old).map_err(|_| "ERR hash value is not an integer")?,
            None => 0,
        };
        let sum = old
            .checked_add(number)
            .ok_or("ERR increment or decrement would overflow")?;
        fields.insert(Bytes::from(words[2]), sum.to_string().into_bytes().into());
        Ok(sum)
    })?;
    call.integer(sum);
    Ok(())
}

fn hincrbyfloat(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let number = float(words[3]).ok_or("ERR value is not a valid float")?;
    let text = call.change(words[1], fresh, |value| {
        let fields = fields(value)?;
        let old = match fields.get(words[2]) {
            Some(old) => float(old).ok_or("ERR hash value is not a float")?,
            None => 0.0,
        };
        let sum = old + number;
        if !sum.is_finite() {
            return Err("ERR increment would produce NaN or Infinity".into());
        }
        let text = float_text(sum).into_bytes();
        fields.insert(Bytes::from(words[2]), text.clone().into());
        Ok(text)
    })?;
    call.bulk(&text);
    Ok(())
}

fn hsetnx(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let added = call.change(words[1], fresh, |value| {
        let fields = fields(value)?;
        let is_new = !fields.contains_key(words[2]);
        if is_new {
            fields.insert(Bytes::from(words[2]), Bytes::from(words[3]));
        }
        Ok(is_new)
    })?;
    call.integer(i64::from(added));
    Ok(())
}

/// Writes one half of every field.
fn list(call: &mut Call<'_>, key: &[u8], half: fn((Bytes, Bytes)) -> Bytes) -> Result<(), Refusal> {
    let all: Vec<Bytes> = look(call, key, |fields| {
        fields
            .iter()
            .map(|(field, value)| half((field.clone(), value.clone())))
            .collect()
    })?;
    call.array(all.len());
    all.iter().for_each(|word| call.bulk(word));
    Ok(())
}

fn hstrlen(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let length = look(call, words[1], |fields| {
        fields.get(words[2]).map_or(0, |value| value.len())
    })?;
    call.count(length);
    Ok(())
}

fn hrandfield(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let mut rng = rand::rng();
    let (count, with_values) = match words[2..] {
        [] => {
            let chosen = look(call, words[1], |fields| {
                fields.keys().choose(&mut rng).cloned()
            })?;
            match chosen {
                Some(field) => call.bulk(&field),
                None => call.null(),
            }
            return Ok(());
        }
        [count] => (super::sample_count(count)?, false),
        [count, word] if is(word, "WITHVALUES") => (super::sample_count(count)?, true),
        _ => return Err(SYNTAX.into()),
    };
    let chosen: Vec<(Bytes, Bytes)> = look(call, words[1], |fields| {
        let pairs = fields
            .iter()
            .map(|(field, value)| (field.clone(), value.clone()));
        if count >= 0 {
            pairs.sample(&mut rng, count as usize)
        } else {
            // A negative count may name a field several times.
            let all: Vec<_> = pairs.collect();
            (0..count.unsigned_abs())
                .filter_map(|_| all.choose(&mut rng).cloned())
                .collect()
        }
    })?;
    let nested = with_values && call.protocol() == Protocol::Resp3;
    let flat = if with_values && !nested { 2 } else { 1 };
    call.array(chosen.len() * flat);
    for (field, value) in &chosen {
        if nested {
            call.array(2);
        }
        call.bulk(field);
        if with_values {
            call.bulk(value);
        }
    }
    Ok(())
}

fn hscan(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let options = Walk::parse(&words[2..])?;
    let all: Vec<(Bytes, Bytes)> = look(call, words[1], |fields| {
        fields
            .iter()
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect()
    })?;
    let elements = all.iter().map(|(field, value)| (&**field, Some(&**value)));
    walk(call, &options, elements);
    Ok(())
}
