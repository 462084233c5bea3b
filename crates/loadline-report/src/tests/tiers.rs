//! The tiers of a cache.

use loadline_measure::Record;
use loadline_measure::miss_ratio::{CurvePoint, MissRatioCurve};
use loadline_measure::record::{
    BatchCost, BatchSize, Bounds, Case, Claim, Flaw, SubjectKind, TierCost, TierOption,
    TierVerdict, TieredObject, Tiers, Waterfall,
};

use super::{PIPE, TERMINAL, fixture};
use crate::{html, text};

fn case(stage: &str, subject: &str, operation: &str, ns: f64) -> Case {
    let mut case = fixture::case(subject, operation, 1, 1e9 / ns);
    case.subject.kind = SubjectKind::Application;
    case.scenario.suite = Some(stage.to_owned());
    case.scenario.codec = (stage == "codecs").then(|| "columns".to_owned());
    (case.ops, case.duration_ns) = (1_000, (ns * 1e3) as u64);
    case
}

fn cost(
    subject: &str,
    codec: &str,
    get_ns: f64,
    ratio: Option<f64>,
    pays: TierVerdict,
) -> TierCost {
    TierCost {
        subject: subject.to_owned(),
        codec: Some(codec.to_owned()),
        latency_ns: 0,
        get_ns,
        get_ns_min: Some((get_ns * 0.8) as u64),
        get_ns_p50: Some((get_ns * 0.95) as u64),
        get_ns_p99: Some((get_ns * 2.0) as u64),
        miss_ns: Some(get_ns / 2.0),
        set_ns: Some(get_ns * 1.1),
        break_even: ratio,
        break_even_interval: ratio.map(|ratio| Bounds {
            lo: ratio * 0.9,
            hi: ratio * 1.1,
        }),
        least_recompute_ns: Some(get_ns * 1.5),
        pays,
    }
}

/// Where the time of a read goes in Redis and in an embedded store.
fn waterfalls() -> Vec<Waterfall> {
    let waterfall = Waterfall {
        subject: "redis".to_owned(),
        operation: "get".to_owned(),
        codec: Some("columns".to_owned()),
        whole_ns: 40e3,
        client_ns: Some(200.0),
        write_ns: Some(4e3),
        network_ns: Some(18e3),
        server_ns: Some(8e3),
        server_command_ns: Some(2e3),
        read_ns: Some(3e3),
        parse_ns: Some(300.0),
        decode_ns: Some(5e3),
        ..Waterfall::default()
    };
    let embedded = Waterfall {
        subject: "heed".to_owned(),
        operation: "get".to_owned(),
        codec: Some("columns".to_owned()),
        whole_ns: 9e3,
        read_ns: Some(5e3),
        decode_ns: Some(5e3),
        ..Waterfall::default()
    };
    vec![waterfall.with_rest(), embedded.with_rest()]
}

/// What is not about a tier by itself.
fn further() -> Tiers {
    Tiers {
        batches: vec![BatchCost {
            subject: "redis".to_owned(),
            operation: "get".to_owned(),
            sizes: vec![
                BatchSize {
                    objects: 1,
                    per_object_ns: 40e3,
                },
                BatchSize {
                    objects: 10,
                    per_object_ns: 20e3,
                },
            ],
            per_call_ns: 22e3,
            each_ns: 18e3,
        }],
        curve: Some(MissRatioCurve {
            reads: 1_000_000,
            sampled: 0.1,
            error: 0.006,
            points: vec![
                CurvePoint {
                    bytes: 1 << 20,
                    miss_ratio: 0.6,
                },
                CurvePoint {
                    bytes: 64 << 20,
                    miss_ratio: 0.15,
                },
            ],
        }),
        flaws: vec![Flaw {
            name: "a deep copy on a hit".to_owned(),
            flawed_ns: 9_020.0,
            right_ns: 20.0,
            adds_ns: 9e3,
            adds_interval: Some(Bounds {
                lo: 8_900.0,
                hi: 9_100.0,
            }),
        }],
        claims: vec![Claim {
            name: "LRU hit".to_owned(),
            theirs_ns: 573e3,
            flawed_ns: Some(520e3),
            right_ns: Some(20.0),
            sentence: "Artefact: a hit shares the object.".to_owned(),
        }],
        ..Tiers::default()
    }
}

/// A floor in Redis, in an embedded store and in memory.
pub(super) fn record() -> Record {
    let mut record = fixture::record(vec![
        case("tiers", "recompute", "recompute", 500e3),
        case("tiers", "memory", "hit", 20.0),
        case("tiers", "memory", "deep copy", 9e3),
        case("codecs", "codec", "encode", 11e3),
        case("codecs", "codec", "decode", 5e3),
        case("set-up", "redis", "new connection", 98e3),
    ]);
    record.tiers = Some(Tiers {
        object: TieredObject {
            name: "floor of 100x100 tiles".to_owned(),
            memory_bytes: 200_032,
            recompute_ns: 500e3,
            is_recompute_given: false,
        },
        hit_ratio: 0.8,
        verdict: "Recomputing this object takes 500 us. Tiers that pay: redis, heed.".to_owned(),
        costs: vec![
            cost("redis", "columns", 40e3, Some(0.14), TierVerdict::Yes),
            cost("redis", "protobuf-tiles", 690e3, None, TierVerdict::No),
            cost(
                "heed",
                "columns",
                9e3,
                Some(0.05),
                TierVerdict::Inconclusive,
            ),
        ],
        waterfalls: waterfalls(),
        options: vec![TierOption {
            name: "drop".to_owned(),
            answer: TierVerdict::No,
            reason: "redis returns the object in 40.0 us.".to_owned(),
        }],
        ..further()
    });
    record
}

/// Figures that no axis can hold, and names that try to be more than text.
pub(super) fn hostile() -> Record {
    let mut record = record();
    let hostile = "<script>alert(1)</script>\u{1b}[31m\u{202e}".repeat(4);
    let tiers = record.tiers.as_mut().expect("it has tiers");
    tiers.verdict.clone_from(&hostile);
    tiers.costs[0].subject.clone_from(&hostile);
    (tiers.costs[1].get_ns, tiers.costs[1].get_ns_p99) = (1e300, Some(u64::MAX));
    (tiers.costs[2].get_ns, tiers.costs[2].get_ns_min) = (0.0, Some(0));
    tiers.waterfalls[0].whole_ns = -1.0;
    tiers.waterfalls[0].network_ns = Some(-1e300);
    tiers.options[0].reason.clone_from(&hostile);
    tiers.flaws[0].name.clone_from(&hostile);
    tiers.batches[0].sizes[0].per_object_ns = 0.0;
    tiers.claims[0].sentence = hostile;
    let curve = tiers.curve.as_mut().expect("it has a curve");
    (curve.points[0].bytes, curve.points[1].miss_ratio) = (0, -1e300);
    record.cases[1].ops = 0;
    record
}

#[test]
fn the_verdict_and_the_options_come_before_the_ladder() {
    let text = text(&record(), &PIPE);
    let place = |said: &str| text.find(said).unwrap_or_else(|| panic!("{said}:\n{text}"));
    let order = [
        "Recomputing this object takes 500 us",
        "drop, no: redis returns the object in 40.0 us",
        "Tier ladder and decision map",
        "What each tier costs, at an expected hit ratio of 80",
        "Where the time goes",
        "Codecs",
        "Batches: time per object",
        "How much memory for which hit ratio",
        "What each flaw adds",
        "The write-up's figures and those of this run",
    ];
    let places: Vec<usize> = order.map(place).into();
    assert!(places.is_sorted(), "{places:?}\n{text}");
    for said in [
        "the server counts 2.00 us for the command",
        "never",
        "hit ratio 80.0 %: 64 MiB",
        "hit ratio 90.0 %: not at any size",
        "9.00 us [8.90 us, 9.10 us]",
        "Artefact: a hit shares the object.",
    ] {
        assert!(text.contains(said), "{said}:\n{text}");
    }
}

/// Bars grow with the logarithm of the time, and the fastest comes first.
#[test]
fn the_ladder_has_a_bar_for_each_tier() {
    for (options, block) in [(&TERMINAL, '█'), (&PIPE, '#')] {
        let text = text(&record(), options);
        let bar = |name: &str| {
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with(name) && line.contains(block));
            let line = line.unwrap_or_else(|| panic!("{name}:\n{text}"));
            line.chars().filter(|c| *c == block).count()
        };
        let bars = [
            bar("memory: hit"),
            bar("heed, columns"),
            bar("redis, columns"),
            bar("recompute"),
            bar("redis, protobuf-tiles"),
        ];
        assert!(bars.is_sorted() && bars[0] < bars[4], "{bars:?}\n{text}");
    }
}

#[test]
fn html_draws_the_ladder_with_parts_and_the_map_with_lines() {
    let page = html(&record());
    assert_eq!(page.matches("<figcaption>Tier ladder").count(), 1);
    assert_eq!(page.matches("<figcaption>Decision map").count(), 1);
    // Client, network, server, codec and the rest of redis; two parts of heed.
    assert!(page.matches("<rect class=\"part").count() >= 9, "{page}");
    assert!(page.contains("break-even at a hit ratio of 80"), "{page}");
}

#[test]
fn no_coordinate_of_a_hostile_record_is_out_of_this_world() {
    let page = html(&hostile());
    assert!(!page.contains("NaN") && !page.contains("inf\""), "{page}");
    assert!(!page.contains("<script>alert"), "{page}");
    assert!(!text(&hostile(), &TERMINAL).contains('\u{1b}'));
}
