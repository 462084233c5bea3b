//! The estimate of a HyperLogLog: Otmar Ertl, New cardinality estimation algorithms for `HyperLogLog` sketches,
//! arXiv:1702.01284, algorithm 6, as in Redis. It needs no tables and no corrections by range.

use super::REGISTERS;

/// Bits of a hash behind those that choose the register.
const REST: u32 = 50;
/// Possible values of a register: 0 to [`REST`] + 1 from hashes, and up to 63 in a dense sketch.
pub(super) const VALUES: usize = 64;
/// The limit of Flajolet's constant for infinitely many registers, 1 / (2 ln 2).
const ALPHA: f64 = 0.721_347_520_444_481_7;
const SEED: u64 = 0xadc8_3b19;

/// The register of an element, and the value that it raises the register to.
pub(super) fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur(element, SEED);
    let register = hash as usize & (REGISTERS - 1);
    let rest = hash >> REGISTERS.trailing_zeros() | 1 << REST;
    (register, rest.trailing_zeros() as u8 + 1)
}

/// The number of elements, from how many registers have each value.
pub(super) fn estimate(histogram: &[usize; VALUES]) -> u64 {
    let registers = REGISTERS as f64;
    let largest = REST as usize + 1;
    let share = |value: usize| histogram[value] as f64 / registers;
    let mut z = registers * tau(1.0 - share(largest));
    for value in (1..largest).rev() {
        z = (z + histogram[value] as f64) * 0.5;
    }
    z += registers * sigma(share(0));
    (ALPHA * registers * registers / z).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

/// `MurmurHash64A` of Austin Appleby.
fn murmur(bytes: &[u8], seed: u64) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    for word in words {
        let word = u64::from_le_bytes(word.try_into().expect("chunks of eight bytes"));
        let word = word.wrapping_mul(FACTOR);
        let word = (word ^ word >> SHIFT).wrapping_mul(FACTOR);
        hash = (hash ^ word).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}
