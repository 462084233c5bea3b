//! BITFIELD: integers of any width in a string.

use loadline_store::{Edit, View};

use super::numbers::integer;
use super::refusal::{Refusal, SYNTAX, WRONG_TYPE};
use super::strings::{bytes_of, fresh};
use super::{Call, Effect, LARGEST, Listed, ONE, Words, is, listed};

pub(super) const TABLE: &[Listed] = &[
    listed("BITFIELD", -2, ONE, |call, words| {
        bitfield(call, words, true)
    }),
    listed("BITFIELD_RO", -2, ONE, |call, words| {
        bitfield(call, words, false)
    }),
];

/// The width of an integer, and whether it has a sign.
#[derive(Debug, Clone, Copy)]
struct Width {
    bits: u32,
    is_signed: bool,
}

impl Width {
    fn parse(word: &[u8]) -> Result<Self, Refusal> {
        let (sign, bits) = word.split_first().unwrap_or((&0, &[]));
        let is_signed = *sign == b'i';
        let most = if is_signed { 64 } else { 63 };
        let bits = integer(bits).ok().and_then(|bits| u32::try_from(bits).ok());
        let bits = bits.filter(|bits| (1..=most).contains(bits) && b"iu".contains(sign));
        let bits = bits.ok_or("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.")?;
        Ok(Self { bits, is_signed })
    }

    fn least(self) -> i128 {
        match self.is_signed {
            true => -(1 << (self.bits - 1)),
            false => 0,
        }
    }

    fn greatest(self) -> i128 {
        match self.is_signed {
            true => (1 << (self.bits - 1)) - 1,
            false => (1 << self.bits) - 1,
        }
    }

    /// The integer of the lowest bits of a number.
    fn wrapped(self, number: i128) -> i128 {
        let lowest = number & ((1 << self.bits) - 1);
        match lowest > self.greatest() {
            true => lowest - (1 << self.bits),
            false => lowest,
        }
    }

    /// The integer at a bit of a string, behind which there are zeros.
    fn read(self, bytes: &[u8], offset: usize) -> i128 {
        let bits = offset..offset + self.bits as usize;
        let number = bits.fold(0, |number, at| {
            let byte = bytes.get(at / 8).copied().unwrap_or(0);
            number << 1 | i128::from(byte >> (7 - at % 8) & 1)
        });
        self.wrapped(number)
    }

    /// Writes an integer at a bit of a string that is long enough.
    fn write(self, bytes: &mut [u8], offset: usize, number: i128) {
        for place in 0..self.bits as usize {
            let at = offset + place;
            let mask = 0x80 >> (at % 8);
            if number >> (self.bits as usize - 1 - place) & 1 == 1 {
                bytes[at / 8] |= mask;
            } else {
                bytes[at / 8] &= !mask;
            }
        }
    }
}

/// The treatment of a number that does not fit.
#[derive(Debug, Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

impl Overflow {
    fn parse(word: &[u8]) -> Result<Self, Refusal> {
        match word {
            _ if is(word, "WRAP") => Ok(Self::Wrap),
            _ if is(word, "SAT") => Ok(Self::Saturate),
            _ if is(word, "FAIL") => Ok(Self::Fail),
            _ => Err("ERR Invalid OVERFLOW type specified".into()),
        }
    }

    /// The number that fits; `None` if there is none.
    fn fit(self, width: Width, number: i128) -> Option<i128> {
        let fitting = number.clamp(width.least(), width.greatest());
        match self {
            _ if fitting == number => Some(number),
            Self::Wrap => Some(width.wrapped(number)),
            Self::Saturate => Some(fitting),
            Self::Fail => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Action {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

/// A subcommand of BITFIELD.
#[derive(Debug, Clone, Copy)]
struct Subcommand {
    action: Action,
    width: Width,
    /// The first bit.
    offset: usize,
}

impl Subcommand {
    /// The index behind its last byte.
    fn end(self) -> usize {
        (self.offset + self.width.bits as usize).div_ceil(8)
    }

    /// Performs it on a string that is long enough, and returns its result.
    fn perform(self, bytes: &mut [u8]) -> Option<i128> {
        let old = self.width.read(bytes, self.offset);
        let (new, overflow) = match self.action {
            Action::Get => return Some(old),
            Action::Set(number, overflow) if self.width.is_signed => (number.into(), overflow),
            // A negative one is a large one.
            Action::Set(number, overflow) => (i128::from(number as u64), overflow),
            Action::Add(number, overflow) => (old + i128::from(number), overflow),
        };
        let new = overflow.fit(self.width, new)?;
        self.width.write(bytes, self.offset, new);
        Some(match self.action {
            Action::Add(..) => new,
            Action::Get | Action::Set(..) => old,
        })
    }
}

fn parse(words: &[&[u8]]) -> Result<Vec<Subcommand>, Refusal> {
    let mut steps = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut rest = words;
    while let Some((name, behind)) = rest.split_first() {
        let count = match () {
            () if is(name, "GET") => 2,
            () if is(name, "SET") || is(name, "INCRBY") => 3,
            () if is(name, "OVERFLOW") => 1,
            () => return Err(SYNTAX.into()),
        };
        let (words, behind) = behind.split_at_checked(count).ok_or(SYNTAX)?;
        rest = behind;
        if let [word] = words {
            overflow = Overflow::parse(word)?;
            continue;
        }
        let width = Width::parse(words[0])?;
        let offset = offset(words[1], width)?;
        let action = match words.get(2) {
            None => Action::Get,
            Some(number) if is(name, "SET") => Action::Set(integer(number)?, overflow),
            Some(number) => Action::Add(integer(number)?, overflow),
        };
        steps.push(Subcommand {
            action,
            width,
            offset,
        });
    }
    Ok(steps)
}

/// Reads the first bit; behind `#`, it is counted in integers.
fn offset(word: &[u8], width: Width) -> Result<usize, Refusal> {
    let (digits, factor) = match word.strip_prefix(b"#") {
        Some(digits) => (digits, i64::from(width.bits)),
        None => (word, 1),
    };
    let offset = integer(digits).ok();
    let offset = offset.and_then(|offset| usize::try_from(offset.checked_mul(factor)?).ok());
    let offset = offset.filter(|offset| offset / 8 < LARGEST);
    Ok(offset.ok_or("ERR bit offset is not an integer or out of range")?)
}

fn bitfield(call: &mut Call<'_>, words: Words<'_>, may_write: bool) -> Result<(), Refusal> {
    let steps = parse(&words[2..])?;
    let writes = steps
        .iter()
        .filter(|step| !matches!(step.action, Action::Get));
    let Some(length) = writes.map(|step| step.end()).max() else {
        return get(call, words[1], &steps);
    };
    if !may_write {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    call.make_growing(words[1]);
    let before = call.shared.watched.changes;
    let (results, _, changes) = call.change_part(
        words[1],
        fresh,
        |value| {
            let bytes = bytes_of(value)?;
            let is_longer = length > bytes.len();
            // GET sees zeros behind the end.
            bytes.resize(bytes.len().max(length), 0);
            let (mut parts, mut changes) = (Vec::new(), 0_usize);
            let mut results = Vec::with_capacity(steps.len());
            for step in &steps {
                if matches!(step.action, Action::Get) {
                    results.push(Some(step.width.read(bytes, step.offset)));
                    continue;
                }
                let begin = step.offset / 8;
                let before = bytes[begin..step.end()].to_vec();
                let result = step.perform(bytes);
                let is_changed = before != bytes[begin..step.end()];
                changes += usize::from(is_changed || is_longer && result.is_some());
                results.push(result);
                if is_changed {
                    parts.push((begin, bytes[begin..step.end()].to_vec()));
                }
            }
            if is_longer {
                parts.push((length - 1, vec![bytes[length - 1]]));
            }
            Ok(Effect::of(!parts.is_empty(), (results, parts, changes)))
        },
        |(_, parts, _), note| {
            for (begin, bytes) in parts {
                note(Edit::Write(*begin, bytes));
            }
        },
    )?;
    call.count_as(before, changes);
    let mut reply = call.reply();
    reply.array(results.len());
    for result in results {
        match result {
            // An integer of 64 bits has a sign, and one without has 63.
            Some(number) => reply.integer(number as i64),
            None => reply.null(),
        }
    }
    Ok(())
}

/// Performs steps that only read.
fn get(call: &mut Call<'_>, key: &[u8], steps: &[Subcommand]) -> Result<(), Refusal> {
    call.show(key, |value, reply| {
        let bytes = match value {
            Some(View::String(bytes)) => bytes,
            Some(_) => return Err(WRONG_TYPE.into()),
            None => &[],
        };
        reply.array(steps.len());
        for step in steps {
            reply.integer(step.width.read(bytes, step.offset) as i64);
        }
        Ok(())
    })
}
