//! The common part of the commands that judge: outputs and exit code.

use std::path::Path;
use std::process::ExitCode;

use loadline_measure::gate::Judged;
use loadline_measure::record::Record;
use loadline_report::Asked;

use crate::args::JudgeArgs;
use crate::exit::{Exit, Failure};
use crate::plan::Outputs;
use crate::printer::Printer;
use crate::session::{Ending, Results, finish};

/// The outputs of a judgement.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The name of the command in its last line.
    name: &'static str,
    outputs: Outputs,
    strict: bool,
}

impl Answer {
    /// Resolves the outputs of the command `name`.
    ///
    /// # Errors
    /// A usage error if two outputs are the same file, or one cannot be written.
    pub(crate) fn new(name: &'static str, args: &JudgeArgs) -> Result<Self, Failure> {
        Ok(Self {
            name,
            outputs: Outputs::resolve(&args.results.outputs)?,
            strict: args.strict,
        })
    }

    /// Refuses to overwrite a file that the command reads.
    ///
    /// # Errors
    /// A usage error that names the file.
    pub(crate) fn spare(&self, read: &Path) -> Result<(), Failure> {
        self.outputs.spare(read)
    }

    /// Prints the judgement in `record` and writes the files; its outcome determines the exit code. Without a
    /// judgement, prints the measurements made before `broken` or an interrupt ended the run.
    ///
    /// # Errors
    /// An internal error if the record cannot be encoded.
    pub(crate) fn give(
        &self,
        record: &Record,
        broken: Option<Failure>,
        printer: &Printer,
    ) -> Result<ExitCode, Failure> {
        let mut results = Results::of_record(self.name, record, &self.outputs, printer)?;
        results.broken = broken;
        if record.run.cut_short && !record.lost_agents.is_empty() {
            results.ending = Ending::incomplete();
        }
        if let Some(judgement) = &record.judgement {
            let asked = Asked {
                command: self.name,
                strict: self.strict,
            };
            results.files = self.outputs.render(record, Some(asked))?;
            let options = printer.text_options();
            results.text =
                loadline_report::judgement_text(judgement, &record.doctor, asked, &options);
            results.is_closed = true;
            let code = judgement.exit_code(self.strict);
            results.ending = Ending::answer(judgement.outcome.name(), code);
        }
        Ok(finish(&results, printer))
    }
}

/// Adds the judgement of the measurements in `record`.
pub(crate) fn keep(record: &mut Record, mut judged: Judged) {
    judged.agents = record.agents.len() as u64;
    record.judgement = Some(loadline_report::judgement(judged));
}

/// The cases of the subject `name` in `record`, as a separate record.
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

/// A failure with the exit code for records that cannot be compared.
pub(crate) fn incomparable(error: &loadline_measure::Error) -> Failure {
    Failure::new(Exit::Incomparable, error.to_string())
}
