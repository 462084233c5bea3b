//! Limits as people write them: what is accepted is written as something that is accepted and is the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loadline_measure::Limit;

fuzz_target!(|text: &str| {
    let Ok(limit) = text.parse::<Limit>() else {
        return;
    };
    assert!(limit.value.is_finite() && limit.value >= 0.0);
    assert_eq!(limit.holds(limit.value), limit.inclusive);
    assert_eq!(limit.to_string().parse::<Limit>().ok(), Some(limit));
});
