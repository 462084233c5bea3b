//! Passes commit, target and features to the program, for `loadline --version`, and makes a released program smaller.

use std::process::Command;

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    for file in ["HEAD", "logs/HEAD"] {
        // Without a repository, as in a package, nothing about the commit can change.
        if let Some(path) = git(&["rev-parse", "--git-path", file]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    let features: Vec<String> = std::env::vars()
        .filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_ascii_lowercase()))
        .collect();
    let features = match features.join(", ") {
        none if none.is_empty() => "none".to_owned(),
        some => some,
    };
    let commit = commit.unwrap_or_else(|| "unknown".to_owned());
    let target = std::env::var("TARGET").unwrap_or_else(|_| "unknown".to_owned());
    println!("cargo::rustc-env=LOADLINE_COMMIT={commit}");
    println!("cargo::rustc-env=LOADLINE_TARGET={target}");
    println!("cargo::rustc-env=LOADLINE_FEATURES={features}");
    // The lines of the standard library and of our server, which profiles of it show. At -O2, the linker compresses them more.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,-O2,--compress-debug-sections=zlib");
    }
}

/// The output of git, on one line; nothing where there is no git or no repository.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| output.status.success() && !text.is_empty())
}
