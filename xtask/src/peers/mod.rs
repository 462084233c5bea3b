//! `cargo xtask peers`: ours beside the rivals, interleaved in one run.

mod client;
mod generator;
mod programs;
mod table;

use anyhow::{Context, bail};

use crate::say;
use table::Table;

/// What is typed after `peers`.
pub(crate) const USAGE: &str = "\
cargo xtask peers [generator|client] [--rounds N] [--case NAME]... [--json FILE]
                               ours and the peers interleaved in one run (FILE `-` is standard output)
";

/// How a table is to be measured.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    rounds: usize,
    /// Only these cases, where some are named.
    cases: Vec<String>,
    json: Option<String>,
}

/// Measures the table that is asked for, prints it, and writes it where that is asked for.
///
/// # Errors
/// What is wrong with the arguments, or what could not be measured.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let (name, flags) = match arguments.split_first() {
        Some((name, flags)) if !name.starts_with("--") => (*name, flags),
        _ => ("generator", arguments),
    };
    let asked = Asked::parse(flags)?;
    let table: Table = match name {
        "generator" => generator::measure(&asked)?,
        "client" => client::measure(&asked)?,
        other => bail!("there is no table `{other}`; usage:\n{USAGE}"),
    };
    match asked.json.as_deref() {
        Some("-") => print(&format!("{}\n", table.to_json())),
        Some(file) => {
            std::fs::write(file, format!("{}\n", table.to_json()))
                .with_context(|| format!("{file} could not be written"))?;
            print(&table.to_string())
        }
        None => print(&table.to_string()),
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("standard output is closed")
}

impl Asked {
    fn parse(flags: &[&str]) -> anyhow::Result<Self> {
        let mut asked = Self {
            rounds: 7,
            cases: Vec::new(),
            json: None,
        };
        let mut rest = flags.iter();
        while let Some(flag) = rest.next() {
            let value = rest
                .next()
                .with_context(|| format!("`{flag}` needs a value; usage:\n{USAGE}"))?;
            match *flag {
                "--rounds" => {
                    asked.rounds = value
                        .parse()
                        .ok()
                        .filter(|rounds| (1..=1_000).contains(rounds))
                        .with_context(|| {
                            format!("--rounds {value}: not a number from 1 to 1000")
                        })?;
                }
                "--case" => asked.cases.push((*value).to_owned()),
                "--json" => asked.json = Some((*value).to_owned()),
                other => bail!("there is no flag `{other}`; usage:\n{USAGE}"),
            }
        }
        Ok(asked)
    }

    /// Whether the case called `name` is to be measured.
    fn wants(&self, name: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|case| case == name)
    }

    /// Refuses names of cases that are not among `known`.
    fn check_cases(&self, known: &[&str]) -> anyhow::Result<()> {
        match self
            .cases
            .iter()
            .find(|case| !known.contains(&case.as_str()))
        {
            None => Ok(()),
            Some(case) => bail!("there is no case `{case}`; there are {}", known.join(", ")),
        }
    }
}

/// Says how far a table is.
fn progress(text: &str) {
    say(&format!("peers: {text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read() {
        let asked =
            Asked::parse(&["--rounds", "3", "--case", "a", "--case", "b", "--json", "-"]).unwrap();
        assert_eq!(
            asked,
            Asked {
                rounds: 3,
                cases: vec!["a".into(), "b".into()],
                json: Some("-".into())
            }
        );
        assert!(asked.wants("a") && !asked.wants("c"));
        assert!(asked.check_cases(&["a", "b"]).is_ok());
        assert!(
            asked
                .check_cases(&["a"])
                .unwrap_err()
                .to_string()
                .contains("`b`")
        );
        for wrong in [&["--rounds"][..], &["--rounds", "0"], &["--what", "x"]] {
            assert!(Asked::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
