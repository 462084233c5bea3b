//! Sets.

use hashbrown::HashSet;
use loadline_resp::encode;
use loadline_store::{Bytes, Value};

use super::{Call, Known, ONE, Refusal, SYNTAX, WRONG_TYPE, Words, integer, known};

pub(super) const TABLE: &[Known] = &[
    known("SADD", -3, true, ONE, sadd),
    known("SREM", -3, true, ONE, srem),
    known("SMEMBERS", 2, false, ONE, smembers),
    known("SISMEMBER", 3, false, ONE, sismember),
    known("SCARD", 2, false, ONE, scard),
    known("SPOP", -2, true, ONE, spop),
];

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
