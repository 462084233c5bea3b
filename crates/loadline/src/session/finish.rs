//! The end of a command: prints the report, writes the files, and states the result in the last line.

use std::process::ExitCode;

use loadline_measure::record::Record;

use super::{Recorded, Shell};
use crate::args::ResultArgs;
use crate::exit::{Exit, Failure};
use crate::files::{self, Output};
use crate::plan::{Description, Outputs};
use crate::printer::Printer;

/// The result of a command: in words, and as an exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    words: String,
    code: u8,
    /// Whether the last line is an answer, which is printed even with `--quiet`.
    is_answer: bool,
}

impl Ending {
    /// The result of a completed plan.
    pub(crate) fn done() -> Self {
        Self::of("done", 0)
    }

    /// The result of a run interrupted by the user.
    pub(crate) fn interrupted() -> Self {
        Self::of("interrupted", Exit::Interrupted.code())
    }

    /// The result of a run without all of its agents.
    pub(crate) fn incomplete() -> Self {
        Self::answer("incomplete", Exit::Incomplete.code())
    }

    fn of(words: &str, code: u8) -> Self {
        Self {
            words: words.to_owned(),
            code,
            is_answer: false,
        }
    }

    /// The result of a verdict or a count, whose last line is the answer of the command.
    pub(crate) fn answer(words: impl Into<String>, code: u8) -> Self {
        Self {
            words: words.into(),
            code,
            is_answer: true,
        }
    }
}

/// The output of a command.
#[derive(Debug)]
pub(crate) struct Results {
    /// The name of the command, for the last line.
    pub(crate) command: &'static str,
    /// The report for the terminal.
    pub(crate) text: String,
    /// Whether the report already ends with the last line.
    pub(crate) is_closed: bool,
    /// Sentences above the last line, if the report, which contains them as well, is not printed.
    pub(crate) remarks: Vec<String>,
    /// Files with their contents.
    pub(crate) files: Vec<(Output, String)>,
    /// The failure that ended the run early, other than an interrupt.
    pub(crate) broken: Option<Failure>,
    pub(crate) ending: Ending,
}

impl Results {
    /// The report and the files of `record`, in the form common to all commands.
    ///
    /// # Errors
    /// An internal error if the record cannot be encoded.
    pub(crate) fn of_record(
        command: &'static str,
        record: &Record,
        outputs: &Outputs,
        printer: &Printer,
    ) -> Result<Self, Failure> {
        Ok(Self {
            command,
            text: loadline_report::text(record, &printer.text_options()),
            is_closed: false,
            remarks: Vec::new(),
            files: outputs.render(record, None)?,
            broken: None,
            ending: if record.run.cut_short {
                Ending::interrupted()
            } else {
                Ending::done()
            },
        })
    }
}

/// Executes the command `name`: prints its `plan` if only that is asked for; otherwise measures, prints the report, and
/// writes the files. `measure` returns the record as it is written. `judge` changes the result of a complete or
/// interrupted record, by default "done" or "interrupted".
///
/// # Errors
/// A usage error for outputs that cannot be written, and the errors of `measure`.
pub(crate) fn execute(
    name: &'static str,
    asked: &ResultArgs,
    plan: &Description,
    measure: impl FnOnce(&Shell) -> Result<Recorded, Failure>,
    judge: impl FnOnce(&Record, &Printer, &mut Results),
) -> anyhow::Result<ExitCode> {
    let outputs = Outputs::resolve(&asked.outputs)?;
    let Some(shell) = Shell::start_unless_dry(&asked.plan, &asked.display, plan)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let Recorded { record, broken } = measure(&shell)?;
    let mut results = Results::of_record(name, &record, &outputs, &shell.printer)?;
    results.broken = broken;
    judge(&record, &shell.printer, &mut results);
    Ok(finish(&results, &shell.printer))
}

/// Prints the report, writes every file that can be written, and returns the exit code, which the last line states as well:
/// that of the first output that could not be written, or of the failure that ended the run, or of its result.
pub(crate) fn finish(results: &Results, printer: &Printer) -> ExitCode {
    let (ending, broken) = (&results.ending, &results.broken);
    let mut unwritten = Unwritten(None);
    let stdout_is_taken = results
        .files
        .iter()
        .any(|(output, _)| *output == Output::Stdout);
    let shows_report = !stdout_is_taken && !printer.quiet;
    if shows_report {
        unwritten.note(files::print(&results.text));
    }
    let has_stdout = unwritten.0.is_none();
    for (output, text) in &results.files {
        unwritten.note(output.write(text));
    }
    if let Some(failure) = broken {
        files::complain(&failure.to_string());
    }
    let failed = broken.as_ref().map(|failure| failure.exit().code());
    let failed = unwritten.0.or(failed);
    let (words, code) = match failed {
        Some(code) => ("failed", code),
        None => (ending.words.as_str(), ending.code),
    };
    let last = format!("loadline: {}: {words} ({code})", results.command);
    let remarks = results.remarks.iter();
    let remarked: String = remarks.map(|remark| format!("{remark}\n")).collect();
    let remarked = remarked + &last;
    if stdout_is_taken || !has_stdout {
        // Output on standard output is for a program and must stay complete.
        if !printer.quiet || ending.is_answer {
            files::write_error(&remarked);
        }
    } else if shows_report {
        if !results.is_closed || failed.is_some() {
            unwritten.note(files::print(&format!("\n{last}\n")));
        }
    } else if ending.is_answer {
        unwritten.note(files::print(&format!("{remarked}\n")));
    }
    ExitCode::from(unwritten.0.unwrap_or(code))
}

/// The exit code of the first output that could not be written.
struct Unwritten(Option<u8>);

impl Unwritten {
    /// Reports an output that could not be written.
    fn note(&mut self, written: Result<(), Failure>) {
        if let Err(failure) = written {
            files::complain(&failure.to_string());
            self.0.get_or_insert(failure.exit().code());
        }
    }
}
