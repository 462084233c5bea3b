//! Workloads from a TOML file; `docs/workloads.md` describes it.

use std::path::Path;

use serde::Deserialize;

use super::{Definition, Load, Operation, weight_of};
use crate::exit::Failure;
use crate::units;

/// The largest workload file that is read, in bytes.
const LARGEST_FILE_BYTES: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    keys: Option<Count>,
    key_dist: Option<String>,
    value_size: Option<String>,
    setup: Option<Lines>,
    command: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    template: Lines,
    weight: Option<u64>,
    name: Option<String>,
    reads: Option<bool>,
}

/// One line, or several that are sent together.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Lines {
    One(String),
    Several(Vec<String>),
}

/// A count with or without a suffix.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Count {
    Plain(u64),
    Text(String),
}

impl Lines {
    fn operation(&self) -> Result<Operation, String> {
        match self {
            Self::One(line) => Operation::parse([line]),
            Self::Several(lines) => Operation::parse(lines),
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Several(lines) if lines.is_empty())
    }
}

/// The workload in `path`, in the data space `space`.
///
/// # Errors
/// A bad file, with a sentence saying where.
pub(crate) fn from_file(path: &Path, space: String) -> Result<Definition, Failure> {
    let bytes = crate::files::read_bounded(path, LARGEST_FILE_BYTES)?;
    let bad = |why: &str| Failure::bad_file(format!("{}: {why}", path.display()));
    let text = String::from_utf8(bytes).map_err(|_| bad("a workload file must be UTF-8 text."))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    parse(&text, &stem, space).map_err(|why| bad(&why))
}

fn parse(text: &str, stem: &str, space: String) -> Result<Definition, String> {
    let file: File =
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    if file.command.is_empty() {
        return Err("a workload needs at least one [[command]].".into());
    }
    let operations = file
        .command
        .iter()
        .map(operation)
        .collect::<Result<Vec<_>, _>>()?;
    let load = match &file.setup {
        None => Load::Guessed,
        Some(lines) if lines.is_empty() => Load::Nothing,
        Some(lines) => Load::Given(lines.operation().map_err(|why| format!("setup: {why}"))?),
    };
    let mut definition = Definition::custom(
        file.name.unwrap_or_else(|| stem.to_owned()),
        space,
        operations,
        load,
    )?;
    match file.keys {
        None => {}
        Some(Count::Plain(0)) => return Err("keys: must be at least 1.".into()),
        Some(Count::Plain(keys)) => definition.keys = keys,
        Some(Count::Text(text)) => {
            definition.keys =
                units::positive_count(&text).map_err(|why| format!("keys: {why}."))?;
        }
    }
    if let Some(text) = file.key_dist {
        definition.key_dist = units::key_dist(&text)
            .map_err(|why| format!("key_dist: {why}."))?
            .over(definition.keys);
    }
    if let Some(text) = file.value_size {
        definition.value_size =
            units::value_size(&text).map_err(|why| format!("value_size: {why}."))?;
    }
    Ok(definition)
}

fn operation(entry: &Entry) -> Result<Operation, String> {
    let mut operation = entry.template.operation()?;
    if let Some(weight) = entry.weight {
        operation = operation.weighing(weight_of(Some(weight))?);
    }
    operation.reads = entry.reads;
    if let Some(name) = &entry.name {
        operation.name.clone_from(name);
    }
    Ok(operation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_load::keys::KeyDist;
    use loadline_load::values::ValueSize;

    const DOCS: &str = include_str!("../../../../docs/workloads.md");

    const SESSIONS: &str = r#"
        name = "sessions"
        keys = "20k"
        key_dist = "hotspot:0.1:0.9"
        value_size = "100B..1KiB"
        setup = ["SET {key} {value}", "EXPIRE {samekey} 600"]

        [[command]]
        template = "GET {key}"
        weight = 9

        [[command]]
        name = "login"
        template = ["SET {key} {value} EX 600", "SADD {prefix}logins {samenumber}"]
    "#;

    #[test]
    fn file_says_everything_about_a_workload() {
        let sessions = parse(SESSIONS, "file", "file-1".into()).unwrap();
        assert_eq!(
            (
                sessions.name.as_str(),
                sessions.space.as_str(),
                sessions.keys
            ),
            ("sessions", "file-1", 20_000)
        );
        assert_eq!(
            sessions.key_dist,
            KeyDist::Hotspot {
                hot_keys: 2_000,
                share: 0.9
            }
        );
        assert_eq!(sessions.value_size, ValueSize::Range(100, 1_024));
        assert_eq!(
            sessions
                .operations
                .iter()
                .map(|operation| (operation.name(), operation.weight()))
                .collect::<Vec<_>>(),
            [("GET", 9), ("login", 1)]
        );
        assert_eq!(sessions.load.unwrap().name(), "SET+EXPIRE");
        assert_eq!(sessions.operations[1].lines().count(), 2);
    }

    #[test]
    fn short_file_takes_the_rest_from_what_it_reads() {
        let short = parse("[[command]]\ntemplate = \"GET {key}\"", "short", "s".into()).unwrap();
        assert_eq!(
            (short.name.as_str(), short.keys, short.load.is_some()),
            ("short", 100_000, true)
        );
        let missing = parse(
            "setup = []\n[[command]]\ntemplate = \"GET {key}\"\nreads = false",
            "m",
            "s".into(),
        )
        .unwrap();
        assert_eq!(missing.load, None);
        assert!(!missing.operations[0].reads());
    }

    #[test]
    fn errors_of_a_file_are_named() {
        for (text, reason) in [
            ("", "command"),
            ("command = []", "at least one"),
            ("[[command]]\ntemplate = \"FLUSHALL\"", "FLUSHALL"),
            (
                "[[command]]\ntemplate = \"GET {key}\"\nwieght = 2",
                "wieght",
            ),
            (
                "[[command]]\ntemplate = \"GET {key}\"\nweight = 0",
                "weight",
            ),
            ("[[command]]\ntemplate = []", "at least one command"),
            (
                "setup = \"GET {key\"\n[[command]]\ntemplate = \"PING\"",
                "setup",
            ),
            ("keys = 0\n[[command]]\ntemplate = \"PING\"", "keys"),
            (
                "value_size = \"64\"\n[[command]]\ntemplate = \"PING\"",
                "expected a number with a unit",
            ),
            (
                "key_dist = \"zipf\"\n[[command]]\ntemplate = \"PING\"",
                "exponent",
            ),
        ] {
            let error = parse(text, "x", "s".into()).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    /// The example in the documentation must work as it is written there.
    #[test]
    fn documented_file_can_be_read() {
        let (_, rest) = DOCS.split_once("## A file\n").unwrap();
        let example: String = rest
            .lines()
            .take_while(|line| line.is_empty() || line.starts_with("    "))
            .map(|line| format!("{line}\n"))
            .collect();
        let documented = parse(&example, "file", "s".into()).unwrap();
        let plain = parse(SESSIONS, "file", "s".into()).unwrap();
        assert_eq!(format!("{documented:?}"), format!("{plain:?}"));
    }
}
