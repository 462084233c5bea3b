//! Baselines from anywhere: what is accepted can be judged against, and written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loadline_fuzz::show;
use loadline_measure::gate::{Baseline, Candidate, judge, limits_of_run};

fuzz_target!(|bytes: &[u8]| {
    let Ok(baseline) = Baseline::from_json(bytes) else {
        return;
    };
    for run in &baseline.runs {
        let rows = limits_of_run(run, None, &baseline.limits);
        assert!(rows.len() >= baseline.limits.len());
        let candidate = Candidate {
            first: run,
            second: baseline.runs.first(),
            environment: &baseline.environment,
            workload_hash: &baseline.workload_hash,
        };
        let judgement = judge(&baseline, &candidate);
        assert!(judgement.exit_code(true) >= judgement.exit_code(false));
        show(&loadline_report::judgement(judgement));
    }
    let json = baseline.to_json().expect("what was read can be written");
    Baseline::from_json(json.as_bytes()).expect("what was written can be read");
});
