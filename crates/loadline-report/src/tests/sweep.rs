//! A sweep over ways of calling, in every form.

use loadline_measure::histogram::LatencySummary;
use loadline_measure::record::{
    Answer, Case, Cost, LeftOut, Link, Parts, Record, RoundSummary, Scenario,
};

use super::{PIPE, fixture, widest};
use crate::{html, markdown, text};

/// A cell whose throughput follows from the round trip and its operations per round trip.
fn cell(mode: &str, size: u64, latency_ns: u64, ops_asked: Option<u64>) -> Case {
    let call_ns = latency_ns as f64 + 20_000.0 + 900.0 * size as f64;
    let throughput = size as f64 * 1e9 / call_ns;
    // A second is what a cell gets.
    let fits = throughput as u64;
    Case {
        scenario: Scenario {
            workload: "get".into(),
            mode: mode.into(),
            batch: size,
            in_flight: Some(size),
            latency_ns,
            ops_asked,
            codec: Some("json".into()),
            ..Scenario::default()
        },
        rounds: vec![
            RoundSummary {
                throughput_ops_per_s: throughput,
                ..RoundSummary::default()
            };
            10
        ],
        ops: ops_asked.map_or(fits, |asked| asked.min(fits)),
        throughput_ops_per_s: throughput,
        response_time_ns: LatencySummary {
            p50: Some(call_ns as u64),
            p99: (fits > 10_000).then_some((call_ns * 1.3) as u64),
            ..LatencySummary::default()
        },
        cost: Cost {
            client_cpu_ns_per_op: Some(400.0 + 8_000.0 / size as f64),
            encoded_value_bytes: Some(512.0),
            ..Cost::default()
        },
        parts_ns: Parts {
            decode: Some(1_250),
            ..Parts::default()
        },
        ..Case::default()
    }
}

pub(super) fn record() -> Record {
    let mut record = fixture::empty();
    record.answer = Answer::Sweep;
    for latency_ns in [0, 10_000_000] {
        for (mode, size) in [("sync", 1), ("pipeline", 100), ("batch", 100)] {
            for count in [100, 10_000, 1_000_000] {
                record.cases.push(cell(mode, size, latency_ns, Some(count)));
            }
        }
        for mode in ["pipeline", "batch"] {
            for size in [1, 10, 100, 1_000, 10_000] {
                record.cases.push(cell(mode, size, latency_ns, None));
            }
        }
    }
    record.links.push(Link {
        latency_ns: 10_000_000,
        class: "l3".into(),
        jitter: Some("1ms:normal".into()),
        bandwidth_bytes_per_s: Some(12_500_000),
        through_p50_ns: 10_040_000,
        through_p99_ns: 10_180_000,
        release_late_p99_ns: Some(21_000),
        scheduling: Some("real time".into()),
        keeps_awake: true,
        mtu: Some(1_500),
        congestion_control: Some("cubic".into()),
        ..Link::default()
    });
    record.left_out.push(LeftOut {
        workload: "get".into(),
        mode: "script".into(),
        reason: "embedded does not have EVALSHA and EVAL".into(),
    });
    record
}

/// A sweep that never ran, as a file can claim it.
pub(super) fn hostile() -> Record {
    let mut record = record();
    for (number, case) in record.cases.iter_mut().enumerate() {
        case.scenario.mode = format!("<script>{}|\x1b[31m", case.scenario.mode).into();
        case.scenario.codec = Some("json<b>|".into());
        case.throughput_ops_per_s = [0.0, f64::NAN, f64::INFINITY, 1e300, -1.0][number % 5];
        case.scenario.batch = [0, u64::MAX, 1][number % 3];
    }
    record.left_out[0].reason = "<script>|\x1b[31m".into();
    record.links[0].jitter = Some("<b>|\x1b".into());
    record
}

#[test]
fn sweep_in_a_pipe() {
    insta::assert_snapshot!(text(&record(), &PIPE), @r#"
    Fastest: batch or pipeline (their rounds overlap) with no added latency and with
      10 ms added, 22.7 to 5.27k times as fast as sync.

    Fastest mode of each setting
    added  operation    fastest             ops/s    vs slowest  best size
    none   get as json  batch or pipeline   1.09M   22.7 x sync  1k to 10k
    10 ms  get as json  batch or pipeline  525.8k  5.27k x sync        10k

    get as json, no added latency
    values as json: 512 bytes each, decoded in 1.25 us
    mode          100      10k       1M   ops/s      p50      p99    CPU
    sync      2.09 ms   209 ms  ~20.9 s   47.8k  20.9 us  27.2 us   8.40
    pipeline   110 us  11.0 ms  ~1.10 s  909.1k   110 us   143 us  0.480
    batch      110 us  11.0 ms  ~1.10 s  909.1k   110 us   143 us  0.480
      script: embedded does not have EVALSHA and EVAL
      pipeline by size, 1 to 10k: from 47.8k to 1.11M ops/s; sizes from 1k to 10k
        can be within 5 % of the best, and all others are slower; 1k is the smallest
        whose median is, at 0.98x [0.98, 0.98] of the best in 10 rounds; larger
        sizes were not tried (1k: 1.09M ops/s, p99 1.20 ms)
      batch by size, 1 to 10k: from 47.8k to 1.11M ops/s; sizes from 1k to 10k can
        be within 5 % of the best, and all others are slower; 1k is the smallest
        whose median is, at 0.98x [0.98, 0.98] of the best in 10 rounds; larger
        sizes were not tried (1k: 1.09M ops/s, p99 1.20 ms)

    get as json, 10 ms added by l3
    jitter 1ms:normal, 100 Mbit/s each way, round trips through it p50 10.0 ms, p99
      10.2 ms, released late p99 21.0 us (real time scheduling), idle processors
      polled, MTU 1500, cubic
    values as json: 512 bytes each, decoded in 1.25 us
    mode          100      10k     1M  ops/s      p50      p99    CPU
    sync      ~1.00 s    ~1.7m  ~2.8h   99.8  10.0 ms  too few   8.40
    pipeline  10.1 ms  ~1.01 s  ~1.7m  9.89k  10.1 ms  too few  0.480
    batch     10.1 ms  ~1.01 s  ~1.7m  9.89k  10.1 ms  too few  0.480
      script: embedded does not have EVALSHA and EVAL
      pipeline by size, 1 to 10k: from 99.8 to 525.8k ops/s; all sizes but 10k are
        more than 5 % slower in 10 rounds; larger sizes were not tried (10k: 525.8k
        ops/s, p99 24.7 ms)
      batch by size, 1 to 10k: from 99.8 to 525.8k ops/s; all sizes but 10k are more
        than 5 % slower in 10 rounds; larger sizes were not tried (10k: 525.8k
        ops/s, p99 24.7 ms)

    Doctor: no findings.

    How to read this
      Times are those of all operations of a column; ~ is extrapolated from as many
        as the budget of a cell allowed. Operations per second, quantiles and CPU
        (microseconds of the client) are those of the highest count that was
        measured, per operation: in a call of many, each takes as long as the call.
      "too few": fewer than 100 samples lie beyond that percentile.

    Where and how it was measured
      run: Loadline 0.1.0, 7f3a91, 2026-02-03T04:05:06Z
      method: Measured in 10 rounds per case; closed loop; seed 42, 31.2 s in all.
      machine: 2 CPUs, Example CPU 3.0 GHz, 8 GiB of memory, Linux 6.1.0, container,
        CPU pressure up to 4.3 %
      command: loadline run
    "#);
}

/// The counts of the default sweep, with the longest name and the longest figures.
#[test]
fn five_counts_fit_eighty_columns() {
    let mut record = fixture::empty();
    record.answer = Answer::Sweep;
    for count in [100, 1_000, 10_000, 100_000, 1_000_000] {
        let mut slow = cell("transaction", 1, 100_000_000, Some(count));
        slow.cost.client_cpu_ns_per_op = Some(98_765_432.0);
        record.cases.push(slow);
        record.cases.push(cell("batch", 100, 0, Some(count)));
    }
    let text = text(&record, &PIPE);
    let counts = ["100", "1k", "10k", "100k", "1M", "ops/s"];
    let has_all = |line: &&str| line.split_whitespace().skip(1).take(6).eq(counts);
    assert_eq!(text.lines().filter(has_all).count(), 2, "{text}");
    assert!(widest(&text) <= 80, "{text}");
}

#[test]
fn sweep_in_markdown() {
    insta::assert_snapshot!(markdown(&record()), @r#"
    **Fastest: batch or pipeline (their rounds overlap) with no added latency and with 10 ms added, 22.7 to 5.27k times as fast as sync.**

    ## get

    ### Fastest mode of each setting

    | added | operation | fastest | ops/s | vs slowest | best size |
    | --- | --- | --- | --: | --: | --: |
    | none | get as json | batch or pipeline | 1.09M | 22.7 x sync | 1k to 10k |
    | 10 ms | get as json | batch or pipeline | 525.8k | 5.27k x sync | 10k |

    ### get as json, no added latency

    values as json: 512 bytes each, decoded in 1.25 us

    | mode | 100 | 10k | 1M | ops/s | p50 | p99 | CPU |
    | --- | --: | --: | --: | --: | --: | --: | --: |
    | sync | 2.09 ms | 209 ms | \~20.9 s | 47.8k | 20.9 us | 27.2 us | 8.40 |
    | pipeline | **110 us** | **11.0 ms** | **\~1.10 s** | 909.1k | 110 us | 143 us | 0.480 |
    | batch | 110 us | 11.0 ms | \~1.10 s | 909.1k | 110 us | 143 us | 0.480 |

    - **script**: embedded does not have EVALSHA and EVAL
    - **pipeline by size, 1 to 10k**: from 47.8k to 1.11M ops/s; sizes from 1k to 10k can be within 5 % of the best, and all others are slower; 1k is the smallest whose median is, at 0.98x \[0.98, 0.98\] of the best in 10 rounds; larger sizes were not tried (1k: 1.09M ops/s, p99 1.20 ms)
    - **batch by size, 1 to 10k**: from 47.8k to 1.11M ops/s; sizes from 1k to 10k can be within 5 % of the best, and all others are slower; 1k is the smallest whose median is, at 0.98x \[0.98, 0.98\] of the best in 10 rounds; larger sizes were not tried (1k: 1.09M ops/s, p99 1.20 ms)

    ### get as json, 10 ms added by l3

    jitter 1ms:normal, 100 Mbit/s each way, round trips through it p50 10.0 ms, p99 10.2 ms, released late p99 21.0 us (real time scheduling), idle processors polled, MTU 1500, cubic

    values as json: 512 bytes each, decoded in 1.25 us

    | mode | 100 | 10k | 1M | ops/s | p50 | p99 | CPU |
    | --- | --: | --: | --: | --: | --: | --: | --: |
    | sync | \~1.00 s | \~1.7m | \~2.8h | 99.8 | 10.0 ms | too few | 8.40 |
    | pipeline | **10.1 ms** | **\~1.01 s** | **\~1.7m** | 9.89k | 10.1 ms | too few | 0.480 |
    | batch | 10.1 ms | \~1.01 s | \~1.7m | 9.89k | 10.1 ms | too few | 0.480 |

    - **script**: embedded does not have EVALSHA and EVAL
    - **pipeline by size, 1 to 10k**: from 99.8 to 525.8k ops/s; all sizes but 10k are more than 5 % slower in 10 rounds; larger sizes were not tried (10k: 525.8k ops/s, p99 24.7 ms)
    - **batch by size, 1 to 10k**: from 99.8 to 525.8k ops/s; all sizes but 10k are more than 5 % slower in 10 rounds; larger sizes were not tried (10k: 525.8k ops/s, p99 24.7 ms)

    Doctor: no findings.

    <details><summary>How to read this</summary>

    - Times are those of all operations of a column; \~ is extrapolated from as many as the budget of a cell allowed. Operations per second, quantiles and CPU (microseconds of the client) are those of the highest count that was measured, per operation: in a call of many, each takes as long as the call.
    - "too few": fewer than 100 samples lie beyond that percentile.

    </details>

    <details><summary>Where and how it was measured</summary>

    - **run**: Loadline 0.1.0, 7f3a91, 2026-02-03T04:05:06Z
    - **method**: Measured in 10 rounds per case; closed loop; seed 42, 31.2 s in all.
    - **machine**: 2 CPUs, Example CPU 3.0 GHz, 8 GiB of memory, Linux 6.1.0, container, CPU pressure up to 4.3 %
    - **command**: loadline run

    </details>
    "#);
}

/// The verdict is one sentence, at most three lines in eighty columns, whatever the noise. Sentences that earlier versions
/// kept among the findings say the same and are left out.
#[test]
fn verdict_of_a_sweep_is_one_sentence_of_three_lines() {
    let mut record = record();
    record.findings = ["Fastest with no latency added: a.", "script was left out."]
        .map(str::to_owned)
        .to_vec();
    let verdict = |record: &Record| {
        let text = text(record, &PIPE);
        assert!(!text.contains("latency added: a."), "{text}");
        text.split("\n\n").next().unwrap().to_owned()
    };
    let first = verdict(&record);
    assert!(first.starts_with("Fastest: batch or pipeline"), "{first}");
    assert!(first.lines().count() <= 3, "{first}");
    // Four settings, each with another order of modes.
    let names = ["transaction", "pipeline", "batch", "script", "async"];
    for (place, case) in record.cases.iter_mut().enumerate() {
        case.scenario.workload = ["get", "set", "get as a hash", "sadd"][place % 4].into();
        case.scenario.mode = names[(place / 4) % 5].into();
        case.throughput_ops_per_s *= 1.0 + (place * 7 % 11) as f64;
    }
    let second = verdict(&record);
    assert!(second.lines().count() <= 3, "{second}");
}

/// Sizes that noise orders by chance: no size is recommended, and none is marked.
#[test]
fn curve_of_noise_recommends_no_size() {
    let mut record = record();
    for case in &mut record.cases {
        let rates = match case.scenario.batch {
            1 | 100 => [800.0, 1_300.0],
            10 | 1_000 => [1_200.0, 900.0],
            _ => [600.0, 1_450.0],
        };
        for (place, round) in case.rounds.iter_mut().enumerate() {
            round.throughput_ops_per_s = rates[place % 2];
        }
    }
    let text = text(&record, &PIPE);
    let text: Vec<&str> = text.split_whitespace().collect();
    let text = text.join(" ");
    let told = "inconclusive: sizes from 1 to 10k cannot be told apart in 10 rounds";
    assert_eq!(text.matches(told).count(), 4, "{text}");
    assert!(!text.contains("is the smallest"), "{text}");
    let page = html(&record);
    assert!(
        !page.contains("recommended size") && !page.contains("<line class=\"one\""),
        "{page}"
    );
}

#[test]
fn html_marks_the_best_of_each_column_and_the_size_chosen() {
    let page = html(&record());
    // Three counts under two latencies have one best each.
    assert_eq!(page.matches("<td class=\"good\"><strong>").count(), 6);
    // Each latency has a plot of two curves, whose sizes are marked.
    assert_eq!(page.matches("<polyline").count(), 4);
    assert_eq!(page.matches("<line class=\"one\"").count(), 4);
    for part in [
        "<h2>get as json, 10 ms added by l3</h2>",
        "jitter 1ms:normal, 100 Mbit/s each way, round trips through it p50 10.0 ms, p99 10.2 ms, released late p99 21.0 us (real time scheduling), idle processors polled, MTU 1500, cubic",
        "values as json: 512 bytes each, decoded in 1.25 us",
        ">pipeline 1k<",
        ">batch 10k<",
        "<td class=\"faint\">~",
        "embedded does not have EVALSHA and EVAL",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

#[test]
fn hostile_sweep_record_breaks_no_format() {
    let record = hostile();
    let (page, lines) = (html(&record), markdown(&record));
    assert!(!page.contains("<script") && !page.contains("<b>"), "{page}");
    for form in [&page, &lines, &text(&record, &PIPE)] {
        assert!(!form.contains('\x1b'), "{form}");
    }
    let svg = page.split("<svg").skip(1).collect::<String>();
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    for line in lines.lines().filter(|line| line.starts_with("| ")) {
        let cells = line.replace("\\|", "").matches('|').count();
        // The answer has six columns, and each setting has eight.
        assert!(cells == 7 || cells == 9, "{line}");
    }
}

#[test]
fn whole_sweep_fits_a_comment_on_a_pull_request() {
    let mut record = record();
    let once = record.cases.clone();
    // Two operations with four codecs under three latencies, as the largest sweep has them.
    for workload in ["set", "hset", "hget"] {
        for codec in ["raw", "json", "msgpack", "protobuf"] {
            record.cases.extend(once.iter().cloned().map(|mut case| {
                case.scenario.workload = workload.into();
                case.scenario.codec = Some(codec.into());
                case
            }));
        }
    }
    assert!(markdown(&record).len() < 64 << 10);
}
