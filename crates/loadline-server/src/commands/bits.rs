//! Bit operations on strings.

use loadline_store::{Edit, View};

use super::numbers::integer;
use super::refusal::{Refusal, SYNTAX, WRONG_TYPE};
use super::strings::{bytes_of, fresh};
use super::{Call, Effect, Keys, LARGEST, Listed, ONE, Words, is, listed};

pub(super) const TABLE: &[Listed] = &[
    listed("SETBIT", 4, ONE, setbit),
    listed("GETBIT", 3, ONE, getbit),
    listed("BITCOUNT", -2, ONE, bitcount),
    listed("BITPOS", -3, ONE, bitpos),
    listed("BITOP", -4, Keys::At(2, -1, 1), bitop),
];

/// The byte and the mask of the bit at an offset.
fn bit(word: &[u8]) -> Result<(usize, u8), Refusal> {
    let offset = integer(word)
        .ok()
        .and_then(|offset| usize::try_from(offset).ok());
    let offset = offset.filter(|offset| offset / 8 < LARGEST);
    let offset = offset.ok_or("ERR bit offset is not an integer or out of range")?;
    Ok((offset / 8, 0x80 >> (offset % 8)))
}

fn setbit(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (place, mask) = bit(words[2])?;
    let is_set = match integer(words[3]) {
        Ok(0) => false,
        Ok(1) => true,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    call.make_growing(words[1]);
    let (was_set, _) = call.change_part(
        words[1],
        fresh,
        |value| {
            let bytes = bytes_of(value)?;
            let is_longer = place >= bytes.len();
            if is_longer {
                bytes.resize(place + 1, 0);
            }
            let was_set = bytes[place] & mask != 0;
            if is_set {
                bytes[place] |= mask;
            } else {
                bytes[place] &= !mask;
            }
            let result = (was_set, bytes[place]);
            Ok(Effect::of(is_longer || was_set != is_set, result))
        },
        |(_, byte), note| note(Edit::Write(place, &[*byte])),
    )?;
    call.reply().flag(was_set);
    Ok(())
}

fn getbit(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (place, mask) = bit(words[2])?;
    call.show(words[1], |value, reply| {
        let byte = match value {
            Some(View::String(bytes)) => bytes.get(place).copied(),
            Some(_) => return Err(WRONG_TYPE.into()),
            None => None,
        };
        reply.flag(byte.unwrap_or(0) & mask != 0);
        Ok(())
    })
}

fn bitcount(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    // Without a key the range is ignored; a wrong kind is refused before an invalid range.
    let is_there = call.show(words[1], |value, reply| match value {
        Some(View::String(_)) => Ok(true),
        Some(_) => Err(Refusal::from(WRONG_TYPE)),
        None => {
            reply.count(0);
            Ok(false)
        }
    })?;
    if !is_there {
        return Ok(());
    }
    let (range, counts_bits) = match words[2..] {
        [] => (None, false),
        [start, end] => (Some((integer(start)?, integer(end)?)), false),
        [start, end, unit] => {
            let range = (integer(start)?, integer(end)?);
            if !is(unit, "BYTE") && !is(unit, "BIT") {
                return Err(SYNTAX.into());
            }
            (Some(range), is(unit, "BIT"))
        }
        _ => return Err(SYNTAX.into()),
    };
    call.show_again(words[1], |value, reply| {
        if let Some(View::String(bytes)) = value {
            let units = if counts_bits {
                8 * bytes.len()
            } else {
                bytes.len()
            };
            let (first, end) = match range.map(|range| places(range, units as i64)) {
                None => (0, 8 * bytes.len()),
                Some(None) => (0, 0),
                Some(Some((first, last))) if counts_bits => (first, last + 1),
                Some(Some((first, last))) => (8 * first, 8 * (last + 1)),
            };
            reply.count(count(bytes, first, end));
        }
    });
    Ok(())
}

/// The indexes that a range selects within `length`, if any; negative ones count from the end.
fn places((start, end): (i64, i64), length: i64) -> Option<(usize, usize)> {
    if start < 0 && end < 0 && start > end {
        return None;
    }
    places_clamped((start, end), length)
}

/// The number of set bits from bit `first` up to bit `end`, exclusive.
fn count(bytes: &[u8], first: usize, end: usize) -> usize {
    if first >= end {
        return 0;
    }
    let (head, tail) = (first / 8, (end - 1) / 8);
    let whole: usize = bytes[head..=tail]
        .iter()
        .map(|byte| byte.count_ones() as usize)
        .sum();
    let before = bytes[head] & !(0xFF >> (first % 8));
    let behind = bytes[tail] & (0x7F >> ((end - 1) % 8));
    whole - before.count_ones() as usize - behind.count_ones() as usize
}

fn bitpos(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let wanted = match integer(words[2])? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    call.show(words[1], |value, reply| {
        let bytes = match value {
            Some(View::String(bytes)) => bytes,
            Some(_) => return Err(WRONG_TYPE.into()),
            // A missing key counts as an infinite run of zeros.
            None => {
                reply.integer(if wanted { -1 } else { 0 });
                return Ok(());
            }
        };
        let bits = 8 * bytes.len();
        let (range, has_end) = match words[3..] {
            [] => ((bits > 0).then_some((0, bits)), false),
            [start] => {
                let range = places_clamped((integer(start)?, -1), bytes.len() as i64);
                (
                    range.map(|(first, last)| (8 * first, 8 * (last + 1))),
                    false,
                )
            }
            [start, end] => {
                let range = places_clamped((integer(start)?, integer(end)?), bytes.len() as i64);
                (range.map(|(first, last)| (8 * first, 8 * (last + 1))), true)
            }
            [start, end, unit] => {
                let start = integer(start)?;
                if !is(unit, "BYTE") && !is(unit, "BIT") {
                    return Err(SYNTAX.into());
                }
                let scale = if is(unit, "BIT") { 1 } else { 8 };
                let range = places_clamped((start, integer(end)?), (bits / scale) as i64);
                let range = range.map(|(first, last)| (scale * first, scale * (last + 1)));
                (range, true)
            }
            _ => return Err(SYNTAX.into()),
        };
        let found = range.map(|(first, end)| (position(bytes, wanted, first, end), end));
        reply.integer(match found {
            Some((Some(place), _)) => place as i64,
            // Without an end of the range, the zeros after the string count.
            Some((None, end)) if !wanted && !has_end => end as i64,
            _ => -1,
        });
        Ok(())
    })
}

/// The first and last index of a range within `length`, if any. Unlike [`places`], it handles a reversed
/// negative range as BITPOS of Redis does.
fn places_clamped((start, end): (i64, i64), length: i64) -> Option<(usize, usize)> {
    let place = |at: i64| {
        if at < 0 {
            at.saturating_add(length).max(0)
        } else {
            at
        }
    };
    let (start, end) = (place(start), place(end).min(length - 1));
    (start <= end).then_some((start as usize, end as usize))
}

/// The first bit from `first` up to `end`, exclusive, that equals `wanted`.
fn position(bytes: &[u8], wanted: bool, first: usize, end: usize) -> Option<usize> {
    let flip = if wanted { 0 } else { 0xFF };
    let mut at = first;
    while at < end {
        let byte = (bytes[at / 8] ^ flip) & (0xFF >> (at % 8));
        if byte != 0 {
            let found = at / 8 * 8 + byte.leading_zeros() as usize;
            return (found < end).then_some(found);
        }
        at = (at / 8 + 1) * 8;
    }
    None
}

fn bitop(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (operation, target, keys) = (words[1], words[2], &words[3..]);
    let combine: fn(u8, u8) -> u8 = if is(operation, "AND") {
        |one, other| one & other
    } else if is(operation, "OR") {
        |one, other| one | other
    } else if is(operation, "XOR") {
        |one, other| one ^ other
    } else if is(operation, "NOT") {
        |one, _| !one
    } else {
        return Err(SYNTAX.into());
    };
    if is(operation, "NOT") && keys.len() > 1 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    let mut strings = Vec::with_capacity(keys.len());
    for key in keys {
        strings.push(call.show(key, |value, _| match value {
            Some(View::String(bytes)) => Ok(bytes.to_vec()),
            Some(_) => Err(Refusal::from(WRONG_TYPE)),
            None => Ok(Vec::new()),
        })?);
    }
    let length = strings.iter().map(Vec::len).max().unwrap_or(0);
    let byte = |at: usize| {
        let mut bytes = strings
            .iter()
            .map(|string| string.get(at).copied().unwrap_or(0));
        let first = bytes.next().unwrap_or(0);
        if is(operation, "NOT") {
            combine(first, 0)
        } else {
            bytes.fold(first, combine)
        }
    };
    let result: Vec<u8> = (0..length).map(byte).collect();
    if length == 0 {
        call.remove(target);
    } else {
        let before = call.shared.watched.changes;
        call.put_string(target, b"", None);
        call.change(target, fresh, |value| {
            bytes_of(value)?.extend_from_slice(&result);
            Ok(Effect::Changed(()))
        })?;
        call.count_as(before, 1);
    }
    call.reply().count(length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The plain version: bit by bit.
        #[test]
        fn first_bit_is_found_between_two_places(bytes in proptest::collection::vec(prop_oneof![Just(0_u8), Just(0xFF), any::<u8>()], 1..8), a in 0..64_usize, b in 0..64_usize, wanted: bool) {
            let bits = 8 * bytes.len();
            let (first, end) = (a.min(b).min(bits), a.max(b).min(bits));
            let is_wanted = |at: &usize| (bytes[at / 8] >> (7 - at % 8) & 1 == 1) == wanted;
            prop_assert_eq!(position(&bytes, wanted, first, end), (first..end).find(is_wanted));
        }

        /// The plain version: bit by bit.
        #[test]
        fn bits_are_counted_between_two_places(bytes in proptest::collection::vec(any::<u8>(), 1..20), a in 0..160_usize, b in 0..160_usize) {
            let bits = 8 * bytes.len();
            let (first, end) = (a.min(b).min(bits), a.max(b).min(bits));
            let is_set = |at: &usize| bytes[at / 8] >> (7 - at % 8) & 1 == 1;
            prop_assert_eq!(count(&bytes, first, end), (first..end).filter(is_set).count());
        }
    }
}
