//! `cargo xtask peers`: measures ours and its peers, interleaved in one run.

mod cache;
mod client;
mod counts;
mod generator;
mod programs;
mod table;

use anyhow::{Context, bail};
use rand::seq::SliceRandom;

use crate::say;
use table::{Sample, Table};

/// The arguments of `peers`.
pub(crate) const USAGE: &str = "\
cargo xtask peers [generator|client|cache] [--rounds N] [--case NAME]... [--json FILE]
                               ours and the peers interleaved in one run (FILE `-` is standard
                               output); with 0 rounds only instructions are counted
";

/// The minimum number of rounds for an interval.
const DEFAULT_ROUNDS: usize = 5;

/// The workspace of the peers.
pub(crate) const MANIFEST: &str = "peers/Cargo.toml";

/// The options of a table.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    rounds: usize,
    /// Only these cases, if any are named.
    cases: Vec<String>,
    json: Option<String>,
}

/// Measures a table and prints it; also writes it if a file is given.
///
/// # Errors
/// If an argument is invalid, or something cannot be measured.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let (name, flags) = match arguments.split_first() {
        Some((name, flags)) if !name.starts_with("--") => (*name, flags),
        _ => ("generator", arguments),
    };
    let asked = Asked::parse(flags)?;
    let mut table = Table::default();
    let measured = match name {
        "generator" => generator::measure(&asked, &mut table),
        "client" => client::measure(&asked, &mut table),
        "cache" => cache::measure(&asked, &mut table),
        other => bail!("unknown table `{other}`; usage:\n{USAGE}"),
    };
    finish(&asked, table, measured)
}

/// Prints the table, also what there is of it if something failed after that was measured.
///
/// # Errors
/// The failure, the cases that could not be measured, or that the table cannot be written.
fn finish(asked: &Asked, mut table: Table, measured: anyhow::Result<()>) -> anyhow::Result<()> {
    if let Err(error) = &measured {
        if table.is_empty() {
            return measured;
        }
        table.note(format!(
            "This is what was measured before a failure: {error:#}"
        ));
    }
    match asked.json.as_deref() {
        Some("-") => {
            say(&table.to_string());
            print(&format!("{}\n", table.to_json()))
        }
        Some(file) => {
            std::fs::write(file, format!("{}\n", table.to_json()))
                .with_context(|| format!("{file} could not be written"))?;
            print(&table.to_string())
        }
        None => print(&table.to_string()),
    }?;
    measured?;
    if !table.lost().is_empty() {
        bail!("not measured: {}", table.lost().join(", "));
    }
    Ok(())
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
            rounds: DEFAULT_ROUNDS,
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
                        .filter(|rounds| (0..=1_000).contains(rounds))
                        .with_context(|| {
                            format!("--rounds {value}: not a number from 0 to 1000")
                        })?;
                }
                "--case" => asked.cases.push((*value).to_owned()),
                "--json" => asked.json = Some((*value).to_owned()),
                other => bail!("unknown flag `{other}`; usage:\n{USAGE}"),
            }
        }
        Ok(asked)
    }

    /// Whether to measure the case `name`.
    fn wants(&self, name: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|case| case == name)
    }

    /// Whether to measure any of the `known` cases with this prefix.
    fn wants_any(&self, known: &[&str], prefix: &str) -> bool {
        let mut those = known.iter().filter(|case| case.starts_with(prefix));
        those.any(|case| self.wants(case))
    }

    /// Refuses names of cases that are not among `known`.
    fn check_cases(&self, known: &[&str]) -> anyhow::Result<()> {
        match self
            .cases
            .iter()
            .find(|case| !known.contains(&case.as_str()))
        {
            None => Ok(()),
            Some(case) => bail!("unknown case `{case}`; the cases are {}", known.join(", ")),
        }
    }
}

/// Runs `arms` arms `rounds` times, in random order in each round. Returns the samples of each arm, round by round, or
/// its first error, with which it leaves the rounds.
fn interleave(
    name: &str,
    rounds: usize,
    arms: usize,
    mut run: impl FnMut(usize) -> anyhow::Result<Sample>,
) -> Vec<anyhow::Result<Vec<Sample>>> {
    let mut samples: Vec<anyhow::Result<Vec<Sample>>> = (0..arms).map(|_| Ok(Vec::new())).collect();
    let mut order: Vec<usize> = (0..arms).collect();
    for round in 1..=rounds {
        progress(&format!("{name}, round {round} of {rounds}"));
        order.shuffle(&mut rand::rng());
        for &arm in &order {
            let Ok(so_far) = &mut samples[arm] else {
                continue;
            };
            match run(arm) {
                Ok(sample) => so_far.push(sample),
                Err(error) => samples[arm] = Err(error),
            }
        }
    }
    samples
}

/// Prints the progress of a table.
fn progress(text: &str) {
    say(&format!("peers: {text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Sample = Sample {
        ops_per_s: 10.0,
        cpu_ns_per_op: 1.0,
    };

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
        assert!(asked.wants_any(&["abc", "b"], "b") && !asked.wants_any(&["abc", "b"], "ab"));
        assert!(asked.check_cases(&["a", "b"]).is_ok());
        assert!(
            asked
                .check_cases(&["a"])
                .unwrap_err()
                .to_string()
                .contains("`b`")
        );
        assert_eq!(Asked::parse(&[]).unwrap().rounds, DEFAULT_ROUNDS);
        for wrong in [&["--rounds"][..], &["--rounds", "-1"], &["--what", "x"]] {
            assert!(Asked::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn failure_after_a_case_keeps_its_rows() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("table.json");
        let mut asked = Asked::parse(&[]).unwrap();
        asked.json = Some(file.display().to_string());
        let nothing = finish(&asked, Table::default(), Err(anyhow::anyhow!("no server")));
        assert!(nothing.is_err() && !file.exists());
        let mut table = Table::default();
        let goal = table::Goal::default();
        table.add(table::Row::new(
            "get",
            "hiredis",
            &[SAMPLE],
            &[SAMPLE],
            goal,
        ));
        let failed = finish(&asked, table, Err(anyhow::anyhow!("no profile")));
        assert_eq!(failed.unwrap_err().to_string(), "no profile");
        assert!(std::fs::read_to_string(&file).unwrap().contains("hiredis"));
    }

    #[test]
    fn every_arm_takes_its_turn_in_every_round() {
        let mut turns = Vec::new();
        let samples = interleave("a case", 4, 3, |arm| {
            turns.push(arm);
            Ok(Sample {
                ops_per_s: (10 * turns.len() + arm) as f64,
                cpu_ns_per_op: 1.0,
            })
        });
        let samples: Vec<Vec<Sample>> = samples.into_iter().map(Result::unwrap).collect();
        for round in turns.chunks(3) {
            let mut arms = round.to_vec();
            arms.sort_unstable();
            assert_eq!(arms, [0, 1, 2]);
        }
        for (arm, samples) in samples.iter().enumerate() {
            let places = samples.iter().map(|sample| sample.ops_per_s as usize);
            assert!(places.clone().all(|place| place % 10 == arm) && places.is_sorted());
            assert_eq!(samples.len(), 4);
        }
    }

    #[test]
    fn failing_arm_leaves_the_samples_of_the_others() {
        let mut turns = [0; 2];
        let samples = interleave("a case", 3, 2, |arm| {
            turns[arm] += 1;
            if arm == 1 {
                bail!("it fell over");
            }
            Ok(SAMPLE)
        });
        assert_eq!(samples[0].as_ref().unwrap(), &[SAMPLE; 3]);
        let error = samples[1].as_ref().unwrap_err();
        assert_eq!((turns, &*error.to_string()), ([3, 1], "it fell over"));
    }

    #[test]
    fn failing_peer_has_no_row_and_without_ours_there_is_none() {
        let arms = ["ours", "broken", "sound"];
        let sound = || Ok(vec![SAMPLE; 2]);
        let broken = || Err(anyhow::anyhow!("it fell over"));
        let mut table = Table::default();
        let goal = |_: &str| table::Goal::default();
        table.add_arms("get", &arms, vec![sound(), broken(), sound()], goal);
        let text = table.to_string();
        assert!(
            text.contains("get by broken was not measured: it fell over"),
            "{text}"
        );
        assert!(text.contains("sound") && table.lost() == ["get by broken"]);
        let mut table = Table::default();
        table.add_arms("get", &arms, vec![broken(), sound(), sound()], goal);
        assert!(table.is_empty() && table.lost() == ["get by ours"]);
    }

    #[test]
    fn failing_case_is_named_at_the_end_and_leaves_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("table.json");
        let mut asked = Asked::parse(&[]).unwrap();
        asked.json = Some(file.display().to_string());
        let mut table = Table::default();
        let failed: Option<()> = table.keep("set", Err(anyhow::anyhow!("no server")));
        assert!(failed.is_none());
        let kept = Ok(table::Row::new(
            "get",
            "hiredis",
            &[SAMPLE],
            &[SAMPLE],
            table::Goal::default(),
        ));
        if let Some(row) = table.keep("get", kept) {
            table.add(row);
        }
        assert!(
            table
                .to_string()
                .contains("set was not measured: no server")
        );
        let error = finish(&asked, table, Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "not measured: set");
        assert!(std::fs::read_to_string(&file).unwrap().contains("hiredis"));
    }
}
