//! `loadline clients`, with drivers in Bash that speak the Redis protocol themselves.

use loadline_measure::clients::{Ending, Fault};
use loadline_measure::gate::RowVerdict;
use loadline_measure::record::{Answer, Clients, Pacing, Record, SubjectKind};

use crate::util::Dir;

fn clients_of(record: &Record) -> &Clients {
    match &record.answer {
        Answer::Clients(found) => found,
        other => panic!("{other:?}"),
    }
}

/// A driver of a connection of Bash. Its name says what is wrong with it.
const DRIVER: &str = r#"
trap '' PIPE
read -r config
field() { [[ $config =~ \"$1\":\"?([^,\"}]*) ]] && printf '%s' "${BASH_REMATCH[1]}"; }
client=$(field client) prefix=$(field key_prefix) size=$(field value_bytes) keys=$(field keys)
echo "$client" >>starts
mode=$(field mode) operation=$(field operation) host=$(field host) port=$(field port) rate=$(field rate)
connect() { exec 3<>"/dev/tcp/$host/$port"; }
connect 2>/dev/null
value=$(printf 'x%.0s' $(seq "$size"))
case $client in
mute) touch started; sleep 60 ;;
late) [[ $mode == faults ]] && { touch waiting; sleep 60; } ;;
dead) echo 'no memory' >&2; exit 3 ;;
babble) echo 'hello' ;;
endless) while :; do printf 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'; done ;;
esac
printf '{"ready":{"client":"%s","version":"1","runtime":"Bash %s","options":[]}}\n' "$client" "${BASH_VERSION%%(*}"
ticks() { local f; read -ra f </proc/$$/stat; echo "$(((f[13] + f[14]) * 10000000))"; }
reply() { # sets kind and body; fails where there is no connection
    IFS= read -r line <&3 2>/dev/null || return 1
    line=${line%$'\r'} kind=${line:0:1} body=${line:1}
    [[ $kind != '$' || $body == -1 ]] || IFS= read -r text <&3
}
send() { # in one write: the kernel would hold back a second one
    local out part
    printf -v out '*%d\r\n' $#
    for word; do printf -v part '$%d\r\n%s\r\n' ${#word} "$word" && out+=$part; done
    printf '%s' "$out"
}
record() { # counts a time in the histogram of a name
    local -n into=$1
    local shift=0
    while (($2 >> shift >= 2048)); do shift=$((shift + 1)); done
    into[1024 * shift + ($2 >> shift)]=$((${into[1024 * shift + ($2 >> shift)]:-0} + 1))
}
pairs() {
    local -n from=$1
    local slot text=
    for slot in "${!from[@]}"; do text+=",[$slot,${from[slot]}]"; done
    printf '[%s]' "${text#,}"
}
while read -r verb time most seed; do
    if [[ $verb == open ]]; then
        for ((i = 0; i < time; i++)); do exec {another}<>"/dev/tcp/$host/$port"; done
        printf '{"opened":%d}\n' "$time"
        continue
    fi
    start=${EPOCHREALTIME/[.,]/}000 cpu=$(ticks) n=0 misses=0 wrong=0 failed=0
    [[ $client == deserter ]] && exit 0
    end=$((start + time)) response=() service=() lag=()
    while ((most == 0 || n < most)) && { ((time == 0 || n == 0)) || ((${EPOCHREALTIME/[.,]/}000 < end)); }; do
        if ((rate > 0)) && [[ $client != eager ]]; then
            due=$((start + n * 1000000000 / rate))
            ((time > 0 && n > 0 && due >= end)) && break
            waits=$((due > ${EPOCHREALTIME/[.,]/}000))
            while left=$((due - ${EPOCHREALTIME/[.,]/}000)); ((left > 0)); do sleep "0.00$((left / 1000000 % 10))1"; done
        fi
        seed=$(((seed ^ seed << 13) & 0xffffffff)) seed=$((seed ^ seed >> 17)) seed=$(((seed ^ seed << 5) & 0xffffffff))
        printf -v key '%s%08d' "$prefix" $((seed % keys))
        if [[ $mode == faults ]]; then
            begun=${EPOCHREALTIME/[.,]/}000 outcome=acknowledged error=
            if ! { send INCR "$prefix$n" >&3; } 2>/dev/null || ! reply; then
                outcome=unknown error=closed
                connect 2>/dev/null
            elif [[ $kind == - ]]; then
                outcome=failed error=${body%% *}
            fi
            printf '{"op":{"kind":"incr","key":"k","sequence":%d,"outcome":"%s","error":"%s","ns":%d}}\n' \
                $n $outcome "$error" $((${EPOCHREALTIME/[.,]/}000 - begun))
            n=$((n + 1))
            sleep 0.005
            continue
        fi
        begun=${EPOCHREALTIME/[.,]/}000
        if [[ $operation == get ]]; then send GET "$key" >&3; else send SET "$key" "$value" >&3; fi
        reply
        if [[ $kind == - ]]; then failed=$((failed + 1))
        elif [[ $kind$body == '$-1' ]]; then misses=$((misses + 1))
        elif [[ $operation == get && $body != "$size" ]]; then wrong=$((wrong + 1)); fi
        n=$((n + 1))
        if ((rate > 0)) && [[ $client == punctual || $client == omitting ]]; then
            now=${EPOCHREALTIME/[.,]/}000 since=$due
            [[ $client == punctual ]] || since=$begun
            record response $((now - since))
            record service $((now - begun))
            record lag $((waits ? begun - due : 0))
        fi
    done
    [[ $mode == faults ]] && n=0
    [[ $client == liar ]] && n=$((n * 2))
    printf '{"result":{"ops":%d,"errors":{"WRONGTYPE":%d,"WRONGVALUE":%d},"misses":%d,"elapsed_ns":%d,' \
        $n $failed $wrong $misses $((${EPOCHREALTIME/[.,]/}000 - start))
    printf '"user_cpu_ns":%d,"system_cpu_ns":0,"max_rss_bytes":1' $(($(ticks) - cpu))
    if ((${#response[@]} > 0)); then
        printf ',"histogram":%s,"service_histogram":%s,"lag_histogram":%s}}\n' \
            "$(pairs response)" "$(pairs service)" "$(pairs lag)"
        continue
    fi
    printf ',"histogram":[[9000,%d]]' $n
    ((rate == 0)) || printf ',"service_histogram":[[8000,%d]],"lag_histogram":[[7,%d]]' $n $n
    printf '}}\n'
done
"#;

/// A directory with the drivers.
fn drivers(dir: &Dir) {
    only_drivers(
        dir,
        &[
            "one", "two", "liar", "mute", "late", "dead", "babble", "endless", "deserter", "eager",
            "paced", "punctual", "omitting",
        ],
    );
}

/// A directory with those drivers that are named.
fn only_drivers(dir: &Dir, names: &[&str]) {
    let folder = dir.path().join("drivers/bash");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("driver.sh"), DRIVER).unwrap();
    let mut manifest = "language = \"Bash\"\ncommand = [\"bash\", \"driver.sh\"]\n".to_owned();
    for name in names {
        manifest +=
            &format!("[[client]]\nname = \"{name}\"\nmodes = [\"sync\", \"faults\"]\nresp = [2]\n");
        if ["eager", "paced", "punctual", "omitting"].contains(name) {
            manifest += "rate = true\nconnections = true\n";
        }
    }
    std::fs::write(folder.join("driver.toml"), manifest).unwrap();
}

const QUICK: [&str; 9] = [
    "clients",
    "embedded",
    "--no-faults",
    "--ops",
    "get",
    "--keys",
    "20",
    "--warmup",
    "0ms",
];

fn quick<'w>(words: &[&'w str]) -> Vec<&'w str> {
    [&QUICK, words].concat()
}

fn record(dir: &Dir) -> Record {
    Record::from_json(dir.read("out.json").as_bytes()).unwrap()
}

#[test]
fn two_drivers_are_compared_and_gates_are_judged() {
    let dir = Dir::new();
    drivers(&dir);
    let gate = |factor: &str| format!("one.get >= {factor} * two.get");
    let (kept, broken) = (gate("0.01"), gate("100"));
    let words = quick(&[
        "--only",
        "one,two",
        "--duration",
        "400ms",
        "--rounds",
        "10",
        "--json",
        "out.json",
        "--gate",
        &kept,
    ]);
    let ended = dir.run(&words);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stderr, ended.stdout);
    let record = record(&dir);
    let clients = clients_of(&record);
    assert_eq!(clients.reference, "one");
    assert!(
        clients
            .rows
            .iter()
            .all(|row| row.is_valid && row.counted.is_some())
    );
    assert!(
        record
            .cases
            .iter()
            .all(|case| case.subject.kind == SubjectKind::Client && case.ops > 0)
    );
    let is_counted = clients
        .rows
        .iter()
        .all(|row| row.system_calls_per_op.is_some_and(|calls| calls > 0.5));
    let why = |finding: &String| finding.starts_with("System calls were not counted: ");
    assert!(
        is_counted || record.findings.iter().any(why),
        "{:?}",
        clients.rows
    );
    assert_eq!(record.limits[0].verdict, RowVerdict::Equivalent);
    assert!(record.limits[0].lo.is_some(), "{:?}", record.limits);
    let words = quick(&[
        "--only",
        "one,two",
        "--duration",
        "400ms",
        "--rounds",
        "10",
        "--gate",
        &broken,
    ]);
    let ended = dir.run(&words);
    assert_eq!(ended.code, Some(2), "{}\n{}", ended.stderr, ended.stdout);
    assert!(ended.stdout.contains("loadline: clients: critical (2)"));
}

/// A block of an open loop ends when nothing more is due. A driver that calls without regard to the rate is refused, and so is
/// one that says that it has none.
#[test]
fn open_loop_calls_what_is_due() {
    let dir = Dir::new();
    drivers(&dir);
    let run = |name: &str, rate: &str| {
        let words = ["--only", name, "--rate", rate, "--duration", "600ms"];
        dir.run(&quick(
            &[
                &words[..],
                &["--rounds", "2", "--json", "out.json", "--quiet"],
            ]
            .concat(),
        ))
    };
    let ended = run("paced", "100");
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stderr, ended.stdout);
    let record = record(&dir);
    let case = &record.cases[0];
    assert_eq!(case.scenario.pacing, Pacing::Rate(100.0));
    assert_eq!(case.planned, Some(60));
    assert_eq!(case.not_sent, Some(60 - case.ops));
    assert!(case.ops > 4, "{case:?}");
    // Slots 9000, 8000 and 7 of the histograms.
    assert!(case.response_time_ns.max > case.service_time_ns.max);
    assert_eq!(case.lag_ns.as_ref().and_then(|lag| lag.max), Some(7));
    assert!(
        case.cost.client_bytes_per_connection.is_some(),
        "{:?}",
        case.cost
    );
    run("eager", "10").failed(69, "operations of 3 that were due");
    run("one", "10").failed(64, "one does not support a rate");
}

#[test]
fn latency_is_in_the_path_of_every_client() {
    let dir = Dir::new();
    drivers(&dir);
    let words = [
        "--only",
        "one",
        "--latency",
        "5ms",
        "--duration",
        "200ms",
        "--rounds",
        "2",
    ];
    let ended = dir.run(&quick(&[&words[..], &["--json", "out.json"]].concat()));
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stderr, ended.stdout);
    let case = &record(&dir).cases[0];
    assert_eq!(case.scenario.latency_ns, 5_000_000);
    assert!(
        case.ops > 0 && case.duration_ns / case.ops >= 5_000_000,
        "{case:?}"
    );
}

#[test]
fn operations_that_the_server_did_not_count_make_a_row_invalid() {
    let dir = Dir::new();
    drivers(&dir);
    let words = quick(&[
        "--only",
        "one,liar",
        "--duration",
        "200ms",
        "--rounds",
        "2",
        "--json",
        "out.json",
        "--gate",
        "liar.get >= 0.1 * one.get",
        "--strict",
    ]);
    let ended = dir.run(&words);
    assert_eq!(ended.code, Some(3), "{}\n{}", ended.stderr, ended.stdout);
    let rows = clients_of(&record(&dir)).clone().rows;
    assert_eq!((rows[0].is_valid, rows[1].is_valid), (true, false));
    assert!(
        ended.stdout.contains("invalid: the client reported"),
        "{}",
        ended.stdout
    );
}

#[test]
fn driver_that_breaks_the_contract_ends_the_run_with_a_sentence() {
    let dir = Dir::new();
    drivers(&dir);
    for (name, reason) in [
        ("dead", "It said: no memory"),
        ("babble", "broke the protocol: `hello`"),
        ("endless", "a line of more than"),
        ("deserter", "ended early"),
    ] {
        let words = quick(&[
            "--only",
            name,
            "--duration",
            "100ms",
            "--rounds",
            "1",
            "--quiet",
        ]);
        dir.run(&words).failed(69, reason);
    }
    dir.run(&["clients", "--only", "three"])
        .failed(64, "unknown driver `three`");
    let listed = dir.run(&["clients", "--list"]).succeeded();
    assert_eq!(listed.lines().count(), 13, "{listed}");
}

#[test]
fn without_drivers_the_own_client_is_measured() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path().join("none")).unwrap();
    let words = [
        "clients",
        "embedded",
        "--drivers",
        "none",
        "--no-faults",
        "--ops",
        "get,set-pipeline-10,multiplexed-8",
        "--rate",
        "2k",
        "--keys",
        "20",
        "--warmup",
        "0ms",
        "--duration",
        "50ms",
        "--rounds",
        "2",
        "--json",
        "out.json",
    ];
    let text = dir.run(&words).succeeded();
    assert!(text.contains("cargo xtask drivers --install"), "{text}");
    let record = record(&dir);
    let rows = clients_of(&record).rows.clone();
    assert_eq!(rows.len(), 3);
    assert!(
        rows.iter()
            .all(|row| row.is_valid && row.driver == "loadline")
    );
}

#[test]
fn built_in_driver_keeps_the_contract() {
    let dir = Dir::new();
    let program = env!("CARGO_BIN_EXE_loadline");
    let manifest = format!(
        "language = \"Rust\"\ncommand = [\"{program}\", \"__driver\"]\n[[client]]\nname = \"loadline\"\nmodes = [\"sync\", \"pipeline\", \"multiplexed\", \"faults\"]\nresp = [2, 3]\nconnections = true\nrate = true\n"
    );
    std::fs::write(dir.path().join("driver.toml"), manifest).unwrap();
    dir.run(&["clients", "embedded", "--conformance", "."])
        .succeeded();
}

/// The others are measured without it by the processes that run already.
#[test]
fn driver_that_fails_does_not_start_the_others_again() {
    let dir = Dir::new();
    only_drivers(&dir, &["one", "two", "deserter"]);
    let words = ["--duration", "50ms", "--rounds", "2", "--json", "out.json"];
    dir.run(&quick(&words)).succeeded();
    let record = record(&dir);
    assert_eq!(record.cases.len(), 2);
    assert!(
        record
            .findings
            .iter()
            .any(|text| text.starts_with("deserter (RESP2) was left out: driver deserter ended")),
        "{:?}",
        record.findings
    );
    let starts = dir.read("drivers/bash/starts");
    let mut starts: Vec<&str> = starts.lines().collect();
    starts.sort_unstable();
    assert_eq!(starts, ["deserter", "one", "two"]);
}

#[test]
fn interrupt_ends_a_driver_that_says_nothing() {
    let dir = Dir::new();
    drivers(&dir);
    let mut child = dir
        .command(&quick(&["--only", "mute"]))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    crate::util::wait_until("the driver runs", || {
        dir.path().join("drivers/bash/started").exists()
    });
    crate::util::signal(child.id(), "INT");
    let mut code = None;
    crate::util::wait_until("the run ends", || {
        code = child.try_wait().unwrap();
        code.is_some()
    });
    assert!(!code.unwrap().success());
}

#[test]
fn conformance_passes_a_good_driver_and_names_what_a_bad_one_does() {
    let dir = Dir::new();
    drivers(&dir);
    let words = ["clients", "embedded", "--keys", "200", "--conformance"];
    let run = |name: &str| dir.run(&[&words[..], &[name]].concat());
    let good = run("one");
    assert_eq!(good.code, Some(0), "{}{}", good.stdout, good.stderr);
    assert!(
        good.stdout
            .contains("ok      one RESP2 sync: reads as often as the server counts")
    );
    assert!(good.stdout.contains("loadline: conformance: passed (0)"));
    let bad = run("liar");
    assert_eq!(bad.code, Some(2), "{}{}", bad.stdout, bad.stderr);
    assert!(
        bad.stdout
            .contains("FAILED  liar RESP2 sync: reads as often as the server counts: "),
        "{}",
        bad.stdout
    );
    run("nothing").failed(64, "unknown driver");
}

/// In counts, which hold on a busy machine too.
#[test]
fn conformance_finds_drivers_that_do_not_keep_a_rate() {
    const WHAT: &str = "RESP2 sync: keeps a rate, and counts the time since calls were due";
    let dir = Dir::new();
    drivers(&dir);
    let words = ["clients", "embedded", "--keys", "200", "--conformance"];
    let run = |name: &str| dir.run(&[&words[..], &[name]].concat());
    let good = run("punctual");
    assert_eq!(good.code, Some(0), "{}{}", good.stdout, good.stderr);
    for what in [
        WHAT,
        "RESP2 sync: opens the connections that it is asked for",
    ] {
        let line = format!("ok      punctual {what}\n");
        assert!(good.stdout.contains(&line), "{}", good.stdout);
    }
    // One leaves out the time that an operation waited behind the one before, and the other does not wait until calls are due.
    for name in ["omitting", "eager"] {
        let bad = run(name);
        assert_eq!(bad.code, Some(2), "{}{}", bad.stdout, bad.stderr);
        let failed = format!("FAILED  {name} {WHAT}: ");
        let lines: Vec<&str> = bad.stdout.lines().collect();
        let failures = lines.iter().filter(|line| line.starts_with("FAILED"));
        let failures: Vec<_> = failures.collect();
        assert!(
            matches!(&failures[..], [line] if line.starts_with(&failed)),
            "{}",
            bad.stdout
        );
    }
}

#[test]
fn runs_with_faults_count_what_clients_do() {
    let dir = Dir::new();
    drivers(&dir);
    let words = [
        "clients",
        "embedded",
        "--only",
        "one",
        "--ops",
        "get",
        "--keys",
        "20",
        "--duration",
        "50ms",
        "--rounds",
        "1",
        "--json",
        "out.json",
    ];
    let ended = dir.run(&words);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stderr, ended.stdout);
    let behaviour = clients_of(&record(&dir)).clone().behaviour;
    assert_eq!(behaviour.len(), 8);
    let of = |fault: Fault| behaviour.iter().find(|one| one.fault == fault).unwrap();
    let cut = of(Fault::ReplyCut);
    assert!(
        cut.faults > 0 && cut.operations.unknown >= cut.faults,
        "{cut:?}"
    );
    assert_eq!((cut.executed_twice, cut.lost), (Some(0), Some(0)));
    let readonly = of(Fault::ReadOnly);
    assert_eq!(readonly.operations.failed, 5, "{readonly:?}");
    assert_eq!(readonly.errors.get("READONLY"), Some(&5));
    let away = of(Fault::Away);
    assert!(
        away.operations.unknown > 0 && away.recovery_ns.is_some(),
        "{away:?}"
    );
    // It has no timeout.
    assert_eq!(of(Fault::Frozen).ending, Ending::Waiting);
    assert_eq!(of(Fault::Silent).ending, Ending::Waiting);
}

/// Work before the block does not count for a client.
#[test]
fn interrupt_is_no_failure_of_a_client() {
    let dir = Dir::new();
    drivers(&dir);
    let words = quick(&["--only", "late", "--duration", "50ms", "--rounds", "1"]);
    let words = words.into_iter().filter(|word| *word != "--no-faults");
    let words: Vec<&str> = words.chain(["--json", "out.json"]).collect();
    let mut child = dir
        .command(&words)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    crate::util::wait_until("the driver waits", || {
        dir.path().join("drivers/bash/waiting").exists()
    });
    crate::util::signal(child.id(), "INT");
    let mut code = None;
    crate::util::wait_until("the run ends", || {
        code = child.try_wait().unwrap();
        code.is_some()
    });
    assert_eq!(code.unwrap().code(), Some(130));
    let clients = clients_of(&record(&dir)).clone();
    assert!(clients.behaviour.is_empty(), "{:?}", clients.behaviour);
}
