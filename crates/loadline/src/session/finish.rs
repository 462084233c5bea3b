//! The end of a command: its report is printed, its files are written, and its last line says how it ended.

use std::process::ExitCode;

use loadline_measure::record::Record;

use crate::exit::{Exit, Failure};
use crate::files::{self, Output};
use crate::plan::Outputs;
use crate::printer::Printer;

/// How a command ends: in words, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    words: String,
    code: u8,
    /// Whether the last line is an answer, which is printed even where nothing else is wanted.
    is_answer: bool,
}

impl Ending {
    /// A plan that is done.
    pub(crate) fn done() -> Self {
        Self::of("done", 0)
    }

    /// A run that its user ended.
    pub(crate) fn interrupted() -> Self {
        Self::of("interrupted", Exit::Interrupted.code())
    }

    fn of(words: &str, code: u8) -> Self {
        Self {
            words: words.to_owned(),
            code,
            is_answer: false,
        }
    }

    /// A judgement or a count, whose last line is the answer of the command.
    pub(crate) fn answer(words: impl Into<String>, code: u8) -> Self {
        Self {
            words: words.into(),
            code,
            is_answer: true,
        }
    }
}

/// What a command has to show.
#[derive(Debug)]
pub(crate) struct Results {
    /// Its name, for the last line.
    pub(crate) command: &'static str,
    /// The report for the terminal.
    pub(crate) text: String,
    /// Whether the report closes with the last line already.
    pub(crate) is_closed: bool,
    /// Sentences above the last line where the report, which states them too, is not printed.
    pub(crate) remarks: Vec<String>,
    /// Files, each with its content.
    pub(crate) files: Vec<(Output, String)>,
    /// What ended the run early, where something other than an interrupt did.
    pub(crate) broken: Option<Failure>,
    pub(crate) ending: Ending,
}

impl Results {
    /// The report and the files of `record`, as every command shows what it measured.
    ///
    /// # Errors
    /// Our own fault, where the record cannot be encoded.
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

/// Prints the report, writes every file that can be written, and ends with the exit code: that of the first file
/// that could not be written, else that of what broke the run, else that of its ending.
///
/// # Errors
/// That standard output cannot be written.
pub(crate) fn finish(results: Results, printer: &Printer) -> Result<ExitCode, Failure> {
    let (ending, broken) = (&results.ending, &results.broken);
    let (words, code) = match broken {
        Some(failure) => ("failed", failure.exit().code()),
        None => (ending.words.as_str(), ending.code),
    };
    let last = format!("loadline: {}: {words} ({code})", results.command);
    let remarks = results.remarks.iter();
    let remarked: String = remarks.map(|remark| format!("{remark}\n")).collect();
    let remarked = remarked + &last;
    let stdout_is_taken = results
        .files
        .iter()
        .any(|(output, _)| *output == Output::Stdout);
    if stdout_is_taken {
        // What goes to standard output is for a program, and stays whole.
        if !printer.quiet || ending.is_answer {
            files::write_error(&remarked);
        }
    } else if !printer.quiet {
        files::print(&if results.is_closed && broken.is_none() {
            results.text
        } else {
            format!("{}\n{last}\n", results.text)
        })?;
    } else if ending.is_answer {
        files::print(&format!("{remarked}\n"))?;
    }
    let mut unwritten = None;
    for (output, text) in &results.files {
        if let Err(failure) = output.write(text) {
            files::complain(&failure.to_string());
            unwritten.get_or_insert(failure.exit().code());
        }
    }
    if let Some(failure) = broken {
        files::complain(&failure.to_string());
    }
    Ok(ExitCode::from(unwritten.unwrap_or(code)))
}
