//! `loadline report`: shows a record again.

use std::process::ExitCode;

use loadline_report::Asked;

use crate::args::ReportArgs;
use crate::files::{self, Output};
use crate::plan::{Outputs, check_outputs, spare};
use crate::printer::Printer;

pub(super) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let outputs = Outputs::resolve(&args.outputs)?;
    let junit = args.junit.clone().map(Output::from);
    let all: Vec<&Output> = outputs.all().into_iter().chain(&junit).collect();
    check_outputs(&all)?;
    spare(&all, &args.record)?;
    let record = files::read_record(&args.record)?;
    outputs.write(&record)?;
    if let Some(junit) = &junit {
        junit.write(&loadline_report::junit(&record))?;
    }
    let printer = Printer::new(&args.display);
    if !printer.quiet && !all.contains(&&Output::Stdout) {
        if let Some(judgement) = &record.judgement {
            let asked = Asked {
                command: "report",
                strict: false,
            };
            let options = printer.text_options();
            files::print(&loadline_report::judgement_text(judgement, asked, &options))?;
            files::print("\n")?;
        }
        files::print(&loadline_report::text(&record, &printer.text_options()))?;
    }
    Ok(ExitCode::SUCCESS)
}
