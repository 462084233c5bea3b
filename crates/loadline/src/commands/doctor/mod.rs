//! `loadline doctor`: finds what about a setup would make a measurement misleading.

mod examination;

use std::process::ExitCode;

use loadline_measure::record::{Record, Severity};

use crate::args::DoctorArgs;
use crate::commands::surroundings;
use crate::plan;
use crate::session::{self, Ending};

pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let plan = plan::resolve_doctor(args, &surroundings())?;
    session::execute(
        "doctor",
        &args.results,
        &plan.base.describe(),
        |shell| examination::examine(&plan, shell),
        |record, printer, results| {
            results.text = loadline_report::diagnosis(record, &printer.text_options());
            if !record.run.cut_short {
                results.ending = Ending::answer(summary(record), code(record, plan.strict));
            }
        },
    )
}

/// The number of findings, such as `3 findings (1 critical, 2 warnings)`.
fn summary(record: &Record) -> String {
    let counted = |count: usize, one: &str, many: &str| {
        format!("{count} {}", if count == 1 { one } else { many })
    };
    let of = |severity: Severity| {
        record
            .doctor
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    };
    let parts: Vec<String> = [
        (of(Severity::Critical), "critical", "critical"),
        (of(Severity::Warning), "warning", "warnings"),
        (of(Severity::Info), "info", "infos"),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, one, many)| counted(count, one, many))
    .collect();
    let all = counted(record.doctor.len(), "finding", "findings");
    if parts.is_empty() {
        all
    } else {
        format!("{all} ({})", parts.join(", "))
    }
}

/// With --strict, the worst finding determines the exit code.
fn code(record: &Record, strict: bool) -> u8 {
    let worst = record.doctor.iter().map(|finding| finding.severity).max();
    match worst.filter(|_| strict) {
        Some(Severity::Critical) => 2,
        Some(Severity::Warning) => 1,
        Some(Severity::Info) | None => 0,
    }
}

#[cfg(test)]
mod tests {
    use loadline_measure::record::{Environment, Finding, Rule, Run};

    use super::*;

    fn record(severities: &[Severity]) -> Record {
        let mut record = Record::new(Run::default(), Environment::default());
        record.doctor = severities
            .iter()
            .map(|severity| Finding {
                rule: Rule::ConnectionPerOperation,
                severity: *severity,
                scope: String::new(),
                evidence: String::new(),
                what_to_do: String::new(),
            })
            .collect();
        record
    }

    #[test]
    fn last_line_counts_what_was_found() {
        use Severity::{Critical, Info, Warning};
        for (severities, expected) in [
            (&[][..], "0 findings"),
            (&[Warning][..], "1 finding (1 warning)"),
            (
                &[Critical, Warning, Warning][..],
                "3 findings (1 critical, 2 warnings)",
            ),
            (
                &[Critical, Info, Info][..],
                "3 findings (1 critical, 2 infos)",
            ),
        ] {
            assert_eq!(summary(&record(severities)), expected);
        }
    }
}
