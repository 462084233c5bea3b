//! The tiers of a cache.

use loadline_measure::Record;
use loadline_measure::miss_ratio::{CurvePoint, MissRatioCurve};
use loadline_measure::record::{
    Answer, BatchCost, BatchSize, Bounds, Case, CaseId, Claim, CodecCases, Flaw, LoadAnswer,
    LoadPhase, LoadSubject, LoadWindow, SubjectKind, TierCases, TierChoice, TierCost, TierLoad,
    TierOption, TierSides, TierVerdict, TieredObject, Tiers, Waterfall,
};
use loadline_measure::tiers::Phase;

use super::{PIPE, TERMINAL, fixture};
use crate::{html, text};

fn of_tiers(tiers: Tiers) -> Answer {
    Answer::Tiers(Box::new(tiers))
}

fn tiers_of(record: &mut Record) -> &mut Tiers {
    match &mut record.answer {
        Answer::Tiers(tiers) => tiers,
        other => panic!("{other:?}"),
    }
}

fn case(stage: &str, subject: &str, operation: &str, ns: f64) -> Case {
    let mut case = fixture::case(subject, operation, 1, 1e9 / ns);
    case.subject.kind = SubjectKind::Application;
    case.scenario.suite = Some(stage.to_owned());
    case.scenario.codec = (stage == "codecs").then(|| "columns".to_owned());
    (case.ops, case.duration_ns) = (1_000, (ns * 1e3) as u64);
    case
}

/// The case of the hits of a tier.
fn hits(subject: &str) -> Option<CaseId> {
    match subject {
        "redis" => Some(CaseId(6)),
        "heed" => Some(CaseId(7)),
        _ => None,
    }
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
        get: hits(subject).filter(|_| codec == "columns"),
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
        read_ns: Some(100e3 + get_ns * 1.12),
        pays,
    }
}

/// Parts of the time of a read in Redis and in an embedded store.
fn waterfalls() -> Vec<Waterfall> {
    let waterfall = Waterfall {
        subject: "redis".to_owned(),
        case: hits("redis"),
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
        case: hits("heed"),
        operation: "get".to_owned(),
        codec: Some("columns".to_owned()),
        whole_ns: 9e3,
        read_ns: Some(5e3),
        decode_ns: Some(5e3),
        ..Waterfall::default()
    };
    let rests: Vec<f64> = (0..9)
        .map(|round| -1_200.0 + 50.0 * f64::from(round))
        .collect();
    let uneven = Waterfall {
        subject: "fjall".to_owned(),
        operation: "set".to_owned(),
        codec: Some("columns".to_owned()),
        whole_ns: 120e3,
        encode_ns: Some(60e3),
        write_ns: Some(49e3),
        ..Waterfall::default()
    };
    vec![
        waterfall.with_rests(&[]),
        embedded.with_rests(&rests),
        uneven.with_rests(&[300.0; 8]),
    ]
}

/// Parts of the answer that are not about a single tier.
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
        case("tiers", "redis", "get", 40e3),
        case("tiers", "heed", "get", 9e3),
    ]);
    record.answer = of_tiers(Tiers {
        object: TieredObject {
            name: "floor of 100x100 tiles".to_owned(),
            memory_bytes: 200_032,
            recompute_ns: 500e3,
            is_recompute_given: false,
            codec: "columns".to_owned(),
        },
        hit_ratio: 0.8,
        cases: TierCases {
            recompute: Some(CaseId(0)),
            hit: Some(CaseId(1)),
            deep_copy: Some(CaseId(2)),
            cached: None,
            codecs: vec![CodecCases {
                encode: CaseId(3),
                decode: Some(CaseId(4)),
            }],
            set_up: vec![CaseId(5)],
        },
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
        sides: TierSides {
            server: Some(0),
            tiles: Some(1),
            embedded: Some(2),
            ..TierSides::default()
        },
        options: vec![TierOption {
            name: TierChoice::Drop,
            answer: TierVerdict::No,
            evidence: String::new(),
        }],
        ..further()
    });
    record
}

/// As many tiers as a default run has, some of them as fast as each other.
pub(super) fn crowded() -> Record {
    let mut record = record();
    let tiers = tiers_of(&mut record);
    let pays = || TierVerdict::Yes;
    tiers.costs = [
        ("redis", "columns", 95e3),
        ("redis-unix", "columns", 71e3),
        ("store", "columns", 11e3),
        ("heed", "columns", 9e3),
        ("redb", "columns", 11.2e3),
        ("fjall", "columns", 10.8e3),
        ("redis", "protobuf", 233e3),
        ("redis", "protobuf-tiles", 757e3),
    ]
    .map(|(subject, codec, ns)| cost(subject, codec, ns, Some(0.2), pays()))
    .into();
    record
}

fn answer(by: &str, share: f64, ns: f64) -> LoadAnswer {
    LoadAnswer {
        by: by.to_owned(),
        gets: (share * 3_000.0) as u64,
        share,
        get_ns: ns,
        get_ns_p50: Some((ns * 0.9) as u64),
        get_ns_p99: None,
    }
}

fn load_phase(name: &Phase, place: usize, tier: Option<f64>) -> LoadPhase {
    let ns = 300e3 - 80e3 * place as f64;
    LoadPhase {
        name: name.clone(),
        gets: 1_000,
        get_ns: ns,
        get_ns_p50: Some(120_000),
        get_ns_p99: None,
        response_time_ns: None,
        response_time_ns_p50: None,
        response_time_ns_p99: None,
        memory_hit_ratio: 0.5,
        predicted_memory_hit_ratio: 0.46,
        tier_hit_ratio: tier,
        predicted_tier_hit_ratio: tier.map(|ratio| ratio + 0.01),
        saves_ns: tier.map(|ratio| ratio * 400e3 - 100e3),
        saves_interval: tier.map(|ratio| Bounds {
            lo: ratio * 400e3 - 120e3,
            hi: ratio * 400e3 - 80e3,
        }),
        answers: Vec::new(),
    }
}

fn load_subject(tier: Option<&str>) -> LoadSubject {
    let answers = |place: f64| {
        let below = tier.map(|tier| answer(tier, 0.05 * place, 90e3));
        let recompute = answer("recompute", 0.5 - 0.05 * place, 500e3);
        let memory = answer("memory", 0.5, 200.0);
        [Some(memory), below, Some(recompute)]
            .into_iter()
            .flatten()
            .collect()
    };
    // Two windows of each phase.
    let phases: Vec<&Phase> = Phase::ALL.iter().flat_map(|phase| [phase; 2]).collect();
    let windows = (0..6).map(|place| LoadWindow {
        phase: phases[place].clone(),
        first_get: 500 * place as u64,
        start_ns: 150_000_000 * place as u64,
        gets: 500,
        get_ns: 300e3 - 20e3 * place as f64,
        get_ns_p50: None,
        get_ns_p99: None,
        response_time_ns: None,
        response_time_ns_p50: None,
        response_time_ns_p99: None,
        answers: answers(place as f64),
    });
    let phase = |place: usize| {
        load_phase(
            &Phase::ALL[place],
            place,
            tier.map(|_| 0.2 * (1 + place) as f64),
        )
    };
    LoadSubject {
        name: tier.unwrap_or("no tier").to_owned(),
        tier: tier.map(Into::into),
        steady_after_gets: tier.map(|_| 1_000),
        steady_after_ns: tier.map(|_| 300_000_000),
        phases: (0..3).map(phase).collect(),
        answers: answers(3.0),
        windows: windows.collect(),
    }
}

/// A cache under load with a tier and without.
pub(super) fn load() -> Record {
    let mut record = fixture::record(vec![case("load", "redis", "warm", 200e3)]);
    record.answer = of_tiers(Tiers {
        object: TieredObject {
            name: "floor of 100x100 tiles".to_owned(),
            ..TieredObject::default()
        },
        load: Some(TierLoad {
            key_dist: "zipf:0.99".to_owned(),
            keys: 100_000,
            memory_bytes: 64 << 20,
            tier_bytes: 512 << 20,
            rate_ops_per_s: None,
            window_gets: 500,
            subjects: vec![load_subject(None), load_subject(Some("redis"))],
        }),
        ..Tiers::default()
    });
    record
}

/// The same in an open loop that the cache without a tier does not keep up with after a cold start.
pub(super) fn load_at_a_rate() -> Record {
    let mut record = load();
    let tiers = tiers_of(&mut record);
    let load = tiers.load.as_mut().expect("it has a load");
    load.rate_ops_per_s = Some(4_000.0);
    for subject in &mut load.subjects {
        for phase in &mut subject.phases {
            phase.response_time_ns = Some(3.0 * phase.get_ns);
            phase.response_time_ns_p50 = Some(500_000);
        }
        for window in &mut subject.windows {
            window.response_time_ns = Some(3.0 * window.get_ns);
        }
    }
    record
}

/// Figures that no axis can hold, and names that try to be more than text.
pub(super) fn hostile() -> Record {
    let mut record = record();
    let hostile = "<script>alert(1)</script>\u{1b}[31m\u{202e}".repeat(4);
    let tiers = tiers_of(&mut record);
    tiers.costs[0].subject.clone_from(&hostile);
    (tiers.costs[1].get_ns, tiers.costs[1].get_ns_p99) = (1e300, Some(u64::MAX));
    (tiers.costs[2].get_ns, tiers.costs[2].get_ns_min) = (0.0, Some(0));
    tiers.waterfalls[0].whole_ns = -1.0;
    tiers.waterfalls[0].network_ns = Some(-1e300);
    tiers.options[0].evidence.clone_from(&hostile);
    tiers.sides.far = vec![0, usize::MAX];
    tiers.flaws[0].name.clone_from(&hostile);
    tiers.batches[0].sizes[0].per_object_ns = 0.0;
    tiers.claims[0].sentence = hostile;
    let curve = tiers.curve.as_mut().expect("it has a curve");
    (curve.points[0].bytes, curve.points[1].miss_ratio) = (0, -1e300);
    record.cases[1].ops = 0;
    record
}

/// A batch whose objects take longer than one alone.
#[test]
fn batch_that_loses_has_a_gain_below_one() {
    let mut record = record();
    let batch = &mut tiers_of(&mut record).batches[0];
    batch.sizes[1].per_object_ns = 80e3;
    let text = text(&record, &PIPE);
    let row = text
        .lines()
        .find(|line| line.starts_with("redis get  40.0 us  80.0 us"));
    assert!(row.is_some_and(|row| row.contains("0.50x")), "{text}");
}

#[test]
fn verdict_and_the_options_come_before_the_ladder() {
    let text = text(&record(), &PIPE);
    let place = |said: &str| text.find(said).unwrap_or_else(|| panic!("{said}:\n{text}"));
    let order = [
        "redis pays for this object",
        "drop the server",
        "drop the server: Recomputing takes 500 us. redis returns the",
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
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "the server counts 2.00 us for the command",
        "the parts add up to more than the whole: unattributed -1.00 us [-1.20 us, -800 ns]",
        "the parts vary from round to round: with the rest, their medians add up to 109 us",
        "never",
        "drop the server no pays above 14.0 % 80.0 % expected",
        "hit ratio 80.0 %: 64 MiB",
        "hit ratio 90.0 %: not at any size",
        "9.00 us [8.90 us, 9.10 us]",
        "Artefact: a hit shares the object.",
    ] {
        assert!(joined.contains(said), "{said}:\n{text}");
    }
    // A time that is explained to 5 % has no unattributed part.
    assert_eq!(text.matches("unattributed").count(), 1, "{text}");
}

/// Bars grow with the logarithm of the time, and the fastest comes first.
#[test]
fn ladder_has_a_bar_for_each_tier() {
    for (options, block) in [(&TERMINAL, '█'), (&PIPE, '#')] {
        let text = text(&record(), options);
        let bar = |name: &str| {
            let mut lines = text
                .lines()
                .skip_while(|line| !line.starts_with("Mean time"));
            let line = lines.find(|line| line.trim_start().starts_with(name));
            let line = line.unwrap_or_else(|| panic!("{name}:\n{text}"));
            line.split_whitespace().last().unwrap().to_owned()
        };
        let names = [
            "memory: hit",
            "heed ",
            "redis ",
            "recompute",
            "redis, protobuf-tiles",
        ];
        let lengths = names.map(|name| bar(name).chars().count());
        assert!(
            lengths.is_sorted() && lengths[0] < lengths[4],
            "{lengths:?}\n{text}"
        );
        // The parts of a bar are in the order of the key. What is not divided has blocks.
        let redis = bar("redis ");
        assert!(
            redis.starts_with('c') && redis.contains("nn"),
            "{redis}\n{text}"
        );
        assert!(bar("heed ").ends_with('e'), "{text}");
        assert!(bar("recompute").chars().all(|letter| letter == block));
    }
    let wide = text(&record(), &crate::TextOptions { width: 100, ..PIPE });
    let joined = wide.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(joined.contains("redis 40.0 us 38.0 us 80.0 us c"), "{wide}");
    let narrow = text(&record(), &crate::TextOptions { width: 50, ..PIPE });
    assert!(!narrow.contains("p50"), "{narrow}");
}

#[test]
fn load_at_a_rate_shows_response_times_and_which_cache_does_not_keep_it() {
    let wide = crate::TextOptions { width: 120, ..PIPE };
    let text = text(&load_at_a_rate(), &wide);
    for said in [
        "64 MiB of memory, 4k gets per second",
        "Response times at 4k gets per second",
        // Three times the 300 us of a get, at 4k of them per second.
        "900 us",
        "120.0 %",
        "from the intended start of the get",
    ] {
        assert!(text.contains(said), "{said}:\n{text}");
    }
    assert!(!text.contains("use --rate"), "{text}");
    assert!(html(&load_at_a_rate()).contains("Mean response time of a get"));
    let closed = self::text(&load(), &wide);
    assert!(closed.contains("use --rate"), "{closed}");
    assert!(!closed.contains("Response times"), "{closed}");
}

#[test]
fn load_shows_hit_ratios_beside_predicted_ones_and_what_a_tier_saves() {
    let wide = crate::TextOptions { width: 120, ..PIPE };
    let text = text(&load(), &wide);
    for said in [
        "a get with redis below memory takes 20.0 us more",
        "60.0 us less than the 220 us without it",
        "The cache under load: zipf:0.99 over 100k keys, 64 MiB of memory",
        "no tier: not steady before the restart",
        "redis: steady after 1k gets (300 ms)",
        "46.0 %",
        "60.0 us [40.0 us, 80.0 us]",
        "140 us [120 us, 160 us]",
        "What answered, over all phases",
    ] {
        assert!(text.contains(said), "{said}:\n{text}");
    }
    let page = html(&load());
    assert!(
        page.contains(
            "<h1>What a tier below memory saves for a floor of 100x100 tiles: redis</h1>"
        )
    );
    for plot in [
        "Mean time of a get",
        "redis: share of the gets",
        "redis: median time",
    ] {
        assert_eq!(
            page.matches(&format!("<figcaption>{plot}")).count(),
            1,
            "{plot}"
        );
    }
    assert_eq!(page.matches(">restart</text>").count(), 3);
}

/// Colours repeat after six; shapes and names still differ.
#[test]
fn every_tier_of_the_map_has_a_marker_and_a_name_of_its_own() {
    let page = html(&crowded());
    let map = page.split("<figcaption>Decision map").nth(1).unwrap();
    let map = map.split("</figure>").next().unwrap();
    let (key, map) = map.split_once("</figcaption>").unwrap();
    let markers: Vec<(&str, String)> = map
        .split("<path class=\"")
        .skip(1)
        .map(|path| {
            let shape = path
                .split(" d=\"")
                .nth(1)
                .unwrap()
                .split('"')
                .next()
                .unwrap();
            let drawn: String = shape.split_once(['a', 'h', 'l']).unwrap().1.into();
            (path.split('"').next().unwrap(), drawn)
        })
        .collect();
    assert_eq!(markers.len(), 8);
    let distinct: std::collections::BTreeSet<_> = markers.iter().collect();
    assert_eq!(distinct.len(), 8, "{markers:?}");
    for cost in &tiers_of(&mut crowded()).costs {
        let name = match cost.codec.as_deref() {
            Some("columns") => cost.subject.clone(),
            codec => format!("{}, {}", cost.subject, codec.unwrap()),
        };
        assert!(
            key.contains(&format!("</svg>{name}</span>")),
            "{name}:\n{key}"
        );
    }
}

/// The heading asks what was measured, and does not list operations.
#[test]
fn title_is_the_question() {
    let page = html(&crowded());
    let title = "Which tier pays for a floor of 100x100 tiles: recompute, memory, redis, redis-unix, store, heed, redb, fjall";
    assert!(page.contains(&format!("<h1>{title}</h1>")), "{page}");
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

/// A rest of -2955.9 % was once a row of the table.
#[test]
fn parts_that_noise_dominates_are_left_out() {
    let whole = Waterfall {
        subject: "redis".to_owned(),
        operation: "get".to_owned(),
        whole_ns: 40e3,
        network_ns: Some(17_171.0),
        ..Waterfall::default()
    };
    for rests in [[-1.182e6; 12].to_vec(), [-30e3, 30e3].repeat(6)] {
        let tiers = Tiers {
            waterfalls: vec![whole.clone().with_rests(&rests)],
            ..Tiers::default()
        };
        let record = Record {
            answer: of_tiers(tiers),
            ..record()
        };
        let text = text(&record, &crate::TextOptions { width: 200, ..PIPE });
        assert!(
            text.contains("the parts are left out: noise dominates them"),
            "{text}"
        );
        assert!(
            !text.contains("17.2 us") && !text.contains("2955"),
            "{text}"
        );
    }
}

/// Rows follow from identifiers of cases. They were once found by names, and a row whose name had changed was not there.
#[test]
fn renamed_cases_keep_their_rows() {
    let mut renamed = record();
    for case in &mut renamed.cases {
        case.scenario.suite = Some("renamed".to_owned());
        case.scenario.workload = format!("{} renamed", case.scenario.workload);
        case.subject.name = format!("{} renamed", case.subject.name);
    }
    let lines = |record: &Record| text(record, &PIPE).lines().count();
    let page = text(&renamed, &PIPE);
    assert_eq!(lines(&renamed), lines(&record()), "{page}");
    for row in [
        "memory: hit",
        "redis renamed new connection renamed",
        "\ncolumns",
    ] {
        assert!(page.contains(row), "{row}:\n{page}");
    }
}
