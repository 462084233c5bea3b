//! Registers as runs of equal values, in the format of Redis:
//!
//! ```text
//! 00llllll            l + 1 registers of 0 (1 to 64)
//! 01llllll llllllll   l + 1 registers of 0 (1 to 16,384)
//! 1vvvvvll            l + 1 registers of v + 1 (1 to 4 registers, 1 to 32)
//! ```
//!
//! Changes split and join runs in the same way as Redis does, so that the bytes are the same.

use super::{Corrupt, HEADER, REGISTERS};

/// The largest value of a register in a run.
const LARGEST: u8 = 32;
/// The most registers of a run with a value, and of a short run of zeros.
const MOST_EQUAL: usize = 4;
const MOST_SHORT: usize = 64;
/// Runs that are looked at for joining after a change.
const JOINED: usize = 5;

/// Registers with the same value, in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) length: usize,
    pub(super) value: u8,
    /// Size in bytes.
    size: usize,
}

/// Result of raising a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It has that value or a larger one.
    Same,
    Raised,
    /// The change does not fit; nothing has changed.
    TooLarge,
}

/// The run at the start of `bytes`.
fn run(bytes: &[u8]) -> Result<Run, Corrupt> {
    let first = *bytes.first().ok_or(Corrupt)?;
    Ok(match first >> 6 {
        0 => Run {
            length: usize::from(first) + 1,
            value: 0,
            size: 1,
        },
        1 => {
            let second = *bytes.get(1).ok_or(Corrupt)?;
            Run {
                length: usize::from(first & 0x3F) << 8 | usize::from(second),
                value: 0,
                size: 2,
            }
            .longer()
        }
        _ => Run {
            length: usize::from(first & 3) + 1,
            value: (first >> 2 & 0x1F) + 1,
            size: 1,
        },
    })
}

impl Run {
    fn longer(self) -> Self {
        Self {
            length: self.length + 1,
            ..self
        }
    }
}

/// All runs; ends behind an invalid one.
pub(super) fn runs(bytes: &[u8]) -> impl Iterator<Item = Result<Run, Corrupt>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let found = run(rest);
        rest = found.map_or(&[], |run| &rest[run.size..]);
        Some(found)
    })
}

pub(super) fn write_zeros(bytes: &mut Vec<u8>, length: usize) {
    let Some(code) = length.checked_sub(1) else {
        return;
    };
    if length > MOST_SHORT {
        bytes.push(0x40 | (code >> 8) as u8);
    }
    bytes.push(code as u8);
}

fn write_equal(bytes: &mut Vec<u8>, value: u8, length: usize) {
    if length > 0 {
        bytes.push(equal(value, length));
    }
}

fn equal(value: u8, length: usize) -> u8 {
    0x80 | (value - 1) << 2 | (length - 1) as u8
}

/// Raises a register of the sketch in `bytes` to `value`, if it is then not larger than `most` bytes.
///
/// # Errors
/// If the runs are corrupt.
pub(super) fn raise(
    bytes: &mut Vec<u8>,
    register: usize,
    value: u8,
    most: usize,
) -> Result<Outcome, Corrupt> {
    if value > LARGEST {
        return Ok(Outcome::TooLarge);
    }
    let (mut at, mut first, mut before) = (HEADER, 0, None);
    let found = loop {
        let run = run(&bytes[at..])?;
        if register < first + run.length {
            break run;
        }
        before = Some(at);
        at += run.size;
        first += run.length;
        if first >= REGISTERS {
            return Err(Corrupt);
        }
    };
    if found.value >= value {
        return Ok(Outcome::Same);
    }
    let (head, tail) = (register - first, first + found.length - 1 - register);
    let mut parts = Vec::with_capacity(5);
    if found.value == 0 {
        write_zeros(&mut parts, head);
        write_equal(&mut parts, value, 1);
        write_zeros(&mut parts, tail);
    } else {
        write_equal(&mut parts, found.value, head);
        write_equal(&mut parts, value, 1);
        write_equal(&mut parts, found.value, tail);
    }
    if parts.len() > found.size && bytes.len() + parts.len() - found.size > most {
        return Ok(Outcome::TooLarge);
    }
    bytes.splice(at..at + found.size, parts);
    join(bytes, before.unwrap_or(HEADER));
    Ok(Outcome::Raised)
}

/// Joins neighbouring runs of one value, from the run at `at` on.
fn join(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOINED {
        let Ok(one) = run(bytes.get(at..).unwrap_or_default()) else {
            return;
        };
        let other = run(&bytes[at + one.size..]);
        match other {
            Ok(other)
                if one.value > 0
                    && other.value == one.value
                    && one.length + other.length <= MOST_EQUAL =>
            {
                bytes[at + 1] = equal(one.value, one.length + other.length);
                bytes.remove(at);
            }
            _ => at += one.size,
        }
    }
}

impl std::fmt::Display for Run {
    /// Writes the run as PFDEBUG DECODE of Redis shows it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.value, self.size) {
            (0, 1) => write!(f, "z:{}", self.length),
            (0, _) => write!(f, "Z:{}", self.length),
            (value, _) => write!(f, "v:{value},{}", self.length),
        }
    }
}
