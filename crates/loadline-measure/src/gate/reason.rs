//! Reasons for a judgement, with their figures. `loadline-report` writes the sentences about them.

use super::fingerprint::Difference;
use super::judgement::{Basis, Judgement, Outcome, Policy, Row, RowVerdict, SCHEMA};
use crate::compare::Paired;
use crate::failover::Topology;
use crate::metric::Metric;
use crate::work::{Incomparable, WorkComparison, WorkError};

/// A judgement whose reasons are typed; a record keeps it in words.
pub type Judged = Judgement<Reason, Grounds>;

/// A row whose evidence is typed; a record keeps it in words.
pub type JudgedRow = Row<Grounds>;

/// A side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The first record or subject.
    First,
    /// The second one.
    Second,
}

/// A reason for an outcome, or a note on it.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// The verdict of a row.
    Row(Box<JudgedRow>),
    /// A case without a conclusive time.
    NoTime(String),
    /// Fewer runs than an alarm needs.
    FewRuns {
        /// Runs of the baseline.
        runs: usize,
        /// Runs that it needs.
        least: usize,
    },
    /// Runs of different work: the identities of both workloads.
    OtherWork(String, String),
    /// Runs of different machines.
    OtherMachine(Vec<Difference>),
    /// A difference that is judged, such as a version of the server.
    Differs(Difference),
    /// A property of the machine that is unknown, so that another one would not be noticed.
    UnknownProperty(&'static str),
    /// A case of the baseline that was not measured.
    NotMeasured(String),
    /// A case that the baseline lacks.
    NotInBaseline(String),
    /// The metric of a comparison that names an unknown case or metric.
    UnknownComparison(String),
    /// A case and a metric that fewer than half of the rounds have.
    FewRounds(String, Metric),
    /// A count of a case that only one side has.
    CountedOnce {
        /// The case.
        case: String,
        /// The count.
        metric: Metric,
        /// The side that has it.
        side: Side,
    },
    /// Other counts of a case per operation: the first side and the second.
    OtherCounts(String, Vec<(Counted, f64, f64)>),
    /// Work and time of a case that moved in opposite directions.
    Disagreement {
        /// The case.
        case: String,
        /// The time.
        metric: Metric,
        /// Whether the work grew.
        grew: bool,
    },
    /// Origin of a file of numbers: their date and environment, as stated.
    Numbers {
        /// The date.
        updated: Option<String>,
        /// The environment.
        environment: Option<String>,
    },
    /// Cases of two records that cannot be compared.
    Records(RecordReason),
    /// Two records of failovers.
    Failovers(FailoverReason),
    /// A reason without figures.
    Remark(Remark),
    /// A sentence of the record, or an error.
    Stated(String),
}

/// Something that is counted beside instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// System calls.
    SystemCalls,
    /// Allocations.
    Allocations,
    /// Bytes received.
    BytesReceived,
    /// Bytes sent.
    BytesSent,
}

/// A reason why cases of two records cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordReason {
    /// A case that only one record has.
    OneSided(Side, String),
    /// Calls that only one sweep counted.
    OneSidedCount(Side, String),
    /// A run with two cases of the same name: its id and the name.
    TwoCases(String, String),
    /// A case that was measured under another scenario in each record.
    OtherScenario(String),
    /// Calls that were made under another scenario in each sweep.
    OtherCalls(String),
}

/// A reason why two records of failovers cannot be compared, or a note on their comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailoverReason {
    /// Only one record is of a failover.
    OtherAnswer,
    /// The servers of the first record and of the second.
    OtherTopology(Topology, Topology),
    /// Another rate, number of writers or pool.
    OtherLoad,
    /// Neither record has a fault.
    NoFaults,
    /// A fault that only one record has.
    OneSided(Side, String),
    /// A fault with other kinds of operations in each record.
    OtherOperations(String),
    /// Too few repetitions of a fault for a verdict about its times.
    FewRepetitions,
    /// The clients of the first record and of the second.
    OtherClient(String, String),
}

/// A reason without figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remark {
    /// One run alone raises no alarm.
    OneRun,
    /// No comparison could be judged.
    NoComparison,
    /// The run was cut short.
    CutShort,
    /// Single runs of different times raise no alarm about times.
    SingleRuns,
    /// Neither record has a case.
    NoCases,
    /// Sweeps without counts of the same calls.
    NoSameCalls,
    /// Times of two sweeps are not compared.
    TimesOfSweeps,
}

/// The evidence for the verdict of a row. Values are in the unit of its metric, and changes are shares.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Grounds {
    /// Nothing was found.
    #[default]
    Nothing,
    /// The evidence about a subject or a fault.
    Of(String, Box<Grounds>),
    /// A value and a limit.
    Limit(LimitGrounds),
    /// Something without which there is no verdict.
    Gap(Gap),
    /// A baseline of too few runs.
    FewRuns {
        /// Runs of the baseline.
        runs: usize,
        /// Runs that it needs.
        least: usize,
    },
    /// One or two runs against those of a baseline.
    Runs {
        /// The change, and its bounds.
        change: Change,
        /// The finding.
        found: RunsFound,
        /// A way to find a relevant change, if it cannot be found now.
        remedy: Option<Remedy>,
    },
    /// One run against one of another time: the bounds of the change.
    SingleRuns(Change),
    /// Repetitions of a fault against those of another time.
    Repetitions(RepetitionGrounds),
    /// Two subjects in the same rounds.
    Pair {
        /// The comparison.
        paired: Paired,
        /// Whether it is not significant over all comparisons.
        by_chance: bool,
    },
    /// Too few operations for the metric.
    FewOperations,
    /// Instructions per operation.
    Work(WorkComparison),
    /// Counts that cannot be compared.
    Incomparable(Incomparable),
    /// Counts without an estimate.
    NoEstimate(WorkError),
    /// Rounds of a number, which are too few or not above zero.
    NumberOfFewRounds(usize),
    /// The bounds of a median beside a number of a file.
    Number {
        /// The bounds.
        bounds: (f64, f64),
        /// The number.
        number: f64,
        /// A critical throughput.
        collapse: Option<Collapse>,
    },
    /// The server counted other operations than this driver reported.
    OtherOperations(String),
    /// A ratio of too few rounds.
    RatioOfFewRounds {
        /// The ratio.
        ratio: f64,
        /// The rounds.
        rounds: usize,
    },
    /// A ratio that has to be at least `factor`.
    Ratio {
        /// The ratio.
        ratio: f64,
        /// Its bounds.
        bounds: (f64, f64),
        /// The rounds.
        rounds: usize,
        /// The factor.
        factor: f64,
    },
}

/// Repetitions of a fault against those of another time. Changes are shares, and counts are numbers of writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RepetitionGrounds {
    /// The time was not measured in every repetition of both.
    NotInEach,
    /// So many repetitions are too few.
    Few(usize),
    /// The repetitions vary too much.
    Varying,
    /// A load ended before the outage did.
    LoadEnded,
    /// Longer by at least this.
    Longer(f64),
    /// Shorter by at least this.
    Shorter(f64),
    /// Longer by this at most.
    AtMostLonger(f64),
    /// So many writes were executed twice, and none before.
    NewlyTwice(f64),
    /// No such write in any repetition.
    NoWrite,
    /// At least so many, and at most so many before.
    More(f64, f64),
    /// At most so many, and at least so many before.
    AtMost(f64, f64),
}

/// A value and a limit.
#[derive(Debug, Clone, PartialEq)]
pub enum LimitGrounds {
    /// The value keeps the limit.
    Kept(f64),
    /// The value breaks the limit; in a second run, too, if there was one.
    Broken(f64, Option<f64>),
    /// The value breaks the limit, and that of the second run keeps it.
    KeptAgain(f64, f64),
    /// The value breaks the limit, and the second run did not measure it.
    BrokenOnce(f64),
    /// The load ended after this time, in nanoseconds, too early to judge the limit.
    LoadEnded(u64),
    /// No case has the name of the limit.
    NoCase,
    /// Nothing was measured that the limit could judge.
    NotMeasured,
    /// A percentile of too few samples.
    FewSamples {
        /// Samples.
        count: u64,
        /// Samples that it needs.
        needed: u64,
        /// The longest time.
        longest_ns: Option<u64>,
    },
    /// Rounds that are too few to judge the limit.
    FewRounds(usize),
    /// The bounds of a median, all of which keep or break the limit, or neither.
    Bounds(f64, f64),
}

/// Something without which there is no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// The baseline has the value, and it was not measured in every round now.
    NotInEveryRound,
    /// The baseline has instructions, and they were not counted now.
    NotCounted,
    /// Measured on another machine than the baseline.
    OtherMachineThanBaseline,
    /// Measured on another machine.
    OtherMachine,
    /// Server and generator waited for a CPU much longer than before.
    CpuWait,
    /// Fewer than half of the rounds of both have a reference.
    NoReference,
    /// Too few rounds for an interval.
    FewRounds,
    /// A row of a comparison of clients that was not measured.
    NoRow,
    /// The rounds cannot be compared.
    Unpaired,
}

/// A change for the worse and its bounds, as shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The estimate.
    pub estimate: f64,
    /// The lower bound.
    pub least: f64,
    /// The upper bound.
    pub most: f64,
}

/// The finding of runs against those of a baseline. Thresholds are shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RunsFound {
    /// Worse than this number of runs, by one run.
    Suspected(usize),
    /// Worse by both runs, and not significant over all metrics.
    ByChance,
    /// Worse than this number of runs, by both runs.
    Worse(usize),
    /// Better.
    Better,
    /// Worse by both runs together, which do not agree.
    Disagreeing,
    /// Worse by less than what warns.
    Slightly,
    /// Less than this threshold of a warning.
    Below(f64),
    /// Neither, with this margin.
    Open(f64),
}

/// A way to find changes of a share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Remedy {
    /// Adding runs under the present conditions.
    AddRuns,
    /// A baseline of more runs.
    Runs {
        /// All runs.
        runs: usize,
        /// Runs to add.
        more: usize,
        /// The share.
        share: f64,
    },
    /// No number of runs finds a change of this share.
    None(f64),
    /// Free CPUs: server and generator waited for one these shares of the time in the baseline and now.
    FreeCpus(f64, f64),
}

/// A throughput that is critical beside a file of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Collapse {
    /// Below this minimum.
    BelowMinimum(f64),
    /// Below half of the number.
    BelowHalf,
}

impl Judged {
    /// Creates a judgement of these rows, with the outcome that follows from them.
    ///
    /// The outcome is the most severe verdict of a row. Without a severe one, it is inconclusive if a limit
    /// or a whole case could not be judged; one judged metric is enough for a case.
    pub(super) fn new(policy: Policy, basis: Basis, rows: Vec<JudgedRow>) -> Self {
        let mut reasons: Vec<Reason> = Vec::new();
        for grave in [RowVerdict::Critical, RowVerdict::Warning] {
            let rows = rows.iter().filter(|row| row.verdict == grave);
            reasons.extend(rows.cloned().map(Reason::of));
        }
        let mut outcome = if rows.iter().any(|row| row.verdict == RowVerdict::Critical) {
            Outcome::Critical
        } else if reasons.is_empty() {
            Outcome::None
        } else {
            Outcome::Warning
        };
        let untold = untold(&rows);
        if outcome == Outcome::None && !untold.is_empty() {
            outcome = Outcome::Inconclusive;
            reasons = untold;
        }
        Self {
            schema: SCHEMA.to_owned(),
            policy,
            basis,
            outcome,
            reasons,
            rows,
            notes: Vec::new(),
            second_run_needed: false,
            agents: 0,
            refused: false,
        }
    }

    /// Creates a refused judgement with these reasons.
    pub(super) fn refused(policy: Policy, basis: Basis, reasons: Vec<Reason>) -> Self {
        Self {
            outcome: Outcome::Inconclusive,
            reasons,
            refused: true,
            ..Self::new(policy, basis, Vec::new())
        }
    }

    /// Adds the rows of limits.
    pub fn keep(&mut self, limits: Vec<JudgedRow>) {
        let whole = Self::new(self.policy, self.basis, limits);
        if self.outcome == Outcome::Inconclusive && whole.outcome > self.outcome {
            self.notes.append(&mut self.reasons);
        }
        self.outcome = self.outcome.max(whole.outcome);
        self.reasons.extend(whole.reasons);
        self.rows.extend(whole.rows);
    }

    /// Makes the outcome inconclusive with a reason, unless it is already severe.
    pub(super) fn doubt(&mut self, reason: Reason) {
        if self.outcome == Outcome::None {
            self.outcome = Outcome::Inconclusive;
            self.reasons.clear();
        }
        if self.outcome == Outcome::Inconclusive {
            self.reasons.insert(0, reason);
        } else {
            self.notes.push(reason);
        }
    }
}

impl JudgedRow {
    /// This row with that evidence and no verdict.
    pub(crate) fn because(self, evidence: Grounds) -> Self {
        Self { evidence, ..self }
    }
}

impl Reason {
    pub(super) fn of(row: JudgedRow) -> Self {
        Self::Row(Box::new(row))
    }
}

/// Everything that could not be judged: limits, and cases without a conclusive metric.
fn untold(rows: &[JudgedRow]) -> Vec<Reason> {
    let mut untold: Vec<Reason> = Vec::new();
    let is_untold = |row: &&JudgedRow| row.verdict == RowVerdict::Inconclusive;
    let limits = rows.iter().filter(|row| row.limit.is_some());
    untold.extend(limits.filter(is_untold).cloned().map(Reason::of));
    // Work and audits say nothing about time, so a case can have a conclusive count and inconclusive times.
    let is_count = |metric: Metric| metric.is_work() || Metric::AUDIT.contains(&metric);
    let is_time = |row: &&JudgedRow| row.limit.is_none() && !is_count(row.metric);
    let compared: Vec<&JudgedRow> = rows.iter().filter(is_time).collect();
    let mut cases: Vec<&str> = compared.iter().map(|row| row.case.as_str()).collect();
    cases.sort_unstable();
    cases.dedup();
    for case in cases {
        let of_case: Vec<&&JudgedRow> = compared.iter().filter(|row| row.case == case).collect();
        if of_case.iter().all(|row| is_untold(row)) {
            untold.push(Reason::NoTime(case.to_owned()));
        }
    }
    untold
}
