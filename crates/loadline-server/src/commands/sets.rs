//! Sets.

use hashbrown::HashSet;
use loadline_resp::encode;
use loadline_store::{Bytes, Change, Entry, Value};
use rand::seq::{IndexedRandom, IteratorRandom};

use super::scan::{Walk, walk};
use super::{ALL, Call, Known, NONE, ONE, Refusal, SYNTAX, WRONG_TYPE, Words, integer, is, known};

pub(super) const TABLE: &[Known] = &[
    known("SADD", -3, true, ONE, sadd),
    known("SREM", -3, true, ONE, srem),
    known("SMEMBERS", 2, false, ONE, smembers),
    known("SISMEMBER", 3, false, ONE, sismember),
    known("SCARD", 2, false, ONE, scard),
    known("SPOP", -2, true, ONE, spop),
    known("SMISMEMBER", -3, false, ONE, smismember),
    known("SRANDMEMBER", -2, false, ONE, srandmember),
    known("SMOVE", 4, true, (1, 2, 1), smove),
    known("SSCAN", -3, false, ONE, sscan),
    known("SINTER", -2, false, ALL, |call, words| {
        combine(call, &words[1..], Combination::Intersection)
    }),
    known("SUNION", -2, false, ALL, |call, words| {
        combine(call, &words[1..], Combination::Union)
    }),
    known("SDIFF", -2, false, ALL, |call, words| {
        combine(call, &words[1..], Combination::Difference)
    }),
    known("SINTERSTORE", -3, true, ONE, |call, words| {
        combine_into(call, words, Combination::Intersection)
    }),
    known("SUNIONSTORE", -3, true, ONE, |call, words| {
        combine_into(call, words, Combination::Union)
    }),
    known("SDIFFSTORE", -3, true, ONE, |call, words| {
        combine_into(call, words, Combination::Difference)
    }),
    known("SINTERCARD", -3, false, NONE, sintercard),
];

/// How sets become one.
#[derive(Debug, Clone, Copy)]
enum Combination {
    Intersection,
    Union,
    Difference,
}

fn fresh() -> Value {
    Value::Set(HashSet::new())
}

fn members(value: &mut Value) -> Result<&mut HashSet<Bytes>, Refusal> {
    match value {
        Value::Set(members) => Ok(members),
        _ => Err(WRONG_TYPE.into()),
    }
}

/// Shows the members at `key`, an empty set where there is none.
fn look<R>(
    call: &Call<'_>,
    key: &[u8],
    look: impl FnOnce(&HashSet<Bytes>) -> R,
) -> Result<R, Refusal> {
    call.store().read(key, call.now(), |value| match value {
        Some(Value::Set(members)) => Ok(look(members)),
        Some(_) => Err(WRONG_TYPE.into()),
        None => Ok(look(&HashSet::new())),
    })
}

fn sadd(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let added = call.change(words[1], fresh, |value| {
        let members = members(value)?;
        Ok(words[2..]
            .iter()
            .filter(|member| !members.contains(**member) && members.insert(Bytes::from(**member)))
            .count())
    })?;
    call.count(added);
    Ok(())
}

fn srem(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let removed = call.change(words[1], fresh, |value| {
        let members = members(value)?;
        Ok(words[2..]
            .iter()
            .filter(|member| members.remove(**member))
            .count())
    })?;
    call.count(removed);
    Ok(())
}

fn smembers(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let all: Vec<Bytes> = look(call, words[1], |members| members.iter().cloned().collect())?;
    let protocol = call.protocol();
    encode::set_header(call.out, all.len() as u64, protocol);
    all.iter().for_each(|member| call.bulk(member));
    Ok(())
}

fn sismember(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let there = look(call, words[1], |members| members.contains(words[2]))?;
    call.integer(i64::from(there));
    Ok(())
}

fn scard(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let size = look(call, words[1], HashSet::len)?;
    call.count(size);
    Ok(())
}

/// Takes members in the order of the table, which a random hash seed decides.
fn spop(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let wanted = match words[2..] {
        [] => None,
        [count] => Some(
            usize::try_from(integer(count)?)
                .map_err(|_| "ERR value is out of range, must be positive")?,
        ),
        _ => return Err(SYNTAX.into()),
    };
    let taken: Vec<Bytes> = call.change(words[1], fresh, |value| {
        let members = members(value)?;
        let taken: Vec<Bytes> = members.iter().take(wanted.unwrap_or(1)).cloned().collect();
        for member in &taken {
            members.remove(member);
        }
        Ok(taken)
    })?;
    match (wanted, taken.first()) {
        (None, Some(member)) => call.bulk(member),
        (None, None) => call.null(),
        (Some(_), _) => {
            let protocol = call.protocol();
            encode::set_header(call.out, taken.len() as u64, protocol);
            taken.iter().for_each(|member| call.bulk(member));
        }
    }
    Ok(())
}

fn smismember(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let there: Vec<bool> = look(call, words[1], |members| {
        words[2..]
            .iter()
            .map(|member| members.contains(*member))
            .collect()
    })?;
    call.array(there.len());
    there
        .into_iter()
        .for_each(|there| call.integer(i64::from(there)));
    Ok(())
}

fn srandmember(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let mut rng = rand::rng();
    let count = match words[2..] {
        [] => {
            let chosen = look(call, words[1], |members| {
                members.iter().choose(&mut rng).cloned()
            })?;
            match chosen {
                Some(member) => call.bulk(&member),
                None => call.null(),
            }
            return Ok(());
        }
        [count] => super::sample_count(count)?,
        _ => return Err(SYNTAX.into()),
    };
    let chosen: Vec<Bytes> = look(call, words[1], |members| {
        if count >= 0 {
            members.iter().cloned().sample(&mut rng, count as usize)
        } else {
            // A negative count may name a member several times.
            let all: Vec<&Bytes> = members.iter().collect();
            (0..count.unsigned_abs())
                .filter_map(|_| all.choose(&mut rng).map(|member| (*member).clone()))
                .collect()
        }
    })?;
    call.array(chosen.len());
    chosen.iter().for_each(|member| call.bulk(member));
    Ok(())
}

fn smove(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (from, to, member) = (words[1], words[2], words[3]);
    let there = look(call, from, |members| members.contains(member))?;
    // The kind of the target is looked at only where there is something to move from, as in Redis.
    let from_is_there = call.store().read(from, call.now(), |value| value.is_some());
    if from_is_there {
        look(call, to, |_| ())?;
    }
    if there && from != to {
        call.change(from, fresh, |value| Ok(members(value)?.remove(member)))?;
        call.change(to, fresh, |value| {
            Ok(members(value)?.insert(Bytes::from(member)))
        })?;
    }
    call.integer(i64::from(there));
    Ok(())
}

fn sscan(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let options = Walk::parse(&words[2..])?;
    let all: Vec<Bytes> = look(call, words[1], |members| members.iter().cloned().collect())?;
    let elements = all.iter().map(|member| (&**member, None));
    walk(call, &options, elements);
    Ok(())
}

/// The sets at `keys` as one.
fn combined(
    call: &Call<'_>,
    keys: &[&[u8]],
    combination: Combination,
) -> Result<HashSet<Bytes>, Refusal> {
    let mut sets = keys.iter().map(|key| look(call, key, HashSet::clone));
    let mut result = sets.next().transpose()?.unwrap_or_default();
    for other in sets {
        let other = other?;
        match combination {
            Combination::Intersection => result.retain(|member| other.contains(member)),
            Combination::Union => result.extend(other),
            Combination::Difference => result.retain(|member| !other.contains(member)),
        }
    }
    Ok(result)
}

fn combine(call: &mut Call<'_>, keys: &[&[u8]], combination: Combination) -> Result<(), Refusal> {
    let result = combined(call, keys, combination)?;
    let protocol = call.protocol();
    encode::set_header(call.out, result.len() as u64, protocol);
    result.iter().for_each(|member| call.bulk(member));
    Ok(())
}

fn combine_into(
    call: &mut Call<'_>,
    words: Words<'_>,
    combination: Combination,
) -> Result<(), Refusal> {
    let result = combined(call, &words[2..], combination)?;
    let size = result.len();
    call.store().modify(words[1], call.now(), |_| {
        let change = if size == 0 {
            Change::Remove
        } else {
            Change::Put(Entry::lasting(Value::Set(result)))
        };
        ((), change)
    });
    call.count(size);
    Ok(())
}

fn sintercard(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let keys = integer(words[1])
        .ok()
        .and_then(|keys| usize::try_from(keys).ok())
        .filter(|keys| *keys > 0)
        .ok_or("ERR numkeys should be greater than 0")?;
    if keys > words.len() - 2 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let limit = match &words[2 + keys..] {
        [] => 0,
        [word, limit] if is(word, "LIMIT") => integer(limit)
            .ok()
            .and_then(|limit| usize::try_from(limit).ok())
            .ok_or("ERR LIMIT can't be negative")?,
        _ => return Err(SYNTAX.into()),
    };
    let size = combined(call, &words[2..2 + keys], Combination::Intersection)?.len();
    call.count(if limit == 0 { size } else { size.min(limit) });
    Ok(())
}
