//! The file of numbers of another tool: what is accepted can be judged against.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loadline_fuzz::show;
use loadline_measure::gate::classic::{Classic, ClassicMetric, ClassicRounds, judge};
use loadline_report::judgement;

fuzz_target!(|input: ([f32; 9], &[u8])| {
    let (values, bytes) = input;
    let Ok(classic) = Classic::from_json(bytes) else {
        return;
    };
    let values: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
    let all = ClassicMetric::ALL.map(|metric| (metric, values.clone()));
    let rounds = ClassicRounds {
        values: all.into(),
        p99_us: [("other".to_owned(), values)].into(),
    };
    show(&judgement(judge(&classic, &rounds)));
});
