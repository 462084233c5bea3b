//! Taking elements out of lists and sorted sets: LPOP, LMPOP, ZPOPMIN, ZMPOP and their like.

use loadline_store::{Edit, Value};

use super::numbers::unsigned;
use super::refusal::{Refusal, SYNTAX};
use super::{Call, Effect, Words, is};

/// Takes elements out of the collection at `key`; `None` if there is no key. `empty` is a collection without elements.
pub(super) fn take<T>(
    call: &mut Call<'_>,
    key: &[u8],
    empty: fn() -> Value,
    take: impl FnOnce(&mut Value) -> Result<Vec<T>, Refusal>,
    note: impl FnOnce(&Vec<T>, &mut dyn FnMut(Edit<'_>)),
) -> Result<Option<Vec<T>>, Refusal> {
    let mut was_there = true;
    let fresh = || {
        was_there = false;
        empty()
    };
    let change = |value: &mut Value| {
        let taken = take(value)?;
        Ok(Effect::of(!taken.is_empty(), taken))
    };
    let taken = call.change_part(key, fresh, change, note)?;
    call.count_elements(taken.len());
    Ok(was_there.then_some(taken))
}

/// Writes nil in place of elements if `pop` finds none in any of the keys.
pub(super) fn first_of(
    call: &mut Call<'_>,
    keys: &[&[u8]],
    pop: impl Fn(&mut Call<'_>, &[u8]) -> Result<bool, Refusal>,
) -> Result<(), Refusal> {
    for key in keys {
        if pop(call, key)? {
            return Ok(());
        }
    }
    call.reply().null_array();
    Ok(())
}

/// The number of elements of LPOP and ZPOPMIN; `None` without one. `wrong` is the error for further words.
pub(super) fn count(
    words: &[&[u8]],
    wrong: impl FnOnce() -> Refusal,
) -> Result<Option<usize>, Refusal> {
    match words {
        [] => Ok(None),
        [count] => unsigned(count, "ERR value is out of range, must be positive").map(Some),
        _ => Err(wrong()),
    }
}

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
