//! `cargo xtask storeys`, inside the binary: each of its modules uses only modules of the layers below its own.
//!
//! The layers are a list in `docs/architecture.md`.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::uses::Use;

const PAGE: &str = "docs/architecture.md";
const HEADING: &str = "## Inside the binary";
const SOURCES: &str = "crates/loadline/src";

/// The faults of the binary's modules, one sentence each.
pub(crate) fn faults(
    files: &BTreeSet<PathBuf>,
    uses: &BTreeSet<Use>,
) -> anyhow::Result<Vec<String>> {
    let page = fs::read_to_string(PAGE).with_context(|| format!("{PAGE} could not be read"))?;
    Ok(upward(&layers(&page)?, files, uses))
}

/// The layer of each module, counted from the top: a line of the list is a layer, and its first column, in
/// backticks, has the modules.
fn layers(page: &str) -> anyhow::Result<BTreeMap<String, usize>> {
    let (_, section) = page
        .split_once(HEADING)
        .with_context(|| format!("{PAGE} has no section `{HEADING}`"))?;
    let section = section.split("\n## ").next().unwrap_or(section);
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let mut layers = BTreeMap::new();
    for (layer, row) in rows.enumerate() {
        let column = row.split('|').nth(1).unwrap_or_default();
        for module in column.split('`').skip(1).step_by(2) {
            if layers.insert(module.to_owned(), layer).is_some() {
                bail!("{PAGE} lists the module `{module}` twice");
            }
        }
    }
    if layers.is_empty() {
        bail!("the section `{HEADING}` of {PAGE} lists no modules");
    }
    Ok(layers)
}

/// Uses that do not go down, modules without a layer, and layers without a module.
fn upward(
    layers: &BTreeMap<String, usize>,
    files: &BTreeSet<PathBuf>,
    uses: &BTreeSet<Use>,
) -> Vec<String> {
    let modules: BTreeSet<String> = files.iter().map(|file| module_of(file)).collect();
    let homeless = modules
        .iter()
        .filter(|module| !layers.contains_key(*module));
    let homeless = homeless.map(|module| format!("module `{module}` is in no layer of {PAGE}"));
    let missing = layers.keys().filter(|module| !modules.contains(*module));
    let missing = missing.map(|module| format!("{PAGE} lists `{module}`, which does not exist"));
    let wrong = uses.iter().filter_map(|one| {
        let (from, to) = (module_of(&one.from), module_of(&one.to));
        let (own, other) = (layers.get(&from)?, layers.get(&to)?);
        let place = match other.cmp(own) {
            _ if from == to => return None,
            Ordering::Less => "above it",
            Ordering::Equal => "in the same layer",
            Ordering::Greater => return None,
        };
        Some(format!(
            "{SOURCES}/{}:{}: `{from}` uses {} of `{to}`, which is {place}",
            one.from.display(),
            one.line,
            one.name,
        ))
    });
    homeless.chain(missing).chain(wrong).collect()
}

/// The module at the root of the crate that the file at `path` belongs to.
fn module_of(path: &Path) -> String {
    let first = path.iter().next().unwrap_or_default().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
# Architecture

## Inside the binary

Some text.

| modules | what they do |
| --- | --- |
| `main`, `commands` | one file per command, which may name `plan` |
| `plan` | what arguments mean |
| `args` | what can be typed |

## Another section

| `not` | a layer |
";

    /// The faults of a binary with the modules of the list, where the texts of `files` replace those of the list.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let mut sources = BTreeMap::from(
            [
                (
                    "main.rs",
                    "mod args;\nmod commands;\nmod plan;\nfn exit() {}\n",
                ),
                ("commands/mod.rs", "mod run;\npub(crate) fn list() {}\n"),
                ("commands/run.rs", "use crate::plan::Plan;\n"),
                (
                    "plan/mod.rs",
                    "mod show;\npub(crate) struct Plan;\nuse crate::args::Args;\n",
                ),
                ("plan/show.rs", "use super::Plan;\n"),
                ("args.rs", "pub(crate) struct Args;\n"),
            ]
            .map(|(path, text)| (PathBuf::from(path), text.to_owned())),
        );
        sources.extend(
            files
                .iter()
                .map(|(path, text)| (path.into(), (*text).into())),
        );
        let (files, uses) = crate::uses::of_crate(Path::new("main.rs"), &sources).unwrap();
        upward(&layers(LIST).unwrap(), &files, &uses)
    }

    #[test]
    fn use_that_goes_up_or_sideways_is_found() {
        assert_eq!(found(&[]), [""; 0]);
        for (path, text, fault) in [
            (
                "args.rs",
                "use std::fmt;\n\npub(crate) struct Args;\nfn f() { crate::plan::resolve() }\n",
                "crates/loadline/src/args.rs:4: `args` uses resolve of `plan`, which is above it",
            ),
            (
                "plan/show.rs",
                "use super::super::commands::list;\n",
                "crates/loadline/src/plan/show.rs:1: `plan` uses list of `commands`, which is above it",
            ),
            (
                "commands/run.rs",
                "use crate::exit;\n",
                "crates/loadline/src/commands/run.rs:1: `commands` uses exit of `main`, which is in the same layer",
            ),
        ] {
            assert_eq!(found(&[(path, text)]), [fault]);
        }
    }

    #[test]
    fn list_and_the_modules_are_the_same() {
        assert_eq!(
            found(&[
                (
                    "main.rs",
                    "mod args;\nmod commands;\nmod plan;\nmod utils;\n"
                ),
                ("utils.rs", "")
            ]),
            ["module `utils` is in no layer of docs/architecture.md"]
        );
        let layers = layers(LIST).unwrap();
        assert_eq!(
            upward(
                &layers,
                &BTreeSet::from(["main.rs".into()]),
                &BTreeSet::new()
            ),
            ["args", "commands", "plan"].map(|module| format!(
                "docs/architecture.md lists `{module}`, which does not exist"
            ))
        );
        let twice = LIST.replace("`args` |", "`args`, `plan` |");
        assert!(super::layers(&twice).is_err());
        assert!(super::layers("# Architecture\n").is_err());
    }
}
