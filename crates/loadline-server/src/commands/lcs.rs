//! LCS: the longest common subsequence of two strings.

use loadline_store::View;

use super::numbers::integer;
use super::refusal::{Refusal, SYNTAX};
use super::{Call, LARGEST, Listed, TWO, Words, is, listed};

pub(super) const LCS: Listed = listed("LCS", -3, TWO, lcs);

#[derive(Debug, Default)]
struct Options {
    length_only: bool,
    indexes: bool,
    with_match_length: bool,
    min_match_length: usize,
}

impl Options {
    fn parse(words: &[&[u8]]) -> Result<Self, Refusal> {
        let mut options = Self::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if is(word, "IDX") {
                options.indexes = true;
            } else if is(word, "LEN") {
                options.length_only = true;
            } else if is(word, "WITHMATCHLEN") {
                options.with_match_length = true;
            } else if is(word, "MINMATCHLEN")
                && let Some(number) = rest.next()
            {
                options.min_match_length = usize::try_from(integer(number)?).unwrap_or(0);
            } else {
                return Err(SYNTAX.into());
            }
        }
        if options.length_only && options.indexes {
            return Err("ERR If you want both the length and indexes, please just use IDX.".into());
        }
        Ok(options)
    }
}

fn lcs(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let one = string(call, words[1])?;
    let other = string(call, words[2])?;
    let options = Options::parse(&words[3..])?;
    let table = Table::new(&one, &other)?;
    let length = table.at(one.len(), other.len());
    let mut reply = call.reply();
    if options.length_only {
        reply.count(length);
        return Ok(());
    }
    let matches = table.matches(&one, &other);
    if !options.indexes {
        let parts = matches.iter().rev();
        let parts = parts.map(|found| &one[found.one..found.one + found.length]);
        reply.bulk(&parts.collect::<Vec<_>>().concat());
        return Ok(());
    }
    let wanted: Vec<&Match> = matches
        .iter()
        .filter(|found| found.length >= options.min_match_length)
        .collect();
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(wanted.len());
    for found in wanted {
        reply.array(2 + usize::from(options.with_match_length));
        for start in [found.one, found.other] {
            reply.array(2);
            reply.count(start);
            reply.count(start + found.length - 1);
        }
        if options.with_match_length {
            reply.count(found.length);
        }
    }
    reply.bulk(b"len");
    reply.count(length);
    Ok(())
}

fn string(call: &mut Call<'_>, key: &[u8]) -> Result<Vec<u8>, Refusal> {
    call.show(key, |value, _| match value {
        Some(View::String(bytes)) => Ok(bytes.to_vec()),
        Some(_) => Err("ERR The specified keys must contain string values".into()),
        None => Ok(Vec::new()),
    })
}

/// A common part: its start in each string, and its length.
#[derive(Debug, PartialEq, Eq)]
struct Match {
    one: usize,
    other: usize,
    length: usize,
}

/// The lengths of the longest common subsequences of all pairs of prefixes, computed by dynamic programming.
#[derive(Debug)]
struct Table {
    lengths: Vec<u32>,
    width: usize,
}

impl Table {
    /// # Errors
    /// If the table would need more memory than a string can have, as in Redis.
    fn new(one: &[u8], other: &[u8]) -> Result<Self, Refusal> {
        let width = other.len() + 1;
        let places = width.checked_mul(one.len() + 1);
        let places = places.filter(|places| *places <= LARGEST / size_of::<u32>());
        let places = places.ok_or(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        )?;
        let mut table = Self {
            lengths: vec![0; places],
            width,
        };
        for (i, a) in one.iter().enumerate() {
            for (j, b) in other.iter().enumerate() {
                let length = if a == b {
                    table.lengths[i * width + j] + 1
                } else {
                    let left = table.lengths[(i + 1) * width + j];
                    table.lengths[i * width + j + 1].max(left)
                };
                table.lengths[(i + 1) * width + j + 1] = length;
            }
        }
        Ok(table)
    }

    fn at(&self, one: usize, other: usize) -> usize {
        self.lengths[one * self.width + other] as usize
    }

    /// The matching parts, the last one first.
    fn matches(&self, one: &[u8], other: &[u8]) -> Vec<Match> {
        let mut matches: Vec<Match> = Vec::new();
        let (mut i, mut j) = (one.len(), other.len());
        while i > 0 && j > 0 {
            if one[i - 1] == other[j - 1] {
                (i, j) = (i - 1, j - 1);
                match matches.last_mut() {
                    Some(last) if last.one == i + 1 && last.other == j + 1 => {
                        *last = Match {
                            one: i,
                            other: j,
                            length: last.length + 1,
                        };
                    }
                    _ => matches.push(Match {
                        one: i,
                        other: j,
                        length: 1,
                    }),
                }
            } else if self.at(i - 1, j) > self.at(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        matches
    }
}
