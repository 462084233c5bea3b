//! The words of commands that take elements of the first of several keys: LMPOP and ZMPOP.

use super::numbers::unsigned;
use super::refusal::{Refusal, SYNTAX};
use super::{Words, is};

/// The keys behind their number at `at`, and the words behind them, of which there is at least one.
pub(super) fn keys<'w>(words: Words<'w>, at: usize) -> Result<(Words<'w>, Words<'w>), Refusal> {
    let count = positive(words[at], "ERR numkeys should be greater than 0")?;
    let parts = words[at + 1..].split_at_checked(count);
    let (keys, options) = parts.ok_or(SYNTAX)?;
    if options.is_empty() {
        return Err(SYNTAX.into());
    }
    Ok((keys, options))
}

/// The number behind COUNT; 1 without any words.
pub(super) fn pop_count(words: &[&[u8]]) -> Result<usize, Refusal> {
    match words {
        [] => Ok(1),
        [word, count, rest @ ..] if is(word, "COUNT") => {
            let count = positive(count, "ERR count should be greater than 0")?;
            if !rest.is_empty() {
                return Err(SYNTAX.into());
            }
            Ok(count)
        }
        _ => Err(SYNTAX.into()),
    }
}

fn positive(word: &[u8], refusal: &'static str) -> Result<usize, Refusal> {
    let number = unsigned(word, refusal)?;
    Ok(Some(number).filter(|number| *number > 0).ok_or(refusal)?)
}
