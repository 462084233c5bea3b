//! COMMAND DOCS: the documentation of commands, from the catalogue.

use super::Known;
use super::arguments::{Argument, arguments};
use super::reply::Reply;

/// The lines below the row of a command in `commands.txt`.
#[derive(Debug)]
struct Docs<'t> {
    complexity: Option<&'t str>,
    flags: Vec<&'t str>,
    /// The version in which the command was deprecated, and what replaces it.
    deprecated: Option<(&'t str, &'t str)>,
    /// Changes, each with the version that made it.
    history: Vec<(&'t str, &'t str)>,
    arguments: Vec<Argument<'t>>,
}

impl<'t> Docs<'t> {
    /// Reads the lines; `None` if one is invalid.
    fn of(lines: &'t str) -> Option<Self> {
        let mut docs = Self {
            complexity: None,
            flags: Vec::new(),
            deprecated: None,
            history: Vec::new(),
            arguments: Vec::new(),
        };
        for line in lines.lines() {
            let (letter, text) = line.strip_prefix(' ')?.split_once(' ')?;
            match letter {
                "o" => docs.complexity = Some(text),
                "f" => docs.flags = text.split(' ').collect(),
                "d" => docs.deprecated = Some(text.split_once(' ')?),
                "h" => docs.history.push(text.split_once(' ')?),
                "a" => docs.arguments = arguments(text)?,
                _ => return None,
            }
        }
        Some(docs)
    }

    fn fields(&self) -> usize {
        usize::from(self.complexity.is_some())
            + usize::from(!self.flags.is_empty())
            + 2 * usize::from(self.deprecated.is_some())
            + usize::from(!self.history.is_empty())
            + usize::from(!self.arguments.is_empty())
    }

    fn write(&self, reply: &mut Reply<'_>) {
        text(reply, "complexity", self.complexity);
        flags(reply, "doc_flags", &self.flags);
        let (since, by) = self.deprecated.unzip();
        text(reply, "deprecated_since", since);
        text(reply, "replaced_by", by);
        if !self.history.is_empty() {
            reply.bulk(b"history");
            reply.set(self.history.len());
            for (version, change) in &self.history {
                reply.array(2);
                reply.bulk(version.as_bytes());
                reply.bulk(change.as_bytes());
            }
        }
        nested(reply, &self.arguments);
    }
}

/// Writes the documentation of each command, and of its subcommands.
pub(super) fn document<'k>(
    reply: &mut Reply<'_>,
    all: impl IntoIterator<Item = &'k Known, IntoIter: ExactSizeIterator>,
) {
    let all = all.into_iter();
    reply.map(all.len());
    for known in all {
        let (item, subcommands) = (known.item, &known.subcommands);
        let docs = Docs::of(item.docs).expect("a test reads those of all commands");
        reply.bulk(item.name.as_bytes());
        reply.map(3 + docs.fields() + usize::from(!subcommands.is_empty()));
        text(reply, "summary", Some(item.summary));
        text(reply, "since", Some(item.since));
        text(reply, "group", Some(known.group));
        docs.write(reply);
        if !subcommands.is_empty() {
            reply.bulk(b"subcommands");
            document(reply, subcommands);
        }
    }
}

/// Writes the field with arguments, unless there are none.
fn nested(reply: &mut Reply<'_>, all: &[Argument<'_>]) {
    if all.is_empty() {
        return;
    }
    reply.bulk(b"arguments");
    reply.array(all.len());
    for argument in all {
        let token = argument.token.as_deref();
        let is_there = [
            argument.key_spec.is_some(),
            token.is_some(),
            argument.since.is_some(),
            argument.deprecated_since.is_some(),
            !argument.flags.is_empty(),
            !argument.arguments.is_empty(),
        ];
        reply.map(2 + is_there.into_iter().filter(|is_there| *is_there).count());
        text(reply, "name", Some(&argument.name));
        text(reply, "type", Some(argument.kind));
        if let Some(number) = argument.key_spec {
            reply.bulk(b"key_spec_index");
            reply.integer(number.into());
        }
        text(reply, "token", token);
        text(reply, "since", argument.since);
        text(reply, "deprecated_since", argument.deprecated_since);
        flags(reply, "flags", &argument.flags);
        nested(reply, &argument.arguments);
    }
}

/// Writes a field with a text, if there is one.
fn text(reply: &mut Reply<'_>, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

/// Writes a field with flags, unless there are none.
fn flags(reply: &mut Reply<'_>, name: &str, flags: &[&str]) {
    if !flags.is_empty() {
        reply.bulk(name.as_bytes());
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;

    #[test]
    fn documentation_of_all_commands_is_valid() {
        for item in &Catalogue::get().items {
            let docs = Docs::of(item.docs);
            let docs = docs.unwrap_or_else(|| panic!("{}: {}", item.name, item.docs));
            assert!(item.docs.is_empty() || docs.fields() > 0, "{}", item.name);
        }
        let documented = Catalogue::get().items.iter();
        let documented = documented.filter(|item| !item.docs.is_empty());
        assert!(documented.count() > 350);
    }

    #[test]
    fn invalid_lines_are_refused() {
        for lines in [
            "o O(1)\n", " o\n", " x y\n", " h 1.0\n", " d 1.0\n", " a a(\n",
        ] {
            assert!(Docs::of(lines).is_none(), "{lines:?}");
        }
    }
}
