//! The lines of stored noise: what is accepted can be drawn from.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loadline_measure::proof::Draw;
use loadline_measure::proof::stored::Noise;

/// Few and small: the lines are what is tried here.
const DRAW: Draw = Draw {
    planted: 0.0,
    cases: 2,
    baseline_runs: 3,
    suites: 2,
    seed: 1,
};

fuzz_target!(|text: &str| {
    let Ok(all) = Noise::parse(text) else {
        return;
    };
    for noise in all {
        for share in [
            noise.pairs(&DRAW),
            noise.tail_pairs(&DRAW),
            noise.naive(&DRAW),
        ] {
            assert!(share.hits <= share.of);
        }
        assert!(noise.as_runs().len() <= noise.runs());
    }
});
