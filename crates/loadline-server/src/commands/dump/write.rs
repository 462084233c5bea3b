//! Lengths and strings as they are written.

use super::length;
use crate::commands::numbers::integer;

/// The longest number that a string stores in four bytes.
const LONGEST_NUMBER: usize = "-2147483648".len();

/// Writes a length.
pub(super) fn put_length(out: &mut Vec<u8>, number: u64) {
    match number {
        0..0x40 => out.push(length::SIX_BITS | number as u8),
        0x40..0x4000 => {
            out.push(length::FOURTEEN_BITS | (number >> 8) as u8);
            out.push(number as u8);
        }
        _ => match u32::try_from(number) {
            Ok(number) => {
                out.push(length::FOUR_BYTES);
                out.extend_from_slice(&number.to_be_bytes());
            }
            Err(_) => {
                out.push(length::EIGHT_BYTES);
                out.extend_from_slice(&number.to_be_bytes());
            }
        },
    }
}

/// Writes a string: as a number if it is a short one, otherwise as length and bytes.
pub(super) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let number = integer(bytes)
        .ok()
        .filter(|_| bytes.len() <= LONGEST_NUMBER);
    let number = number.and_then(|number| i32::try_from(number).ok());
    if let Some(number) = number {
        if let Ok(number) = i8::try_from(number) {
            out.push(length::INT8);
            out.extend_from_slice(&number.to_le_bytes());
        } else if let Ok(number) = i16::try_from(number) {
            out.push(length::INT16);
            out.extend_from_slice(&number.to_le_bytes());
        } else {
            out.push(length::INT32);
            out.extend_from_slice(&number.to_le_bytes());
        }
        return;
    }
    put_length(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
