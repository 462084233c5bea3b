//! FUNCTION. The server has no functions and replies accordingly.

use super::refusal::{Refusal, SYNTAX, no_such_form};
use super::{Call, Known, Words, is, other, sub};

pub(super) const TABLE: &[Known] = &[other("FUNCTION", -2, function).with(&[
    sub(
        "FLUSH",
        -2,
        "[ASYNC|SYNC]\nDelete all the libraries. There are none.",
    ),
    sub(
        "LIST",
        -2,
        "[LIBRARYNAME PATTERN] [WITHCODE]\nReturn general information on all the libraries. There are none.",
    ),
])];

fn function(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match *words {
        [_, word] if is(word, "FLUSH") => call.reply().ok(),
        [_, word, mode] if is(word, "FLUSH") => {
            if !is(mode, "ASYNC") && !is(mode, "SYNC") {
                return Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".into());
            }
            call.reply().ok();
        }
        [_, word, ref options @ ..] if is(word, "LIST") => {
            let mut rest = options.iter();
            while let Some(option) = rest.next() {
                let is_known =
                    is(option, "WITHCODE") || (is(option, "LIBRARYNAME") && rest.next().is_some());
                if !is_known {
                    return Err(SYNTAX.into());
                }
            }
            call.reply().array(0);
        }
        _ => return Err(no_such_form(words)),
    }
    Ok(())
}
