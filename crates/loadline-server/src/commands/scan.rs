//! Walks over the elements of a collection: SSCAN and HSCAN.

use super::{Call, Refusal, SYNTAX, glob, integer, is};

/// What a walk is asked for.
#[derive(Debug)]
pub(super) struct Walk<'w> {
    pattern: Option<&'w [u8]>,
}

impl<'w> Walk<'w> {
    /// Reads a cursor and the options MATCH and COUNT. A collection is shown whole, as Redis shows a
    /// small one, so cursor and count must be well formed and choose nothing.
    pub(super) fn parse(words: &[&'w [u8]]) -> Result<Self, Refusal> {
        let is_number = std::str::from_utf8(words[0]).is_ok_and(|text| text.parse::<u64>().is_ok());
        if !is_number {
            return Err("ERR invalid cursor".into());
        }
        let options = &words[1..];
        if !options.len().is_multiple_of(2) {
            return Err(SYNTAX.into());
        }
        let mut pattern = None;
        for option in options.chunks_exact(2) {
            if is(option[0], "MATCH") {
                pattern = Some(option[1]);
            } else if is(option[0], "COUNT") {
                if integer(option[1])? < 1 {
                    return Err(SYNTAX.into());
                }
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(Self { pattern })
    }
}

/// Writes the elements that match, each with its value where it has one, and the cursor of the end.
pub(super) fn walk<'e>(
    call: &mut Call<'_>,
    options: &Walk<'_>,
    elements: impl Iterator<Item = (&'e [u8], Option<&'e [u8]>)>,
) {
    let found: Vec<_> = elements
        .filter(|(element, _)| options.pattern.is_none_or(|pattern| glob(pattern, element)))
        .flat_map(|(element, value)| [Some(element), value].into_iter().flatten())
        .collect();
    call.array(2);
    call.bulk(b"0");
    call.array(found.len());
    found.iter().for_each(|word| call.bulk(word));
}
