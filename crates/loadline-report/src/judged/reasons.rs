//! The reasons for an outcome, and notes on it.

use loadline_measure::gate::{Counted, FailoverReason, Reason, RecordReason, Remark, Side};

use super::{row, row_sentence};

pub(super) fn sentence(reason: &Reason) -> String {
    match reason {
        Reason::Row(judged) => row_sentence(&row(judged.as_ref().clone())),
        Reason::NoTime(case) => format!("{case}: all of its times are inconclusive."),
        Reason::FewRuns { runs, least } => format!(
            "The baseline holds {runs} of the {least} runs that it needs to raise an alarm: add {} more. Until then only limits can fail.",
            least.saturating_sub(*runs)
        ),
        Reason::OtherWork(was, is) => format!(
            "The baseline is of the workload {was}, the run of {is}; measure with the baseline's plan."
        ),
        Reason::OtherMachine(differences) => {
            let all: Vec<String> = differences.iter().map(ToString::to_string).collect();
            format!(
                "{} Times of different machines are not comparable: only limits, and pairs measured together, can fail.",
                all.join(" ")
            )
        }
        Reason::Differs(difference) => difference.to_string(),
        Reason::UnknownProperty(what) => {
            format!("The {what} is not known, so another machine would not be noticed.")
        }
        Reason::NotMeasured(case) => format!("The case {case} of the baseline was not measured."),
        Reason::NotInBaseline(case) => format!("The case {case} is not in the baseline."),
        Reason::UnknownComparison(name) => {
            format!("The comparison by \"{name}\" names an unknown case or metric.")
        }
        Reason::FewRounds(case, metric) => format!(
            "{case}, {}: fewer than half of the rounds hold it.",
            metric.name()
        ),
        Reason::CountedOnce { case, metric, side } => format!(
            "{case}: {} are not compared, because they were counted only on the {} side.",
            metric.name().replace('_', " "),
            name(*side)
        ),
        Reason::OtherCounts(case, counts) => {
            let counts: Vec<String> = counts.iter().map(count).collect();
            format!("{case}, counted per operation: {}.", counts.join(", "))
        }
        Reason::Disagreement { case, metric, grew } => disagreement(case, metric.name(), *grew),
        Reason::Numbers {
            updated,
            environment,
        } => numbers(updated.as_deref(), environment.as_deref()),
        Reason::Stated(sentence) => sentence.clone(),
        Reason::Records(reason) => of_records(reason),
        Reason::Failovers(reason) => of_failovers(reason),
        Reason::Remark(remark) => without_figures(*remark).to_owned(),
    }
}

/// Cases of two records that cannot be compared.
fn of_records(reason: &RecordReason) -> String {
    match reason {
        RecordReason::OneSided(side, case) => {
            format!("Only the {} record holds the case {case}.", name(*side))
        }
        RecordReason::OneSidedCount(side, case) => {
            format!("Only the {} record counted {case}.", name(*side))
        }
        RecordReason::TwoCases(run, case) => format!(
            "The run {run} has two cases called \"{case}\", so it is unclear which to compare."
        ),
        RecordReason::OtherScenario(case) => {
            format!("The case {case} was measured under another scenario in each record.")
        }
        RecordReason::OtherCalls(case) => {
            format!("{case} was called under another scenario in each record.")
        }
    }
}

/// Two records of failovers.
fn of_failovers(reason: &FailoverReason) -> String {
    match reason {
        FailoverReason::OtherAnswer => "Only one of the records is of a failover.".to_owned(),
        FailoverReason::OtherTopology(was, is) => {
            format!("The first record is of {was}, the second of {is}.")
        }
        FailoverReason::OtherLoad => "The rate, the writers or their pool differ.".to_owned(),
        FailoverReason::NoFaults => "Neither record holds a fault.".to_owned(),
        FailoverReason::OneSided(side, fault) => {
            format!("Only the {} record holds the fault {fault}.", name(*side))
        }
        FailoverReason::OtherOperations(fault) => format!("The operations during {fault} differ."),
        FailoverReason::FewRepetitions => {
            "To compare outages and losses, measure both with `loadline failover --rounds 8` or more."
                .to_owned()
        }
        FailoverReason::OtherClient(was, is) => {
            format!("The client was {was} in the first record, and {is} in the second.")
        }
    }
}

fn without_figures(remark: Remark) -> &'static str {
    match remark {
        Remark::OneRun => "One run alone raises no alarm: measure once more, in fresh processes.",
        Remark::NoComparison => "The record holds no comparison that could be judged.",
        Remark::CutShort => "The run was cut short: rounds of its plan are missing.",
        Remark::SingleRuns => {
            "These are single runs of different times, so their times raise no alarm. To settle it, compare the two targets in one run, or gate against a baseline of 8 runs."
        }
        Remark::NoCases => "Neither record holds a case.",
        Remark::NoSameCalls => {
            "Two sweeps are compared by the instructions of the client, and these records have no count of the same calls."
        }
        Remark::TimesOfSweeps => {
            "The times of two sweeps are not compared: they were measured at different times and without a reference."
        }
    }
}

fn name(side: Side) -> &'static str {
    match side {
        Side::First => "first",
        Side::Second => "second",
    }
}

fn count((what, was, is): &(Counted, f64, f64)) -> String {
    let what = match what {
        Counted::SystemCalls => "system calls",
        Counted::Allocations => "allocations",
        Counted::BytesReceived => "bytes received",
        Counted::BytesSent => "bytes sent",
    };
    let (was, is) = (format!("{was:.2}"), format!("{is:.2}"));
    if was == is {
        format!("{is} {what}")
    } else {
        format!("{is} {what} ({was} before)")
    }
}

fn disagreement(case: &str, time: &str, grew: bool) -> String {
    let (instructions, moved, reasons) = if grew {
        (
            "more",
            "improved",
            "fewer cache misses, fewer system calls or less waiting",
        )
    } else {
        (
            "fewer",
            "got worse",
            "more cache misses, more time in the kernel (system calls, page faults, disk) or more waiting (locks, other threads)",
        )
    };
    format!(
        "{case}: {instructions} instructions per operation, yet {time} {moved}. Likely reasons: {reasons}."
    )
}

fn numbers(updated: Option<&str>, environment: Option<&str>) -> String {
    let stated = environment.map_or_else(
        || "the file does not say where they were measured".to_owned(),
        |environment| format!("the file says only {environment} of where they were measured"),
    );
    format!(
        "The numbers are of {} and of a single run each; {stated}, so another machine would not be noticed.",
        updated.unwrap_or("a time not stated")
    )
}
