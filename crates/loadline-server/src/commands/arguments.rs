//! The notation for the arguments of commands in `commands.txt`.
//!
//! Arguments are separated by spaces. Each is its name with what applies to it, in this order:
//!
//! - flags in front of the name: `?` if it is optional, `*` if it can be repeated, and `+` if its token is repeated, too;
//! - `:` with the letter of its [type](TYPES), and the number of the specification of its keys. Without it, it is a string;
//! - `+` with the first version of Redis that had it, and `!` with the version in which it was deprecated;
//! - `=` with its token, which is omitted if it is the name in capitals, and `""` if it is empty;
//! - its own arguments, in parentheses if it has all of them, and in angle brackets if it is one of them.
//!
//! A name in capitals without a type is that of an argument which is only a token: `NX` is `nx:t=`. So the arguments of SET
//! begin with `key:k0 value ?condition+2.6.12<NX XX> ?GET+6.2.0`.

use std::borrow::Cow;

/// The types by their letters.
const TYPES: [(&str, &str); 7] = [
    ("d", "double"),
    ("i", "integer"),
    ("k", "key"),
    ("p", "pattern"),
    ("s", STRING),
    ("t", TOKEN),
    ("u", "unix-time"),
];
const STRING: &str = "string";
const TOKEN: &str = "pure-token";

/// The empty token.
const EMPTY: &str = "\"\"";

const FLAGS: [(char, &str); 3] = [
    ('?', "optional"),
    ('*', "multiple"),
    ('+', "multiple_token"),
];

/// Types of arguments that have arguments, with the brackets around them.
const NESTED: [(&str, char, char); 2] = [("block", '(', ')'), ("oneof", '<', '>')];

/// Arguments within arguments that an argument can have.
const MOST_LEVELS: usize = 8;

/// An argument of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Argument<'t> {
    pub(super) name: Cow<'t, str>,
    pub(super) kind: &'static str,
    /// The number of the specification of its keys.
    pub(super) key_spec: Option<u8>,
    pub(super) token: Option<Cow<'t, str>>,
    pub(super) since: Option<&'t str>,
    pub(super) deprecated_since: Option<&'t str>,
    pub(super) flags: Vec<&'static str>,
    pub(super) arguments: Vec<Self>,
}

/// Reads arguments; `None` if the text is invalid.
pub(super) fn arguments(text: &str) -> Option<Vec<Argument<'_>>> {
    let mut rest = text;
    let all = list(&mut rest, MOST_LEVELS)?;
    rest.is_empty().then_some(all)
}

fn list<'t>(rest: &mut &'t str, levels: usize) -> Option<Vec<Argument<'t>>> {
    let mut all = Vec::new();
    loop {
        all.push(argument(rest, levels)?);
        match rest.strip_prefix(' ') {
            Some(behind) => *rest = behind,
            None => return Some(all),
        }
    }
}

fn argument<'t>(rest: &mut &'t str, levels: usize) -> Option<Argument<'t>> {
    let end = rest.find([' ', '(', ')', '<', '>']).unwrap_or(rest.len());
    let (word, behind) = rest.split_at(end);
    *rest = behind;
    let mut argument = single(word)?;
    for (kind, open, close) in NESTED {
        let Some(inner) = rest.strip_prefix(open) else {
            continue;
        };
        *rest = inner;
        argument.arguments = list(rest, levels.checked_sub(1)?)?;
        argument.kind = kind;
        *rest = rest.strip_prefix(close)?;
        break;
    }
    Some(argument)
}

/// An argument without its own arguments.
fn single(word: &str) -> Option<Argument<'_>> {
    let is_flag = |letter: char| FLAGS.iter().any(|(flag, _)| *flag == letter);
    let rest = word.trim_start_matches(is_flag);
    let flags = &word[..word.len() - rest.len()];
    let flags = FLAGS.iter().filter(|(flag, _)| flags.contains(*flag));
    let (rest, token) = cut(rest, '=');
    let (rest, deprecated_since) = cut(rest, '!');
    let (rest, since) = cut(rest, '+');
    let (name, kind) = match rest.rsplit_once(':') {
        Some((name, kind)) => (name, Some(kind)),
        None => (rest, None),
    };
    let is_token = kind.is_none() && token.is_none() && !name.contains(char::is_lowercase);
    let (kind, number) = match kind {
        Some(kind) => kind.split_at_checked(1)?,
        None => (if is_token { "t" } else { "s" }, ""),
    };
    let (_, kind) = TYPES.iter().find(|(letter, _)| *letter == kind)?;
    let token = match token {
        Some("") => Some(Cow::Owned(name.to_uppercase())),
        Some(EMPTY) => Some(Cow::Borrowed("")),
        token if !is_token => token.map(Cow::Borrowed),
        _ => Some(Cow::Borrowed(name)),
    };
    let name = match is_token {
        true => Cow::Owned(name.to_lowercase()),
        false => Cow::Borrowed(name),
    };
    (!name.is_empty()).then_some(Argument {
        name,
        kind,
        key_spec: match number {
            "" => None,
            number => Some(number.parse().ok()?),
        },
        token,
        since,
        deprecated_since,
        flags: flags.map(|(_, name)| *name).collect(),
        arguments: Vec::new(),
    })
}

/// The text in front of the first `separator`, and that behind it.
fn cut(text: &str, separator: char) -> (&str, Option<&str>) {
    match text.split_once(separator) {
        Some((text, behind)) => (text, Some(behind)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Argument<'_> {
        Argument {
            name: name.into(),
            kind: STRING,
            key_spec: None,
            token: None,
            since: None,
            deprecated_since: None,
            flags: Vec::new(),
            arguments: Vec::new(),
        }
    }

    fn token(name: &str) -> Argument<'static> {
        Argument {
            kind: TOKEN,
            token: Some(name.to_owned().into()),
            name: name.to_lowercase().into(),
            ..named("")
        }
    }

    #[test]
    fn arguments_have_what_is_written_at_their_names() {
        let all = arguments(
            "key:k0 ip:port:s!2.8.12 ?*+get:p1+1.0=GET operator:t== *count:i= none:t=\"\"",
        );
        let key = Argument {
            kind: "key",
            key_spec: Some(0),
            ..named("key")
        };
        let address = Argument {
            deprecated_since: Some("2.8.12"),
            ..named("ip:port")
        };
        let get = Argument {
            kind: "pattern",
            key_spec: Some(1),
            since: Some("1.0"),
            token: Some("GET".into()),
            flags: vec!["optional", "multiple", "multiple_token"],
            ..named("get")
        };
        let operator = Argument {
            kind: TOKEN,
            token: Some("=".into()),
            ..named("operator")
        };
        let count = Argument {
            kind: "integer",
            token: Some("COUNT".into()),
            flags: vec!["multiple"],
            ..named("count")
        };
        let none = Argument {
            kind: TOKEN,
            token: Some("".into()),
            ..named("none")
        };
        assert_eq!(all, Some(vec![key, address, get, operator, count, none]));
    }

    #[test]
    fn arguments_have_arguments() {
        let order = Argument {
            kind: "oneof",
            flags: vec!["optional"],
            arguments: vec![token("ASC"), token("DESC")],
            ..named("order")
        };
        let count = Argument {
            kind: "block",
            token: Some("COUNT".into()),
            arguments: vec![named("value"), order],
            ..named("count")
        };
        let all = arguments("count=(value ?order<ASC DESC>) ANY");
        assert_eq!(all, Some(vec![count, token("ANY")]));
    }

    #[test]
    fn invalid_arguments_are_refused() {
        let deep = |levels| "a(".repeat(levels) + "a" + &")".repeat(levels);
        assert!(arguments(&deep(MOST_LEVELS)).is_some());
        assert_eq!(arguments(&deep(MOST_LEVELS + 1)), None);
        for text in [
            "", " a", "a ", "a  b", "a(b", "a(b>", "a)", "a()", "a(b)c", "a(b)<c>", "a:x", "a:",
            "a:kx", "a:k300", "?", "=A",
        ] {
            assert_eq!(arguments(text), None, "{text:?}");
        }
    }
}
