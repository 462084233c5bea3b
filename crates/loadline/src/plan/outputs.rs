//! Where the record and its reports go.

use std::path::{Path, PathBuf};

use loadline_measure::record::Record;

use crate::args::OutputArgs;
use crate::exit::{Exit, Failure};
use crate::files::Output;

/// Turns a record into the text of a report.
type Renderer = fn(&Record) -> String;

/// Files to write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outputs {
    pub(crate) json: Option<Output>,
    pub(crate) markdown: Option<Output>,
    pub(crate) html: Option<Output>,
    pub(crate) csv: Option<Output>,
}

impl Outputs {
    /// Reads where the outputs go.
    ///
    /// # Errors
    /// A usage error where two share a place, or one could not be written later.
    pub(crate) fn resolve(args: &OutputArgs) -> Result<Self, Failure> {
        let output = |path: &Option<PathBuf>| path.clone().map(Output::from);
        let outputs = Self {
            json: output(&args.json),
            markdown: output(&args.markdown),
            html: output(&args.html),
            csv: output(&args.csv),
        };
        check_outputs(&outputs.all())?;
        Ok(outputs)
    }

    /// Whether one of them is standard output, so that nothing else may go there.
    pub(crate) fn use_stdout(&self) -> bool {
        self.all().contains(&&Output::Stdout)
    }

    /// Writes `record` to all of them, each in its form.
    ///
    /// # Errors
    /// The first that cannot be written.
    pub(crate) fn write(&self, record: &Record) -> Result<(), Failure> {
        if let Some(output) = &self.json {
            let json = record.to_json_pretty();
            output
                .write(&json.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?)?;
        }
        let reports: [(&Option<Output>, Renderer); 3] = [
            (&self.markdown, loadline_report::markdown),
            (&self.html, loadline_report::html),
            (&self.csv, loadline_report::csv),
        ];
        for (output, render) in reports {
            if let Some(output) = output {
                output.write(&render(record))?;
            }
        }
        Ok(())
    }

    /// The outputs that were asked for.
    pub(crate) fn all(&self) -> Vec<&Output> {
        [&self.json, &self.markdown, &self.html, &self.csv]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// Whether two outputs share a place, or one could not be written later.
pub(crate) fn check_outputs(outputs: &[&Output]) -> Result<(), Failure> {
    for (index, output) in outputs.iter().enumerate() {
        if outputs[index + 1..]
            .iter()
            .any(|other| output.shares_place(other))
        {
            let place = match output {
                Output::Stdout => "standard output".into(),
                Output::File(path) => path.display().to_string(),
            };
            return Err(Failure::usage(format!(
                "Two outputs cannot both go to {place}; give each its own file."
            )));
        }
        output.check()?;
    }
    Ok(())
}

/// Refuses to write a report over a file that it is made of.
///
/// # Errors
/// A usage error that names the file.
pub(crate) fn spare(outputs: &[&Output], read: &Path) -> Result<(), Failure> {
    if outputs.iter().any(|output| output.is_at(read)) {
        return Err(Failure::usage(format!(
            "{} is read here and would be overwritten; name another file for the output.",
            read.display()
        )));
    }
    Ok(())
}
