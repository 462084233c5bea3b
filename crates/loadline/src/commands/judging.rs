//! What the commands that judge have in common: where the answer goes, and how the program ends.

use std::path::Path;
use std::process::ExitCode;

use loadline_measure::record::Record;
use loadline_report::Asked;

use crate::args::JudgeArgs;
use crate::exit::{Exit, Failure};
use crate::plan::Outputs;
use crate::printer::Printer;
use crate::session::{Ending, Results, finish};

/// Where an answer goes.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The command's name, as the last line has it.
    name: &'static str,
    outputs: Outputs,
    strict: bool,
}

impl Answer {
    /// Reads where the answer of the command `name` goes.
    ///
    /// # Errors
    /// A usage error where two outputs share a place, or one could not be written later.
    pub(crate) fn new(name: &'static str, args: &JudgeArgs) -> Result<Self, Failure> {
        Ok(Self {
            name,
            outputs: Outputs::resolve(&args.results.outputs)?,
            strict: args.strict,
        })
    }

    /// Refuses to write the answer over a file that it is made of.
    ///
    /// # Errors
    /// A usage error that names the file.
    pub(crate) fn spare(&self, read: &Path) -> Result<(), Failure> {
        self.outputs.spare(read)
    }

    /// Writes and prints the judgement in `record`, whose outcome is how the program ends; without one, what was
    /// measured until `broken` or an interrupt ended the run.
    ///
    /// # Errors
    /// That standard output cannot be written.
    pub(crate) fn give(
        &self,
        record: &Record,
        broken: Option<Failure>,
        printer: &Printer,
    ) -> Result<ExitCode, Failure> {
        let mut results = Results::of_record(self.name, record, &self.outputs, printer)?;
        results.broken = broken;
        if let Some(judgement) = &record.judgement {
            let asked = Asked {
                command: self.name,
                strict: self.strict,
            };
            results.files = self.outputs.render(record, Some(asked))?;
            let options = printer.text_options();
            results.text = loadline_report::judgement_text(judgement, asked, &options);
            results.is_closed = true;
            let code = judgement.exit_code(self.strict);
            results.ending = Ending::answer(judgement.outcome.name(), code);
        }
        finish(results, printer)
    }
}

/// The cases of `record` that are of the subject `name`, as a record of their own.
pub(crate) fn of_subject(record: &Record, name: &str) -> Record {
    let mut part = Record::new(record.run.clone(), record.environment.clone());
    part.cases = record
        .cases
        .iter()
        .filter(|case| case.subject.name == name)
        .cloned()
        .collect();
    part
}

/// What cannot be compared ends the program with the code for it.
pub(crate) fn incomparable(error: &loadline_measure::Error) -> Failure {
    Failure::new(Exit::Incomparable, error.to_string())
}
