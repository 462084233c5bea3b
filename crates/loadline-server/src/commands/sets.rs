//! Sets.

use loadline_store::{Edit, Entry, Members, Value, View};
use rand::seq::IteratorRandom;

use super::numbers::{integer, random_below, sample_count, unsigned};
use super::refusal::{Refusal, SYNTAX, WRONG_TYPE};
use super::reply::Reply;
use super::{ALL, Call, Effect, Keys, Listed, ONE, TWO, Words, is, listed, scan};
use crate::settings::Settings;

pub(super) const TABLE: &[Listed] = &[
    listed("SADD", -3, ONE, sadd),
    listed("SREM", -3, ONE, srem),
    listed("SMEMBERS", 2, ONE, |call, words| {
        look(call, words[1], |members, reply| {
            reply_members(members, reply);
        })
    }),
    listed("SISMEMBER", 3, ONE, |call, words| {
        look(call, words[1], |members, reply| {
            reply.flag(members.contains(words[2]));
        })
    }),
    listed("SMISMEMBER", -3, ONE, smismember),
    listed("SCARD", 2, ONE, |call, words| {
        look(call, words[1], |members, reply| reply.count(members.len()))
    }),
    listed("SPOP", -2, ONE, spop),
    listed("SRANDMEMBER", -2, ONE, srandmember),
    listed("SMOVE", 4, TWO, smove),
    listed("SSCAN", -3, ONE, sscan),
    listed("SINTER", -2, ALL, |call, words| {
        combine(call, &words[1..], Combination::Intersection)
    }),
    listed("SUNION", -2, ALL, |call, words| {
        combine(call, &words[1..], Combination::Union)
    }),
    listed("SDIFF", -2, ALL, |call, words| {
        combine(call, &words[1..], Combination::Difference)
    }),
    listed("SINTERSTORE", -3, ALL, |call, words| {
        combine_into(call, words, Combination::Intersection)
    }),
    listed("SUNIONSTORE", -3, ALL, |call, words| {
        combine_into(call, words, Combination::Union)
    }),
    listed("SDIFFSTORE", -3, ALL, |call, words| {
        combine_into(call, words, Combination::Difference)
    }),
    listed("SINTERCARD", -3, Keys::Counted(1), sintercard),
];

/// The operation that combines sets.
#[derive(Debug, Clone, Copy)]
enum Combination {
    Intersection,
    Union,
    Difference,
}

fn fresh() -> Value {
    Value::Set(Members::new())
}

fn members_of(value: &mut Value) -> Result<&mut Members, Refusal> {
    match value {
        Value::Set(members) => Ok(members),
        _ => Err(WRONG_TYPE.into()),
    }
}

/// Adds a member. A set of integers is sorted, and permanently loses its order when Redis would convert it to
/// a hash table.
pub(super) fn add(members: &mut Members, member: &[u8], settings: &Settings) -> bool {
    let number = members.is_ordered().then(|| integer(member));
    let is_new = if let Some(Ok(number)) = number {
        let is_behind = |other: &[u8]| integer(other).is_ok_and(|other| other > number);
        members.insert_sorted(member, (), is_behind)
    } else {
        members.relax();
        members.insert(member, ()).is_none()
    };
    if is_new && members.len() as u64 > settings.set_max_intset_entries {
        members.relax();
    }
    is_new
}

/// Passes the members at `key` to a closure; none if there is no key.
fn look<R>(
    call: &mut Call<'_>,
    key: &[u8],
    look: impl FnOnce(&Members, &mut Reply<'_>) -> R,
) -> Result<R, Refusal> {
    call.show(key, |value, reply| match value {
        Some(View::Set(members)) => Ok(look(members, reply)),
        Some(_) => Err(WRONG_TYPE.into()),
        None => Ok(look(&Members::new(), reply)),
    })
}

fn reply_members(members: &Members, reply: &mut Reply<'_>) {
    reply.set(members.len());
    members.iter().for_each(|(member, ())| reply.bulk(member));
}

fn sadd(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let settings = call.shared.settings.clone();
    let added = call.change_part(
        words[1],
        fresh,
        |value| {
            let members = members_of(value)?;
            let new = words[2..].iter();
            let added = new.filter(|member| add(members, member, &settings)).count();
            Ok(Effect::of(added > 0, added))
        },
        |_, note| note(Edit::AddMembers(&words[2..])),
    )?;
    call.count_elements(added);
    call.reply().count(added);
    Ok(())
}

fn srem(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let removed = call.change_part(
        words[1],
        fresh,
        |value| {
            let members = members_of(value)?;
            let removed = words[2..]
                .iter()
                .filter(|member| members.remove(member).is_some())
                .count();
            Ok(Effect::of(removed > 0, removed))
        },
        |_, note| note(Edit::RemoveMembers(&words[2..])),
    )?;
    call.count_elements(removed);
    call.reply().count(removed);
    Ok(())
}

fn smismember(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    look(call, words[1], |members, reply| {
        reply.array(words.len() - 2);
        for member in &words[2..] {
            reply.flag(members.contains(member));
        }
    })
}

fn spop(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let wanted = match words[2..] {
        [] => None,
        [count] => Some(unsigned(
            count,
            "ERR value is out of range, must be positive",
        )?),
        _ => return Err(SYNTAX.into()),
    };
    let taken = call.change_part(
        words[1],
        fresh,
        |value| {
            let members = members_of(value)?;
            let taken = take_random(members, wanted.unwrap_or(1));
            Ok(Effect::of(!taken.is_empty(), taken))
        },
        |taken, note| {
            let taken: Vec<&[u8]> = taken.iter().map(Vec::as_slice).collect();
            note(Edit::RemoveMembers(&taken));
        },
    )?;
    call.count_elements(taken.len());
    let mut reply = call.reply();
    if wanted.is_none() {
        reply.maybe(taken.first().map(Vec::as_slice));
    } else {
        reply.set(taken.len());
        taken.iter().for_each(|member| reply.bulk(member));
    }
    Ok(())
}

/// Removes this number of members, all equally likely.
fn take_random(members: &mut Members, wanted: usize) -> Vec<Vec<u8>> {
    let mut rng = rand::rng();
    if wanted >= members.len() {
        let all = std::mem::take(members);
        return all.iter().map(|(member, ())| member.to_vec()).collect();
    }
    // Scanning the whole set is faster if a large part of it is removed.
    if wanted < members.len() / 16 + 2 {
        let one = |_| {
            let (member, ()) = members.choose(random_below(&mut rng))?;
            let member = member.to_vec();
            members.remove(&member);
            Some(member)
        };
        return (0..wanted).filter_map(one).collect();
    }
    let all = members.iter().map(|(member, ())| member.to_vec());
    let chosen = all.sample(&mut rng, wanted);
    for member in &chosen {
        members.remove(member);
    }
    chosen
}

fn srandmember(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let mut rng = rand::rng();
    let count = match words[2..] {
        [] => None,
        [count] => Some(sample_count(count)?),
        _ => return Err(SYNTAX.into()),
    };
    look(call, words[1], |members, reply| {
        let Some(count) = count else {
            let chosen = members.choose(random_below(&mut rng));
            reply.maybe(chosen.map(|(member, ())| member));
            return;
        };
        let chosen: Vec<&[u8]> = if count >= 0 {
            let all = members.iter().map(|(member, ())| member);
            all.sample(&mut rng, count as usize)
        } else {
            // A negative count can return a member several times.
            (0..count.unsigned_abs())
                .filter_map(|_| members.choose(random_below(&mut rng)))
                .map(|(member, ())| member)
                .collect()
        };
        reply.array(chosen.len());
        chosen.into_iter().for_each(|member| reply.bulk(member));
    })
}

fn smove(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (from, to, member) = (words[1], words[2], words[3]);
    // The kind of the target is checked only if the source exists, as in Redis.
    if !call.has(from) {
        call.reply().flag(false);
        return Ok(());
    }
    let is_member = contains(call, from, member)?;
    contains(call, to, member)?;
    if is_member && from != to {
        call.change_part(
            from,
            fresh,
            |value| {
                members_of(value)?.remove(member);
                Ok(Effect::Changed(()))
            },
            |(), note| note(Edit::RemoveMembers(&[member])),
        )?;
        let settings = call.shared.settings.clone();
        call.change_part(
            to,
            fresh,
            |value| {
                let is_new = add(members_of(value)?, member, &settings);
                Ok(Effect::of(is_new, ()))
            },
            |(), note| note(Edit::AddMembers(&[member])),
        )?;
    }
    call.reply().flag(is_member);
    Ok(())
}

fn contains(call: &Call<'_>, key: &[u8], member: &[u8]) -> Result<bool, Refusal> {
    call.store().view(key, call.now(), |value| match value {
        Some(View::Set(members)) => Ok(members.contains(member)),
        Some(_) => Err(WRONG_TYPE.into()),
        None => Ok(false),
    })
}

fn sscan(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    scan::elements(call, words, "set", |value, places, show| {
        if let View::Set(members) = value {
            members
                .page(places)
                .for_each(|(member, ())| show(member, None));
        }
    })
}

/// Combines the sets at `keys`. Every key is checked, so that one of another kind is refused. The result is a
/// new set, sorted if all members are integers.
fn combined(
    call: &mut Call<'_>,
    keys: &[&[u8]],
    combination: Combination,
) -> Result<Members, Refusal> {
    let settings = call.shared.settings.clone();
    let mut chosen: Vec<Vec<u8>> = look(call, keys[0], |members, _| names(members))?;
    for key in &keys[1..] {
        look(call, key, |other, _| match combination {
            Combination::Intersection => chosen.retain(|member| other.contains(member)),
            Combination::Union => chosen.extend(names(other)),
            Combination::Difference => chosen.retain(|member| !other.contains(member)),
        })?;
    }
    let mut result = Members::new();
    for member in &chosen {
        add(&mut result, member, &settings);
    }
    Ok(result)
}

fn names(members: &Members) -> Vec<Vec<u8>> {
    members.iter().map(|(member, ())| member.to_vec()).collect()
}

fn combine(call: &mut Call<'_>, keys: &[&[u8]], combination: Combination) -> Result<(), Refusal> {
    let result = combined(call, keys, combination)?;
    reply_members(&result, &mut call.reply());
    Ok(())
}

fn combine_into(
    call: &mut Call<'_>,
    words: Words<'_>,
    combination: Combination,
) -> Result<(), Refusal> {
    let result = combined(call, &words[2..], combination)?;
    let size = result.len();
    if size == 0 {
        call.remove(words[1]);
    } else {
        call.put(words[1], Entry::lasting(Value::Set(result)));
    }
    call.reply().count(size);
    Ok(())
}

fn sintercard(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let keys = unsigned(words[1], "ERR numkeys should be greater than 0")?;
    if keys == 0 {
        return Err("ERR numkeys should be greater than 0".into());
    }
    if keys > words.len() - 2 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let mut limit = 0;
    let mut rest = words[2 + keys..].iter();
    while let Some(word) = rest.next() {
        let number = rest.next().filter(|_| is(word, "LIMIT")).ok_or(SYNTAX)?;
        limit = unsigned(number, "ERR LIMIT can't be negative")?;
    }
    let size = combined(call, &words[2..2 + keys], Combination::Intersection)?.len();
    call.reply()
        .count(if limit == 0 { size } else { size.min(limit) });
    Ok(())
}
