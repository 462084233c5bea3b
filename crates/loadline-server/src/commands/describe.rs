//! COMMAND: information about the commands.

use super::docs::document;
use super::glob::glob;
use super::key_specs::{reply_specs, shown_keys};
use super::refusal::{Refusal, SYNTAX, no_such_form};
use super::reply::Reply;
use super::table::keys_at;
use super::{Call, Keys, Known, Listed, Words, all, each, find_of, fits, is, listed, sub};
use crate::catalogue::{self, KeyAccess};

pub(super) const TABLE: &[Listed] = &[listed("COMMAND", -1, Keys::None, command).with(&[
    sub(
        "COUNT",
        2,
        "\nReturn the total number of commands in this server.",
    ),
    sub(
        "DOCS",
        -2,
        "[<command-name> ...]\nReturn documentation details about commands; without names, about all of them.",
    ),
    sub(
        "GETKEYS",
        -4,
        "<full-command>\nReturn the keys from a full command.",
    ),
    sub(
        "GETKEYSANDFLAGS",
        -4,
        "<full-command>\nReturn the keys and the access flags from a full command.",
    ),
    sub(
        "INFO",
        -2,
        "[<command-name> ...]\nReturn details about commands; without names, about all of them.",
    ),
    sub(
        "LIST",
        -2,
        "[FILTERBY (MODULE <module-name>|ACLCAT <cat>|PATTERN <pattern>)]\nReturn the names of all commands and subcommands, or of those that match.",
    ),
])];

fn command(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let mut reply = call.reply();
    match *words {
        [_] => describe(&mut reply, all()),
        [_, word] if is(word, "COUNT") => reply.count(all().len()),
        [_, word] if is(word, "INFO") => describe(&mut reply, all()),
        [_, word, ref names @ ..] if is(word, "INFO") => {
            reply.array(names.len());
            for name in names {
                match named(name) {
                    Some(known) => describe_one(&mut reply, known),
                    None => reply.null(),
                }
            }
        }
        [_, word] if is(word, "DOCS") => document(&mut reply, all()),
        [_, word, ref names @ ..] if is(word, "DOCS") => {
            let asked: Vec<&Known> = names.iter().filter_map(|name| named(name)).collect();
            document(&mut reply, asked);
        }
        [_, word, ref options @ ..] if is(word, "LIST") => list(&mut reply, options)?,
        [_, word, ref words @ ..] if is(word, "GETKEYS") => {
            let keys = keys_of(words)?;
            reply.array(keys.len());
            keys.iter().for_each(|key| reply.bulk(key));
        }
        [_, word, ref words @ ..] if is(word, "GETKEYSANDFLAGS") => {
            keys_and_flags(&mut reply, words)?;
        }
        _ => return Err(no_such_form(words)),
    }
    Ok(())
}

/// The command with this name, or the subcommand with the name of its command and a bar before it.
fn named(name: &[u8]) -> Option<&'static Known> {
    let words: Vec<&[u8]> = name.splitn(2, |byte| *byte == b'|').collect();
    let known = find_of(&words)?;
    (words.len() == 1 || !known.second.is_empty()).then_some(known)
}

fn describe(reply: &mut Reply<'_>, all: &[Known]) {
    reply.array(all.len());
    all.iter().for_each(|known| describe_one(reply, known));
}

/// Writes the ten fields of Redis 7.
fn describe_one(reply: &mut Reply<'_>, known: &Known) {
    let keys = match shown_keys(known) {
        Keys::At(first, last, step) => [first, last, step],
        Keys::Sort | Keys::OneAndPatterns | Keys::OneAndStored(_) | Keys::TargetAndCounted => {
            [1, 1, 1]
        }
        Keys::TargetAndSources => [1, -1, 1],
        Keys::Migrated => [3, 3, 1],
        Keys::None | Keys::Counted(_) | Keys::CountedOrNone(_) | Keys::Streams => [0; 3],
    };
    let movable = known.keys.are_movable().then_some("movablekeys");
    let flags: Vec<&str> = known.item.flags().chain(movable).collect();
    reply.array(10);
    reply.bulk(known.item.name.as_bytes());
    reply.integer(i64::from(known.arity));
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    for position in keys {
        reply.integer(i64::from(position));
    }
    let categories: Vec<&str> = known.item.categories().collect();
    reply.set(categories.len());
    for category in categories {
        reply.simple(&format!("@{category}"));
    }
    let hints: Vec<&str> = known.item.hints().collect();
    reply.set(hints.len());
    hints.iter().for_each(|hint| reply.bulk(hint.as_bytes()));
    reply_specs(reply, known);
    describe(reply, &known.subcommands);
}

fn list(reply: &mut Reply<'_>, options: &[&[u8]]) -> Result<(), Refusal> {
    let (mut pattern, mut category) = (b"*".to_vec(), None);
    match *options {
        [] => {}
        [word, kind, value] if is(word, "FILTERBY") && is(kind, "PATTERN") => {
            pattern = value.to_ascii_lowercase();
        }
        [word, kind, value] if is(word, "FILTERBY") && is(kind, "ACLCAT") => {
            category = Some(
                std::str::from_utf8(value)
                    .ok()
                    .and_then(catalogue::category),
            );
        }
        // There are no modules.
        [word, kind, _] if is(word, "FILTERBY") && is(kind, "MODULE") => category = Some(None),
        _ => return Err(SYNTAX.into()),
    }
    let is_in = |known: &Known| match category {
        None => true,
        Some(None) => false,
        Some(Some(category)) => known.item.is_in(category),
    };
    let found: Vec<&str> = each()
        .filter(|known| is_in(known))
        .map(|known| known.item.name)
        .filter(|name| glob(&pattern, name.as_bytes()))
        .collect();
    reply.array(found.len());
    found.iter().for_each(|name| reply.bulk(name.as_bytes()));
    Ok(())
}

/// Writes the keys of a command, each with the flags of its access.
fn keys_and_flags(reply: &mut Reply<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let known = find_of(words).ok_or("ERR Invalid command specified")?;
    let keys = keys_of(words)?;
    reply.array(keys.len());
    for (number, key) in keys.iter().enumerate() {
        let flags = access_of(known, words, number).flags();
        reply.array(2);
        reply.bulk(key);
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
    Ok(())
}

/// The keys among the words of a command.
pub(super) fn keys_of<'w>(words: &[&'w [u8]]) -> Result<Vec<&'w [u8]>, Refusal> {
    let known = find_of(words).ok_or("ERR Invalid command specified")?;
    if known.keys == Keys::None {
        return Err("ERR The command has no key arguments".into());
    }
    if !fits(known.arity, words.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    Ok(match known.keys {
        Keys::None => Vec::new(),
        Keys::At(first, last, step) => keys_at(words, first, last, step).collect(),
        Keys::OneAndPatterns => vec![words[1]],
        Keys::Sort => sort_keys(words),
        Keys::Migrated => {
            migrated_keys(words).ok_or("ERR Invalid arguments specified for command")?
        }
        Keys::OneAndStored(place) => stored_keys(words, place),
        Keys::Streams => stream_keys(words)?,
        Keys::TargetAndSources if words.len() < 3 => {
            return Err("ERR Invalid arguments specified for command".into());
        }
        Keys::TargetAndSources => words[1..].to_vec(),
        Keys::Counted(place) => counted_keys(words, place)?.to_vec(),
        Keys::TargetAndCounted => {
            let mut keys = vec![words[1]];
            keys.extend(counted_keys(words, 2)?);
            keys
        }
        Keys::CountedOrNone(place) => counted_keys(words, place).unwrap_or_default().to_vec(),
    })
}

/// The access of a command to the key at a place among its keys. That of SET and BITFIELD depends on their options.
pub(super) fn access_of(known: &Known, words: Words<'_>, number: usize) -> KeyAccess {
    match known.name {
        "SET" if words[3..].iter().any(|word| is(word, "GET")) => KeyAccess::CHANGE,
        "SET" => KeyAccess::OVERWRITE,
        "BITFIELD" if reads_alone(&words[2..]) => KeyAccess::READ,
        _ => known.item.access(number),
    }
}

/// Whether all operations of a BITFIELD are GET.
fn reads_alone(mut rest: Words<'_>) -> bool {
    loop {
        rest = match rest {
            [] => return true,
            [word, _, _, rest @ ..] if is(word, "GET") => rest,
            [word, _, rest @ ..] if is(word, "OVERFLOW") => rest,
            _ => return false,
        }
    }
}

/// The keys behind their count at `place`.
fn counted_keys<'w, 'k>(words: &'w [&'k [u8]], place: usize) -> Result<&'w [&'k [u8]], Refusal> {
    let keys = usize::try_from(leading_number(words[place])).ok();
    let keys = keys.and_then(|count| words[place + 1..].get(..count));
    let keys = keys.filter(|keys| !keys.is_empty());
    Ok(keys.ok_or("ERR Invalid arguments specified for command")?)
}

/// The keys of XREAD and XREADGROUP. The values of other options are none of them.
fn stream_keys<'w>(words: &[&'w [u8]]) -> Result<Vec<&'w [u8]>, Refusal> {
    let mut place = 1;
    let rest = loop {
        place += match words.get(place) {
            Some(word) if is(word, "STREAMS") => break &words[place + 1..],
            Some(word) if is(word, "BLOCK") || is(word, "COUNT") => 2,
            Some(word) if is(word, "GROUP") => 3,
            Some(word) if is(word, "NOACK") => 1,
            _ => return Err("ERR Invalid arguments specified for command".into()),
        };
    };
    if rest.is_empty() || !rest.len().is_multiple_of(2) {
        return Err("ERR Invalid arguments specified for command".into());
    }
    Ok(rest[..rest.len() / 2].to_vec())
}

/// The keys of SORT. The words behind other options are none, and neither is a STORE at the end.
fn sort_keys<'w>(words: &[&'w [u8]]) -> Vec<&'w [u8]> {
    let mut store = None;
    let mut place = 2;
    while let Some(word) = words.get(place) {
        place += match () {
            () if is(word, "LIMIT") => 3,
            () if is(word, "GET") || is(word, "BY") => 2,
            () => 1,
        };
        if is(word, "STORE") {
            store = words.get(place).copied().or(store);
        }
    }
    words.get(1).copied().into_iter().chain(store).collect()
}

/// The keys of MIGRATE: those behind KEYS, or the third word.
fn migrated_keys<'w>(words: &[&'w [u8]]) -> Option<Vec<&'w [u8]>> {
    let mut place = 6;
    while let Some(word) = words.get(place) {
        place += match () {
            () if is(word, "KEYS") && !words[3].is_empty() => return None,
            () if is(word, "KEYS") => return Some(words[place + 1..].to_vec()),
            () if is(word, "AUTH") => 2,
            () if is(word, "AUTH2") => 3,
            () => 1,
        };
    }
    Some(vec![words[3]])
}

/// The first key, and those behind the first STORE and STOREDIST from `place` on.
fn stored_keys<'w>(words: &[&'w [u8]], place: usize) -> Vec<&'w [u8]> {
    let options = words.get(place..).unwrap_or_default();
    let behind = |name: &str| {
        let at = options.iter().position(|word| is(word, name))?;
        options.get(at + 1)
    };
    let stored = ["STORE", "STOREDIST"].into_iter().filter_map(behind);
    words.get(1).into_iter().chain(stored).copied().collect()
}

/// The number at the start of a word, or 0: `atoi`, which Redis uses here but not when it executes the
/// command. Larger numbers are truncated to 32 bits.
fn leading_number(word: &[u8]) -> i32 {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let spaces = word.iter().take_while(|byte| is_space(byte)).count();
    let word = &word[spaces..];
    let unsigned = word.strip_prefix(b"-").or(word.strip_prefix(b"+"));
    let digits = unsigned.unwrap_or(word).iter();
    let digits = digits.take_while(|byte| byte.is_ascii_digit());
    let sign = if word.starts_with(b"-") { -1 } else { 1 };
    let number = digits.fold(0_i64, |number, digit| {
        let digit = sign * i64::from(digit - b'0');
        number.saturating_mul(10).saturating_add(digit)
    });
    number as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_far_as_they_go() {
        for (word, number) in [
            ("2", 2),
            (" \t+2x", 2),
            ("1.5", 1),
            ("-3", -3),
            ("x", 0),
            ("", 0),
            ("--1", 0),
            ("4294967297", 1),
            ("99999999999999999999", -1),
            ("-99999999999999999999", 0),
        ] {
            assert_eq!(leading_number(word.as_bytes()), number, "{word:?}");
        }
    }
}
