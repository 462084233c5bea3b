//! Whole reports, as they look.

use loadline_measure::record::{Record, Stall, StallCause, SubjectKind, Verdict};

use super::{PIPE, TERMINAL, fixture};
use crate::{TextOptions, csv, diagnosis, html, junit, markdown, text};

#[test]
fn one_target_in_a_pipe() {
    insta::assert_snapshot!(text(&fixture::one_target(), &PIPE), @r#"
    embedded: 118.2k GETs per second, p99 800 us (closed loop); 1 more case in the
      table.

    Results
    All cases: closed loop, 50 connections, 64 B values, 100k keys uniform.
    target     ops/s     p50     p99    p99.9  CPU us/op
    get
    embedded  118.2k  419 us  800 us  2.01 ms  5.07+7.87

    set
    embedded  109.0k  454 us  868 us  2.19 ms  5.50+8.53

    Doctor: no findings.

    Findings
      embedded carried 118240 operations per second of get.

    How to read this
      CPU us/op: CPU time of the generator + of the server per operation.
      A closed loop waits for replies before it sends more: it shows capacity. For
        claims about response times use --rate.

    Where and how it was measured
      run: Loadline 0.1.0, 7f3a91, 2026-02-03T04:05:06Z
      method: Measured in 12 rounds per case; closed loop; seed 42, 31.2 s in all.
      machine: 2 CPUs, Example CPU 3.0 GHz, 8 GiB of memory, Linux 6.1.0, container,
        CPU pressure up to 4.3 %
      command: loadline run
    "#);
}

#[test]
fn two_targets_in_a_terminal() {
    insta::assert_snapshot!(text(&fixture::two_targets(), &TERMINAL), @r#"
    spawn:redis-server: 18 % fewer GETs per second than embedded [11, 20];
      spawn:redis-server: 40 % more GETs per second than embedded [38, 52] (get
      pipeline 16).

    Results
    All cases: closed loop, 50 connections, 64 B values, 100k keys uniform.
    target               ops/s      p50      p99    p99.9   CPU us/op
    get
    embedded            118.2k   419 us   800 us  2.01 ms   5.07+7.87
    spawn:redis-server   98.0k   505 us   966 us  2.43 ms   6.12+9.49

    get, pipeline 16
    embedded            640.0k  1.24 ms  2.37 ms  5.96 ms  0.938+1.45
    spawn:redis-server  908.0k   872 us  1.67 ms  4.20 ms  0.661+1.02

    Response times on a log scale, and throughput by round
    get                   338 us              5.04 ms
      embedded            ███▇▅▃▂▂▂▁▁▁ ▁▁  ▁       ▁   ▅▂▆▇▆▄█▅▃▇▅█ 113.5k to 123.0k
      spawn:redis-server   ▃███▇▅▃▂▂▁▁▁▁ ▁▁  ▁      ▁  ▅█▅▂▆▇▆▄█▅▃▇ 94.1k to 101.9k
    get, pipeline 16      705 us              12.4 ms
      embedded               ▇██▇▅▃▂▂▁▁▁▁▁ ▁  ▁     ▁  ▅▂▆▇▆▄█▅▃▇▅█ 614.4k to 665.6k
      spawn:redis-server  ███▇▄▃▂▂▁▁▁▁▁ ▁ ▁      ▁     ▅█▅▂▆▇▆▄█▅▃▇ 871.7k to 944.3k

    Side by side
    figure      embedded  spawn:redis-se~  ratio               verdict  detects
    get: spawn:redis-server vs embedded
    throughput  118.2k/s          98.0k/s  0.82x [0.80, 0.89]  slower     7.2 %
      slower by more than 2 % in 12 of 12 rounds
    p50           419 us           505 us  1.22x [1.13, 1.24]  slower     7.2 %
      slower by more than 2 % in 12 of 12 rounds

    get, pipeline 16: spawn:redis-server vs embedded
    throughput  640.0k/s         908.0k/s  1.40x [1.38, 1.52]  faster     7.2 %
      faster by more than 2 % in 12 of 12 rounds
    p50          1.24 ms           872 us  0.71x [0.66, 0.73]  faster     7.2 %
      faster by more than 2 % in 12 of 12 rounds

    Doctor: no findings.

    Findings
      embedded carried 640000 operations per second of get, pipeline 16.
      spawn:redis-server carried 908000 operations per second of get, pipeline 16,
        where its CPU was 98 % busy, so the server was the limit.

    How to read this
      CPU us/op: CPU time of the generator + of the server per operation.
      A closed loop waits for replies before it sends more: it shows capacity. For
        claims about response times use --rate.
      ratio: the median over rounds of the second figure over the first in the same
        round, with its interval. "detects": the smallest change that these rounds
        can detect.

    Where and how it was measured
      run: Loadline 0.1.0, 7f3a91, 2026-02-03T04:05:06Z
      method: Measured in 12 rounds per case, the targets interleaved in random
        order; closed loop; seed 42, 31.2 s in all.
      machine: 2 CPUs, Example CPU 3.0 GHz, 8 GiB of memory, Linux 6.1.0, container,
        CPU pressure up to 4.3 %
      embedded: Loadline 0.1.0
      spawn:redis-server: Redis 7.0.15
      command: loadline run
    "#);
}

/// Lines of a report that speak of tails.
fn tails(report: &str) -> String {
    let lines = report.lines().filter(|line| line.contains("tail of one"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn tail_stands_below_its_case_raw_and_corrected() {
    let record = fixture::contended();
    insta::assert_snapshot!(text(&record, &TERMINAL), @r#"
    embedded: 118.2k GETs per second, p99 800 us (closed loop); 1 more case in the
      table.

    Results
    All cases: closed loop, 50 connections, 64 B values, 100k keys uniform.
    target               ops/s     p50     p99    p99.9  CPU us/op
    get
    embedded            118.2k  419 us  800 us  2.01 ms  5.07+7.87
      tail of one connection: p99 4.08 ms raw, 95.6 us without waiting for a CPU
        (24800 operations)
    spawn:redis-server   98.0k  505 us  966 us  2.43 ms  6.12+9.49
      tail of one connection: 2480 operations are too few for a p99

    Response times on a log scale, and throughput by round
    get                   338 us              5.04 ms
      embedded            ███▇▅▃▂▂▂▁▁▁ ▁▁  ▁       ▁   ▅▂▆▇▆▄█▅▃▇▅█ 113.5k to 123.0k
      spawn:redis-server   ▃███▇▅▃▂▂▁▁▁▁ ▁▁  ▁      ▁  ▅█▅▂▆▇▆▄█▅▃▇ 94.1k to 101.9k

    Doctor: no findings.

    How to read this
      CPU us/op: CPU time of the generator + of the server per operation.
      A closed loop waits for replies before it sends more: it shows capacity. For
        claims about response times use --rate.

    Where and how it was measured
      run: Loadline 0.1.0, 7f3a91, 2026-02-03T04:05:06Z
      method: Measured in 12 rounds per case, the targets interleaved in random
        order; closed loop; seed 42, 31.2 s in all.
      machine: 2 CPUs, Example CPU 3.0 GHz, 8 GiB of memory, Linux 6.1.0, container,
        CPU pressure up to 4.3 %
      command: loadline run
    "#);
    insta::assert_snapshot!(tails(&markdown(&record)), @r#"
    - **get, embedded**: tail of one connection: p99 4.08 ms raw, 95.6 us without waiting for a CPU (24800 operations)
    - **get, spawn:redis-server**: tail of one connection: 2480 operations are too few for a p99
    "#);
    insta::assert_snapshot!(tails(&html(&record)), @r#"
    <tr class="note"><td colspan="6" class="text faint">tail of one connection: p99 4.08 ms raw, 95.6 us without waiting for a CPU (24800 operations)</td></tr>
    <tr class="note"><td colspan="6" class="text faint">tail of one connection: 2480 operations are too few for a p99</td></tr>
    "#);
    assert_eq!(tails(&text(&fixture::two_targets(), &TERMINAL)), "");
}

#[test]
fn errors_misses_few_samples_no_steady_state_and_cut_short() {
    insta::assert_snapshot!(text(&fixture::troubled(), &TERMINAL), @r#"
    Cut short: the run ended before its plan was done. Until then: embedded: 5.43k
      HGETs per second (closed loop); 13 of 5000 operations failed.

    Results
    All cases: closed loop, 50 connections, 64 B values, 100k keys uniform.
    target    ops/s      p50      p99    p99.9  CPU us/op
    hget
    embedded  5.43k  8.91 ms  too few  too few     8.21+?
      ! 13 errors of 5000 operations (0.26 %): WRONGTYPE 12, connection lost 1
      ! 63.1 % of the reads hit
      ! no steady state

    Doctor: what makes these figures unreliable
      critical LL007: embedded, hget: 13 of 5000 operations (0.26 %) failed, most of
        them WRONGTYPE.
        -> Fix the cause before using the times: error replies are often faster than
           real ones.
      warning LL008: embedded, hget: Only 63 % of the reads found their key.
        -> Load the key space before measuring, and check whether keys expire or are
           evicted; a miss costs less than a hit.
      warning LL012: embedded, hget: No steady state: the medians kept shifting
        during the warm-up or over the rounds.
        -> Warm up longer (--warmup), and look for growth: memory, key space, clock
           speed.
      info LL006: embedded, hget: 5000 samples are too few for p99 (needs 10000),
        p99.9 (needs 100000).
        -> Run longer (--duration, --ops, --rounds) if you need that percentile.

    How to read this
      CPU us/op: CPU time of the generator + of the server per operation.
      A closed loop waits for replies before it sends more: it shows capacity. For
        claims about response times use --rate.
      "too few": fewer than 100 samples lie beyond that percentile.

    Where and how it was measured
      run: Loadline 0.1.0, 7f3a91, 2026-02-03T04:05:06Z
      method: Measured in 2 rounds per case; closed loop; seed 42, 31.2 s in all.
      machine: 2 CPUs, Example CPU 3.0 GHz, 8 GiB of memory, Linux 6.1.0, container,
        CPU pressure up to 4.3 %
      command: loadline run
    "#);
}

#[test]
fn open_loop_shows_service_time_and_lag_too() {
    insta::assert_snapshot!(text(&fixture::open_loop(), &TERMINAL), @r#"
    embedded at 9.99k GETs per second: p50 8.91 ms, p99 17.0 ms, longest 88.9 ms
      (open loop).

    Results
    All cases: open loop at 10k/s (poisson), 50 connections, 64 B values, 100k keys
      uniform.
    target           ops/s      p50      p99    p99.9  CPU us/op
    get
    embedded         9.99k  8.91 ms  17.0 ms  42.9 ms  60.1+93.1
      service time          59.4 us   114 us   286 us
      generator lag         1.90 us  14.0 us  14.0 us
      ! 400 of 400400 planned operations were not sent

    Response times on a log scale, and throughput by round
    get           7.20 ms                       88.9 ms
      embedded    █████▇▅▄▃▂▂▂▁▁▁▁▁▁ ▁ ▁    ▁         ▁  ▅▂▆▇▆▄█▅▃▇▅█ 9.59k to 10.4k

    Doctor: what makes these figures unreliable
      critical LL013: embedded, get: The rate was not kept: 400 of 400400 planned
        operations (0.10 %) were never sent.
        -> Lower --rate: these response times are those of a queue that keeps
           growing.

    How to read this
      CPU us/op: CPU time of the generator + of the server per operation.
      Percentiles are of the response time, from the intended start of an operation;
        service time counts from its sending, lag is the generator's own.

    Where and how it was measured
      run: Loadline 0.1.0, 7f3a91, 2026-02-03T04:05:06Z
      method: Measured in 12 rounds per case; open loop; seed 42, 31.2 s in all.
      machine: 2 CPUs, Example CPU 3.0 GHz, 8 GiB of memory, Linux 6.1.0, container,
        CPU pressure up to 4.3 %
      command: loadline run
    "#);
}

#[test]
fn verdict_of_an_open_loop_says_how_much_of_its_rate_was_kept() {
    let verdict = |ops_per_s: f64| {
        let mut record = fixture::open_loop();
        record.cases[0].throughput_ops_per_s = ops_per_s;
        text(&record, &PIPE)
    };
    let kept = verdict(9_910.0);
    assert!(
        kept.starts_with("embedded at 9.91k GETs per second"),
        "{kept}"
    );
    let missed = verdict(5_500.0);
    assert!(
        missed.starts_with("embedded at 5.50k of 10k planned GETs per second: p50"),
        "{missed}"
    );
}

/// Intervals of few operations have no p99.
#[test]
fn plot_over_time_without_a_p99_does_not_promise_one() {
    let captions = |strip: bool| {
        let mut record = fixture::over_time();
        let cases = record.cases.iter_mut();
        for interval in cases.flat_map(|case| &mut case.series).filter(|_| strip) {
            interval.p99 = None;
        }
        crate::html(&record)
    };
    assert!(captions(false).contains("p99 over time (dashed: p50)"));
    let without = captions(true);
    assert!(without.contains("p50 over time") && !without.contains("p99 over time"));
    assert!(
        !without.contains("embedded, p99"),
        "no line, so no name of one"
    );
}

/// A dashed line has its name in the legend, also where no line is solid.
#[test]
fn dashed_lines_have_their_names_in_the_legend() {
    let mut record = fixture::over_time();
    for interval in record.cases.iter_mut().flat_map(|case| &mut case.series) {
        interval.p99 = None;
    }
    let page = crate::html(&record);
    let (_, figure) = page.split_once(": p50 over time").unwrap();
    let (caption, _) = figure.split_once("</figcaption>").unwrap();
    let key = "<span class=\"key\"><span class=\"dash k0\"></span>";
    assert!(caption.contains(key), "{caption}");
    assert!(caption.contains("embedded, p50"), "{caption}");
}

/// The cases of a sweep are named after their target and their mode, and a null server is no subject of its own.
#[test]
fn title_names_each_target_once() {
    let mut record = fixture::over_time();
    let names = [
        "redis://h, sync",
        "redis://h, pipeline",
        "null",
        "redis://h, sync",
    ];
    for (case, name) in record.cases.iter_mut().zip(names) {
        case.subject.name = name.to_owned();
        if let Some((_, mode)) = name.split_once(", ") {
            case.scenario.mode = mode.into();
        } else {
            case.subject.kind = SubjectKind::NullServer;
        }
    }
    let page = crate::html(&record);
    assert!(page.contains("<h1>get on redis://h</h1>"), "{page}");
}

#[test]
fn verdict_of_an_open_loop_names_its_longest_stall() {
    let mut record = fixture::open_loop();
    let stall = |length_ns| Stall {
        length_ns,
        cause: StallCause::Server,
        ..Stall::default()
    };
    record.cases[0].stalls = vec![stall(21_000_000), stall(1_001_391_000)];
    let report = text(&record, &PIPE);
    let verdict = "embedded at 9.99k GETs per second: p50 8.91 ms, p99 17.0 ms, longest stall 1.00 s (cause: server) (open loop).";
    assert!(report.replace("\n  ", " ").starts_with(verdict), "{report}");
}

#[test]
fn names_of_200_letters_and_hostile_ones() {
    insta::assert_snapshot!(text(&fixture::hostile(), &PIPE), @r#"
    =naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
      aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
      aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: 2.00 times as many operations of
      </td><script>alert(1)</script>?[31m|`,"=1??]]>&' per second as
      </td><script>alert(1)</script>?[31m|`,"=1??]]>&' [1.92, 2.08]; 3 of 1200000
      operations failed.

    Results
    All cases: closed loop, 50 connections, 64 B values.
    target                                ops/s       p50     p99  p99.9   CPU us/op
    </td><script>alert(1)</script>?[31m|`,"=1??]]>&', 100k keys
      </td><script>alert(1)</script>?[31m|`,"=1??]]>&'
    </td><script>alert(1)</script>?[~     1.00k   49.5 ms 94.6 ms 238 ms     600+930
      ! 3 errors of 400000 operations (<0.01 %):
        </td><script>alert(1)</script>?[31m|`,"=1??]]>&' 3
    =naaaaaaaaaaaaaaaaaaaaaaaaaaaaaa~     2.00k   24.8 ms 47.3 ms 119 ms     300+465

    =naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
      aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
      aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, 100k keys uniform
    x                                 1.80e296T 1.84e10 s  9.46 s 23.8 s 60000+93000
      ! -1.00e302 % of the reads hit

    Side by side
    figure        </td><script>a~ =naaaaaaaaaaaa~ ratio              verdict detects
    </td><script>alert(1)</script>?[31m|`,"=1??]]>&', 100k keys
      </td><script>alert(1)</script>?[31m|`,"=1??]]>&':
      =naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
      aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
      aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa vs
      </td><script>alert(1)</script>?[31m|`,"=1??]]>&'
    throughput            1.00k/s         2.00k/s 2.00x [1.92, 2.08] faster    6.2 %
      </td><script>alert(1)</script>?[31m|`,"=1??]]>&'
    p50                   49.5 ms         24.8 ms 0.50x [0.48, 0.52] faster    6.2 %
      faster by more than 2 % in 12 of 12 rounds
    </td><script~               -               - 2.00x [1.92, 2.08] faster    6.2 %
      </td><script>alert(1)</script>?[31m|`,"=1??]]>&'

    Doctor: what makes these figures unreliable
      critical LL007: </td><script>alert(1)</script>?[31m|`,"=1??]]>&',
        </td><script>alert(1)</script>?[31m|`,"=1??]]>&': 3 of 400000 operations
        (<0.01 %) failed, most of them
        </td><script>alert(1)</script>?[31m|`,"=1??]]>&'.
        -> Fix the cause before using the times: error replies are often faster than
           real ones.

    Findings
      </td><script>alert(1)</script>?[31m|`,"=1??]]>&'
      =naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa

    How to read this
      CPU us/op: CPU time of the generator + of the server per operation.
      A closed loop waits for replies before it sends more: it shows capacity. For
        claims about response times use --rate.
      ratio: the median over rounds of the second figure over the first in the same
        round, with its interval. "detects": the smallest change that these rounds
        can detect.

    Where and how it was measured
      run: Loadline </td><script>alert(1)</script>?[31m|`,"=1??]]>&',
        </td><script>alert(1)</script>?[31m|`,"=1??]]>&',
        </td><script>alert(1)</script>?[31m|`,"=1??]]>&'
      method: Measured in 12 rounds per case, the targets interleaved in random
        order; closed loop; seed 42, 31.2 s in all.
      machine: 2 CPUs, </td><script>alert(1)</script>?[31m|`,"=1??]]>&', 8 GiB of
        memory, Linux 6.1.0, container, CPU pressure up to 4.3 %
      </td><script>alert(1)</script>?[31m|`,"=1??]]>&':
        =naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
      command: </td><script>alert(1)</script>?[31m|`,"=1??]]>&'
    "#);
}

#[test]
fn nothing_measured() {
    insta::assert_snapshot!(text(&fixture::empty(), &PIPE), @r#"
    Nothing was measured.

    Doctor: no findings.

    Where and how it was measured
      run: Loadline 0.1.0, 7f3a91, 2026-02-03T04:05:06Z
      method: Seed 42.
      machine: 2 CPUs, Example CPU 3.0 GHz, 8 GiB of memory, Linux 6.1.0, container,
        CPU pressure up to 4.3 %
      command: loadline run
    "#);
}

#[test]
fn two_targets_in_markdown() {
    insta::assert_snapshot!(markdown(&fixture::two_targets()), @r#"
    **spawn:redis-server: 18 % fewer GETs per second than embedded \[11, 20\]; spawn:redis-server: 40 % more GETs per second than embedded \[38, 52\] (get pipeline 16).**

    ## get on embedded, spawn:redis-server

    ### Results

    All cases: closed loop, 50 connections, 64 B values, 100k keys uniform.

    | target | ops/s | p50 | p99 | p99.9 | CPU us/op |
    | --- | --: | --: | --: | --: | --: |
    | **get** |  |  |  |  |  |
    | embedded | 118.2k | 419 us | 800 us | 2.01 ms | 5.07+7.87 |
    | spawn:redis-server | 98.0k | 505 us | 966 us | 2.43 ms | 6.12+9.49 |
    | **get, pipeline 16** |  |  |  |  |  |
    | embedded | 640.0k | 1.24 ms | 2.37 ms | 5.96 ms | 0.938+1.45 |
    | spawn:redis-server | 908.0k | 872 us | 1.67 ms | 4.20 ms | 0.661+1.02 |

    ### Side by side

    | figure | embedded | spawn:redis-server | ratio | verdict | detects | evidence |
    | --- | --: | --: | --- | --- | --: | --- |
    | **get: spawn:redis-server vs embedded** |  |  |  |  |  |  |
    | throughput | 118.2k/s | 98.0k/s | 0.82x \[0.80, 0.89\] | slower | 7.2 % | slower by more than 2 % in 12 of 12 rounds |
    | p50 | 419 us | 505 us | 1.22x \[1.13, 1.24\] | slower | 7.2 % | slower by more than 2 % in 12 of 12 rounds |
    | **get, pipeline 16: spawn:redis-server vs embedded** |  |  |  |  |  |  |
    | throughput | 640.0k/s | 908.0k/s | 1.40x \[1.38, 1.52\] | faster | 7.2 % | faster by more than 2 % in 12 of 12 rounds |
    | p50 | 1.24 ms | 872 us | 0.71x \[0.66, 0.73\] | faster | 7.2 % | faster by more than 2 % in 12 of 12 rounds |

    Doctor: no findings.

    ### Findings

    - embedded carried 640000 operations per second of get, pipeline 16.
    - spawn:redis-server carried 908000 operations per second of get, pipeline 16, where its CPU was 98 % busy, so the server was the limit.

    <details><summary>How to read this</summary>

    - CPU us/op: CPU time of the generator + of the server per operation.
    - A closed loop waits for replies before it sends more: it shows capacity. For claims about response times use --rate.
    - ratio: the median over rounds of the second figure over the first in the same round, with its interval. "detects": the smallest change that these rounds can detect.

    </details>

    <details><summary>Where and how it was measured</summary>

    - **run**: Loadline 0.1.0, 7f3a91, 2026-02-03T04:05:06Z
    - **method**: Measured in 12 rounds per case, the targets interleaved in random order; closed loop; seed 42, 31.2 s in all.
    - **machine**: 2 CPUs, Example CPU 3.0 GHz, 8 GiB of memory, Linux 6.1.0, container, CPU pressure up to 4.3 %
    - **embedded**: Loadline 0.1.0
    - **spawn:redis-server**: Redis 7.0.15
    - **command**: loadline run

    </details>
    "#);
}

#[test]
fn errors_and_a_cut_in_junit() {
    insta::assert_snapshot!(junit(&fixture::troubled()), @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="loadline" tests="2" failures="1" errors="1" skipped="0" time="3.000">
      <testsuite name="hget on embedded" tests="1" failures="0" errors="1" skipped="0" time="0.000" timestamp="2026-02-03T04:05:06Z">
        <testcase name="verdict" classname="loadline.verdict">
          <error message="Cut short: the run ended before its plan was done. Until then: embedded: 5.43k HGETs per second (closed loop); 13 of 5000 operations failed."/>
        </testcase>
      </testsuite>
      <testsuite name="hget, closed loop, 50 connections, 64 B values, 100k keys uniform" tests="1" failures="1" errors="0" skipped="0" time="3.000" timestamp="2026-02-03T04:05:06Z">
        <testcase name="embedded" classname="loadline.hget" time="3.000">
          <properties>
            <property name="ops" value="5000"/>
            <property name="errors" value="13"/>
            <property name="throughput_ops_per_s" value="5430"/>
            <property name="response_time_ns_p50" value="8912895"/>
            <property name="response_time_ns_p99" value="too few"/>
            <property name="response_time_ns_p999" value="too few"/>
          </properties>
          <failure type="critical" message="LL007: 13 of 5000 operations (0.26 %) failed, most of them WRONGTYPE."/>
        </testcase>
      </testsuite>
    </testsuites>
    "#);
}

#[test]
fn open_loop_in_csv() {
    insta::assert_snapshot!(csv(&fixture::open_loop()), @r#"
    verdict,subject,kind,target,subject_version,workload,mode,pacing,rate_ops_per_s,connections,threads,pipeline,batch,keys,key_dist,value_bytes_min,value_bytes_max,latency_ns,resp,rounds,duration_ns,ops,errors,planned,not_sent,throughput_ops_per_s,response_time_ns_mean,response_time_ns_p50,response_time_ns_p90,response_time_ns_p95,response_time_ns_p99,response_time_ns_p999,response_time_ns_max,service_time_ns_mean,service_time_ns_p50,service_time_ns_p99,service_time_ns_p999,lag_ns_p50,lag_ns_p99,hit_ratio,steady,client_cpu_ns_per_op,server_cpu_ns_per_op,bytes_in_per_op,bytes_out_per_op,in_flight,client_cpu_busy,server_cpu_busy,durability,cut_short
    "embedded at 9.99k GETs per second: p50 8.91 ms, p99 17.0 ms, longest 88.9 ms (open loop).",embedded,server,embedded,,get,wire,open,10000,50,1,1,1,100000,uniform,64,64,0,2,12,3000000000,400000,0,400400,400,9990,9346463.744000003,8912895,10985471,11976703,17039359,42860543,88932351,62307.93599999995,59391,113535,285695,1900,14007,1,true,60060.06006006006,93093.09309309309,,,,,,,false
    "#);
}

#[test]
fn what_the_doctor_says() {
    let mut record = fixture::troubled();
    record.findings = vec!["Twice the operations took 1.98 times the time.".to_owned()];
    insta::assert_snapshot!(diagnosis(&record, &PIPE), @r#"
    Cut short: an interrupt ended the examination before all of it was done.

      1. critical LL007: embedded, hget: 13 of 5000 operations (0.26 %) failed, most
        of them WRONGTYPE.
        -> Fix the cause before using the times: error replies are often faster than
           real ones.
      2. warning LL008: embedded, hget: Only 63 % of the reads found their key.
        -> Load the key space before measuring, and check whether keys expire or are
           evicted; a miss costs less than a hit.
      3. warning LL012: embedded, hget: No steady state: the medians kept shifting
        during the warm-up or over the rounds.
        -> Warm up longer (--warmup), and look for growth: memory, key space, clock
           speed.
      4. info LL006: embedded, hget: 5000 samples are too few for p99 (needs 10000),
        p99.9 (needs 100000).
        -> Run longer (--duration, --ops, --rounds) if you need that percentile.

    What was examined
      Twice the operations took 1.98 times the time.

    Where and how it was measured
      run: Loadline 0.1.0, 7f3a91, 2026-02-03T04:05:06Z
      method: Measured in 2 rounds per case; closed loop; seed 42, 31.2 s in all.
      machine: 2 CPUs, Example CPU 3.0 GHz, 8 GiB of memory, Linux 6.1.0, container,
        CPU pressure up to 4.3 %
      command: loadline run
    "#);
    record.doctor.clear();
    record.run.cut_short = false;
    let clean = diagnosis(&record, &PIPE);
    assert!(clean.starts_with("No finding: "), "{clean}");
}

#[test]
fn rounds_that_ended_by_precision_say_so() {
    let mut record = fixture::two_targets();
    let footer = |record: &Record| {
        let report = text(record, &PIPE);
        let words: Vec<&str> = report.split_whitespace().collect();
        let line = words.join(" ");
        let from = line.rfind("Measured in").unwrap();
        line[from..line.rfind(" machine:").unwrap()].to_owned()
    };
    record.run.plan = serde_json::json!({ "rounds": 40, "until_precise": true });
    insta::assert_snapshot!(footer(&record), @"Measured in 12 rounds per case (fewer than 40 where the ratios of throughput and p50 were known to 1.5 % by then), the targets interleaved in random order; closed loop; seed 42, 31.2 s in all.");
    let plain = "Measured in 12 rounds per case, the targets";
    record.run.cut_short = true;
    assert!(footer(&record).starts_with(plain));
    record.run.cut_short = false;
    record.run.plan = serde_json::json!({ "rounds": 12, "until_precise": true });
    assert!(footer(&record).starts_with(plain));
    record.run.plan = serde_json::json!({ "rounds": 40 });
    assert!(footer(&record).starts_with(plain));
}

#[test]
fn many_cases_of_two_targets_are_named_by_what_changed() {
    let mut record = fixture::two_targets();
    let compared = record.comparisons.clone();
    for (index, verdict) in [Verdict::Inconclusive, Verdict::Equivalent]
        .into_iter()
        .enumerate()
    {
        for mut comparison in compared.clone() {
            for side in [&mut comparison.a, &mut comparison.b] {
                let mut case = record.cases[*side].clone();
                case.scenario.batch = 10 * (index as u64 + 1);
                record.cases.push(case);
                *side = record.cases.len() - 1;
            }
            comparison.verdict = verdict;
            record.comparisons.push(comparison);
        }
    }
    let text = text(&record, &TextOptions { width: 400, ..PIPE });
    insta::assert_snapshot!(text.lines().next().unwrap(), @"spawn:redis-server compared with embedded: get: 18 % fewer per second [11, 20]; get pipeline 16: 40 % more per second [38, 52]; no difference that matters: get batch 20, get pipeline 16 batch 20; inconclusive: get batch 10, get pipeline 16 batch 10.");
}
