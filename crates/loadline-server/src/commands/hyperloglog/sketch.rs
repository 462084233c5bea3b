//! The strings that hold HyperLogLogs, in the format of Redis.
//!
//! A header of 16 bytes (`HYLL`, the encoding, three zero bytes, and the last estimate as a little-endian number whose
//! highest bit says that it is out of date) is followed by 16,384 registers: in the dense encoding 6 bits each, in the
//! sparse one as runs, see [`sparse`].

use super::{Corrupt, HEADER, REGISTERS, estimate, sparse};

const BITS: usize = 6;
const DENSE_BYTES: usize = HEADER + REGISTERS * BITS / 8;
const MAGIC: &[u8] = b"HYLL";
const ENCODING_AT: usize = 4;
const ESTIMATE_AT: usize = 8;
/// Set in the last byte of an estimate that is out of date.
const OUTDATED: u8 = 0x80;

/// The encoding of the registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Dense,
    Sparse,
}

/// The encoding of a string; `None` if it is no HyperLogLog.
pub(super) fn encoding(bytes: &[u8]) -> Option<Encoding> {
    if bytes.len() < HEADER || !bytes.starts_with(MAGIC) {
        return None;
    }
    match bytes[ENCODING_AT] {
        0 => (bytes.len() == DENSE_BYTES).then_some(Encoding::Dense),
        1 => Some(Encoding::Sparse),
        _ => None,
    }
}

/// A sketch without elements.
pub(super) fn empty() -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    bytes[ENCODING_AT] = 1;
    sparse::write_zeros(&mut bytes, REGISTERS);
    bytes
}

/// The last estimate, if it is up to date.
pub(super) fn known_estimate(bytes: &[u8]) -> Option<u64> {
    let field: [u8; 8] = bytes[ESTIMATE_AT..HEADER].try_into().ok()?;
    (field[7] & OUTDATED == 0).then(|| u64::from_le_bytes(field))
}

pub(super) fn set_estimate(bytes: &mut [u8], estimate: u64) {
    bytes[ESTIMATE_AT..HEADER].copy_from_slice(&estimate.to_le_bytes());
}

pub(super) fn outdate_estimate(bytes: &mut [u8]) {
    bytes[HEADER - 1] |= OUTDATED;
}

/// Passes each run of equal registers to `visit`: its length and its value.
///
/// # Errors
/// If there are not exactly as many registers as there have to be.
pub(super) fn each_run(bytes: &[u8], mut visit: impl FnMut(usize, u8)) -> Result<(), Corrupt> {
    if encoding(bytes) == Some(Encoding::Dense) {
        (0..REGISTERS).for_each(|register| visit(1, get(bytes, register)));
        return Ok(());
    }
    let mut count = 0;
    for run in sparse::runs(&bytes[HEADER..]) {
        let run = run?;
        count += run.length;
        if count > REGISTERS {
            return Err(Corrupt);
        }
        visit(run.length, run.value);
    }
    if count == REGISTERS {
        Ok(())
    } else {
        Err(Corrupt)
    }
}

/// Raises each of `registers` to that of the sketch.
///
/// # Errors
/// As [`each_run`].
pub(super) fn merge_into(registers: &mut [u8; REGISTERS], bytes: &[u8]) -> Result<(), Corrupt> {
    let mut at = 0;
    each_run(bytes, |length, value| {
        for register in &mut registers[at..at + length] {
            *register = value.max(*register);
        }
        at += length;
    })
}

/// The estimated number of elements.
///
/// # Errors
/// As [`each_run`].
pub(super) fn count(bytes: &[u8]) -> Result<u64, Corrupt> {
    let mut histogram = [0; estimate::VALUES];
    each_run(bytes, |length, value| {
        histogram[usize::from(value)] += length;
    })?;
    Ok(estimate::estimate(&histogram))
}

/// The effect of raising a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raised {
    No,
    /// A dense register, whose bits begin in this byte.
    Dense(usize),
    Sparse,
}

/// Raises a register to `value`. A sparse sketch becomes dense if it would be larger than `most_sparse` bytes.
///
/// # Errors
/// If the sketch is corrupt.
pub(super) fn raise(
    bytes: &mut Vec<u8>,
    register: usize,
    value: u8,
    most_sparse: usize,
) -> Result<Raised, Corrupt> {
    if encoding(bytes) == Some(Encoding::Sparse) {
        match sparse::raise(bytes, register, value, most_sparse)? {
            sparse::Outcome::Same => return Ok(Raised::No),
            sparse::Outcome::Raised => {
                outdate_estimate(bytes);
                return Ok(Raised::Sparse);
            }
            sparse::Outcome::TooLarge => make_dense(bytes)?,
        }
    }
    if get(bytes, register) >= value {
        return Ok(Raised::No);
    }
    set(bytes, register, value);
    Ok(Raised::Dense(HEADER + register * BITS / 8))
}

/// Changes the encoding of a sketch to the dense one.
///
/// # Errors
/// If the sketch is corrupt; it stays as it is then.
pub(super) fn make_dense(bytes: &mut Vec<u8>) -> Result<(), Corrupt> {
    if encoding(bytes) == Some(Encoding::Dense) {
        return Ok(());
    }
    let mut dense = bytes[..HEADER].to_vec();
    dense[ENCODING_AT] = 0;
    dense.resize(DENSE_BYTES, 0);
    let mut at = 0;
    each_run(bytes, |length, value| {
        if value > 0 {
            (at..at + length).for_each(|register| set(&mut dense, register, value));
        }
        at += length;
    })?;
    *bytes = dense;
    Ok(())
}

/// A register of a dense sketch.
fn get(bytes: &[u8], register: usize) -> u8 {
    let (at, shift) = place(register);
    let second = bytes.get(at + 1).copied().unwrap_or(0);
    let both = u16::from_le_bytes([bytes[at], second]) >> shift;
    (both & 0x3F) as u8
}

fn set(bytes: &mut [u8], register: usize, value: u8) {
    let (at, shift) = place(register);
    let second = bytes.get(at + 1).copied().unwrap_or(0);
    let both = u16::from_le_bytes([bytes[at], second]);
    let changed = both & !(0x3F << shift) | u16::from(value) << shift;
    let [first, second] = changed.to_le_bytes();
    bytes[at] = first;
    if let Some(place) = bytes.get_mut(at + 1) {
        *place = second;
    }
}

/// The byte in which the bits of a register begin, and how many bits of it belong to the register before.
fn place(register: usize) -> (usize, usize) {
    let bit = register * BITS;
    (HEADER + bit / 8, bit % 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The plain version: an array of registers.
        #[test]
        fn registers_of_both_encodings_are_those_that_were_raised(
            raised in prop::collection::vec((0..REGISTERS, 1..=50_u8), 0..400),
            near in prop::collection::vec((0..64_usize, 1..=4_u8), 0..200),
            most_sparse in prop_oneof![Just(3_000_usize), Just(60), Just(0)],
        ) {
            let mut plain = [0; REGISTERS];
            let mut bytes = empty();
            for (register, value) in raised.into_iter().chain(near) {
                let was = plain[register];
                plain[register] = value.max(was);
                let outcome = raise(&mut bytes, register, value, most_sparse).unwrap();
                prop_assert_eq!(outcome != Raised::No, was < value);
            }
            let mut read = [0; REGISTERS];
            merge_into(&mut read, &bytes).unwrap();
            prop_assert!(read == plain);
            if encoding(&bytes) == Some(Encoding::Sparse) {
                prop_assert!(bytes.len() <= most_sparse.max(empty().len()));
                make_dense(&mut bytes).unwrap();
                let mut dense = [0; REGISTERS];
                merge_into(&mut dense, &bytes).unwrap();
                prop_assert!(dense == plain);
            }
        }

        #[test]
        fn sparse_sketch_of_any_bytes_is_read_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            register in 0..REGISTERS,
        ) {
            let mut sketch = empty();
            sketch.truncate(HEADER);
            sketch.extend_from_slice(&bytes);
            let _ = count(&sketch);
            let _ = raise(&mut sketch, register, 7, 3_000);
            let _ = make_dense(&mut sketch);
        }
    }
}
