//! The drivers that Cargo builds, as the tests build them.

use std::path::Path;

use toml::Value;

/// A `driver.toml` in the folder `path` whose steps build what Cargo does not optimise, and whose commands start that. The
/// steps build all drivers of a workspace, not only the packages of one folder: with fewer packages, dependencies have
/// fewer features, and those of the next folder would be compiled again.
///
/// # Errors
/// If it is not TOML.
pub(super) fn manifest(text: &str, path: &Path) -> Result<String, toml::de::Error> {
    let mut manifest: toml::Table = text.parse()?;
    for (key, value) in &mut manifest {
        match (key.as_str(), value) {
            ("install", Value::Array(steps)) => {
                let steps = steps.iter_mut().filter_map(Value::as_array_mut);
                steps.for_each(build_workspace_unoptimised);
            }
            ("command", command) => start_unoptimised(command, path),
            ("client", Value::Array(clients)) => {
                let of_clients = clients.iter_mut();
                let of_clients = of_clients.filter_map(|client| client.get_mut("command"));
                of_clients.for_each(|command| start_unoptimised(command, path));
            }
            _ => {}
        }
    }
    Ok(manifest.to_string())
}

fn build_workspace_unoptimised(step: &mut Vec<Value>) {
    let mut words = Vec::new();
    let mut rest = step.drain(..);
    while let Some(word) = rest.next() {
        match word.as_str() {
            Some("--release") => {}
            Some("--package") => drop(rest.next()),
            _ => words.push(word),
        }
    }
    words.push("--workspace".into());
    drop(rest);
    *step = words;
}

/// Replaces programs that Cargo optimised in a command by those that it did not.
fn start_unoptimised(command: &mut Value, path: &Path) {
    for word in command.as_array_mut().into_iter().flatten() {
        if let Some(program) = word.as_str().filter(|word| word.contains("/release/")) {
            let program = path.join(program.replace("/release/", "/debug/"));
            *word = program.to_string_lossy().into_owned().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_build_and_start_programs_of_cargo_without_optimisation() {
        let text = "install = [[\"cargo\", \"build\", \"--release\", \"--package\", \"a\"]]\ncommand = [\"../a/target/release/a\", \"x\"]\n[[client]]\ncommand = [\"target/release/b\"]\n";
        let text = manifest(text, Path::new("/drivers/rust")).unwrap();
        let changed: toml::Table = text.parse().unwrap();
        let expected = "install = [[\"cargo\", \"build\", \"--workspace\"]]\ncommand = [\"/drivers/rust/../a/target/debug/a\", \"x\"]\n[[client]]\ncommand = [\"/drivers/rust/target/debug/b\"]\n";
        assert_eq!(changed, expected.parse().unwrap());
    }
}
