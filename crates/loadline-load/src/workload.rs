//! Workloads: weighted commands with variable keys, numbers and payloads.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;
use crate::keys::{KeyDist, KeyPicker, below};
use crate::values::{STAMP_BYTES, Values};
use rand::rngs::SmallRng;

/// Writes the length header of a payload of the given size in the target's protocol.
pub type LengthHeader = fn(&mut Vec<u8>, usize);

/// The source of a number in a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// A key drawn from the workload's distribution.
    Key,
    /// The last key drawn in the same command.
    SameKey,
    /// A key that does not exist yet; the key space grows by one.
    NewKey,
    /// A uniform number below the bound.
    Below(u64),
}

/// The number of decimal digits of a number, with leading zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digits {
    /// Eight digits, for numbers below 10^8.
    Eight,
    /// Sixteen digits, for numbers below 10^16.
    Sixteen,
}

impl Digits {
    /// The smaller width that fits all numbers below `bound`.
    #[must_use]
    pub fn holding(bound: u64) -> Self {
        if bound <= 100_000_000 {
            Self::Eight
        } else {
            Self::Sixteen
        }
    }

    /// The number of digits.
    #[must_use]
    pub fn width(self) -> usize {
        match self {
            Self::Eight => 8,
            Self::Sixteen => 16,
        }
    }

    /// Writes `number` over the first [`width`](Self::width) bytes of `out`.
    ///
    /// # Panics
    /// If `out` is shorter than the width.
    #[inline]
    pub fn write(self, number: u64, out: &mut [u8]) {
        // Stores of constant length: a slice is copied by a call.
        let (eights, _) = out.as_chunks_mut();
        match self {
            Self::Eight => eights[0] = eight_digits(number as u32),
            Self::Sixteen => {
                eights[0] = eight_digits((number / 100_000_000) as u32);
                eights[1] = eight_digits((number % 100_000_000) as u32);
            }
        }
    }
}

/// Eight decimal digits at once: the number is halved into lanes of 4, 2 and 1 digits inside one
/// 64-bit word (after Paul Khuong's "How to print integers really fast", 2017).
#[inline]
fn eight_digits(number: u32) -> [u8; 8] {
    let number = u64::from(number);
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007F_0000_007F;
    let twos = hundreds | ((fours - 100 * hundreds) << 16);
    let tens = ((twos * 103) >> 10) & 0x000F_000F_000F_000F;
    let ones = tens | ((twos - 10 * tens) << 8);
    (ones + 0x3030_3030_3030_3030).to_le_bytes()
}

/// A part of a command in wire format.
#[derive(Debug, Clone)]
pub enum Part {
    /// Constant bytes.
    Literal(Vec<u8>),
    /// A number in fixed width.
    Number(Number, Digits),
    /// The payload of the last drawn key, without its length header: only if all payloads have one size and
    /// the header is part of a literal.
    Payload,
    /// A payload with its length header, for sizes that differ by key.
    SizedPayload(LengthHeader),
}

/// One command of a workload.
#[derive(Debug, Clone)]
pub struct Command {
    /// The name for readers.
    pub name: String,
    /// The relative weight in the mix.
    pub weight: u32,
    /// The wire format.
    pub parts: Vec<Part>,
    /// The number of replies.
    pub replies: u32,
    /// Whether it reads keys that should exist: a nil reply is then a miss.
    pub reads: bool,
    /// Whether its reply is the payload of the last drawn key, so that it can be verified.
    pub returns_payload: bool,
}

/// Commands of a connection, with their keys and payloads.
#[derive(Debug)]
pub struct Workload {
    commands: Vec<Command>,
    keys: KeySpace,
    values: Values,
    single_replies: bool,
}

/// The numbered keys of a workload and their distribution.
#[derive(Debug)]
pub struct KeySpace {
    picker: KeyPicker,
    loaded: u64,
    inserted: AtomicU64,
    /// The number of newest keys that may not have arrived yet and are not read.
    unsettled: u64,
}

impl KeySpace {
    /// Creates `loaded` keys, drawn by `dist`; the last `unsettled` inserted keys (as many as can be in
    /// flight) are not drawn.
    ///
    /// # Errors
    /// [`Error::Plan`] if the distribution is invalid.
    pub fn new(dist: &KeyDist, loaded: u64, unsettled: u64) -> Result<Self, Error> {
        Ok(Self {
            picker: KeyPicker::new(dist, loaded)?,
            loaded,
            inserted: AtomicU64::new(0),
            unsettled,
        })
    }

    /// The current number of keys.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.loaded + self.inserted.load(Ordering::Relaxed)
    }

    /// Whether there are no keys; always false.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Workload {
    /// Creates a workload.
    ///
    /// # Errors
    /// [`Error::Plan`] if there is no command, a command has no weight or no reply, the sum of weights
    /// exceeds `u32::MAX`, or a fixed-size payload is used with variable sizes.
    pub fn new(commands: Vec<Command>, keys: KeySpace, values: Values) -> Result<Self, Error> {
        if commands.is_empty() {
            return Err(Error::Plan("a workload needs at least one command".into()));
        }
        for command in &commands {
            if command.weight == 0 || command.replies == 0 {
                return Err(Error::Plan(format!(
                    "{}: weight and replies must be at least 1",
                    command.name
                )));
            }
            if command
                .parts
                .iter()
                .any(|part| matches!(part, Part::Payload))
                && values.fixed_size().is_none()
            {
                return Err(Error::Plan(format!(
                    "{}: payload sizes differ, so each needs its length header",
                    command.name
                )));
            }
        }
        let weights: u64 = commands
            .iter()
            .map(|command| u64::from(command.weight))
            .sum();
        if u32::try_from(weights).is_err() {
            return Err(Error::Plan(format!(
                "the weights of the commands add up to {weights}; they may be {} together",
                u32::MAX
            )));
        }
        let single_replies = commands.iter().all(|command| command.replies == 1);
        Ok(Self {
            commands,
            keys,
            values,
            single_replies,
        })
    }

    /// The commands.
    #[must_use]
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Whether every command has exactly one reply.
    #[must_use]
    pub fn single_replies(&self) -> bool {
        self.single_replies
    }

    /// The payloads.
    #[must_use]
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The key space.
    #[must_use]
    pub fn keys(&self) -> &KeySpace {
        &self.keys
    }
}

/// A connection's source of random choices, and its position in a sequential walk.
#[derive(Debug, Clone)]
pub struct Chooser {
    rng: SmallRng,
    next_sequential: u64,
    stride: u64,
    last_key: u64,
}

impl Chooser {
    /// Creates a seeded chooser; a sequential walk takes every `stride`-th key from `first` on.
    #[must_use]
    pub fn new(rng: SmallRng, first: u64, stride: u64) -> Self {
        Self {
            rng,
            next_sequential: first,
            stride,
            last_key: 0,
        }
    }

    /// The last drawn key.
    #[inline]
    #[must_use]
    pub fn last_key(&self) -> u64 {
        self.last_key
    }

    /// Draws a number for a command over `keys`.
    #[inline]
    pub fn number(&mut self, number: Number, keys: &KeySpace) -> u64 {
        match number {
            Number::Key => {
                self.last_key = self.key(keys);
                self.last_key
            }
            Number::SameKey => self.last_key,
            Number::NewKey => {
                self.last_key = keys.loaded + keys.inserted.fetch_add(1, Ordering::Relaxed);
                self.last_key
            }
            Number::Below(bound) => below(&mut self.rng, bound),
        }
    }

    #[inline]
    fn key(&mut self, keys: &KeySpace) -> u64 {
        if keys.picker.is_sequential() {
            let key = self.next_sequential % keys.loaded;
            self.next_sequential += self.stride;
            return key;
        }
        let settled = keys
            .inserted
            .load(Ordering::Relaxed)
            .saturating_sub(keys.unsettled);
        keys.picker.pick(&mut self.rng, keys.loaded + settled)
    }

    /// Chooses a command by weight; `cumulative` are the running sums of the weights.
    #[inline]
    pub fn command(&mut self, cumulative: &[u32]) -> usize {
        let [.., total] = cumulative else { return 0 };
        if cumulative.len() == 1 {
            return 0;
        }
        let ticket = below(&mut self.rng, u64::from(*total)) as u32;
        cumulative
            .iter()
            .position(|&sum| ticket < sum)
            .expect("a ticket is below the last sum")
    }
}

/// The running sums of the weights of `commands`, which belong to one [`Workload`].
#[must_use]
pub fn cumulative_weights(commands: &[Command]) -> Vec<u32> {
    commands
        .iter()
        .scan(0_u32, |sum, command| {
            *sum = sum.saturating_add(command.weight);
            Some(*sum)
        })
        .collect()
}

/// A command of constant length: its bytes, and the places to patch.
#[derive(Debug)]
pub(crate) struct Preformatted {
    pub(crate) bytes: Vec<u8>,
    patches: Vec<Patch>,
}

#[derive(Debug, Clone, Copy)]
enum Patch {
    Number {
        at: usize,
        number: Number,
        digits: Digits,
    },
    Stamp {
        at: usize,
        payload_bytes: usize,
    },
}

impl Preformatted {
    /// Formats `command` once; `None` if its length varies.
    pub(crate) fn of(command: &Command, values: &Values) -> Option<Self> {
        let mut bytes = Vec::new();
        let mut patches = Vec::new();
        for part in &command.parts {
            match part {
                Part::Literal(literal) => bytes.extend_from_slice(literal),
                Part::Number(number, digits) => {
                    patches.push(Patch::Number {
                        at: bytes.len(),
                        number: *number,
                        digits: *digits,
                    });
                    bytes.resize(bytes.len() + digits.width(), b'0');
                }
                Part::Payload => {
                    let payload_bytes = values.fixed_size()?;
                    patches.push(Patch::Stamp {
                        at: bytes.len(),
                        payload_bytes,
                    });
                    bytes.extend_from_slice(values.filler(payload_bytes));
                }
                Part::SizedPayload(_) => return None,
            }
        }
        Some(Self { bytes, patches })
    }

    /// Patches an instance in place; `instance` contains the bytes of this command.
    #[inline]
    pub(crate) fn patch(&self, instance: &mut [u8], chooser: &mut Chooser, workload: &Workload) {
        for patch in &self.patches {
            match *patch {
                Patch::Number { at, number, digits } => {
                    digits.write(chooser.number(number, &workload.keys), &mut instance[at..]);
                }
                Patch::Stamp { at, payload_bytes } => {
                    // A stamp shorter than eight bytes belongs to a payload shorter than that.
                    let head = payload_bytes.min(STAMP_BYTES);
                    workload
                        .values
                        .write_stamp(chooser.last_key, &mut instance[at..at + head]);
                }
            }
        }
    }
}

/// Appends an instance of `command` of any length to `out`.
pub(crate) fn append(
    command: &Command,
    chooser: &mut Chooser,
    workload: &Workload,
    out: &mut Vec<u8>,
) {
    for part in &command.parts {
        part.append(chooser, workload, out);
    }
}

impl Part {
    /// Appends an instance of this part of any length to `out`.
    #[inline]
    pub fn append(&self, chooser: &mut Chooser, workload: &Workload, out: &mut Vec<u8>) {
        match self {
            Self::Literal(literal) => out.extend_from_slice(literal),
            Self::Number(number, digits) => {
                let at = out.len();
                out.resize(at + digits.width(), b'0');
                digits.write(chooser.number(*number, &workload.keys), &mut out[at..]);
            }
            Self::Payload => workload.values.append(chooser.last_key, out),
            Self::SizedPayload(header) => {
                header(out, workload.values.size_of(chooser.last_key));
                workload.values.append(chooser.last_key, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodness::{REJECTED_BELOW, chi_square_p};
    use crate::values::{ValueData, ValueSize};
    use proptest::prelude::*;
    use rand::SeedableRng;

    fn workload(dist: &KeyDist, commands: Vec<Command>, size: ValueSize) -> Workload {
        let keys = KeySpace::new(dist, 100, 0).unwrap();
        Workload::new(
            commands,
            keys,
            Values::new(size, ValueData::Random, 1).unwrap(),
        )
        .unwrap()
    }

    fn command(parts: Vec<Part>) -> Command {
        Command {
            name: "TEST".into(),
            weight: 1,
            parts,
            replies: 1,
            reads: false,
            returns_payload: false,
        }
    }

    fn chooser() -> Chooser {
        Chooser::new(SmallRng::seed_from_u64(9), 0, 1)
    }

    proptest! {
        #[test]
        fn digits_are_those_of_format(number in 0_u64..10_000_000_000_000_000) {
            let mut sixteen = [0; 16];
            Digits::Sixteen.write(number, &mut sixteen);
            prop_assert_eq!(std::str::from_utf8(&sixteen).unwrap(), format!("{number:016}"));
            let mut eight = [0; 8];
            Digits::Eight.write(number % 100_000_000, &mut eight);
            prop_assert_eq!(std::str::from_utf8(&eight).unwrap(), format!("{:08}", number % 100_000_000));
        }
    }

    /// Patching and formatting must write the same bytes for the same choices.
    #[test]
    fn preformatted_and_appended_commands_are_the_same() {
        for bytes in [0, 3, 8, 64] {
            let set = command(vec![
                Part::Literal(b"SET k:".to_vec()),
                Part::Number(Number::Key, Digits::Eight),
                Part::Literal(b" ".to_vec()),
                Part::Payload,
                Part::Number(Number::Below(7), Digits::Sixteen),
                Part::Number(Number::SameKey, Digits::Eight),
            ]);
            let workload = workload(&KeyDist::Uniform, vec![set], ValueSize::Fixed(bytes));
            let set = &workload.commands()[0];
            let fast = Preformatted::of(set, workload.values()).unwrap();
            let (mut one, mut other) = (chooser(), chooser());
            for _ in 0..50 {
                let mut patched = fast.bytes.clone();
                fast.patch(&mut patched, &mut one, &workload);
                let mut appended = Vec::new();
                append(set, &mut other, &workload, &mut appended);
                assert_eq!(patched, appended);
            }
        }
    }

    #[test]
    fn sequential_choosers_share_the_walk_and_new_keys_are_new() {
        let workload = workload(
            &KeyDist::Sequential,
            vec![command(vec![Part::Literal(vec![])])],
            ValueSize::Fixed(1),
        );
        let mut even = Chooser::new(SmallRng::seed_from_u64(1), 0, 2);
        let mut odd = Chooser::new(SmallRng::seed_from_u64(2), 1, 2);
        let mut seen: Vec<u64> = (0..50)
            .flat_map(|_| {
                [
                    even.number(Number::Key, workload.keys()),
                    odd.number(Number::Key, workload.keys()),
                ]
            })
            .collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<u64>>());
        assert_eq!(even.number(Number::NewKey, workload.keys()), 100);
        assert_eq!(odd.number(Number::NewKey, workload.keys()), 101);
        assert_eq!(workload.keys().len(), 102);
    }

    #[test]
    fn weights_make_the_mix() {
        for weights in [&[50, 50][..], &[95, 5], &[70, 30], &[1, 0, 2, 97], &[3]] {
            let weighing = |weight: &u32| Command {
                weight: *weight,
                ..command(vec![Part::Literal(vec![])])
            };
            let commands: Vec<Command> = weights.iter().map(weighing).collect();
            let cumulative = cumulative_weights(&commands);
            let mut chooser = chooser();
            let mut counts = vec![0; weights.len()];
            for _ in 0..200_000 {
                counts[chooser.command(&cumulative)] += 1;
            }
            if let [all] = *counts {
                assert_eq!(all, 200_000);
                continue;
            }
            let shares: Vec<f64> = weights.iter().map(|weight| f64::from(*weight)).collect();
            let p = chi_square_p(&counts, &shares);
            assert!(p > REJECTED_BELOW, "{weights:?}: p = {p}, {counts:?}");
        }
    }

    #[test]
    fn workloads_that_cannot_be_are_refused() {
        let keys = || KeySpace::new(&KeyDist::Uniform, 1, 0).unwrap();
        let values = |size| Values::new(size, ValueData::Random, 1).unwrap();
        let fixed = || values(ValueSize::Fixed(1));
        assert!(Workload::new(vec![], keys(), fixed()).is_err());
        let weightless = Command {
            weight: 0,
            ..command(vec![])
        };
        assert!(Workload::new(vec![weightless], keys(), fixed()).is_err());
        // The sum of such weights would overflow, and the second command would never be chosen.
        let heavy = || Command {
            weight: u32::MAX,
            ..command(vec![])
        };
        assert!(Workload::new(vec![heavy()], keys(), fixed()).is_ok());
        assert!(Workload::new(vec![heavy(), heavy()], keys(), fixed()).is_err());
        let unsized_payload = command(vec![Part::Payload]);
        assert!(
            Workload::new(
                vec![unsized_payload],
                keys(),
                values(ValueSize::Range(1, 2))
            )
            .is_err()
        );
    }
}
