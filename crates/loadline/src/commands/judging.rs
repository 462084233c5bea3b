//! What the commands that judge have in common: where the answer goes, and how the program ends.

use std::path::Path;
use std::process::ExitCode;

use loadline_measure::record::Record;
use loadline_report::Asked;

use crate::args::JudgeArgs;
use crate::exit::{Exit, Failure};
use crate::files::{self, Output};
use crate::plan::{Outputs, check_outputs, spare};
use crate::printer::Printer;

/// Where an answer goes.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The command's name, as the last line has it.
    name: &'static str,
    outputs: Outputs,
    junit: Option<Output>,
    strict: bool,
}

impl Answer {
    /// Reads where the answer of the command `name` goes.
    ///
    /// # Errors
    /// A usage error where two outputs share a place, or one could not be written later.
    pub(crate) fn new(name: &'static str, args: &JudgeArgs) -> Result<Self, Failure> {
        let outputs = Outputs::resolve(&args.outputs)?;
        let junit = args.junit.clone().map(Output::from);
        let all: Vec<&Output> = outputs.all().into_iter().chain(&junit).collect();
        check_outputs(&all)?;
        Ok(Self {
            name,
            outputs,
            junit,
            strict: args.strict,
        })
    }

    /// Refuses to write the answer over a file that it is made of.
    ///
    /// # Errors
    /// A usage error that names the file.
    pub(crate) fn spare(&self, read: &Path) -> Result<(), Failure> {
        let all: Vec<&Output> = self.outputs.all().into_iter().chain(&self.junit).collect();
        spare(&all, read)
    }

    /// Writes and prints the judgement of `record`, whose outcome is how the program ends.
    ///
    /// # Errors
    /// An output that cannot be written.
    pub(crate) fn give(&self, record: &Record, printer: &Printer) -> anyhow::Result<ExitCode> {
        let Some(judgement) = &record.judgement else {
            self.outputs.write(record)?;
            crate::files::write_error(&format!(
                "loadline: {}: interrupted before anything could be judged ({})",
                self.name,
                Exit::Interrupted.code()
            ));
            return Ok(Exit::Interrupted.into());
        };
        let asked = Asked {
            command: self.name,
            strict: self.strict,
        };
        // The summary of a job is of the judgement; the other forms are of all that was measured.
        let summary = self.outputs.markdown.as_ref();
        Outputs {
            markdown: None,
            ..self.outputs.clone()
        }
        .write(record)?;
        if let Some(output) = summary {
            output.write(&loadline_report::judgement_markdown(judgement, asked))?;
        }
        if let Some(output) = &self.junit {
            output.write(&loadline_report::judgement_junit(judgement, asked))?;
        }
        let last = loadline_report::last_line(judgement, asked);
        if self.outputs.use_stdout() || self.junit == Some(Output::Stdout) {
            crate::files::write_error(&last);
        } else if printer.quiet {
            files::print(&format!("{last}\n"))?;
        } else {
            let options = printer.text_options();
            files::print(&loadline_report::judgement_text(judgement, asked, &options))?;
        }
        Ok(ExitCode::from(judgement.exit_code(self.strict)))
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
