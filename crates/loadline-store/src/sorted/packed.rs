//! The bytes of a small sorted set.
//!
//! ```text
//! | number of members: length | elements in order |
//! element: | score | length of the member | member |
//! ```
//!
//! Nothing at all is an empty set. A length takes seven bits per byte, the lowest first. The first byte of a score is the
//! score itself up to 127, or says how the others are to be read; a score takes 1 to 4 bytes if it is a whole number
//! below eight millions, 5 if four bytes hold it, 7 as a whole number below 2^47, and else 9.

use std::cmp::Ordering;
use std::ops::Range;

use super::order;

/// The first byte of a score that is one byte itself is at most this.
const ONE_BYTE: u8 = 0x7f;
/// The upper bits of the first of two bytes.
const TWO_BYTES: u8 = 0x80;
const INTEGER_24: u8 = 0xc0;
const INTEGER_48: u8 = 0xc1;
const FLOAT_32: u8 = 0xc2;
const FLOAT_64: u8 = 0xc3;

/// Members with their scores, in order.
#[derive(Debug, Clone)]
pub(super) struct Elements<'b> {
    rest: &'b [u8],
    count: usize,
}

impl<'b> Elements<'b> {
    #[inline]
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        let mut rest = bytes;
        let count = if bytes.is_empty() {
            0
        } else {
            length(&mut rest)
        };
        Self { rest, count }
    }
}

impl<'b> Iterator for Elements<'b> {
    type Item = (&'b [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        let score = score(&mut self.rest);
        let bytes = length(&mut self.rest);
        let (member, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        Some((member, score))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for Elements<'_> {}

/// The rank of `member` and its score.
pub(super) fn find(bytes: &[u8], member: &[u8]) -> Option<(usize, f64)> {
    let mut elements = Elements::new(bytes).enumerate();
    let found = elements.find(|(_, (other, _))| *other == member);
    found.map(|(rank, (_, score))| (rank, score))
}

/// The ranks of the run from the first member that is not before an interval up to the next one that is behind it.
pub(super) fn between(
    bytes: &[u8],
    is_before: impl Fn(&[u8], f64) -> bool,
    is_behind: impl Fn(&[u8], f64) -> bool,
) -> Range<usize> {
    let (mut start, mut end) = (None, None);
    let walked = walk(bytes, &is_before, &is_behind, |rank, member, score| {
        if start.is_none() && !is_before(member, score) {
            start = Some(rank);
        }
        if start.is_some() && end.is_none() && is_behind(member, score) {
            end = Some(rank);
        }
    });
    match (walked, start) {
        (Some(count), Some(start)) => start..end.unwrap_or(count),
        _ => 0..0,
    }
}

/// The ranks of the run from the last member that is not behind an interval down to the next one that is before it.
pub(super) fn between_reversed(
    bytes: &[u8],
    is_before: impl Fn(&[u8], f64) -> bool,
    is_behind: impl Fn(&[u8], f64) -> bool,
) -> Range<usize> {
    let (mut run, mut edge) = (0..0, 0);
    let walked = walk(bytes, &is_before, &is_behind, |rank, member, score| {
        if is_before(member, score) {
            edge = rank + 1;
        }
        if !is_behind(member, score) {
            run = edge..rank + 1;
        }
    });
    walked.map_or(0..0, |_| run)
}

/// Calls `each` with all members in order, and returns their number; `None` if there are none, if the first one is behind the
/// interval, or if the last one is before it.
fn walk(
    bytes: &[u8],
    is_before: impl Fn(&[u8], f64) -> bool,
    is_behind: impl Fn(&[u8], f64) -> bool,
    mut each: impl FnMut(usize, &[u8], f64),
) -> Option<usize> {
    let (mut count, mut last) = (0, None);
    for (member, score) in Elements::new(bytes) {
        if count == 0 && is_behind(member, score) {
            return None;
        }
        each(count, member, score);
        count += 1;
        last = Some((member, score));
    }
    let (member, score) = last?;
    (!is_before(member, score)).then_some(count)
}

/// Sets the score of `member` and returns the old one.
pub(super) fn insert(bytes: &mut Vec<u8>, member: &[u8], score: f64) -> Option<f64> {
    // Whole numbers have no negative zero.
    let score = score + 0.0;
    let old = find(bytes, member);
    if let Some((rank, old)) = old {
        if old == score {
            return Some(old);
        }
        remove_range(bytes, rank..rank + 1);
    }
    let mut elements = Elements::new(bytes);
    let count = elements.len();
    let mut at = bytes.len();
    loop {
        let rest = elements.rest.len();
        let Some((other, other_score)) = elements.next() else {
            break;
        };
        if order((score, member), (other_score, other)) == Ordering::Less {
            at = bytes.len() - rest;
            break;
        }
    }
    let mut element = Vec::with_capacity(member.len() + 14);
    put_score(&mut element, score);
    put_length(&mut element, member.len());
    element.extend_from_slice(member);
    bytes.splice(at..at, element);
    set_count(bytes, count, count + 1);
    old.map(|(_, score)| score)
}

/// Takes `member` out and returns its score.
pub(super) fn remove(bytes: &mut Vec<u8>, member: &[u8]) -> Option<f64> {
    let (rank, score) = find(bytes, member)?;
    remove_range(bytes, rank..rank + 1);
    Some(score)
}

/// Takes the members of these ranks out.
pub(super) fn remove_range(bytes: &mut Vec<u8>, ranks: Range<usize>) {
    let mut elements = Elements::new(bytes);
    let count = elements.len();
    let end = ranks.end.min(count);
    if ranks.start >= end {
        return;
    }
    let mut place = |skipped: usize| {
        if let Some(last) = skipped.checked_sub(1) {
            elements.nth(last);
        }
        bytes.len() - elements.rest.len()
    };
    let begin = place(ranks.start);
    let behind = place(end - ranks.start);
    bytes.drain(begin..behind);
    set_count(bytes, count, count - (end - ranks.start));
}

/// Replaces the number of members in front of the elements.
fn set_count(bytes: &mut Vec<u8>, was: usize, is: usize) {
    if is == 0 {
        bytes.clear();
        return;
    }
    let (mut old, mut new) = (vec![], vec![]);
    if was > 0 {
        put_length(&mut old, was);
    }
    put_length(&mut new, is);
    bytes.splice(..old.len(), new);
}

#[inline]
fn length(bytes: &mut &[u8]) -> usize {
    let (mut length, mut shift) = (0, 0);
    loop {
        let byte = take::<1>(bytes)[0];
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return length;
        }
        shift += 7;
    }
}

fn put_length(bytes: &mut Vec<u8>, length: usize) {
    let mut left = length;
    while left >= 0x80 {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
}

#[inline]
fn score(bytes: &mut &[u8]) -> f64 {
    let [first] = take(bytes);
    match first {
        0..=ONE_BYTE => f64::from(first),
        TWO_BYTES..INTEGER_24 => {
            let [second] = take(bytes);
            f64::from(u16::from_be_bytes([first & !TWO_BYTES, second]))
        }
        INTEGER_24 => signed(&take::<3>(bytes)) as f64,
        INTEGER_48 => signed(&take::<6>(bytes)) as f64,
        FLOAT_32 => f64::from(f32::from_le_bytes(take(bytes))),
        _ => f64::from_le_bytes(take(bytes)),
    }
}

fn put_score(bytes: &mut Vec<u8>, score: f64) {
    const MOST_24: i64 = (1 << 23) - 1;
    const LEAST_24: i64 = -MOST_24;
    const MOST_48: i64 = (1 << 47) - 1;
    const LEAST_48: i64 = -MOST_48;
    let whole = score as i64;
    let is_whole = whole as f64 == score;
    let little = whole.to_le_bytes();
    match whole {
        0..=0x7f if is_whole => bytes.push(little[0]),
        0x80..0x4000 if is_whole => bytes.extend([TWO_BYTES | little[1], little[0]]),
        LEAST_24..=MOST_24 if is_whole => {
            bytes.push(INTEGER_24);
            bytes.extend_from_slice(&little[..3]);
        }
        _ if f64::from(score as f32) == score => {
            bytes.push(FLOAT_32);
            bytes.extend_from_slice(&(score as f32).to_le_bytes());
        }
        LEAST_48..=MOST_48 if is_whole => {
            bytes.push(INTEGER_48);
            bytes.extend_from_slice(&little[..6]);
        }
        _ => {
            bytes.push(FLOAT_64);
            bytes.extend_from_slice(&score.to_le_bytes());
        }
    }
}

/// A signed number of fewer than eight bytes, the lowest first.
fn signed(bytes: &[u8]) -> i64 {
    let mut whole = [0; 8];
    whole[8 - bytes.len()..].copy_from_slice(bytes);
    i64::from_le_bytes(whole) >> (64 - 8 * bytes.len())
}

#[inline]
fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (taken, rest) = bytes
        .split_first_chunk()
        .expect("packed bytes hold whole elements");
    *bytes = rest;
    *taken
}
