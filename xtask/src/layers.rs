//! `cargo xtask storeys`, inside the binary: each of its modules uses only modules of the layers below its own.
//!
//! The layers are a list in `docs/architecture.md`. Sources are read as text: comments and tests are left out,
//! and what remains is searched for paths that start at the root of the crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

const PAGE: &str = "docs/architecture.md";
const HEADING: &str = "## Inside the binary";
const SOURCES: &str = "crates/loadline/src";
/// The line before the tests of a module.
const TESTS: &str = "#[cfg(test)]\nmod tests";

/// The faults of the binary's modules, one sentence each.
pub(crate) fn faults() -> anyhow::Result<Vec<String>> {
    let page = fs::read_to_string(PAGE).with_context(|| format!("{PAGE} could not be read"))?;
    let layers = layers(&page)?;
    let mut files = Vec::new();
    for path in sources(Path::new(SOURCES))? {
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{} could not be read", path.display()))?;
        let path = path.strip_prefix(SOURCES).expect("it was found there");
        files.push((path.to_owned(), text));
    }
    Ok(upward(&layers, &files))
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

/// All Rust files below `dir`.
fn sources(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(dir).with_context(|| format!("{} is missing", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Uses that do not go down, modules without a layer, and layers without a module.
fn upward(layers: &BTreeMap<String, usize>, files: &[(PathBuf, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for (path, text) in files {
        let module = module_of(path);
        let Some(&own) = layers.get(&module) else {
            if !seen.contains(&module) {
                faults.push(format!("module `{module}` is in no layer of {PAGE}"));
            }
            seen.push(module);
            continue;
        };
        for (line, used) in uses(path, text) {
            let Some(&other) = layers.get(&used).filter(|_| used != module) else {
                continue;
            };
            if other <= own {
                let place = if other == own {
                    "in the same layer"
                } else {
                    "above it"
                };
                faults.push(format!(
                    "{SOURCES}/{}:{line}: `{module}` uses `{used}`, which is {place}",
                    path.display()
                ));
            }
        }
        seen.push(module);
    }
    let missing = layers.keys().filter(|module| !seen.contains(module));
    faults.extend(missing.map(|module| format!("{PAGE} lists `{module}`, which does not exist")));
    faults
}

/// The module at the root of the crate that the file at `path` belongs to.
fn module_of(path: &Path) -> String {
    let first = path.iter().next().unwrap_or_default().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

/// The top-level modules that the code of a file names, each with its line.
fn uses(path: &Path, text: &str) -> Vec<(usize, String)> {
    let is_tests = path.file_name().is_some_and(|name| name == "tests.rs");
    if is_tests {
        return Vec::new();
    }
    let code = text.split(TESTS).next().unwrap_or(text);
    let is_folder = path.file_name().is_some_and(|name| name == "mod.rs");
    let depth = path.iter().count() - usize::from(is_folder);
    // This many `super::` lead to the root of the crate.
    let above = "super::".repeat(depth);
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let line = line.split("//").next().unwrap_or(line);
        for root in ["crate::", above.as_str()] {
            for (at, _) in line.match_indices(root) {
                // `pub(in crate::...)` and `$crate::` are not uses; `super::super::` is found once.
                let before = line[..at].chars().next_back();
                if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
                    continue;
                }
                let rest = &line[at + root.len()..];
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
                let name = &rest[..end.unwrap_or(rest.len())];
                found.push((index + 1, name.to_owned()));
            }
        }
    }
    found
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

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let all = [
            ("main.rs", "mod args;\n"),
            ("commands/mod.rs", "use crate::plan;\n"),
            ("plan/mod.rs", "use crate::args;\n"),
            ("args.rs", ""),
        ];
        let of = |name: &str| files.iter().find(|(path, _)| *path == name);
        let mut all: Vec<(PathBuf, String)> = all
            .iter()
            .map(|(path, text)| (path.into(), of(path).map_or(*text, |(_, text)| text).into()))
            .collect();
        let new =
            |(path, _): &&(&str, &str)| !all.iter().any(|(known, _)| known == Path::new(path));
        let more: Vec<(PathBuf, String)> = files
            .iter()
            .filter(new)
            .map(|(path, text)| (path.into(), (*text).into()))
            .collect();
        all.extend(more);
        upward(&layers(LIST).unwrap(), &all)
    }

    #[test]
    fn a_use_that_goes_up_or_sideways_is_found() {
        assert_eq!(found(&[]), Vec::<String>::new());
        for (path, text, fault) in [
            (
                "args.rs",
                "use std::fmt;\n\nfn f() { crate::plan::resolve() }\n",
                "crates/loadline/src/args.rs:3: `args` uses `plan`, which is above it",
            ),
            (
                "plan/show.rs",
                "use super::super::commands;\n",
                "crates/loadline/src/plan/show.rs:1: `plan` uses `commands`, which is above it",
            ),
            (
                "commands/run.rs",
                "use crate::main;\n",
                "crates/loadline/src/commands/run.rs:1: `commands` uses `main`, which is in the same layer",
            ),
        ] {
            assert_eq!(found(&[(path, text)]), [fault]);
        }
    }

    #[test]
    fn comments_tests_and_the_own_module_are_free() {
        let free = [
            (
                "args.rs",
                "//! See [`plan`](crate::plan).\n#[cfg(test)]\nmod tests {\n    use crate::plan;\n}\n",
            ),
            ("plan/tests.rs", "use crate::commands;\n"),
            (
                "plan/modes/mod.rs",
                "use super::super::plan;\nuse super::show;\nuse crate::plan::Plan;\n",
            ),
        ];
        assert_eq!(found(&free), Vec::<String>::new());
    }

    #[test]
    fn the_list_and_the_modules_are_the_same() {
        assert_eq!(
            found(&[("utils.rs", "")]),
            ["module `utils` is in no layer of docs/architecture.md"]
        );
        let layers = layers(LIST).unwrap();
        assert_eq!(
            upward(&layers, &[("main.rs".into(), String::new())]),
            ["args", "commands", "plan"].map(|module| format!(
                "docs/architecture.md lists `{module}`, which does not exist"
            ))
        );
        let twice = LIST.replace("`args` |", "`args`, `plan` |");
        assert!(super::layers(&twice).is_err());
        assert!(super::layers("# Architecture\n").is_err());
    }
}
