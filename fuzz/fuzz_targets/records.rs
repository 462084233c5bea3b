//! Records from anywhere: what is accepted can be shown in every form, compared with itself, made a run of a
//! baseline, and written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loadline_fuzz::{PLAIN, RICH, show};
use loadline_measure::Record;
use loadline_measure::gate::{BaselineRun, Judged, Thresholds, records};
use loadline_measure::work::WorkRules;
use loadline_report::judgement;
use loadline_report::{csv, html, junit, markdown, text};

fuzz_target!(|bytes: &[u8]| {
    let Ok(record) = Record::from_json(bytes) else {
        return;
    };
    let shown = [
        text(&record, &PLAIN),
        text(&record, &RICH),
        markdown(&record),
        html(&record),
        junit(&record),
        csv(&record),
    ];
    // A foreign record must not speak to the terminal: only the report's own colours may.
    assert!(!shown[0].contains('\u{1b}'));
    assert!(!shown[3].contains("<script"));

    show(&judgement(records::judge(
        &record,
        &record,
        &WorkRules::default(),
    )));
    let judged = Judged::of_comparisons(&record, &Thresholds::default());
    show(&judgement(judged));
    if let Ok(run) = BaselineRun::of_record(&record) {
        assert_eq!(run.cases.len(), record.cases.len());
    }
    let json = record
        .to_json_pretty()
        .expect("JSON carries what it brought");
    Record::from_json(json.as_bytes()).expect("what was written can be read");
});
