//! `loadline merge`: makes one record of those of several load generators.

use std::path::Path;
use std::process::ExitCode;

use loadline_measure::agents::{self, Part};
use loadline_measure::record::{Record, Run};

use super::judging::incomparable;
use crate::args::MergeArgs;
use crate::exit::{Exit, Failure};
use crate::files;
use crate::plan::{self, Outputs};
use crate::printer::Printer;
use crate::recording;
use crate::secret;
use crate::session::{Ending, Results, finish};

pub(super) fn run(args: &MergeArgs) -> anyhow::Result<ExitCode> {
    let outputs = Outputs::resolve(&args.outputs)?;
    args.records
        .iter()
        .try_for_each(|path| outputs.spare(path))?;
    let parts = args.records.iter().map(|path| part(path));
    let parts = parts.collect::<Result<Vec<Part>, Failure>>()?;
    let record = merged(&parts)?;
    let printer = Printer::new(&args.display);
    let mut results = Results::of_record("merge", &record, &outputs, &printer)?;
    results.ending = match record.run.cut_short {
        true => Ending::incomplete(),
        false => Ending::done(),
    };
    Ok(finish(&results, &printer))
}

/// The record of all `parts`, with the doctor's findings and a sentence per case.
///
/// # Errors
/// If they did not measure the same.
pub(super) fn merged(parts: &[Part]) -> Result<Record, Failure> {
    let run = Run {
        id: plan::new_run_id(),
        command: secret::command_line(std::env::args_os()),
        ..Run::default()
    };
    let merged = agents::merge(parts, run).map_err(|error| incomparable(&error))?;
    let mut record = merged.record;
    record
        .doctor
        .extend(loadline_report::findings(merged.found));
    record.findings = shared_sentences(parts);
    for sentence in loadline_report::case_findings(&record.cases) {
        if !record.findings.contains(&sentence) {
            record.findings.push(sentence);
        }
    }
    compare_targets(&mut record)?;
    Ok(record)
}

/// The sentences of all `parts`, such as those about cases that the target does not support.
fn shared_sentences(parts: &[Part]) -> Vec<String> {
    let is_shared = |sentence: &&String| {
        let mut parts = parts.iter();
        parts.all(|part| part.record.findings.contains(sentence))
    };
    let first = parts.first().map(|part| &part.record.findings);
    first
        .into_iter()
        .flatten()
        .filter(is_shared)
        .cloned()
        .collect()
}

/// Compares the targets of each case with the first one.
fn compare_targets(record: &mut Record) -> Result<(), Failure> {
    let mut first = 0;
    for index in 0..record.cases.len() {
        if record.cases[index].subject.name == record.cases[0].subject.name {
            first = index;
            continue;
        }
        recording::compare(record, first, index)
            .map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    }
    Ok(())
}

fn part(path: &Path) -> Result<Part, Failure> {
    Ok(Part {
        name: path.display().to_string(),
        record: files::read_record(path)?,
    })
}
