//! The drivers of compiled languages as the tests build them: without optimisation, beside those that are measured.

use std::path::Path;

use toml::Value;

/// The programs that build such drivers.
const PROGRAMS: [&str; 2] = ["cargo", "go"];
/// Makes the compiler of Go optimise no package.
const GO: &str = "-gcflags=all=-N -l";

/// Whether the tests build what `program` builds without optimisation.
pub(super) fn applies_to(program: &str) -> bool {
    PROGRAMS.contains(&program)
}

/// A `driver.toml` in the folder `path` whose steps build without optimisation, and whose commands start that. The steps of
/// Cargo build all drivers of a workspace, not only the packages of one folder: with fewer packages, dependencies have
/// fewer features, and those of the next folder would be compiled again.
///
/// # Errors
/// If it is not TOML.
pub(super) fn manifest(text: &str, path: &Path) -> Result<String, toml::de::Error> {
    let mut manifest: toml::Table = text.parse()?;
    let is_go = manifest.get("program").and_then(Value::as_str) == Some("go");
    let [optimised, not_optimised] = if is_go {
        ["bin/", "bin/unoptimised/"]
    } else {
        ["/release/", "/debug/"]
    };
    let redirect = |command: &mut Value| {
        for word in command.as_array_mut().into_iter().flatten() {
            if let Some(program) = word.as_str().filter(|word| word.contains(optimised)) {
                let program = path.join(program.replace(optimised, not_optimised));
                *word = program.to_string_lossy().into_owned().into();
            }
        }
    };
    for (key, value) in &mut manifest {
        match (key.as_str(), value) {
            ("install", Value::Array(steps)) if is_go => {
                for step in steps {
                    redirect(step);
                    if let Some(words) = step.as_array_mut() {
                        words.insert(words.len().min(2), GO.into());
                    }
                }
            }
            ("install", Value::Array(steps)) => {
                let steps = steps.iter_mut().filter_map(Value::as_array_mut);
                steps.for_each(build_workspace_unoptimised);
            }
            ("command", command) => redirect(command),
            ("client", Value::Array(clients)) => {
                let of_clients = clients.iter_mut();
                let of_clients = of_clients.filter_map(|client| client.get_mut("command"));
                of_clients.for_each(redirect);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_cargo_are_built_and_started_without_optimisation() {
        let text = "install = [[\"cargo\", \"build\", \"--release\", \"--package\", \"a\"]]\ncommand = [\"../a/target/release/a\", \"x\"]\n[[client]]\ncommand = [\"target/release/b\"]\n";
        let text = manifest(text, Path::new("/drivers/rust")).unwrap();
        let changed: toml::Table = text.parse().unwrap();
        let expected = "install = [[\"cargo\", \"build\", \"--workspace\"]]\ncommand = [\"/drivers/rust/../a/target/debug/a\", \"x\"]\n[[client]]\ncommand = [\"/drivers/rust/target/debug/b\"]\n";
        assert_eq!(changed, expected.parse().unwrap());
    }

    #[test]
    fn programs_of_go_are_built_and_started_without_optimisation() {
        let text = "program = \"go\"\ninstall = [[\"go\", \"build\", \"-o\", \"bin/a\", \".\"], [\"go\", \"test\", \".\"]]\ncommand = [\"bin/a\"]\n";
        let text = manifest(text, Path::new("/drivers/go")).unwrap();
        let changed: toml::Table = text.parse().unwrap();
        let program = "/drivers/go/bin/unoptimised/a";
        let expected = format!(
            "program = \"go\"\ninstall = [[\"go\", \"build\", \"{GO}\", \"-o\", \"{program}\", \".\"], [\"go\", \"test\", \"{GO}\", \".\"]]\ncommand = [\"{program}\"]\n"
        );
        assert_eq!(changed, expected.parse().unwrap());
    }
}
