//! Errors of commands, with the texts of Redis.

use std::borrow::Cow;

use super::Words;

pub(super) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";
pub(super) const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
pub(super) const NOT_FLOAT: &str = "ERR value is not a valid float";
pub(super) const NOT_FINITE: &str = "ERR increment would produce NaN or Infinity";
pub(super) const OUT_OF_RANGE: &str = "ERR value is out of range";
pub(super) const OVERFLOW: &str = "ERR increment or decrement would overflow";
pub(super) const SYNTAX: &str = "ERR syntax error";
pub(super) const NO_KEY: &str = "ERR no such key";
pub(super) const NO_DATABASE: &str = "ERR DB index is out of range";
pub(super) const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

/// The error of a refused command; sent to the client as it is, except for line breaks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) Cow<'static, [u8]>);

impl From<&'static str> for Refusal {
    fn from(text: &'static str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}

impl<const N: usize> From<[&[u8]; N]> for Refusal {
    fn from(parts: [&[u8]; N]) -> Self {
        Self(parts.concat().into())
    }
}

/// The most bytes of a word that Redis repeats in an error.
const NAME_BYTES: usize = 128;

/// A word as Redis prints it: up to a zero byte, and at most `most` bytes.
pub(super) fn shown(word: &[u8], most: usize) -> &[u8] {
    let word = &word[..word.len().min(most)];
    let end = word.iter().position(|byte| *byte == 0);
    &word[..end.unwrap_or(word.len())]
}

/// The error for a wrong number of arguments.
pub(super) fn wrong_number(name: &str) -> Refusal {
    let name = name.to_ascii_lowercase();
    format!("ERR wrong number of arguments for '{name}' command").into()
}

/// The error for an unknown command.
pub(super) fn unknown(words: Words<'_>) -> Refusal {
    let mut arguments = Vec::new();
    for word in &words[1..] {
        // The limit applies to all arguments together.
        let Some(room) = NAME_BYTES
            .checked_sub(arguments.len())
            .filter(|room| *room > 0)
        else {
            break;
        };
        arguments.extend_from_slice(&[b"'", shown(word, room), b"' "].concat());
    }
    [
        b"ERR unknown command '",
        shown(words[0], NAME_BYTES),
        b"', with args beginning with: ",
        &arguments,
    ]
    .into()
}

/// The error for an unknown subcommand.
pub(super) fn unknown_subcommand(words: Words<'_>) -> Refusal {
    help(words, b"ERR unknown subcommand '")
}

/// The error for a subcommand with unsuitable arguments.
pub(super) fn no_such_form(words: Words<'_>) -> Refusal {
    help(
        words,
        b"ERR unknown subcommand or wrong number of arguments for '",
    )
}

fn help(words: Words<'_>, why: &[u8]) -> Refusal {
    let command = lower(words[0]).to_uppercase();
    [
        why,
        shown(words[1], NAME_BYTES),
        b"'. Try ",
        command.as_bytes(),
        b" HELP.",
    ]
    .into()
}

/// A word in lower case.
pub(super) fn lower(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_ascii_lowercase()
}
