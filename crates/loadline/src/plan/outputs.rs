//! The files of the record and its reports.

use std::path::{Path, PathBuf};

use loadline_measure::record::Record;
use loadline_report::Asked;

use crate::args::OutputArgs;
use crate::exit::{Exit, Failure};
use crate::files::Output;

/// Files to write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outputs {
    pub(crate) json: Option<Output>,
    pub(crate) markdown: Option<Output>,
    pub(crate) html: Option<Output>,
    pub(crate) csv: Option<Output>,
    pub(crate) junit: Option<Output>,
}

impl Outputs {
    /// Resolves the output files.
    ///
    /// # Errors
    /// A usage error if two outputs are the same file, or one cannot be written.
    pub(crate) fn resolve(args: &OutputArgs) -> Result<Self, Failure> {
        let output = |path: &Option<PathBuf>| path.clone().map(Output::from);
        let outputs = Self {
            json: output(&args.json),
            markdown: output(&args.markdown),
            html: output(&args.html),
            csv: output(&args.csv),
            junit: output(&args.junit),
        };
        check_outputs(&outputs.all())?;
        Ok(outputs)
    }

    /// Refuses to overwrite a file that the command reads.
    ///
    /// # Errors
    /// A usage error that names the file.
    pub(crate) fn spare(&self, read: &Path) -> Result<(), Failure> {
        if self.all().iter().any(|output| output.is_at(read)) {
            return Err(Failure::usage(format!(
                "{} is an input of this command and would be overwritten; name another output file.",
                read.display()
            )));
        }
        Ok(())
    }

    /// Checks `more`, another output of the command.
    ///
    /// # Errors
    /// A usage error if one of these goes to the same place, or it cannot be written.
    pub(crate) fn check_with(&self, more: &Output) -> Result<(), Failure> {
        let mut all = self.all();
        all.push(more);
        check_outputs(&all)
    }

    /// Renders the files for `record`. If it has a judgement, requested by `asked`, the Markdown and JUnit files
    /// show the judgement, and the others all measurements.
    ///
    /// # Errors
    /// An internal error if the record cannot be encoded.
    pub(crate) fn render(
        &self,
        record: &Record,
        asked: Option<Asked<'_>>,
    ) -> Result<Vec<(Output, String)>, Failure> {
        let mut files = Vec::new();
        let mut add = |output: &Option<Output>, render: &dyn Fn() -> String| {
            files.extend(output.clone().map(|output| (output, render())));
        };
        if self.json.is_some() {
            let json = record.to_json_pretty();
            let json = json.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
            add(&self.json, &|| json.clone());
        }
        let judged = record.judgement.as_ref().zip(asked);
        add(&self.markdown, &|| match judged {
            Some((judgement, asked)) => loadline_report::judgement_markdown(judgement, asked),
            None => loadline_report::markdown(record),
        });
        add(&self.html, &|| loadline_report::html(record));
        add(&self.csv, &|| loadline_report::csv(record));
        add(&self.junit, &|| match judged {
            Some((judgement, asked)) => loadline_report::judgement_junit(judgement, asked),
            None => loadline_report::junit(record),
        });
        Ok(files)
    }

    /// The requested outputs.
    pub(crate) fn all(&self) -> Vec<&Output> {
        [
            &self.json,
            &self.markdown,
            &self.html,
            &self.csv,
            &self.junit,
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Refuses two outputs to the same file, and an output that cannot be written.
fn check_outputs(outputs: &[&Output]) -> Result<(), Failure> {
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
                "Two outputs cannot both be written to {place}; use a separate file for each."
            )));
        }
        output.check()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_that_cannot_be_written_are_refused() {
        let refused = |args: &OutputArgs| Outputs::resolve(args).unwrap_err().to_string();
        let both = OutputArgs {
            json: Some("-".into()),
            csv: Some("-".into()),
            ..OutputArgs::default()
        };
        let said = refused(&both);
        assert!(said.contains("standard output"), "{said}");
        let nowhere = OutputArgs {
            json: Some("/no/such/dir/x.json".into()),
            ..OutputArgs::default()
        };
        let said = refused(&nowhere);
        assert!(said.contains("no directory"), "{said}");
    }
}
