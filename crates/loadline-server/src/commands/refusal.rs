//! Why a command is refused, in Redis's words.

use std::borrow::Cow;

use super::Words;

pub(super) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";
pub(super) const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
pub(super) const NOT_FLOAT: &str = "ERR value is not a valid float";
pub(super) const NOT_FINITE: &str = "ERR increment would produce NaN or Infinity";
pub(super) const OVERFLOW: &str = "ERR increment or decrement would overflow";
pub(super) const OUT_OF_RANGE: &str = "ERR value is out of range";
pub(super) const SYNTAX: &str = "ERR syntax error";
pub(super) const NO_KEY: &str = "ERR no such key";
pub(super) const NO_DATABASE: &str = "ERR DB index is out of range";
pub(super) const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

/// Why a command is refused; the text goes to the client as it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) Cow<'static, str>);

impl From<&'static str> for Refusal {
    fn from(text: &'static str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

/// That a command has too few or too many words.
pub(super) fn wrong_number(name: &str) -> Refusal {
    let name = name.to_ascii_lowercase();
    format!("ERR wrong number of arguments for '{name}' command").into()
}

/// That there is no such command.
pub(super) fn unknown(words: Words<'_>) -> Refusal {
    // As much of each as Redis shows.
    let shown = |word: &[u8]| String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned();
    let mut arguments = String::new();
    for word in &words[1..] {
        if arguments.len() >= 128 {
            break;
        }
        arguments.push_str(&format!("'{}' ", shown(word)));
    }
    format!(
        "ERR unknown command '{}', with args beginning with: {arguments}",
        shown(words[0])
    )
    .into()
}

/// That a subcommand cannot be called so: one of `known` has too few or too many words, and any other
/// there is not.
pub(super) fn subcommand_refused(words: Words<'_>, known: &[&str]) -> Refusal {
    let command = lower(words[0]);
    if known.iter().any(|name| super::is(words[1], name)) {
        return wrong_number(&format!("{command}|{}", lower(words[1])));
    }
    let word = &words[1][..words[1].len().min(128)];
    format!(
        "ERR unknown subcommand '{}'. Try {} HELP.",
        String::from_utf8_lossy(word),
        command.to_uppercase()
    )
    .into()
}

/// A word in small letters.
pub(super) fn lower(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_ascii_lowercase()
}
