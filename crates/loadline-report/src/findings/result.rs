//! Flaws of the results: samples, blocks and replies.

use loadline_measure::doctor::{CLOCK_READS, ResultFlaw};

use super::percent;

pub(super) fn evidence(flaw: &ResultFlaw) -> String {
    match flaw {
        ResultFlaw::TooFewSamples { count, missing } => {
            let missing = missing.iter();
            let missing: Vec<String> = missing
                .map(|(metric, needed)| format!("{} (needs {needed})", metric.name()))
                .collect();
            format!("{count} samples are too few for {}.", missing.join(", "))
        }
        ResultFlaw::ShortBlock(ns) => format!(
            "The shortest block took {:.1} ms; results of blocks below 50 ms are unreliable.",
            *ns as f64 / 1e6
        ),
        ResultFlaw::FewClockReads(reads) => format!(
            "A block read the clock only {reads} times; results with fewer than {CLOCK_READS} readings are unreliable."
        ),
        ResultFlaw::NoSteadyState => {
            "No steady state: the medians kept shifting during the warm-up or over the rounds."
                .to_owned()
        }
        ResultFlaw::ErrorReplies {
            errors,
            ops,
            main_error,
        } => {
            let share = percent(*errors as f64 / (*ops).max(1) as f64);
            let main = main_error.as_ref();
            let main = main.map_or_else(String::new, |kind| format!(", most of them {kind}"));
            format!("{errors} of {ops} operations ({share}) failed{main}.")
        }
        ResultFlaw::ReadsMiss(hits) => {
            format!("Only {} of the reads found their key.", percent(*hits))
        }
    }
}

pub(super) fn advice(flaw: &ResultFlaw) -> &'static str {
    match flaw {
        ResultFlaw::TooFewSamples { .. } => {
            "Run longer (--duration, --ops, --rounds) if you need that percentile."
        }
        ResultFlaw::ShortBlock(_) | ResultFlaw::FewClockReads(_) => {
            "Give each block more time (--duration) or more operations (--ops)."
        }
        ResultFlaw::NoSteadyState => {
            "Warm up longer (--warmup), and look for growth: memory, key space, clock speed."
        }
        ResultFlaw::ErrorReplies { .. } => {
            "Fix the cause before using the times: error replies are often faster than real ones."
        }
        ResultFlaw::ReadsMiss(_) => {
            "Load the key space before measuring, and check whether keys expire or are evicted; a miss costs less than a hit."
        }
    }
}
