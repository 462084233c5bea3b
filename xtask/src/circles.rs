//! `cargo xtask storeys`, inside each crate: files do not use each other in a circle.
//!
//! A module is inside its parent, so it is free to use what its parents define; a parent that uses its children and
//! is used by them is no circle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::uses::Use;

/// The circles between the files of the crate in `folder`, one text each.
pub(crate) fn faults(folder: &Path, uses: &BTreeSet<Use>) -> Vec<String> {
    let found = texts(uses).into_iter();
    found
        .map(|text| format!("{}: {text}", folder.display()))
        .collect()
}

fn texts(uses: &BTreeSet<Use>) -> Vec<String> {
    let ties = uses.iter().filter(|one| !is_inside(&one.from, &one.to));
    let ties = ties.collect();
    let circles = circles(&ties).into_iter();
    circles.map(|circle| text_of(&circle, &ties)).collect()
}

/// Whether the module of the file `inner` is inside that of `outer`.
fn is_inside(inner: &Path, outer: &Path) -> bool {
    let name = outer.file_name().and_then(|name| name.to_str());
    match name {
        Some("lib.rs" | "main.rs" | "mod.rs") => {
            inner.starts_with(outer.parent().expect("a file is in a folder"))
        }
        _ => inner.starts_with(outer.with_extension("")),
    }
}

/// The largest sets of files in which each leads to each other.
fn circles(ties: &BTreeSet<&Use>) -> Vec<BTreeSet<PathBuf>> {
    let mut used: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
    for one in ties {
        used.entry(&one.from).or_default().insert(&one.to);
    }
    let reached: BTreeMap<&Path, BTreeSet<&Path>> = used
        .keys()
        .map(|file| (*file, reached(file, &used)))
        .collect();
    let mut circles: Vec<BTreeSet<PathBuf>> = Vec::new();
    for (file, others) in &reached {
        let leads_back =
            |other: &&&Path| reached.get(*other).is_some_and(|back| back.contains(file));
        let circle: BTreeSet<PathBuf> = others
            .iter()
            .filter(leads_back)
            .map(|other| other.to_path_buf())
            .collect();
        if !circle.is_empty() && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

/// All files to which uses lead from `file`.
fn reached<'a>(
    file: &'a Path,
    used: &BTreeMap<&'a Path, BTreeSet<&'a Path>>,
) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut open = vec![file];
    while let Some(file) = open.pop() {
        let next = used.get(file).into_iter().flatten();
        open.extend(next.filter(|file| reached.insert(**file)));
    }
    reached
}

/// A circle and the uses in it, those of the fewest names first, because they are the easiest to undo.
fn text_of(circle: &BTreeSet<PathBuf>, ties: &BTreeSet<&Use>) -> String {
    let mut names: BTreeMap<(&Path, &Path), BTreeMap<&str, usize>> = BTreeMap::new();
    for one in ties {
        if circle.contains(&one.from) && circle.contains(&one.to) {
            let names = names.entry((&one.from, &one.to)).or_default();
            let line = names.entry(&one.name).or_insert(one.line);
            *line = one.line.min(*line);
        }
    }
    let mut rows: Vec<_> = names.into_iter().collect();
    rows.sort_by_key(|(_, names)| names.len());
    let mut text = format!("{} files use each other in a circle", circle.len());
    for ((from, to), names) in rows {
        let names: Vec<String> = names
            .iter()
            .map(|(name, line)| format!("{name} (line {line})"))
            .collect();
        let names = names.join(", ");
        text += &format!("\n    {} -> {}: {names}", from.display(), to.display());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a crate with these files, without the number of files.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let found = texts(&uses_of(files));
        let ties = found
            .iter()
            .map(|text| text.split_once('\n').unwrap().1.to_owned());
        ties.collect()
    }

    fn uses_of(files: &[(&str, &str)]) -> BTreeSet<Use> {
        let sources: BTreeMap<PathBuf, String> = files
            .iter()
            .map(|(path, text)| (path.into(), (*text).into()))
            .collect();
        let (_, uses) = crate::uses::of_crate(Path::new("lib.rs"), &sources).unwrap();
        uses
    }

    const B: (&str, &str) = ("b.rs", "use crate::a::A;\npub struct B(A);\n");
    const ROOT: (&str, &str) = ("lib.rs", "mod a;\nmod b;\n");

    #[test]
    fn circle_is_found_however_its_uses_are_written() {
        for a in [
            "pub struct A;\nuse crate::b::B;",
            "pub struct A;\nuse super::{b::{self, B as Other}};",
            "pub struct A;\nfn f() { let _ = [crate::b::B::new()]; }",
            "pub struct A;\nuse crate::b;\nfn f() -> Vec<b::B> { panic!() }",
            "pub struct A;\nuse crate::b::*;\nimpl From<B> for A {}",
            "pub struct A;\nfn f() { print!(\"{}\", crate::b::B); }",
        ] {
            let line = if a.lines().count() == 3 { 3 } else { 2 };
            assert_eq!(
                found(&[ROOT, ("a.rs", a), B]),
                [format!(
                    "    a.rs -> b.rs: B (line {line})\n    b.rs -> a.rs: A (line 1)"
                )],
                "{a}"
            );
        }
    }

    #[test]
    fn reexport_neither_hides_a_circle_nor_makes_one() {
        let root = ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::B;\n");
        let b = ("b.rs", "use crate::A;\npub struct B(A);\n");
        let a = ("a.rs", "use crate::B;\npub struct A(B);\n");
        assert_eq!(
            found(&[root, a, b]),
            ["    a.rs -> b.rs: B (line 1)\n    b.rs -> a.rs: A (line 1)"]
        );
        let a = ("a.rs", "pub use crate::b::B;\npub struct A;\n");
        assert_eq!(found(&[root, a, b]), [""; 0]);
        let a = ("a.rs", "pub use crate::b::B;\npub struct A(B);\n");
        assert_eq!(found(&[root, a, b]).len(), 1);
    }

    #[test]
    fn parents_tests_comments_and_other_crates_close_no_circle() {
        for a in [
            "pub struct A;\n//! See [`B`](crate::b::B).\n// use crate::b::B;\n",
            "pub struct A;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n",
            "pub struct A;\n#[cfg(test)]\nuse crate::b::B;\n",
            "pub struct A;\n#[cfg(all(test, unix))]\nfn f(_: crate::b::B) {}\n",
            "pub struct A { b: u8 }\nuse b::B;\nuse ::a::b::B as Other;\n",
            "pub struct A;\nfn f(x: A) { x.b().B }\n",
        ] {
            assert_eq!(found(&[ROOT, ("a.rs", a), B]), [""; 0], "{a}");
        }
        let root = ("lib.rs", "mod a;\nmod b;\npub struct Root(a::A);\n");
        let a = ("a.rs", "pub struct A;\nmod inner;\nuse inner::Inner;\n");
        let inner = (
            "a/inner.rs",
            "use super::A;\nuse crate::Root;\npub struct Inner(A);\n",
        );
        assert_eq!(found(&[root, a, inner, B]), [""; 0]);
    }

    #[test]
    fn circle_through_a_folder_is_found() {
        let b = (
            "b/mod.rs",
            "mod deep;\npub use deep::Deep;\npub struct B(Deep);\n",
        );
        let deep = (
            "b/deep.rs",
            "use crate::a::A;\npub struct Deep(super::B, A);\n",
        );
        let a = ("a.rs", "use crate::b::B;\npub struct A(B);\n");
        assert_eq!(
            found(&[ROOT, a, b, deep]),
            [
                "    a.rs -> b/mod.rs: B (line 1)\n    b/deep.rs -> a.rs: A (line 1)\n    b/mod.rs -> b/deep.rs: Deep (line 3)"
            ]
        );
    }
}
