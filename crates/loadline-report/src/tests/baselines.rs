//! A baseline and a judgement against it, side by side.

use std::collections::BTreeMap;

use loadline_measure::Metric;
use loadline_measure::gate::Candidate;
use loadline_measure::gate::strict::judge;
use loadline_measure::gate::{Baseline, BaselineCase, BaselineRun, Measured};
use loadline_measure::record::Environment;

use crate::text::baseline as shown;

/// A run with a median response time of `micros`.
fn run(micros: f64) -> BaselineRun {
    let raw = micros * 1e3;
    let measured = Measured {
        normalised_ln: Some(raw.ln()),
        round_ln: Some(raw.ln()),
        raw,
        rounds: 12,
    };
    let case = BaselineCase {
        metrics: BTreeMap::from([(Metric::P50, measured)]),
        ..BaselineCase::default()
    };
    BaselineRun {
        id: format!("run {micros}"),
        started_at: String::new(),
        cases: BTreeMap::from([("get".to_owned(), case)]),
    }
}

#[test]
fn page_and_the_gate_print_one_median_of_eight_runs() {
    let mut baseline = Baseline::new(
        "embedded".to_owned(),
        "abc".to_owned(),
        serde_json::Value::Null,
        Environment::default(),
        Vec::new(),
    );
    for micros in [101.0, 102.0, 103.0, 104.0, 106.0, 107.0, 108.0, 109.0] {
        let (run, place) = (run(micros), Environment::default());
        baseline.add(run, &place, "abc").unwrap();
    }
    let candidate = run(105.5);
    let judgement = judge(
        &baseline,
        &Candidate {
            first: &candidate,
            second: None,
            environment: &Environment::default(),
            workload_hash: "abc",
        },
    );
    assert_eq!(judgement.rows[0].baseline, Some(105_000.0));
    let page = shown(&baseline);
    let row = page.lines().find(|line| line.starts_with("p50 ")).unwrap();
    assert!(row.contains(" 105"), "{page}");
}
