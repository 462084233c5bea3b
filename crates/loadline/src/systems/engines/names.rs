//! The keys of engines: a prefix and a number of fixed width.

use std::time::Duration;

use loadline_cache::Batch;
use loadline_load::values::Values;
use loadline_load::workload::Digits;

/// The format of the keys.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    prefix: Vec<u8>,
    digits: Digits,
    keys: u64,
}

impl Names {
    pub(crate) fn new(prefix: &str, keys: u64) -> Self {
        Self {
            prefix: prefix.as_bytes().to_vec(),
            digits: Digits::holding(keys),
            keys,
        }
    }

    pub(crate) fn append(&self, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix);
        let at = out.len();
        out.resize(at + self.digits.width(), b'0');
        self.digits.write(number, &mut out[at..]);
    }

    /// Number of keys.
    pub(crate) fn keys(&self) -> u64 {
        self.keys
    }

    /// Adds a write of the key `number` to `batch`: of its value from `values`, for the time `ttl` if there is one.
    pub(crate) fn put(
        &self,
        number: u64,
        values: &Values,
        ttl: Option<Duration>,
        batch: &mut Batch,
    ) {
        batch.put_with(
            ttl,
            |out| self.append(number, out),
            |out| values.append(number, out),
        );
    }

    /// The key at `place` of an order that visits every key once and differs from the order of their names.
    pub(crate) fn scattered(&self, place: u64) -> u64 {
        // A prime larger than any number of keys, so the two have no common divisor.
        const STEP: u128 = 2_305_843_009_213_693_951;
        let place = u128::from(place % self.keys);
        (place * STEP % u128::from(self.keys)) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn scattered_walk_visits_every_key_once() {
        for keys in [1, 2, 7, 100, 1_000, 65_536] {
            let names = Names::new("p:", keys);
            let visited: BTreeSet<u64> = (0..keys).map(|place| names.scattered(place)).collect();
            assert_eq!(visited.len() as u64, keys);
            assert_eq!(names.scattered(keys), names.scattered(0));
        }
        let names = Names::new("p:", 1_000);
        let neighbours = (0..999)
            .filter(|place| names.scattered(*place).abs_diff(names.scattered(place + 1)) == 1);
        assert!(neighbours.count() < 10);
    }

    #[test]
    fn names_have_the_prefix_and_a_fixed_width() {
        let mut out = Vec::new();
        Names::new("p:", 100).append(42, &mut out);
        assert_eq!(out, b"p:00000042");
    }
}
