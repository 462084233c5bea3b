//! Rows of ours beside a peer: the median ratio over the rounds with its interval, CPU, and goals.

use std::fmt;

use loadline_measure::interval;
use serde::Serialize;

/// The error probability of each bound of a printed interval.
const ALPHA: f64 = 0.05;

/// What one run of a program gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// Operations per second.
    pub(super) ops_per_s: f64,
    /// CPU time of the whole program per operation, in nanoseconds.
    pub(super) cpu_ns_per_op: f64,
}

/// What ours is to reach beside a peer.
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
}

/// All lines, and what else was found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Table {
    rows: Vec<Row>,
    #[serde(skip)]
    notes: Vec<String>,
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
        let cpu = ours
            .iter()
            .zip(theirs)
            .map(|(one, other)| one.cpu_ns_per_op / other.cpu_ns_per_op);
        Self {
            case: case.to_owned(),
            peer: peer.to_owned(),
            ours: median(ours.iter().map(|sample| sample.ops_per_s)),
            theirs: median(theirs.iter().map(|sample| sample.ops_per_s)),
            ratio: median(logs.iter().copied()).exp(),
            lo: bounds.map(|bounds| bounds.lo.exp()),
            hi: bounds.map(|bounds| bounds.hi.exp()),
            cpu_ratio: median(cpu),
            goal: goal.ratio,
            cpu_goal: goal.cpu_ratio,
        }
    }

    /// Whether the goals are reached, in a word; nothing where there are none. A ratio below its goal
    /// whose interval holds the goal is left open.
    fn verdict(&self) -> &'static str {
        let ratio = self.goal.map(|goal| self.ratio >= goal);
        let cpu = self.cpu_goal.map(|goal| self.cpu_ratio <= goal);
        let open =
            ratio == Some(false) && self.hi.zip(self.goal).is_some_and(|(hi, goal)| hi >= goal);
        match (ratio, cpu) {
            (Some(false), Some(true) | None) if open => "open",
            (None, None) => "",
            (Some(false), Some(false)) => "NOT MET",
            (Some(false), _) => "ratio NOT MET",
            (_, Some(false)) => "CPU NOT MET",
            _ => "met",
        }
    }
}

impl Table {
    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// A sentence below the table.
    pub(super) fn note(&mut self, sentence: String) {
        self.notes.push(sentence);
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("rows are numbers and text")
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<16} {:<18} {:>9} {:>9} {:>6} {:<14} {:>6}  {:<16} verdict",
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
            writeln!(
                f,
                "{:<16} {:<18} {:>9} {:>9} {:>5.2}x {:<14} {:>5.2}x  {:<16} {}",
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

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
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
    fn a_row_holds_the_median_of_the_ratios_within_rounds() {
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
        assert_eq!(row.verdict(), "met");
    }

    #[test]
    fn goals_that_are_not_reached_are_named() {
        let row = |ratio, cpu_ratio| {
            let goal = Goal { ratio, cpu_ratio };
            Row::new(
                "a",
                "b",
                &samples(&[100.0], 10.0),
                &samples(&[100.0], 10.0),
                goal,
            )
            .verdict()
        };
        assert_eq!(row(Some(1.1), Some(0.9)), "NOT MET");
        assert_eq!(row(Some(1.1), None), "ratio NOT MET");
        assert_eq!(row(Some(0.9), Some(0.9)), "CPU NOT MET");
        assert_eq!(row(None, None), "");
        let parity = Goal {
            ratio: Some(1.0),
            cpu_ratio: None,
        };
        let ours = samples(&[99.0, 98.0, 101.0, 97.0, 99.0], 1.0);
        let row = Row::new("a", "b", &ours, &samples(&[100.0; 5], 1.0), parity);
        assert_eq!(row.verdict(), "open");
    }
}
