//! The messages of the compiler for wrong calls begin with what is wrong.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends with the error that it did not expect, and reads the build of the client"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The newest build of the client beside this test.
fn client(dir: &Path) -> PathBuf {
    let files = dir.read_dir().unwrap().map(|file| file.unwrap().path());
    let builds = files.filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libloadline_client-") && name.ends_with(".rlib")
    });
    let age = |path: &PathBuf| path.metadata().unwrap().modified().unwrap();
    builds.max_by_key(age).unwrap()
}

/// The first line of each error for these calls, which use a connection.
fn errors_of(calls: &str) -> Vec<String> {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("calls.rs");
    let text = format!(
        "use loadline_client::{{blocking::Connection, commands::*}};
        pub struct User;
        pub fn calls(c: &mut Connection) {{ {calls} }}"
    );
    std::fs::write(&source, text).unwrap();
    let output = Command::new("rustc")
        .args(["--edition=2024", "--crate-type=lib", "--emit=metadata"])
        .arg("--extern")
        .arg(format!("loadline_client={}", client(built).display()))
        .arg("-L")
        .arg(built)
        .arg("--out-dir")
        .arg(dir.path())
        .arg(&source)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let errors = said.lines().filter(|line| line.starts_with("error["));
    errors.map(str::to_owned).collect()
}

#[test]
fn compiler_says_first_what_is_wrong_with_a_call() {
    for (calls, expected) in [
        (
            "c.run(set(\"k\", User)).unwrap();",
            "`User` is not one argument of a command",
        ),
        (
            "c.run(del(User)).unwrap();",
            "`User` cannot be written as arguments of a command",
        ),
        ("c.run(\"GET k\").unwrap();", "`str` is not a request"),
        (
            "let _: User = c.run(get(\"k\")).unwrap();",
            "a reply cannot be read as `User`",
        ),
    ] {
        let errors = errors_of(calls);
        assert!((1..=3).contains(&errors.len()), "{calls}: {errors:?}");
        for error in errors {
            assert_eq!(error, format!("error[E0277]: {expected}"), "{calls}");
        }
    }
}
