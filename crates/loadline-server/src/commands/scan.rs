//! Walks over keys and over the elements of a collection: SCAN, SSCAN and HSCAN.

use loadline_resp::encode;

use super::glob::glob;
use super::numbers::integer;
use super::refusal::{Refusal, SYNTAX};
use super::{Call, Keys, Known, Words, is, read};

/// Elements that a walk shows where nothing is said.
const COUNT: usize = 10;

/// SCAN; the walks over collections stand with their families.
pub(super) const SCAN: Known = read("SCAN", -2, Keys::None, scan);

/// What a walk is asked for.
#[derive(Debug)]
pub(super) struct Walk<'w> {
    cursor: u64,
    count: usize,
    pattern: Option<&'w [u8]>,
    kind: Option<&'w [u8]>,
}

impl<'w> Walk<'w> {
    /// Reads a cursor and the options behind it.
    fn parse(words: &[&'w [u8]], has_kind: bool) -> Result<Self, Refusal> {
        let cursor = std::str::from_utf8(words[0]).ok();
        let mut walk = Self {
            cursor: cursor
                .and_then(|text| text.parse().ok())
                .ok_or("ERR invalid cursor")?,
            count: COUNT,
            pattern: None,
            kind: None,
        };
        let mut rest = words[1..].iter();
        while let Some(option) = rest.next() {
            let value = rest.next().ok_or(SYNTAX)?;
            if is(option, "MATCH") {
                walk.pattern = Some(value);
            } else if is(option, "COUNT") {
                let count = usize::try_from(integer(value)?).ok();
                walk.count = count.filter(|count| *count > 0).ok_or(SYNTAX)?;
            } else if is(option, "TYPE") && has_kind {
                walk.kind = Some(value);
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(walk)
    }

    fn wants(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob(pattern, name))
    }
}

fn scan(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let walk = Walk::parse(&words[1..], true)?;
    let (mut keys, mut found) = (Vec::new(), 0);
    let next = call
        .store()
        .scan(walk.cursor, walk.count, call.now(), |key, value| {
            let is_wanted = walk.kind.is_none_or(|kind| is(kind, value.kind()));
            if is_wanted && walk.wants(key) {
                encode::bulk(&mut keys, key);
                found += 1;
            }
        });
    show(call, next, found, &keys);
    Ok(())
}

/// Walks over the elements of a collection, each with its value where it has one. It is shown whole, as
/// Redis shows a small one, so that the cursor is that of the end at once.
pub(super) fn elements<'w>(
    call: &mut Call<'_>,
    words: Words<'w>,
    list: impl FnOnce(&mut Call<'_>, &mut dyn FnMut(&[u8], Option<&[u8]>)) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let walk = Walk::parse(&words[2..], false)?;
    let (mut elements, mut found) = (Vec::new(), 0);
    list(call, &mut |element, value| {
        if walk.wants(element) {
            for word in [Some(element), value].into_iter().flatten() {
                encode::bulk(&mut elements, word);
                found += 1;
            }
        }
    })?;
    show(call, 0, found, &elements);
    Ok(())
}

/// Writes the cursor to go on from, and what was found, which is encoded already.
fn show(call: &mut Call<'_>, next: u64, found: usize, encoded: &[u8]) {
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(found);
    reply.out.extend_from_slice(encoded);
}
