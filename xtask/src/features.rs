//! The features that the checks of the workspace use: all but those that build RocksDB or the fuzzing engine, whose C++ takes
//! longer to compile than all other checks together.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::metadata;

/// The features that are left out, in every crate.
const HEAVY: [&str; 2] = ["libfuzzer", "rocksdb"];
/// The features of this project's own fuzz targets, which no application chooses.
const FUZZING: [&str; 2] = ["fuzzing", "libfuzzer"];
/// The set of features of those who name none.
const DEFAULT: &str = "default";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    /// Features that each feature enables.
    features: BTreeMap<String, Vec<String>>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
}

impl Package {
    fn is_library(&self) -> bool {
        let mut kinds = self.targets.iter().flat_map(|target| &target.kind);
        kinds.any(|kind| kind == "lib")
    }
}

/// The argument of cargo that enables the features of the workspace; with `heavy` all of them.
///
/// # Errors
/// If cargo does not list them.
pub(crate) fn flag(heavy: bool) -> anyhow::Result<String> {
    if heavy {
        return Ok("--all-features".to_owned());
    }
    let metadata: Metadata = metadata()?;
    Ok(format!("--features={}", light(&metadata).join(",")))
}

/// The arguments of cargo for clippy over the whole workspace, with `more`.
///
/// # Errors
/// If cargo does not list the features.
pub(crate) fn clippy(more: &[&str]) -> anyhow::Result<Vec<String>> {
    let features = flag(false)?;
    let arguments = [&["clippy", "--workspace", "--all-targets", &features], more];
    let arguments = [arguments.concat(), vec!["--", "-D", "warnings"]].concat();
    Ok(arguments.into_iter().map(str::to_owned).collect())
}

/// A package with one of its features, or with none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Alone {
    pub(crate) package: String,
    /// The argument of cargo that selects the library, or the program of a package without one.
    pub(crate) target: String,
    /// Empty for none.
    pub(crate) feature: String,
}

/// Each package that has features of its own without any of them, and each library with each of them alone: an application chooses
/// the features of a library, and a program's are hardly ever chosen.
///
/// # Errors
/// If cargo does not list them.
pub(crate) fn alone() -> anyhow::Result<Vec<Alone>> {
    let metadata: Metadata = metadata()?;
    Ok(alone_of(&metadata))
}

fn alone_of(metadata: &Metadata) -> Vec<Alone> {
    let mut sets = Vec::new();
    for package in &metadata.packages {
        let chosen = package.features.keys().map(String::as_str);
        let chosen = chosen.filter(|feature| !FUZZING.contains(feature));
        if chosen.clone().next().is_none() {
            continue;
        }
        let mut features: Vec<&str> = chosen
            .filter(|feature| *feature != DEFAULT && package.is_library())
            .filter(|feature| {
                let full = format!("{}/{feature}", package.name);
                !is_heavy(metadata, &full, &mut Vec::new())
            })
            .collect();
        features.insert(0, "");
        let target = if package.is_library() {
            "--lib".to_owned()
        } else {
            format!("--bin={}", package.name)
        };
        sets.extend(features.into_iter().map(|feature| Alone {
            package: package.name.clone(),
            target: target.clone(),
            feature: feature.to_owned(),
        }));
    }
    sets
}

/// The features that do not enable one that is left out.
fn light(metadata: &Metadata) -> Vec<String> {
    let packages = metadata.packages.iter();
    let all = packages.flat_map(|package| {
        let names = package.features.keys();
        names.map(|name| format!("{}/{name}", package.name))
    });
    all.filter(|feature| !is_heavy(metadata, feature, &mut Vec::new()))
        .collect()
}

/// Whether `feature`, as `package/feature`, enables one that is left out. `seen` are those on the way to it.
fn is_heavy(metadata: &Metadata, feature: &str, seen: &mut Vec<String>) -> bool {
    let Some((name, feature)) = feature.split_once('/') else {
        return false;
    };
    if HEAVY.contains(&feature) {
        return true;
    }
    let full = format!("{name}/{feature}");
    if seen.contains(&full) {
        return false;
    }
    seen.push(full);
    let mut packages = metadata.packages.iter();
    let package = packages.find(|package| package.name == name);
    let enables = package.and_then(|package| package.features.get(feature));
    enables.into_iter().flatten().any(|other| {
        let other = match other.split_once('/') {
            // `package?/feature` enables a feature of a package only if something else enables the package.
            Some((package, feature)) => format!("{}/{feature}", package.trim_end_matches('?')),
            None => format!("{name}/{other}"),
        };
        is_heavy(metadata, &other, seen)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_that_enable_the_heavy_one_are_left_out() {
        let package = |name: &str, kind: &str, features: &[(&str, &[&str])]| Package {
            name: name.to_owned(),
            targets: vec![Target {
                kind: vec![kind.to_owned()],
            }],
            features: (features.iter())
                .map(|(name, enables)| {
                    let enables = enables.iter().map(|other| (*other).to_owned());
                    ((*name).to_owned(), enables.collect())
                })
                .collect(),
        };
        let metadata = Metadata {
            packages: vec![
                package(
                    "lab",
                    "bin",
                    &[
                        ("all", &["light", "engines"]),
                        ("engines", &["cache?/more"]),
                        ("light", &["cache/light", "loop"]),
                        ("loop", &["light"]),
                        ("rocksdb", &["dep:other"]),
                    ],
                ),
                package(
                    "cache",
                    "lib",
                    &[
                        ("light", &["dep:rocksdb-free"]),
                        ("more", &["light", "rocksdb"]),
                        ("rocksdb", &["dep:rocksdb"]),
                    ],
                ),
                package("fuzz", "bin", &[("libfuzzer", &["dep:fuzzer"])]),
            ],
        };
        assert_eq!(light(&metadata), ["lab/light", "lab/loop", "cache/light"]);
        let alone = alone_of(&metadata);
        let alone: Vec<[&str; 3]> = (alone.iter())
            .map(|set| [&set.package, &set.target, &set.feature].map(String::as_str))
            .collect();
        let expected = [
            ["lab", "--bin=lab", ""],
            ["cache", "--lib", ""],
            ["cache", "--lib", "light"],
        ];
        assert_eq!(alone, expected);
    }

    /// The checks leave out nothing else of the workspace.
    #[test]
    fn all_other_features_of_the_workspace_are_checked() {
        let flag = flag(false).unwrap();
        let (_, features) = flag.split_once('=').unwrap();
        let features: Vec<&str> = features.split(',').collect();
        let with = [
            "loadline/sqlite",
            "loadline/zstd",
            "loadline-cache/fjall",
            "loadline-client/tls",
        ];
        for feature in with {
            assert!(features.contains(&feature), "{feature}: {flag}");
        }
        let without = ["loadline/rocksdb", "loadline-cache/rocksdb"];
        for feature in without {
            assert!(!features.contains(&feature), "{feature}: {flag}");
        }
    }
}
