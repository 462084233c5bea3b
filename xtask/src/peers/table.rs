//! Rows of ours compared with a peer: the median ratio over the rounds with its interval, CPU, and goals.

use std::fmt;

use loadline_measure::interval::{self, MedianInterval};
use loadline_measure::quantile;
use serde::Serialize;

/// The error probability of each bound of an interval: five rounds are enough for one.
const ALPHA: f64 = 0.05;

/// Result of one run of a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// Operations per second.
    pub(super) ops_per_s: f64,
    /// CPU time of the whole program per operation, in nanoseconds.
    pub(super) cpu_ns_per_op: f64,
}

/// The goal of ours compared with a peer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Goal {
    /// Ours over theirs, operations per second.
    pub(super) ratio: Option<f64>,
    /// Ours over theirs, CPU time per operation.
    pub(super) cpu_ratio: Option<f64>,
}

/// A line of the table.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    case: String,
    peer: String,
    ours: f64,
    theirs: f64,
    ratio: f64,
    lo: Option<f64>,
    hi: Option<f64>,
    cpu_ratio: f64,
    goal: Option<f64>,
    cpu_goal: Option<f64>,
    #[serde(skip)]
    cpu_bounds: Option<MedianInterval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_cpu: Option<ServerCpu>,
}

/// Share of a CPU that the server took. A server that took all of one was the limit, not the client.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct ServerCpu {
    /// While ours ran.
    pub(super) ours: f64,
    /// While the peer ran.
    pub(super) theirs: f64,
}

/// Whether a goal is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Met,
    NotMet,
    /// The interval holds the goal, or the rounds are too few for an interval.
    Inconclusive,
}

/// The most memory that ours took at once, in MiB.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Memory {
    pub(super) connections: u64,
    pub(super) peak_mib: f64,
    /// The most that it may take.
    pub(super) goal_mib: f64,
}

/// All lines, and what else was found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Table {
    rows: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
    #[serde(skip)]
    notes: Vec<String>,
    /// The names of the cases and arms that could not be measured.
    #[serde(skip)]
    lost: Vec<String>,
}

impl Row {
    /// A row from the samples of ours and of a peer, round by round.
    pub(super) fn new(
        case: &str,
        peer: &str,
        ours: &[Sample],
        theirs: &[Sample],
        goal: Goal,
    ) -> Self {
        let logs: Vec<f64> = ours
            .iter()
            .zip(theirs)
            .map(|(one, other)| (one.ops_per_s / other.ops_per_s).ln())
            .collect();
        let bounds = interval::of_median(&logs, ALPHA);
        let cpu: Vec<f64> = ours
            .iter()
            .zip(theirs)
            .map(|(one, other)| one.cpu_ns_per_op / other.cpu_ns_per_op)
            .collect();
        Self {
            case: case.to_owned(),
            peer: peer.to_owned(),
            ours: middle_of(ours.iter().map(|sample| sample.ops_per_s)),
            theirs: middle_of(theirs.iter().map(|sample| sample.ops_per_s)),
            ratio: middle_of(logs.iter().copied()).exp(),
            lo: bounds.map(|bounds| bounds.lo.exp()),
            hi: bounds.map(|bounds| bounds.hi.exp()),
            cpu_ratio: middle_of(cpu.iter().copied()),
            goal: goal.ratio,
            cpu_goal: goal.cpu_ratio,
            cpu_bounds: interval::of_median(&cpu, ALPHA),
            server_cpu: None,
        }
    }

    /// The same row, with how busy the server was, round by round.
    pub(super) fn with_server_cpu(self, ours: &[f64], theirs: &[f64]) -> Self {
        let server_cpu = ServerCpu {
            ours: middle_of(ours.iter().copied()),
            theirs: middle_of(theirs.iter().copied()),
        };
        Self {
            server_cpu: Some(server_cpu),
            ..self
        }
    }

    /// Whether the goals are reached, in words; nothing where there are none.
    fn verdict(&self) -> String {
        let rate = self.goal.map(|goal| {
            let bounds = self.lo.zip(self.hi);
            Verdict::new(bounds.map(|(lo, hi)| (lo >= goal, hi < goal)))
        });
        let cpu = self.cpu_goal.map(|goal| {
            let bounds = self.cpu_bounds.map(|bounds| (bounds.lo, bounds.hi));
            Verdict::new(bounds.map(|(lo, hi)| (hi <= goal, lo > goal)))
        });
        match (rate, cpu) {
            (None, None) => String::new(),
            (Some(one), None) | (None, Some(one)) => one.to_string(),
            (Some(rate), Some(cpu)) if rate == cpu => rate.to_string(),
            (Some(rate), Some(cpu)) => format!("ratio {rate}, CPU {cpu}"),
        }
    }
}

impl Verdict {
    /// From whether the whole interval reaches the goal, and whether all of it fails to.
    fn new(interval: Option<(bool, bool)>) -> Self {
        match interval {
            Some((true, _)) => Self::Met,
            Some((_, true)) => Self::NotMet,
            _ => Self::Inconclusive,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Met => "met",
            Self::NotMet => "NOT MET",
            Self::Inconclusive => "inconclusive",
        })
    }
}

impl Table {
    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// The memory of ours.
    pub(super) fn set_memory(&mut self, memory: Memory) {
        self.memory = Some(memory);
    }

    /// A sentence below the table.
    pub(super) fn note(&mut self, sentence: String) {
        self.notes.push(sentence);
    }

    /// Adds a row per peer from the samples of ours, which is the first of `arms`, and of the peers. An arm that failed is
    /// noted; without ours there are no rows.
    pub(super) fn add_arms(
        &mut self,
        case: &str,
        arms: &[&str],
        samples: Vec<anyhow::Result<Vec<Sample>>>,
        goal: impl Fn(&str) -> Goal,
    ) {
        let mut ours = None;
        for (place, (arm, samples)) in arms.iter().zip(samples).enumerate() {
            let samples = self.keep(&format!("{case} by {arm}"), samples);
            match (&ours, samples) {
                (_, samples) if place == 0 => ours = samples,
                (Some(ours), Some(theirs)) => {
                    self.add(Row::new(case, arm, ours, &theirs, goal(arm)));
                }
                _ => {}
            }
        }
    }

    /// Returns what was measured. A failure is noted, and named at the end of the run.
    pub(super) fn keep<T>(&mut self, name: &str, measured: anyhow::Result<T>) -> Option<T> {
        measured
            .map_err(|error| {
                self.note(format!("{name} was not measured: {error:#}"));
                self.lost.push(name.to_owned());
            })
            .ok()
    }

    /// The names of the cases and arms that could not be measured.
    pub(super) fn lost(&self) -> &[String] {
        &self.lost
    }

    /// Whether nothing was measured.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.memory.is_none()
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("rows are numbers and text")
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with_server = self.rows.iter().any(|row| row.server_cpu.is_some());
        let server = if with_server { "server CPU  " } else { "" };
        writeln!(
            f,
            "{:<20} {:<18} {:>9} {:>9} {:>6} {:<14} {:>6}  {server}{:<16} verdict",
            "case", "peer", "ours/s", "theirs/s", "ratio", "[lo, hi]", "CPU", "goal, CPU goal"
        )?;
        for row in &self.rows {
            let bounds = match (row.lo, row.hi) {
                (Some(lo), Some(hi)) => format!("[{lo:.2}, {hi:.2}]"),
                _ => "too few rounds".into(),
            };
            let goals = [
                row.goal.map(|goal| format!(">= {goal}x")),
                row.cpu_goal.map(|goal| format!("<= {goal}x")),
            ];
            let goals: Vec<String> = goals.into_iter().flatten().collect();
            let server = match row.server_cpu {
                Some(ServerCpu { ours, theirs }) => {
                    let shares = format!("{:.0}/{:.0} %", 100.0 * ours, 100.0 * theirs);
                    format!("{shares:<12}")
                }
                None if with_server => format!("{:<12}", "-"),
                None => String::new(),
            };
            writeln!(
                f,
                "{:<20} {:<18} {:>9} {:>9} {:>5.2}x {:<14} {:>5.2}x  {server}{:<16} {}",
                row.case,
                row.peer,
                count(row.ours),
                count(row.theirs),
                row.ratio,
                bounds,
                row.cpu_ratio,
                goals.join(", "),
                row.verdict()
            )?;
        }
        if let Some(memory) = &self.memory {
            let Memory {
                connections,
                peak_mib,
                goal_mib,
            } = memory;
            let verdict = Verdict::new(Some((peak_mib <= goal_mib, peak_mib > goal_mib)));
            writeln!(
                f,
                "Memory of ours at {connections} connections: {peak_mib:.1} MiB at its peak (goal <= {goal_mib} MiB): {verdict}"
            )?;
        }
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        Ok(())
    }
}

fn count(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.2}M", value / 1e6),
        value if value >= 1e3 => format!("{:.1}k", value / 1e3),
        value => format!("{value:.0}"),
    }
}

/// The median, and NaN without values: a row without samples shows that it has none.
fn middle_of(values: impl Iterator<Item = f64>) -> f64 {
    quantile::median(&values.collect::<Vec<f64>>()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(ops: &[f64], cpu: f64) -> Vec<Sample> {
        ops.iter()
            .map(|&ops_per_s| Sample {
                ops_per_s,
                cpu_ns_per_op: cpu,
            })
            .collect()
    }

    #[test]
    fn row_holds_the_median_of_the_ratios_within_rounds() {
        let goal = Goal {
            ratio: Some(1.5),
            cpu_ratio: Some(0.5),
        };
        let ours = samples(&[200.0, 300.0, 100.0, 220.0, 180.0], 10.0);
        let theirs = samples(&[100.0, 150.0, 50.0, 100.0, 100.0], 40.0);
        let row = Row::new("a", "b", &ours, &theirs, goal);
        assert!((row.ratio - 2.0).abs() < 1e-9);
        assert!((row.lo.unwrap() - 1.8).abs() < 1e-9 && (row.hi.unwrap() - 2.2).abs() < 1e-9);
        assert_eq!((row.ours, row.theirs, row.cpu_ratio), (200.0, 100.0, 0.25));
    }

    fn verdict(ours: &[f64], cpu: f64, ratio: Option<f64>, cpu_ratio: Option<f64>) -> String {
        let goal = Goal { ratio, cpu_ratio };
        let theirs = samples(&vec![100.0; ours.len()], 10.0);
        Row::new("a", "b", &samples(ours, cpu), &theirs, goal).verdict()
    }

    #[test]
    fn verdict_is_that_of_the_whole_interval() {
        let even = [100.0; 5];
        assert_eq!(verdict(&even, 10.0, Some(1.1), Some(0.9)), "NOT MET");
        assert_eq!(verdict(&even, 10.0, Some(1.0), Some(1.0)), "met");
        assert_eq!(verdict(&even, 10.0, Some(1.1), None), "NOT MET");
        assert_eq!(verdict(&even, 5.0, None, Some(0.5)), "met");
        assert_eq!(
            verdict(&even, 10.0, Some(0.9), Some(0.9)),
            "ratio met, CPU NOT MET"
        );
        assert_eq!(verdict(&even, 10.0, None, None), "");
        // The medians are 0.99 and 1.01: on both sides the interval holds the goal.
        for ours in [
            [99.0, 98.0, 101.0, 97.0, 99.0],
            [101.0, 102.0, 99.0, 103.0, 101.0],
        ] {
            assert_eq!(verdict(&ours, 1.0, Some(1.0), None), "inconclusive");
        }
        assert_eq!(verdict(&[300.0; 4], 1.0, Some(1.0), None), "inconclusive");
    }

    #[test]
    fn server_load_appears_beside_the_rows_that_have_it() {
        let (ours, theirs) = (samples(&[2_000.0; 5], 3.0), samples(&[1_000.0; 5], 4.0));
        let row = |case| Row::new(case, "them", &ours, &theirs, Goal::default());
        let mut table = Table::default();
        table.add(row("tasks").with_server_cpu(&[0.98, 0.5, 0.99], &[0.2, 0.314, 0.4]));
        table.add(row("get"));
        let printed = table.to_string();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = printed.lines().map(words).collect();
        assert_eq!(
            lines,
            [
                "case peer ours/s theirs/s ratio [lo, hi] CPU server CPU goal, CPU goal verdict",
                "tasks them 2.0k 1.0k 2.00x [2.00, 2.00] 0.75x 98/31 %",
                "get them 2.0k 1.0k 2.00x [2.00, 2.00] 0.75x -",
            ]
        );
        let kept: serde_json::Value = serde_json::from_str(&table.to_json()).unwrap();
        assert_eq!(kept["rows"][0]["server_cpu"]["theirs"], 0.314);
    }

    #[test]
    fn table_is_printed_and_kept_as_promised() {
        let goal = Goal {
            ratio: Some(1.5),
            cpu_ratio: None,
        };
        let mut table = Table::default();
        let (ours, theirs) = (samples(&[2_000.0; 5], 3.0), samples(&[1_000.0; 5], 4.0));
        table.add(Row::new("redis-1x1", "them", &ours, &theirs, goal));
        table.note("others was left out.".into());
        table.set_memory(Memory {
            connections: 50,
            peak_mib: 9.04,
            goal_mib: 8.0,
        });
        let printed = table.to_string();
        let lines: Vec<String> = printed
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "case peer ours/s theirs/s ratio [lo, hi] CPU goal, CPU goal verdict",
                "redis-1x1 them 2.0k 1.0k 2.00x [2.00, 2.00] 0.75x >= 1.5x met",
                "Memory of ours at 50 connections: 9.0 MiB at its peak (goal <= 8 MiB): NOT MET",
                "others was left out.",
            ]
        );
        let kept: serde_json::Value = serde_json::from_str(&table.to_json()).unwrap();
        assert_eq!(kept["memory"]["goal_mib"], 8.0);
        let row = kept["rows"][0].as_object().unwrap();
        let mut names: Vec<&str> = row.keys().map(String::as_str).collect();
        names.sort_unstable();
        let promised = [
            "case",
            "cpu_goal",
            "cpu_ratio",
            "goal",
            "hi",
            "lo",
            "ours",
            "peer",
            "ratio",
            "theirs",
        ];
        assert_eq!(names, promised);
        assert_eq!(row["cpu_goal"], serde_json::Value::Null);
    }
}
