//! Commands that take items of lists and wait for them where there are none.

use loadline_store::View;

use super::blocking::owned;
use super::lists::{End, take};
use super::refusal::{Refusal, WRONG_TYPE};
use super::{Call, Keys, Known, Words, write};

/// All words but the first and the last.
const ALL_BUT_LAST: Keys = Keys::At(1, -2, 1);

pub(super) const TABLE: &[Known] = &[
    write("BLPOP", -3, ALL_BUT_LAST, |call, words| {
        pop(call, words, End::Front)
    }),
    write("BRPOP", -3, ALL_BUT_LAST, |call, words| {
        pop(call, words, End::Back)
    }),
];

/// The first of the keys with a list. Others are passed over if the client has waited for them, and an error otherwise.
fn first_list<'w>(call: &Call<'_>, keys: &'w [&'w [u8]]) -> Result<Option<&'w [u8]>, Refusal> {
    for key in call.candidates(keys) {
        let is_list = call.store().inspect(key, call.now(), |value| {
            value.map(|value| matches!(value, View::List(_)))
        });
        match is_list {
            Some(true) => return Ok(Some(key)),
            Some(false) if !call.has_waited() => return Err(WRONG_TYPE.into()),
            Some(false) | None => {}
        }
    }
    Ok(None)
}

fn pop(call: &mut Call<'_>, words: Words<'_>, end: End) -> Result<(), Refusal> {
    let (keys, timeout) = (&words[1..words.len() - 1], words[words.len() - 1]);
    let deadline = call.deadline(timeout)?;
    let Some(key) = first_list(call, keys)? else {
        if call.session.may_not_block {
            call.reply().null_array();
        } else {
            call.wait_for(owned(words), keys, deadline, false);
        }
        return Ok(());
    };
    let taken = take(call, key, end, 1)?;
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(key);
    taken.iter().flatten().for_each(|item| reply.bulk(item));
    Ok(())
}
