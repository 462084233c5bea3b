//! `loadline modes` against real servers.

use loadline_measure::Record;

use crate::util::Dir;

/// A short sweep on our own server, through a proxy that adds two milliseconds.
#[test]
fn every_mode_is_measured_under_every_latency() {
    let dir = Dir::new();
    let words = [
        "modes",
        "embedded",
        "--ops",
        "50,400",
        "--latency",
        "0,2ms",
        "--link",
        "l4",
        "--budget",
        "100ms",
        "--batch",
        "20",
        "--keys",
        "100",
        "--json",
        "out.json",
        "--color",
        "never",
    ];
    let text = dir.run(&words).succeeded();
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    assert_eq!(record.errors(), 0);
    assert_eq!(record.links.len(), 1);
    assert_eq!(record.links[0].class, "l4");
    assert!(record.links[0].through_p50_ns >= 2_000_000);
    for mode in ["sync", "async", "pipeline", "batch", "transaction"] {
        for (latency_ns, op) in [
            (0, "get"),
            (0, "set"),
            (2_000_000, "get"),
            (2_000_000, "set"),
        ] {
            let cell = record
                .cases
                .iter()
                .find(|case| {
                    let scenario = &case.scenario;
                    (scenario.mode.as_str(), scenario.latency_ns) == (mode, latency_ns)
                        && scenario.workload == op
                        && scenario.ops_asked == Some(50)
                })
                .unwrap_or_else(|| panic!("{mode}, {op}, {latency_ns} ns is missing"));
            assert!(cell.ops > 0 && cell.hit_ratio.is_none_or(|hits| hits == 1.0));
            // Nothing comes back before the link lets it.
            let fastest = cell.response_time_ns.min.unwrap();
            assert!(fastest >= latency_ns, "{mode}, {op}: {fastest} ns");
        }
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Our server has no scripts, and that is said and not hidden.
    assert!(
        record
            .cases
            .iter()
            .all(|case| case.scenario.mode != "script")
    );
    assert!(
        text.contains("script was left out: embedded does not have EVALSHA and EVAL."),
        "{text}"
    );
    // 400 operations one after the other, at 2 ms each, do not fit a tenth of a second.
    assert!(text.contains('~'), "{text}");
    assert!(
        text.contains("is the smallest within 5 % of the most"),
        "{text}"
    );
}

#[test]
fn a_mode_that_is_asked_for_and_not_there_ends_with_69() {
    let dir = Dir::new();
    dir.run(&["modes", "embedded", "--mode", "script", "--latency", "0"])
        .failed(69, "script was left out");
}

#[test]
fn the_plan_says_how_long_it_would_take_in_full() {
    let dir = Dir::new();
    let plan = dir.run(&["modes", "embedded", "--dry-run"]).succeeded();
    assert!(plan.contains("27.8 h"), "{plan}");
}
