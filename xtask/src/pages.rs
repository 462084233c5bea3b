//! Examples in Markdown pages: Rust code compiles against the libraries as clippy has checked them, and lines for a
//! `Cargo.toml` name versions and features that exist.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;
use toml::{Table, Value};

use crate::{cargo, features, metadata, say};

/// A package of the workspace.
#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    features: BTreeMap<String, Vec<String>>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// A message of cargo; `None` for each part that another kind of message lacks.
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    profile: Option<Profile>,
    filenames: Option<Vec<PathBuf>>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Checks the examples of all pages.
///
/// # Errors
/// If an example does not compile, or names a version or a feature that does not exist.
pub(crate) fn check() -> anyhow::Result<()> {
    let Metadata { packages } = metadata()?;
    let lock = fs::read_to_string("Cargo.lock").context("Cargo.lock could not be read")?;
    let lock: Table = lock.parse().context("Cargo.lock is invalid")?;
    let libraries = libraries(&packages)?;
    let mut faulty = 0;
    for page in pages()? {
        let text = fs::read_to_string(&page)
            .with_context(|| format!("`{}` could not be read", page.display()))?;
        let faults = faults(&text, &packages, &lock)?;
        for fault in &faults {
            say(&format!("pages: {}: {fault}", page.display()));
        }
        let compiles = !text.contains("```rust") || compiles(&page, &libraries)?;
        faulty += usize::from(!compiles || !faults.is_empty());
    }
    if faulty > 0 {
        bail!("{faulty} pages have wrong examples");
    }
    Ok(())
}

/// The pages for users.
fn pages() -> anyhow::Result<Vec<PathBuf>> {
    let list = |dir: &str| {
        let entries = fs::read_dir(dir).with_context(|| format!("`{dir}` could not be listed"))?;
        let paths = entries.map(|entry| Ok(entry?.path()));
        paths.collect::<anyhow::Result<Vec<_>>>()
    };
    let crates = list("crates")?;
    let mut pages: Vec<PathBuf> = crates.iter().map(|dir| dir.join("README.md")).collect();
    pages.push("README.md".into());
    pages.extend(list("docs")?);
    pages.retain(|page| page.extension().is_some_and(|kind| kind == "md") && page.is_file());
    Ok(pages)
}

/// The libraries that examples can use: those of the workspace and the ones that they depend on directly, with the
/// file that clippy has left of each. Clippy has nothing to do here if it ran before.
fn libraries(packages: &[Package]) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let used = packages.iter().flat_map(|package| &package.dependencies);
    let used = used.map(|dependency| &dependency.name);
    let ours = packages.iter().map(|package| &package.name);
    let wanted: HashSet<String> = used
        .chain(ours)
        .map(|name| name.replace('-', "_"))
        .collect();
    let output = Command::new(cargo())
        .args(features::clippy(&["--quiet", "--message-format=json"])?)
        .stderr(Stdio::null())
        .output()
        .context("clippy could not be started")?;
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(Message {
            target: Some(Target { name, kind }),
            profile: Some(Profile { test: false }),
            filenames: Some(files),
        }) = serde_json::from_str(line)
        else {
            continue;
        };
        // What build scripts and macros use is compiled and not only checked. Examples can have the name of a library.
        if kind == ["lib"]
            && let [file] = &files[..]
            && file.extension().is_some_and(|kind| kind == "rmeta")
            && wanted.contains(&name)
        {
            found.entry(name).or_default().push(file.clone());
        }
    }
    // A library of which there are several versions cannot be chosen by its name.
    found.retain(|_, files| files.len() == 1);
    if found.is_empty() {
        bail!("clippy has checked no library");
    }
    Ok(found
        .into_iter()
        .flat_map(|(name, files)| files.into_iter().map(move |file| (name.clone(), file)))
        .collect())
}

/// Whether the Rust code of a page compiles. Its faults are printed.
fn compiles(page: &Path, libraries: &BTreeMap<String, PathBuf>) -> anyhow::Result<bool> {
    let mut command = Command::new("rustdoc");
    command.args(["--test", "--edition", "2024"]);
    for (name, file) in libraries {
        let dir = file.parent().unwrap_or(file);
        command
            .arg("--extern")
            .arg(format!("{name}={}", file.display()));
        command
            .arg("-L")
            .arg(format!("dependency={}", dir.display()));
    }
    let output = command.arg(page).output();
    let output = output.context("rustdoc could not be started")?;
    if !output.status.success() {
        say(&String::from_utf8_lossy(&output.stdout));
        say(&String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.status.success())
}

/// The faults of the lines for a `Cargo.toml`. Features of packages that are not ours are not looked at.
fn faults(text: &str, packages: &[Package], lock: &Table) -> anyhow::Result<Vec<String>> {
    let locked = lock.get("package").and_then(Value::as_array);
    let locked: Vec<(&str, &str)> = locked
        .into_iter()
        .flatten()
        .filter_map(|package| {
            Some((
                package.get("name")?.as_str()?,
                package.get("version")?.as_str()?,
            ))
        })
        .collect();
    let mut faults = Vec::new();
    for block in text.split("```toml\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        let lines: Table = block
            .parse()
            .context("an example for `Cargo.toml` is invalid")?;
        let dependencies = lines.get("dependencies").and_then(Value::as_table);
        for (name, asked) in dependencies.into_iter().flatten() {
            let version = asked.as_str().or_else(|| asked.get("version")?.as_str());
            let version = version.unwrap_or_default();
            let ours = packages.iter().find(|package| package.name == *name);
            let ours_is = ours.map(|package| (package.name.as_str(), package.version.as_str()));
            let is_there = locked.iter().copied().chain(ours_is).any(|(other, is)| {
                other == name && (is == version || is.starts_with(&format!("{version}.")))
            });
            if !is_there {
                faults.push(format!("`{name}` has another version than {version}"));
            }
            let features = asked.get("features").and_then(Value::as_array);
            let features = features.into_iter().flatten().filter_map(Value::as_str);
            let missing = features.filter(|feature| {
                ours.is_some_and(|package| !package.features.contains_key(*feature))
            });
            faults.extend(missing.map(|feature| format!("`{name}` has no feature `{feature}`")));
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_code_of_a_page_fails_and_right_code_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("README.md");
        for (code, expected) in [("let one: u8 = 1;", true), ("let one: u8 = \"1\";", false)] {
            fs::write(&page, format!("# Name\n\n```rust,no_run\n{code}\n```\n")).unwrap();
            assert_eq!(
                compiles(&page, &BTreeMap::new()).unwrap(),
                expected,
                "{code}"
            );
        }
    }

    #[test]
    fn missing_versions_and_features_are_faults() {
        let packages = [Package {
            name: "ours".to_owned(),
            version: "0.1.0".to_owned(),
            features: BTreeMap::from([("tls".to_owned(), Vec::new())]),
            dependencies: Vec::new(),
        }];
        let lock = "[[package]]\nname = \"tokio\"\nversion = \"1.54.1\"\n"
            .parse()
            .unwrap();
        let found = |lines: &str| {
            let page = format!("text\n```toml\n[dependencies]\n{lines}\n```\ntext\n");
            faults(&page, &packages, &lock).unwrap()
        };
        let right = "ours = { version = \"0.1\", features = [\"tls\"] }\ntokio = \"1\"";
        assert_eq!(found(right), [""; 0]);
        let wrong = "ours = { version = \"0.2\", features = [\"tsl\"] }\ntokio = \"15\"";
        assert_eq!(
            found(wrong),
            [
                "`ours` has another version than 0.2",
                "`ours` has no feature `tsl`",
                "`tokio` has another version than 15"
            ]
        );
    }
}
