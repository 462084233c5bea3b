//! The search against servers whose capacity is known, and against every kind of bad luck.

use std::time::Duration;

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::simulated::{Model, Simulated, Weather, queue_trial};
use super::*;

const SEEDS: u64 = 200;
/// Time limit of a search by default.
const TIME: f64 = 60.0;

fn slo(text: &str) -> Slo {
    text.parse().unwrap()
}

/// Runs a search to its end, with `seconds` of time; gives the answer and the attempts.
fn search(
    mut search: Search,
    seconds: f64,
    mut serve: impl FnMut(&Attempt) -> Trial,
) -> (Capacity, Vec<Attempt>) {
    let mut left = Duration::from_secs_f64(seconds);
    let mut attempts = Vec::new();
    loop {
        match search.next(left) {
            NextTrial::Done(answer) => return (answer, attempts),
            NextTrial::Try(attempt) => {
                assert!(attempt.duration <= left, "{attempt:?} with {left:?} left");
                left -= attempt.duration;
                attempts.push(attempt);
                search.told(serve(&attempt));
            }
        }
    }
}

/// Number of the searches of a cell that gave an answer, and the distances of the answers from the truth.
#[derive(Default)]
struct Cell {
    answers: u64,
    wrong: u64,
    least: Option<f64>,
    most: Option<f64>,
    seconds: f64,
}

/// The answer of one search, and the server it was made on.
fn simulated(mut server: Simulated, slo: Slo) -> (Capacity, Simulated) {
    // The lowest rate whose trials are short enough for a confirmation.
    let bounds = Bounds {
        lowest: 20.0 * slo.least_ops() as f64 / TIME,
        ..Bounds::default()
    };
    let mut search = Search::new(slo, server.closed_loop(), bounds);
    loop {
        let left = Duration::from_secs_f64((TIME - server.now()).max(0.0));
        match search.next(left) {
            NextTrial::Done(answer) => return (answer, server),
            NextTrial::Try(attempt) => search.told(server.trial(&attempt)),
        }
    }
}

/// Answers of many seeds in one weather.
fn cell(model: Model, weather: Weather, limit: &str) -> Cell {
    let slo = slo(limit);
    let mut cell = Cell::default();
    for seed in 0..SEEDS {
        let (answer, server) = simulated(Simulated::new(model, weather, &slo, seed), slo);
        assert_eq!(answer.rate.is_some(), answer.is_confirmed());
        if let Some(rate) = answer.rate {
            let ratio = rate / server.truth(&slo);
            cell.answers += 1;
            cell.wrong += u64::from((ratio - 1.0).abs() > 0.1);
            cell.least = Some(cell.least.map_or(ratio, |least| least.min(ratio)));
            cell.most = Some(cell.most.map_or(ratio, |most| most.max(ratio)));
            cell.seconds += server.now();
        }
    }
    cell
}

const QUIET: Weather = Weather {
    noise: 0.02,
    pauses: 0.0,
    pause_ms: 0.0,
    seen: 1.0,
    contended: 0.0,
    slow: 1.0,
};
const USUAL: Weather = Weather {
    noise: 0.05,
    pauses: 0.2,
    pause_ms: 5.0,
    contended: 0.02,
    ..QUIET
};
const SHARED: Weather = Weather {
    noise: 0.05,
    pauses: 1.0,
    pause_ms: 15.0,
    seen: 0.95,
    contended: 0.05,
    ..QUIET
};
const BUSY: Weather = Weather {
    noise: 0.1,
    pauses: 5.0,
    pause_ms: 5.0,
    seen: 0.9,
    contended: 0.3,
    ..QUIET
};
const CHANGING: Weather = Weather {
    slow: 0.7,
    ..SHARED
};
const HOPELESS: Weather = Weather {
    noise: 0.1,
    pauses: 20.0,
    pause_ms: 10.0,
    seen: 0.9,
    contended: 0.5,
    ..QUIET
};

/// A name, the weather, and how many of a hundred searches give an answer at least.
const WEATHERS: [(&str, Weather, u64); 6] = [
    ("quiet", QUIET, 100),
    ("usual", USUAL, 98),
    ("shared", SHARED, 80),
    ("busy", BUSY, 0),
    ("changing", CHANGING, 0),
    ("hopeless", HOPELESS, 0),
];

/// At 100k per second the limits of the queues are crossed at 70, 91 and 99 % of what can be served, and at
/// 69, 91 and 99 %.
const SERVERS: [(Model, &str); 7] = [
    (Model::Mm1(1e5), "p99<154us"),
    (Model::Mm1(1e5), "p99<500us"),
    (Model::Mm1(1e5), "p99.9<7ms"),
    (Model::Md1(1e5), "p99<80us"),
    (Model::Md1(1e5), "p99<300us"),
    (Model::Md1(1e5), "p99<2ms"),
    (Model::Cliff(87_654.0), "p99<2ms"),
];

/// In any weather an answer is within 10 % of the truth, or there is none, but for one answer in a thousand.
#[test]
fn answer_is_close_or_there_is_none() {
    let mut faults = Vec::new();
    let (mut answers, mut wrong) = (0, 0);
    for (name, weather, least) in WEATHERS {
        for (model, limit) in SERVERS {
            let cell = cell(model, weather, limit);
            let shown =
                |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.3}"));
            let line = format!(
                "{name:8} {model:?} {limit}: {} of {SEEDS} answer, {} wrong, {} to {} of the truth, {:.0} s",
                cell.answers,
                cell.wrong,
                shown(cell.least),
                shown(cell.most),
                cell.seconds / cell.answers.max(1) as f64
            );
            println!("{line}");
            (answers, wrong) = (answers + cell.answers, wrong + cell.wrong);
            if cell.answers * 100 < least * SEEDS {
                faults.push(line);
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(wrong * 1_000 <= answers, "{wrong} of {answers}");
}

/// A machine whose disturbances are drawn at random, between quiet and busy.
fn any_weather(rng: &mut SmallRng) -> Weather {
    Weather {
        noise: rng.random_range(0.02..0.1),
        pauses: rng.random_range(0.0..6.0),
        pause_ms: rng.random_range(1.0..8.0),
        seen: rng.random_range(0.9..1.0),
        contended: rng.random_range(0.0..0.4),
        slow: rng.random_range(0.7..1.0),
    }
}

#[test]
fn interval_of_a_noisy_server_holds_its_capacity() {
    let seeds = if std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1") {
        2_000
    } else {
        200
    };
    let (mut right, mut calm, mut open, mut widths) = (0, 0, 0, Vec::new());
    // Those below 22,000 were looked at when the search was tuned.
    for seed in 30_000..30_000 + seeds {
        let mut rng = SmallRng::seed_from_u64(seed);
        let weather = any_weather(&mut rng);
        let (model, limit) = SERVERS[seed as usize % SERVERS.len()];
        let slo = slo(limit);
        let server = Simulated::new(model, weather, &slo, seed).with_parts();
        let (answer, server) = simulated(server, slo);
        let truth = server.truth(&slo);
        let (low, high) = answer.interval();
        let low = low.unwrap_or_else(|| panic!("no lower bound: seed {seed}, {:?}", answer.curve));
        calm += u32::from(answer.lower.is_some_and(|lower| lower.calm > 0));
        right += u64::from(low <= truth && high.is_none_or(|high| truth <= high));
        match high {
            Some(high) => widths.push(high / low),
            None => open += 1,
        }
    }
    widths.sort_by(f64::total_cmp);
    let share = |q: f64| widths[(q * (widths.len() - 1) as f64) as usize];
    println!(
        "{right} of {seeds} intervals with the truth, {calm} with a lower end by parts of trials, {open} without an upper end; upper by lower end: median {:.3}, p90 {:.3}, widest {:.3}",
        share(0.5),
        share(0.9),
        share(1.0)
    );
    assert!(right * 100 >= 95 * seeds, "{right} of {seeds}");
}

#[test]
fn capacity_of_a_queue_operation_by_operation_is_found() {
    let (mu, slo) = (20_000.0, slo("p99<5ms"));
    let truth = mu - 100_f64.ln() / 0.005;
    for seed in 0..20 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let bounded = Search::new(slo, 0.95 * mu, Bounds::default());
        let (answer, _) = search(bounded, 120.0, |attempt| match attempt.role {
            Role::Closed => closed(0.95 * mu),
            _ => queue_trial(mu, attempt, 0.99, &mut rng),
        });
        let ratio = answer.rate.unwrap() / truth;
        assert!((ratio - 1.0).abs() <= 0.1, "seed {seed}: {ratio}");
    }
}

fn closed(rate: f64) -> Trial {
    Trial {
        achieved: rate,
        ..Trial::default()
    }
}

/// A server that holds below `capacity` and is too slow above it. A closed loop carries 100,000.
fn sharp(capacity: f64) -> impl Fn(&Attempt) -> Trial {
    move |attempt| Trial {
        ops: 100_000,
        value_ns: Some(if attempt.rate < capacity { 1e6 } else { 9e6 }),
        server_busy: Some(0.97),
        client_busy: Some(0.4),
        ..closed(match attempt.role {
            Role::Closed => 100_000.0,
            _ => attempt.rate,
        })
    }
}

fn standard(start: f64) -> Search {
    Search::new(slo("p99<2ms"), start, Bounds::default())
}

/// A CPU that did not run for 25 ms of a trial.
fn paused(trial: &Trial) -> Trial {
    let pause = Duration::from_millis(25);
    Trial {
        value_ns: Some(25e6),
        machine: Machine {
            duration: Duration::from_millis(300),
            pauses: 1,
            paused: pause,
            longest_pause: pause,
            ..Machine::default()
        },
        ..trial.clone()
    }
}

#[test]
fn answer_is_confirmed_in_turns_with_a_little_more() {
    let (answer, attempts) = search(standard(100_000.0), TIME, sharp(83_000.0));
    let rate = answer.rate.unwrap();
    assert!((83_000.0 / 1.045..83_000.0).contains(&rate), "{rate}");
    let of = |held, failed| Tally {
        held,
        failed,
        spoiled: 0,
    };
    assert_eq!((answer.confirmations, answer.above), (of(5, 0), of(0, 5)));
    assert!(answer.is_confirmed());
    assert_eq!(
        (answer.value_ns, answer.limited_by),
        (Some(1e6), LimitedBy::Server)
    );
    let roles: Vec<Role> = attempts.iter().map(|attempt| attempt.role).collect();
    assert_eq!(*roles.last().unwrap(), Role::Closed);
    let open = roles.iter().filter(|role| **role != Role::Closed);
    let turns: Vec<&Role> = open.rev().take(6).collect();
    let above = turns.iter().filter(|role| ***role == Role::Above).count();
    assert_eq!(above, 3, "{turns:?}");
    for attempt in &attempts {
        let seconds = (11_000.0 / attempt.rate).max(0.3);
        assert!((attempt.duration.as_secs_f64() - seconds).abs() < 1e-6);
    }
    assert!(answer.curve.is_sorted_by(|a, b| a.rate < b.rate));
    assert_eq!(answer.point().unwrap().value_ns, Some(1e6));
    assert!(answer.failing().next().unwrap().rate >= 83_000.0);
    assert!(attempts.len() < 30, "{} trials", attempts.len());
}

#[test]
fn one_bad_trial_rules_no_rate_out() {
    for spoiled in 0..20 {
        let (mut count, server) = (0, sharp(83_000.0));
        let (answer, _) = search(standard(100_000.0), TIME, |attempt| {
            count += 1;
            let stalled = count == spoiled + 1 && attempt.role != Role::Closed;
            Trial {
                value_ns: server(attempt)
                    .value_ns
                    .map(|ns| if stalled { 5e8 } else { ns }),
                ..server(attempt)
            }
        });
        let rate = answer.rate.unwrap();
        assert!(
            (83_000.0 / 1.045..83_000.0).contains(&rate),
            "trial {spoiled}: {rate}"
        );
    }
}

#[test]
fn missed_limit_of_a_spoiled_trial_bounds_nothing() {
    for seed in 0..50 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (server, mut spoiled) = (sharp(83_000.0), 0);
        let (answer, _) = search(standard(100_000.0), TIME, |attempt| {
            // Two of three trials are spoiled, whatever the rate.
            let is_spoiled = attempt.role != Role::Closed && rng.random_bool(0.66);
            spoiled += u32::from(is_spoiled);
            let trial = server(attempt);
            if is_spoiled { paused(&trial) } else { trial }
        });
        let rate = answer.rate.unwrap();
        assert!(
            (83_000.0 / 1.045..83_000.0).contains(&rate),
            "{seed}: {rate}"
        );
        assert_eq!(
            (answer.noise.spoiled, answer.noise.paused),
            (spoiled, spoiled)
        );
        assert_eq!(answer.noise.pause_ns, Some(25_000_000));
    }
}

#[test]
fn without_a_clean_trial_there_is_no_answer() {
    let server = sharp(83_000.0);
    // Below a fifth of its capacity, the queue behind a pause is short enough.
    let (answer, _) = search(standard(100_000.0), TIME, |attempt| {
        let trial = server(attempt);
        if attempt.role == Role::Closed || attempt.rate < 17_000.0 {
            trial
        } else {
            paused(&trial)
        }
    });
    assert_eq!((answer.rate, answer.value_ns), (None, None));
    assert_eq!(answer.outcome, Outcome::Noisy);
    assert_eq!(answer.limited_by, LimitedBy::Noise);
    assert!(answer.lower.unwrap().rate < 17_000.0);
    assert_eq!(answer.noise.pause_ns, Some(25_000_000));
}

/// Of trials of 300 ms one in seven is without a pause, of trials of 900 ms one in 340: the lower the rate, the fewer.
#[test]
fn search_among_dense_pauses_repeats_its_shortest_trials() {
    let server = sharp(83_000.0);
    for seed in 0..50 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (answer, _) = search(standard(100_000.0), TIME, |attempt| {
            let trial = server(attempt);
            let clean = 0.14_f64.powf(attempt.duration.as_secs_f64() / 0.3);
            match attempt.role == Role::Closed || rng.random_bool(clean) {
                true => trial,
                false => paused(&trial),
            }
        });
        let lower = answer.lower.map(|bound| bound.rate);
        assert!(
            lower.is_some_and(|rate| rate < 83_000.0),
            "{seed}: {lower:?}"
        );
    }
}

/// A disturbance lets no trial hold, so a single one that held is a bound, whatever failed below it.
#[test]
fn rate_that_held_beside_failures_is_a_lower_bound() {
    let mut trials = 0;
    let (answer, _) = search(standard(100_000.0), 3.0, |attempt| {
        trials += u32::from(attempt.role != Role::Closed);
        let served = if trials == 2 { 83_000.0 } else { 1.0 };
        sharp(served)(attempt)
    });
    let lower = answer.lower.expect("a trial held");
    assert_eq!(lower.held, 1);
    assert!(lower.failed >= 1, "{lower:?}");
}

#[test]
fn search_begins_where_the_closed_loop_says() {
    let first_of = |value_ns, limit| {
        let closed = Closed {
            rate: 100_000.0,
            value_ns,
        };
        let bounded = Search::new(slo(limit), closed, Bounds::default());
        let (_, attempts) = search(bounded, TIME, sharp(83_000.0));
        attempts[2].rate
    };
    assert!((first_of(Some(1.93e6), "p99<2ms") / 90_000.0 - 1.0).abs() < 0.03);
    assert!((first_of(Some(2.5e6), "p99<2ms") / 70_000.0 - 1.0).abs() < 0.03);
}

#[test]
fn failure_on_a_slower_machine_sets_no_bound() {
    let mut count = 0;
    // From the tenth trial to the fortieth, half of the machine is gone and nothing else shows it.
    let (answer, _) = search(standard(100_000.0), TIME, |attempt| {
        count += 1;
        let speed = if (10..40).contains(&count) { 0.5 } else { 1.0 };
        match attempt.role {
            Role::Closed => closed(100_000.0 * speed),
            _ => sharp(83_000.0 * speed)(attempt),
        }
    });
    let rate = answer.rate.unwrap();
    assert!((83_000.0 / 1.045..83_000.0).contains(&rate), "{rate}");
    assert!(answer.noise.slower > 0);

    let mut count = 0;
    let (answer, _) = search(standard(100_000.0), TIME, |attempt| {
        count += 1;
        let speed = if count > 10 { 0.5 } else { 1.0 };
        match attempt.role {
            Role::Closed => closed(100_000.0 * speed),
            _ => sharp(83_000.0 * speed)(attempt),
        }
    });
    assert_eq!((answer.outcome, answer.rate), (Outcome::Drifted, None));
    assert_eq!(answer.closed_loop_after, Some(50_000.0));
}

#[test]
fn closed_loop_that_was_too_slow_at_first_is_no_measure() {
    let mut count = 0;
    let (answer, _) = search(standard(50_000.0), TIME, |attempt| {
        count += 1;
        let speed = if count > 6 { 1.0 } else { 0.5 };
        match attempt.role {
            Role::Closed => closed(100_000.0 * speed),
            _ => sharp(83_000.0 * speed)(attempt),
        }
    });
    let rate = answer.rate.unwrap();
    assert!((83_000.0 / 1.045..83_000.0).contains(&rate), "{rate}");
}

#[test]
fn rate_that_holds_as_often_as_not_is_not_the_answer_alone() {
    let mut rng = SmallRng::seed_from_u64(1);
    // A step and a half in which chance decides.
    let (answer, _) = search(standard(100_000.0), 300.0, |attempt| {
        let is_mixed = (80_000.0..85_000.0).contains(&attempt.rate);
        let capacity = match is_mixed && rng.random_bool(0.5) {
            true => f64::MAX,
            false => 80_000.0,
        };
        sharp(capacity)(attempt)
    });
    let ratio = answer.rate.unwrap() / 80_000.0;
    assert!((0.9..1.07).contains(&ratio), "{ratio}");
    // Where it decides over a wider range, there is no answer.
    let (answer, _) = search(standard(100_000.0), 300.0, |attempt| {
        let is_mixed = (60_000.0..100_000.0).contains(&attempt.rate);
        let capacity = match is_mixed && rng.random_bool(0.5) {
            true => f64::MAX,
            false => 60_000.0,
        };
        sharp(capacity)(attempt)
    });
    assert_eq!((answer.rate, answer.outcome), (None, Outcome::Noisy));
}

#[test]
fn limit_that_no_rate_keeps_has_no_answer() {
    let bounds = Bounds {
        lowest: 1_000.0,
        ..Bounds::default()
    };
    let (answer, attempts) = search(Search::new(slo("p99<2ms"), 1e5, bounds), 120.0, sharp(0.0));
    assert_eq!((answer.rate, answer.value_ns), (None, None));
    assert_eq!(answer.outcome, Outcome::NeverHeld);
    assert!(!answer.is_confirmed());
    assert!((answer.curve[0].rate / 1_000.0 - 1.0).abs() < 0.05);
    assert_eq!(answer.curve[0].trials.failed, 5);
    assert!(attempts.len() <= 25, "{}", attempts.len());
}

#[test]
fn generator_that_is_late_and_not_busy_is_no_limit() {
    let late = |busy| {
        let (answer, _) = search(standard(100_000.0), TIME, move |attempt| Trial {
            lag_p99_ns: Some(4_000_000),
            client_busy: Some(busy),
            server_busy: Some(0.5),
            ..sharp(60_000.0)(attempt)
        });
        (answer.outcome, answer.limited_by)
    };
    assert_eq!(late(0.39), (Outcome::Noisy, LimitedBy::Noise));
    assert_eq!(late(0.97), (Outcome::Confirmed, LimitedBy::Generator));
}

#[test]
fn search_ends_where_it_may_not_go_on() {
    let bounds = Bounds {
        highest: 70_000.0,
        ..Bounds::default()
    };
    let (answer, _) = search(
        Search::new(slo("p99<2ms"), 1e5, bounds),
        TIME,
        sharp(83_000.0),
    );
    assert!((70_000.0 / 1.045..=70_000.0).contains(&answer.rate.unwrap()));
    assert_eq!(answer.limited_by, LimitedBy::NotReached);
}

#[test]
fn rare_operations_get_longer_trials() {
    let server = sharp(1_900.0);
    let (answer, attempts) = search(standard(2_000.0), 600.0, |attempt| match attempt.role {
        Role::Closed => closed(2_000.0),
        _ => server(attempt),
    });
    assert!(answer.is_confirmed());
    for attempt in attempts {
        let ops = attempt.rate * attempt.duration.as_secs_f64();
        assert!(ops >= 10_900.0, "{attempt:?}");
    }
}

#[test]
fn search_without_time_gives_no_answer() {
    let (answer, attempts) = search(standard(100_000.0), 2.0, sharp(83_000.0));
    assert_eq!((answer.rate, answer.outcome), (None, Outcome::OutOfTime));
    assert!(answer.lower.unwrap().rate < 83_000.0 && !attempts.is_empty());
    let (answer, attempts) = search(standard(100_000.0), 0.2, sharp(83_000.0));
    assert_eq!((answer.lower, attempts.len()), (None, 0));
}

#[test]
fn search_that_is_stopped_says_what_held() {
    let mut search = standard(100_000.0);
    for _ in 0..3 {
        let NextTrial::Try(attempt) = search.next(Duration::from_secs(60)) else {
            panic!("too early")
        };
        search.told(sharp(83_000.0)(&attempt));
    }
    let answer = search.stop();
    assert_eq!((answer.rate, answer.outcome), (None, Outcome::Stopped));
    // Two trials held at a quarter of the closed loop or above it, and one at half of it.
    let lower = answer.lower.unwrap();
    assert!((lower.rate / 25_000.0 - 1.0).abs() < 0.03, "{lower:?}");
    assert_eq!((lower.held, lower.failed), (2, 0));
    assert_eq!(answer.curve.len(), 3);
}

#[test]
fn answer_survives_its_json() {
    let (answer, _) = search(standard(100_000.0), TIME, sharp(83_000.0));
    let json = serde_json::to_string(&answer).unwrap();
    assert!(
        json.contains("\"slo\":\"p99<2ms\"") && json.contains("\"limited_by\":\"server\""),
        "{json}"
    );
    assert_eq!(serde_json::from_str::<Capacity>(&json).unwrap(), answer);
    // Records of earlier versions have late trials, and the value `nobody` as the limit.
    let earlier = json
        .replace(",\"spoiled\":0}", ",\"late\":0}")
        .replace("\"limited_by\":\"server\"", "\"limited_by\":\"nobody\"");
    let read: Capacity = serde_json::from_str(&earlier).unwrap();
    assert_eq!(read.limited_by, LimitedBy::Tail);
}

proptest! {
    /// The search ends within its trials and its time (which `search` checks) on any results of the trials,
    /// and never answers with a rate that its trials refute.
    #[test]
    fn every_course_of_luck_ends(luck in prop::collection::vec(0_u8..4, 100), start in 10.0..1e6_f64, seconds in 1.0..500.0_f64) {
        let mut luck = luck.into_iter();
        let (answer, attempts) = search(standard(start), seconds, |attempt| match luck.next() {
            _ if attempt.role == Role::Closed => closed(start),
            Some(0) => Trial::default(),
            Some(1) => paused(&sharp(0.0)(attempt)),
            Some(2) => sharp(0.0)(attempt),
            _ => sharp(f64::MAX)(attempt),
        });
        prop_assert!(attempts.len() <= 410);
        if let Some(rate) = answer.rate {
            prop_assert!(answer.confirmations.lead() >= 5);
            prop_assert!(answer.point().is_some_and(|point| point.rate == rate));
        }
        let loops = attempts.iter().filter(|attempt| attempt.role == Role::Closed).count();
        let told = answer.curve.iter().map(|point| point.trials.trials()).sum::<u32>() as usize;
        prop_assert!(told + loops == attempts.len());
    }
}
