//! `loadline report`: shows a record again.

use std::process::ExitCode;

use crate::args::ReportArgs;
use crate::files;
use crate::plan::Outputs;
use crate::printer::Printer;
use crate::session::{Ending, Results, finish};

pub(super) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let outputs = Outputs::resolve(&args.outputs)?;
    outputs.spare(&args.record)?;
    let record = files::read_record(&args.record)?;
    let printer = Printer::new(&args.display);
    let mut results = Results::of_record("report", &record, &outputs, &printer)?;
    results.ending = Ending::done();
    Ok(finish(&results, &printer))
}
