//! Scans over keys and over the elements of a collection: SCAN, SSCAN, HSCAN and ZSCAN.

use std::ops::Range;

use loadline_resp::encode;
use loadline_store::View;

use super::glob::glob;
use super::numbers::integer;
use super::refusal::{Refusal, SYNTAX, WRONG_TYPE};
use super::{Call, Keys, Listed, Words, is, listed};

/// The default COUNT.
const COUNT: usize = 10;

/// SCAN; the scans of collections are in the files of their families.
pub(super) const SCAN: Listed = listed("SCAN", -2, Keys::None, scan);

/// The options of a scan.
#[derive(Debug)]
struct Options<'w> {
    count: usize,
    pattern: Option<&'w [u8]>,
    kind: Option<&'w [u8]>,
}

/// Scope of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Keys,
    Elements,
}

impl<'w> Options<'w> {
    fn parse(words: &[&'w [u8]], over: Over) -> Result<Self, Refusal> {
        let mut options = Self {
            count: COUNT,
            pattern: None,
            kind: None,
        };
        let mut rest = words.iter();
        while let Some(option) = rest.next() {
            let value = rest.next().ok_or(SYNTAX)?;
            if is(option, "MATCH") {
                options.pattern = Some(value);
            } else if is(option, "COUNT") {
                let count = usize::try_from(integer(value)?).ok();
                options.count = count.filter(|count| *count > 0).ok_or(SYNTAX)?;
            } else if is(option, "TYPE") && over == Over::Keys {
                options.kind = Some(value);
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(options)
    }

    fn wants(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob(pattern, name))
    }
}

fn scan(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let cursor = cursor(words[1])?;
    let options = Options::parse(&words[2..], Over::Keys)?;
    let (mut keys, mut found) = (Vec::new(), 0);
    let next = call
        .store()
        .scan(cursor, options.count, call.now(), |key, value| {
            let is_wanted = options.kind.is_none_or(|kind| is(kind, value.kind()));
            if is_wanted && options.wants(key) {
                encode::bulk(&mut keys, key);
                found += 1;
            }
        });
    show(call, next, found, &keys);
    Ok(())
}

/// Reads a cursor like `strtoul`, as Redis does: an empty word is 0, a sign is accepted, and a zero byte is
/// the end.
fn cursor(word: &[u8]) -> Result<u64, Refusal> {
    let word = word.split(|byte| *byte == 0).next().unwrap_or_default();
    let digits = word.strip_prefix(b"-").or(word.strip_prefix(b"+"));
    let digits = std::str::from_utf8(digits.unwrap_or(word)).ok();
    let number = match digits {
        Some("") if word.is_empty() => Some(0),
        // The parser would accept a second sign.
        Some(digits) if digits.starts_with('+') => None,
        digits => digits.and_then(|digits| digits.parse::<u64>().ok()),
    };
    let number = number.ok_or("ERR invalid cursor")?;
    Ok(if word.starts_with(b"-") {
        number.wrapping_neg()
    } else {
        number
    })
}

/// Receives the elements of a collection, each with its value if it has one.
type Show<'s> = &'s mut dyn FnMut(&[u8], Option<&[u8]>);

/// The places of the next elements, and the next cursor. As in Redis, a small collection is shown as a whole. The places of a large
/// one go from the last to the first, since only the last element moves when another one is removed: the cursor is the end
/// of those that were not shown yet.
fn places(value: View<'_>, cursor: u64, count: usize) -> (Range<usize>, u64) {
    let (length, is_small) = match value {
        View::Set(members) => (members.len(), members.is_ordered()),
        View::Hash(fields) => (fields.len(), fields.is_ordered()),
        View::Sorted(set) => (set.len(), set.is_packed()),
        View::String(_) | View::List(_) | View::Stream(_) => (0, true),
    };
    if is_small {
        return (0..length, 0);
    }
    let end = match cursor {
        0 => length,
        cursor => usize::try_from(cursor).unwrap_or(length).min(length),
    };
    let begin = end.saturating_sub(count);
    (begin..end, begin as u64)
}

/// Scans a collection of this kind; `list` shows the elements at places.
pub(super) fn elements(
    call: &mut Call<'_>,
    words: Words<'_>,
    kind: &str,
    list: impl FnOnce(View<'_>, Range<usize>, Show<'_>),
) -> Result<(), Refusal> {
    let cursor = cursor(words[2])?;
    match call.show(words[1], |value, _| value.map(View::kind)) {
        Some(found) if found != kind => return Err(WRONG_TYPE.into()),
        Some(_) => {}
        // Without a key the options are ignored, as in Redis.
        None => {
            show(call, 0, 0, &[]);
            return Ok(());
        }
    }
    let options = Options::parse(&words[3..], Over::Elements)?;
    let (mut elements, mut found) = (Vec::new(), 0);
    let mut encode = |element: &[u8], value: Option<&[u8]>| {
        if options.wants(element) {
            for word in [Some(element), value].into_iter().flatten() {
                encode::bulk(&mut elements, word);
                found += 1;
            }
        }
    };
    let next = call.show_again(words[1], |value, _| {
        let Some(value) = value else {
            return 0;
        };
        let (places, next) = places(value, cursor, options.count);
        list(value, places, &mut encode);
        next
    });
    show(call, next, found, &elements);
    Ok(())
}

/// Writes the next cursor and the encoded elements.
fn show(call: &mut Call<'_>, next: u64, found: usize, encoded: &[u8]) {
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(found);
    reply.encoded(encoded);
}
