//! The search against servers whose capacity is known, and against every kind of bad luck.

use std::time::Duration;

use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::simulated::{Disturbance, Model, Simulated, queue_trial};
use super::*;

const SEEDS: u64 = 400;

fn slo(text: &str) -> Slo {
    text.parse().unwrap()
}

/// Runs a search to its end, with `seconds` of time; gives the answer and the attempts.
fn search(
    mut search: Search,
    seconds: f64,
    mut serve: impl FnMut(&Attempt) -> Trial,
) -> (Answer, Vec<Attempt>) {
    let mut left = Duration::from_secs_f64(seconds);
    let mut attempts = Vec::new();
    loop {
        match search.next(left) {
            Step::Done(answer) => return (answer, attempts),
            Step::Try(attempt) => {
                assert!(attempt.duration <= left, "{attempt:?} with {left:?} left");
                left -= attempt.duration;
                attempts.push(attempt);
                search.told(serve(&attempt));
            }
        }
    }
}

/// How far the answers of many seeds are from the truth. An answer that was not confirmed in time says
/// so, and is not counted as close whatever it is.
fn holds_what_it_promises(model: Model, disturbance: Disturbance, limit: &str) {
    let slo = slo(limit);
    let truth = model.truth(&slo);
    let (mut close, mut most, mut least) = (0, 0.0_f64, f64::MAX);
    for seed in 0..SEEDS {
        let mut server = Simulated::new(model, disturbance, &slo, seed);
        let bounded = Search::new(slo, server.closed_loop(), Bounds::default());
        let (answer, _) = search(bounded, 120.0, |attempt| server.trial(attempt));
        if answer.is_confirmed() {
            let ratio = answer.rate.unwrap() / truth;
            close += u64::from((ratio - 1.0).abs() <= 0.05);
            (most, least) = (most.max(ratio), least.min(ratio));
        }
    }
    let found = format!(
        "{model:?} {disturbance:?} {limit}: {close} of {SEEDS} within 5 %, from {least:.3} to {most:.3} of the truth"
    );
    println!("{found}");
    assert!(close * 100 >= SEEDS * 95, "{found}");
    assert!(most <= 1.05, "{found}");
}

const QUIET: Disturbance = Disturbance {
    noise: 0.02,
    stalls: 0.0,
};
const NOISY: Disturbance = Disturbance {
    noise: 0.05,
    stalls: 0.05,
};
const STALLED: Disturbance = Disturbance {
    noise: 0.05,
    stalls: 0.15,
};

#[test]
fn capacity_of_exponential_service_is_found() {
    // At 100k per second the limits are crossed at 70, 91 and 99 % of what can be served.
    for limit in ["p99<154us", "p99<500us", "p99.9<7ms"] {
        for disturbance in [QUIET, NOISY, STALLED] {
            holds_what_it_promises(Model::Mm1(1e5), disturbance, limit);
        }
    }
}

#[test]
fn capacity_of_constant_service_is_found() {
    for limit in ["p99<80us", "p99<300us", "p99<2ms"] {
        for disturbance in [QUIET, NOISY, STALLED] {
            holds_what_it_promises(Model::Md1(1e5), disturbance, limit);
        }
    }
}

#[test]
fn a_cliff_is_found() {
    for disturbance in [QUIET, NOISY, STALLED] {
        holds_what_it_promises(Model::Cliff(87_654.0), disturbance, "p99<2ms");
    }
}

#[test]
fn capacity_of_a_queue_operation_by_operation_is_found() {
    let (mu, slo) = (20_000.0, slo("p99<5ms"));
    let truth = mu - 100_f64.ln() / 0.005;
    let mut close = 0;
    for seed in 0..20 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let bounded = Search::new(slo, 0.95 * mu, Bounds::default());
        let (answer, _) = search(bounded, 120.0, |attempt| {
            queue_trial(mu, attempt, 0.99, &mut rng)
        });
        let ratio = answer.rate.unwrap() / truth;
        assert!(
            answer.is_confirmed() && ratio <= 1.05,
            "seed {seed}: {ratio}"
        );
        close += u32::from((ratio - 1.0).abs() <= 0.05);
    }
    assert!(close >= 19, "{close} of 20 within 5 %");
}

/// A server that holds below `capacity` and is too slow above it.
fn sharp(capacity: f64) -> impl Fn(&Attempt) -> Trial {
    move |attempt| Trial {
        achieved: attempt.rate,
        ops: 100_000,
        value_ns: Some(if attempt.rate < capacity { 1e6 } else { 9e6 }),
        server_busy: Some(0.97),
        client_busy: Some(0.4),
        ..Trial::default()
    }
}

fn standard(start: f64) -> Search {
    Search::new(slo("p99<2ms"), start, Bounds::default())
}

#[test]
fn the_answer_is_confirmed_between_trials_of_a_little_more() {
    let (answer, attempts) = search(standard(100_000.0), 60.0, sharp(83_000.0));
    let rate = answer.rate.unwrap();
    assert!((83_000.0 / 1.02..83_000.0).contains(&rate), "{rate}");
    assert_eq!(
        answer.confirmations,
        Tally {
            held: 3,
            ..Tally::default()
        }
    );
    assert_eq!(
        answer.above,
        Tally {
            failed: 3,
            ..Tally::default()
        }
    );
    assert!(answer.is_confirmed() && answer.is_distinct());
    assert_eq!(
        (answer.value_ns, answer.limited_by),
        (Some(1e6), LimitedBy::Server)
    );
    assert!(answer.notes.is_empty(), "{:?}", answer.notes);
    let last: Vec<Role> = attempts
        .iter()
        .rev()
        .take(6)
        .map(|attempt| attempt.role)
        .collect();
    assert_eq!(last, [Role::Above, Role::Confirm].repeat(3));
    for attempt in &attempts {
        let once = (11_000.0 / attempt.rate).max(1.0);
        let times = if attempt.role == Role::Search {
            1.0
        } else {
            2.0
        };
        assert!(
            (attempt.duration.as_secs_f64() - once * times).abs() < 1e-6,
            "{attempt:?}"
        );
    }
    assert!(answer.curve.is_sorted_by(|a, b| a.rate < b.rate));
    assert_eq!(answer.point().unwrap().value_ns, Some(1e6));
    assert!(answer.failing().next().unwrap().rate >= 83_000.0);
}

#[test]
fn one_bad_trial_rules_no_rate_out() {
    for spoiled in 0..20 {
        let (mut count, server) = (0, sharp(83_000.0));
        let (answer, _) = search(standard(100_000.0), 120.0, |attempt| {
            count += 1;
            let stalled = count == spoiled + 1;
            Trial {
                value_ns: server(attempt)
                    .value_ns
                    .map(|ns| if stalled { 5e8 } else { ns }),
                ..server(attempt)
            }
        });
        let rate = answer.rate.unwrap();
        assert!(
            (83_000.0 / 1.02..83_000.0).contains(&rate),
            "trial {spoiled}: {rate}"
        );
        assert!(answer.is_confirmed());
    }
}

#[test]
fn an_answer_that_does_not_hold_again_steps_down() {
    let server = |attempt: &Attempt| {
        let capacity = if attempt.role == Role::Search {
            83_000.0
        } else {
            77_000.0
        };
        sharp(capacity)(attempt)
    };
    let (answer, _) = search(standard(100_000.0), 120.0, server);
    let rate = answer.rate.unwrap();
    assert!((77_000.0 / 1.021..77_000.0).contains(&rate), "{rate}");
    assert!(answer.is_confirmed() && answer.is_distinct());
}

#[test]
fn an_answer_that_turns_out_too_low_goes_up() {
    let server = |attempt: &Attempt| {
        let capacity = if attempt.role == Role::Search && attempt.rate < 80_000.0 {
            60_000.0
        } else {
            83_000.0
        };
        sharp(capacity)(attempt)
    };
    let mut calls = 0;
    let (answer, _) = search(standard(100_000.0), 120.0, |attempt| {
        // The first trials suffer from a neighbour who goes away later.
        calls += 1;
        if calls < 14 {
            server(attempt)
        } else {
            sharp(83_000.0)(attempt)
        }
    });
    let rate = answer.rate.unwrap();
    assert!(
        (83_000.0 / 1.021..83_000.0).contains(&rate),
        "{rate} {answer:?}"
    );
    assert!(answer.is_confirmed());
}

#[test]
fn what_cannot_be_told_apart_is_said() {
    let (answer, _) = search(standard(100_000.0), 300.0, |attempt| {
        let always = attempt.role == Role::Above;
        sharp(if always { f64::MAX } else { 83_000.0 })(attempt)
    });
    assert!(
        (83_000.0 / 1.05..83_000.0).contains(&answer.rate.unwrap()),
        "{answer:?}"
    );
    assert_eq!(
        answer.above,
        Tally {
            held: 3,
            failed: 0,
            late: 0
        }
    );
    assert!(answer.is_confirmed() && !answer.is_distinct());
    assert!(
        answer.notes[0].contains("held in 3 of 3 trials"),
        "{:?}",
        answer.notes
    );
}

#[test]
fn a_limit_that_no_rate_keeps_has_no_answer() {
    let bounds = Bounds {
        lowest: 1_000.0,
        ..Bounds::default()
    };
    let (answer, attempts) = search(Search::new(slo("p99<2ms"), 1e5, bounds), 120.0, sharp(0.0));
    assert_eq!((answer.rate, answer.value_ns), (None, None));
    assert!(!answer.is_confirmed());
    assert_eq!(answer.curve[0].rate, 1_000.0);
    assert!(attempts.len() <= 8, "{}", attempts.len());
}

#[test]
fn a_late_generator_is_named_and_not_the_server() {
    let (answer, _) = search(standard(100_000.0), 60.0, |attempt| Trial {
        lag_p99_ns: Some(if attempt.rate > 50_000.0 {
            4_000_000
        } else {
            10_000
        }),
        ..sharp(60_000.0)(attempt)
    });
    assert_eq!(answer.limited_by, LimitedBy::Generator);
    assert!(
        answer
            .notes
            .iter()
            .any(|note| note.contains("generator itself")),
        "{:?}",
        answer.notes
    );
}

#[test]
fn a_search_ends_where_it_may_not_go_on() {
    let bounds = Bounds {
        highest: 70_000.0,
        ..Bounds::default()
    };
    let (answer, _) = search(
        Search::new(slo("p99<2ms"), 1e5, bounds),
        60.0,
        sharp(83_000.0),
    );
    assert_eq!(
        (answer.rate, answer.limited_by),
        (Some(70_000.0), LimitedBy::NotReached)
    );
}

#[test]
fn rare_operations_get_longer_trials() {
    let (answer, attempts) = search(standard(2_000.0), 600.0, sharp(1_900.0));
    assert!(answer.is_confirmed());
    for attempt in attempts {
        let ops = attempt.rate * attempt.duration.as_secs_f64();
        assert!(ops >= 10_900.0, "{attempt:?}");
    }
}

#[test]
fn time_is_left_for_the_confirmation_and_what_is_missing_is_said() {
    let (answer, _) = search(standard(100_000.0), 18.0, sharp(83_000.0));
    assert!(
        answer.is_confirmed() && answer.notes[0].contains("stopped early"),
        "{answer:?}"
    );
    let (answer, attempts) = search(standard(100_000.0), 5.0, sharp(83_000.0));
    assert!(!answer.is_confirmed() && !attempts.is_empty(), "{answer:?}");
    assert!(
        answer
            .notes
            .iter()
            .any(|note| note.contains("before the answer was confirmed"))
    );
    let (answer, attempts) = search(standard(100_000.0), 0.5, sharp(83_000.0));
    assert_eq!((answer.rate, attempts.len()), (None, 0));
    assert!(answer.notes[0].contains("before a rate was found"));
}

#[test]
fn a_search_that_is_stopped_answers_with_what_it_has() {
    let mut search = standard(100_000.0);
    for _ in 0..3 {
        let Step::Try(attempt) = search.next(Duration::from_secs(60)) else {
            panic!("too early")
        };
        search.told(sharp(83_000.0)(&attempt));
    }
    let answer = search.stop("Interrupted.");
    assert_eq!((answer.rate, answer.curve.len()), (Some(63_000.0), 3));
    assert_eq!(answer.notes, ["Interrupted."]);
    assert!(!answer.is_confirmed());
}

#[test]
fn an_answer_survives_its_json() {
    let (answer, _) = search(standard(100_000.0), 60.0, sharp(83_000.0));
    let json = serde_json::to_string(&answer).unwrap();
    assert!(
        json.contains("\"slo\":\"p99<2ms\"") && json.contains("\"limited_by\":\"server\""),
        "{json}"
    );
    assert_eq!(serde_json::from_str::<Answer>(&json).unwrap(), answer);
}

proptest! {
    /// Whatever the trials say, the search ends within its trials and its time (which `search`
    /// checks), and never answers with a rate that its confirmation refuted.
    #[test]
    fn every_course_of_luck_ends(luck in prop::collection::vec(0_u8..4, 100), start in 10.0..1e6_f64, seconds in 1.0..500.0_f64) {
        let mut luck = luck.into_iter();
        let (answer, attempts) = search(standard(start), seconds, |attempt| match luck.next() {
            Some(0) => Trial::default(),
            Some(1) => Trial { lag_p99_ns: Some(5_000_000), ..sharp(0.0)(attempt) },
            Some(2) => sharp(0.0)(attempt),
            _ => sharp(f64::MAX)(attempt),
        });
        prop_assert!(attempts.len() <= 80);
        prop_assert!(answer.confirmations.bad() < 2);
        prop_assert!(answer.curve.iter().map(|point| point.trials.trials()).sum::<u32>() as usize == attempts.len());
    }
}
