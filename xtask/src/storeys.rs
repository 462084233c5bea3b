//! `cargo xtask storeys`: dependencies go down one storey or more, never sideways or up, and only to crates
//! that a room is allowed to use. Inside a crate, files do not use each other in a circle, and the modules of the
//! binary use only those of lower layers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::{circles, layers, metadata, say, uses};

/// The storey of each crate. Every crate must be listed.
const STOREYS: [(&str, u32); 14] = [
    ("loadline", 3),
    ("loadline-cache", 2),
    ("loadline-client", 1),
    ("loadline-server", 1),
    ("loadline-load", 1),
    ("loadline-report", 1),
    ("loadline-null", 1),
    ("loadline-resp", 0),
    ("loadline-measure", 0),
    ("loadline-store", 0),
    ("loadline-link", 0),
    // The checks are above all crates.
    ("xtask", 9),
    ("instructions", 9),
    ("loadline-fuzz", 9),
];

/// The workspace crates that a room can use, if that is less than everything below it: the client must not
/// use the lab, the load generator must not use Redis, and the renderers use only the record.
const KNOWS: [(&str, &[&str]); 6] = [
    ("loadline-cache", &["loadline-client", "loadline-store"]),
    ("loadline-client", &["loadline-resp"]),
    ("loadline-server", &["loadline-resp", "loadline-store"]),
    ("loadline-load", &["loadline-measure"]),
    ("loadline-null", &["loadline-resp"]),
    ("loadline-report", &["loadline-measure"]),
];

/// Rooms without sockets, and the crates that would add them despite `clippy.toml`.
const DRY: [&str; 4] = [
    "loadline-resp",
    "loadline-measure",
    "loadline-store",
    "loadline-report",
];
const SOCKETS: [&str; 7] = [
    "async-std",
    "futures-util",
    "mio",
    "nix",
    "rustix",
    "socket2",
    "tokio",
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

/// A crate of a package.
#[derive(Deserialize)]
struct Target {
    kind: BTreeSet<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `null` for a normal one, `build` or `dev`.
    kind: Option<String>,
    features: Vec<String>,
}

pub(crate) fn check() -> anyhow::Result<()> {
    let metadata: Metadata = metadata()?;
    let mut faults = faults(&metadata);
    for package in &metadata.packages {
        faults.extend(inside(package)?);
    }
    for fault in &faults {
        say(&format!("storeys: {fault}"));
    }
    if !faults.is_empty() {
        bail!("{} faults", faults.len());
    }
    Ok(())
}

/// The faults of the library and the programs of a package.
fn inside(package: &Package) -> anyhow::Result<Vec<String>> {
    let here = std::env::current_dir().context("there is no current directory")?;
    let mut faults = Vec::new();
    for target in &package.targets {
        if !target.kind.contains("lib") && !target.kind.contains("bin") {
            continue;
        }
        let root = target
            .src_path
            .strip_prefix(&here)
            .unwrap_or(&target.src_path);
        let folder = root.parent().context("a crate without a folder")?;
        let root = root.strip_prefix(folder).expect("it is in its folder");
        let mut sources = BTreeMap::new();
        read(folder, folder, &mut sources)?;
        let (files, uses) = uses::of_crate(root, &sources)
            .with_context(|| format!("{} could not be read", folder.display()))?;
        faults.extend(circles::faults(folder, &uses));
        if package.name == "loadline" {
            faults.extend(layers::faults(&files, &uses)?);
        }
    }
    Ok(faults)
}

/// Adds all Rust files below `folder`, with their paths from `base`.
fn read(folder: &Path, base: &Path, sources: &mut BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
    let unread = |path: &Path| format!("{} could not be read", path.display());
    for entry in fs::read_dir(folder).with_context(|| unread(folder))? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, base, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).with_context(|| unread(&path))?;
            let path = path.strip_prefix(base).expect("it is below");
            sources.insert(path.to_owned(), text);
        }
    }
    Ok(())
}

fn faults(metadata: &Metadata) -> Vec<String> {
    let storeys: BTreeMap<&str, u32> = STOREYS.into_iter().collect();
    let mut faults = Vec::new();
    for package in &metadata.packages {
        let Some(&from) = storeys.get(package.name.as_str()) else {
            faults.push(format!(
                "{} has no place in the house (xtask/src/storeys.rs)",
                package.name
            ));
            continue;
        };
        let edges = package
            .dependencies
            .iter()
            .filter(|edge| edge.kind.as_deref() != Some("dev"));
        for edge in edges {
            let to = storeys.get(edge.name.as_str()).copied();
            // Without its feature `net`, rustix has files only.
            let is_dry = edge.name == "rustix" && !edge.features.iter().any(|name| name == "net");
            if !is_dry {
                faults.extend(fault(&package.name, from, &edge.name, to));
            }
        }
    }
    faults
}

/// The fault of a dependency of `package` on `name`, which is on storey `to` if it belongs to the workspace.
fn fault(package: &str, from: u32, name: &str, to: Option<u32>) -> Option<String> {
    let Some(to) = to else {
        let is_wet = DRY.contains(&package) && SOCKETS.contains(&name);
        return is_wet.then(|| format!("{package} depends on {name}: no sockets in this room"));
    };
    if to >= from {
        let way = if to == from { "sideways" } else { "up" };
        return Some(format!(
            "{package} (storey {from}) depends on {name} (storey {to}): that goes {way}"
        ));
    }
    let (_, known) = KNOWS.iter().find(|(room, _)| *room == package)?;
    (!known.contains(&name)).then(|| {
        format!(
            "{package} depends on {name}: it may know {} only",
            known.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(edges: &[(&str, &str, Option<&str>)]) -> Metadata {
        let names: std::collections::BTreeSet<&str> = edges
            .iter()
            .flat_map(|(from, to, _)| [*from, *to])
            .collect();
        let dependencies = |name: &str| {
            edges
                .iter()
                .filter(|(from, ..)| *from == name)
                .map(|(_, to, kind)| Dependency {
                    name: (*to).into(),
                    kind: kind.map(Into::into),
                    features: vec!["net".into()],
                })
                .collect()
        };
        Metadata {
            packages: names
                .iter()
                .map(|name| Package {
                    name: (*name).into(),
                    dependencies: dependencies(name),
                    targets: Vec::new(),
                })
                .collect(),
        }
    }

    #[test]
    fn files_of_rustix_are_allowed_and_its_sockets_are_not() {
        let mut metadata = metadata(&[("loadline-store", "rustix", None)]);
        metadata.packages.truncate(1);
        assert_eq!(faults(&metadata).len(), 1);
        metadata.packages[0].dependencies[0].features = vec!["fs".into()];
        assert_eq!(faults(&metadata), [""; 0]);
    }

    #[test]
    fn down_is_allowed_and_dev_dependencies_are_free() {
        let fine = [
            ("loadline", "loadline-resp", None),
            ("loadline-load", "loadline-measure", None),
            ("loadline-resp", "loadline", Some("dev")),
        ];
        assert!(faults(&metadata(&fine)).is_empty());
    }

    #[test]
    fn sideways_up_and_homeless_are_found() {
        let sideways = faults(&metadata(&[("loadline-load", "loadline-report", None)]));
        assert!(
            sideways.len() == 1 && sideways[0].ends_with("that goes sideways"),
            "{sideways:?}"
        );
        let up = faults(&metadata(&[(
            "loadline-resp",
            "loadline-load",
            Some("build"),
        )]));
        assert!(up.len() == 1 && up[0].ends_with("that goes up"), "{up:?}");
        let homeless = faults(&metadata(&[("loadline-utils", "loadline-resp", None)]));
        assert!(
            homeless.len() == 1 && homeless[0].starts_with("loadline-utils has no place"),
            "{homeless:?}"
        );
    }
    #[test]
    fn forbidden_dependencies_of_a_crate_are_found() {
        let lab = faults(&metadata(&[("loadline-client", "loadline-measure", None)]));
        let redis = faults(&metadata(&[("loadline-load", "loadline-resp", None)]));
        let sockets = faults(&Metadata {
            packages: vec![Package {
                name: "loadline-resp".into(),
                dependencies: vec![Dependency {
                    name: "tokio".into(),
                    kind: None,
                    features: vec![],
                }],
                targets: Vec::new(),
            }],
        });
        assert_eq!(
            [lab, redis, sockets].concat(),
            [
                "loadline-client depends on loadline-measure: it may know loadline-resp only",
                "loadline-load depends on loadline-resp: it may know loadline-measure only",
                "loadline-resp depends on tokio: no sockets in this room",
            ]
        );
    }
}
