//! Tests of the text of `loadline prove`.

use loadline_measure::Metric;
use loadline_measure::gate::{Outcome, RowVerdict};
use loadline_measure::proof::{Drawn, Kind, Proof, SCHEMA, Share, Trial, WorkKind, WorkTrial};
use loadline_measure::record::{Environment, Verdict};

use crate::proof;

/// Five comparisons, with the numbers of medians and tails that were judged slower.
fn kind(what: &str, planted: f64, medians: usize, tails: Option<usize>) -> Kind {
    let verdict = |is_slower| {
        if is_slower {
            Verdict::Slower
        } else {
            Verdict::Equivalent
        }
    };
    let trial = |number: usize| Trial {
        ratio: Some(1.0 + planted + 0.001 * number as f64),
        verdict: verdict(number < medians),
        tail_ratio: tails.map(|_| 1.0 + planted / 2.0),
        tail_verdict: tails.map(|tails| verdict(number < tails)),
        outcome: if number < medians {
            Outcome::Warning
        } else {
            Outcome::None
        },
        rounds: 24,
        duration_ns: 7_000_000_000 + number as u64 * 100_000_000,
        noise: Vec::new(),
        normalised_ln: None,
        round_ln: None,
    };
    Kind {
        what: what.to_owned(),
        planted,
        metric: Metric::P50,
        trials: (0..5).map(trial).collect(),
    }
}

/// Five comparisons, of which `found` found more work and `named` named its function first.
fn work(injected: f64, found: usize, named: usize) -> WorkKind {
    let trial = |number: usize| WorkTrial {
        ratio: Some(1.0 + injected),
        verdict: if number < found {
            RowVerdict::Slower
        } else {
            RowVerdict::Equivalent
        },
        first_function: (number < named).then(|| "injected_work".to_owned()),
        duration_ns: 4_000_000_000,
        not_counted: None,
    };
    WorkKind {
        injected,
        trials: (0..5).map(trial).collect(),
    }
}

#[test]
fn medians_tails_and_alarms_stand_beside_each_other() {
    let proof_of = Proof {
        schema: SCHEMA.to_owned(),
        started_at: "2026-02-03T04:05:06Z".to_owned(),
        version: "0.1.0".to_owned(),
        scenario: "get on embedded, one connection, one command at a time".to_owned(),
        environment: Environment::default(),
        kinds: vec![
            kind("nothing", 0.0, 0, Some(0)),
            kind("CPU in the server", 0.10, 5, Some(4)),
            Kind {
                metric: Metric::CorrectedP99,
                ..kind("of p99, as CPU", 0.10, 5, Some(5))
            },
            kind("a delay in the path", 0.20, 5, None),
        ],
        work: vec![work(0.0, 0, 0), work(0.01, 5, 4)],
        work_function: "injected_work".to_owned(),
        drawn: vec![Drawn {
            method: "pairs".to_owned(),
            planted: 0.0,
            cases: 20,
            alarms: Share { hits: 0, of: 1_000 },
        }],
        duration_ns: 105_000_000_000,
        cut_short: false,
    };
    insta::assert_snapshot!(proof(&proof_of), @r#"
    On this machine 0 of 5 comparisons of the same server raised a false alarm, and
      15 of 15 injected slowdowns were found (get on embedded, one connection, one
      command at a time). Instructions per operation: 0 of 5 comparisons of the same
      server found a difference, and 5 of 5 found the injected work.

    Comparisons
    injected                   measured     p50 slower     p99 slower    exit 1 or 2
    nothing (A against A)        +0.2 %    0/5 [0, 52]    0/5 [0, 52]    0/5 [0, 52]
    +10 % CPU in the server     +10.2 %  5/5 [48, 100]   4/5 [28, 99]  5/5 [48, 100]
    +10 % of p99, as CPU         +5.0 %  5/5 [48, 100]  5/5 [48, 100]  5/5 [48, 100]
    +20 % a delay in the path   +20.2 %  5/5 [48, 100]              -  5/5 [48, 100]
    In brackets the 95 % interval of the share in percent (Clopper-Pearson). p99 is
      the corrected one: of one operation at a time, without the waiting for a CPU.
    A verdict takes 7.20 s, 7.40 s at most (20 comparisons).

    Work
    injected               measured          found   named first  exit 1 or 2
    nothing (A against A)   +0.00 %    0/5 [0, 52]             -  0/5 [0, 52]
    +1 % instructions       +1.00 %  5/5 [48, 100]  4/5 [28, 99]  0/5 [0, 52]
    Verdicts on instructions per operation, counted in passes and not timed. Found:
      more work, or any difference if nothing was injected. Named first: the
      function with the injected work leads the list of functions. A warning begins
      at 2 %.
    A verdict takes 4.00 s, 4.00 s at most (10 comparisons).

    Resampled from the noise of these comparisons (rounds with replacement, runs
      without)
      pairs: false alarms in suites of 20 cases: 0 of 1000, 0 % [0 %, 0.37 %]
    "#);
}
