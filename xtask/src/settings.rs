//! Long settings of tests: all of them are switched on by `LOADLINE_LONG=1`, spelled the same way everywhere, and
//! tests read no other environment variable of ours that is not listed here.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use crate::medians::{ROOTS, sources};
use crate::say;

/// Switches tests to their long settings.
pub(crate) const LONG: &str = "LOADLINE_LONG";
/// The one way to read it: any value but `1` means the short settings.
const READING: &str = "var_os(\"LOADLINE_LONG\").is_some_and(|value| value == \"1\")";

/// Other environment variables of ours: parameters of the program, of its build, of a test's child process, and of a
/// test that writes files for the repository.
const OTHERS: [&str; 12] = [
    "LOADLINE_REDIS_PASSWORD",
    "LOADLINE_SENTINEL_PASSWORD",
    "LOADLINE_COORDINATOR_PASSWORD",
    "LOADLINE_SECRET_FILE",
    "LOADLINE_COMMIT",
    "LOADLINE_TARGET",
    "LOADLINE_FEATURES",
    "LOADLINE_CACHE_DIRECTORY",
    "LOADLINE_CACHE_SERVER",
    "LOADLINE_STORE_DIRECTORY",
    "LOADLINE_STORE_WAY",
    "LOADLINE_KEEP_STORE",
];

/// Checks every source file.
///
/// # Errors
/// If a file names another variable, reads [`LONG`] in another way, or cannot be read.
pub(crate) fn check() -> anyhow::Result<()> {
    let mut count = 0;
    for root in ROOTS {
        for file in sources(Path::new(root))? {
            if file.ends_with("xtask/src/settings.rs") {
                continue;
            }
            let text = fs::read_to_string(&file)
                .with_context(|| format!("`{}` could not be read", file.display()))?;
            for (number, fault) in faults(&text) {
                count += 1;
                say(&format!("settings: {}:{number}: {fault}", file.display()));
            }
        }
    }
    if count > 0 {
        bail!("{count} lines use an environment variable in another way than `{LONG}=1`");
    }
    Ok(())
}

/// The lines of `text` with a fault, counted from 1.
fn faults(text: &str) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for (at, _) in line.match_indices("LOADLINE_") {
            let name = line[at..]
                .split(|c: char| !c.is_ascii_uppercase() && c != '_')
                .next()
                .unwrap_or_default();
            let reads = line.contains("var_os(") || line.contains("var(");
            if name != LONG && !OTHERS.contains(&name) {
                faults.push((
                    number,
                    format!("`{name}` is not known; long settings of tests use `{LONG}=1`"),
                ));
            } else if name == LONG && reads && !line.contains(READING) {
                faults.push((number, format!("write `{READING}`")));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_and_one_reading_are_accepted() {
        let right = format!("    let is_long = std::env::{READING};\n// see LOADLINE_LONG\n");
        assert_eq!(faults(&right), []);
        let other = "let all = std::env::var(\"LOADLINE_ALL_SEEDS\");";
        assert_eq!(
            faults(other),
            [(
                1,
                "`LOADLINE_ALL_SEEDS` is not known; long settings of tests use `LOADLINE_LONG=1`"
                    .to_owned()
            )]
        );
        let set = "let is_long = std::env::var_os(\"LOADLINE_LONG\").is_some();";
        assert_eq!(faults(set), [(1, format!("write `{READING}`"))]);
    }
}
