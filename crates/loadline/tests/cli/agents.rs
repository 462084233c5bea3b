//! `loadline run --agents` and `loadline agent`: several load generators of one run, with a coordinator of their own.

use std::process::{Child, Stdio};
use std::time::Instant;

use loadline_measure::gate::Baseline;
use loadline_measure::record::{Case, Record};

use crate::redis::Redis;
use crate::util::{Dir, Ended, PATIENCE, Serving, signal, wait_until};

const SECRET: &str = "a secret of many letters\n";
pub(crate) const PLAN: [&str; 12] = [
    "--workload",
    "get",
    "--keys",
    "200",
    "--connections",
    "2",
    "--threads",
    "1",
    "--warmup",
    "0s",
    "--rounds",
    "2",
];

/// The lease of runs in which nothing is lost, also on a machine that stands still for a while.
pub(crate) const PATIENT: &str = "30s";

/// A target, a coordinator, and a directory with the secret.
pub(crate) struct Site {
    pub(crate) target: Redis,
    pub(crate) coordinator: Redis,
    pub(crate) dir: Dir,
}

impl Site {
    pub(crate) fn new() -> Self {
        let dir = Dir::new();
        dir.write("secret.txt", SECRET);
        Self {
            target: Redis::start(&[]),
            coordinator: Redis::start(&[]),
            dir,
        }
    }

    fn membership(&self) -> Vec<String> {
        let words = ["--coordinator", &self.coordinator.url(), "--run", "test-1"];
        let words = words.into_iter().chain(["--secret-file", "secret.txt"]);
        words.map(str::to_owned).collect()
    }

    fn start(&self, words: &[&str]) -> Child {
        let membership = self.membership();
        let membership = membership.iter().map(String::as_str);
        let words: Vec<&str> = words.iter().copied().chain(membership).collect();
        let mut command = self.dir.command(&words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Starts `loadline run --agents` of the rank 0 with `words`.
    fn lead(&self, agents: &str, words: &[&str]) -> Child {
        let url = self.target.url();
        let own = [
            "run", &url, "--agents", agents, "--rank", "0", "--json", "all.json",
        ];
        self.start(&[&own[..], &PLAN, words].concat())
    }

    fn agent(&self, rank: &str) -> Child {
        self.start(&["agent", "--rank", rank])
    }

    /// Runs `words` with two agents, the second of which succeeds.
    fn together(&self, words: &[&str]) -> Ended {
        let own = ["--agents", "2", "--rank", "0"];
        let leader = self.start(&[words, &own].concat());
        let agent = self.agent("1");
        let ended = end(leader);
        let of_agent = end(agent);
        let said = format!("{}{}", ended.stderr, of_agent.stderr);
        assert!(of_agent.stderr.contains("done (0)"), "{said}");
        ended
    }

    fn record(&self) -> Record {
        Record::from_json(self.dir.read("all.json").as_bytes()).unwrap()
    }
}

/// Waits for the end of a process. Its output is one line, because the terminal's width breaks sentences.
fn end(process: Child) -> Ended {
    let ended = Ended::of(&["an agent"], process.wait_with_output().unwrap());
    Ended {
        stdout: one_line(&ended.stdout),
        stderr: one_line(&ended.stderr),
        ..ended
    }
}

pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The process of ours under the `env` that started it: `env` becomes it.
fn kill(process: &Child) {
    signal(process.id(), "KILL");
}

#[test]
fn three_agents_share_a_rate_and_make_one_record() {
    let site = Site::new();
    let leader = site.lead(
        "3",
        &["--rate", "3000", "--duration", "2s", "--lease", PATIENT],
    );
    let agents = [site.agent("1"), site.agent("2")];
    for agent in agents {
        let ended = end(agent);
        assert!(ended.stderr.contains("done (0)"), "{}", ended.stderr);
        assert_eq!(ended.succeeded(), "");
    }
    let text = end(leader).succeeded();
    assert!(text.contains(", from 3 agents"), "{text}");
    assert!(text.contains("agent 2"), "{text}");

    let record = site.record();
    let case = &record.cases[0];
    // A busy machine may not send all of them.
    assert_eq!(case.planned, Some(6_000));
    assert_eq!(case.ops + case.not_sent.unwrap(), 6_000);
    let ranks: Vec<u64> = record.agents.iter().map(|agent| agent.rank).collect();
    assert_eq!(ranks, [0, 1, 2]);
    assert!(record.lost_agents.is_empty() && !record.run.cut_short);
    for agent in &record.agents {
        assert!((1..=2_000).contains(&agent.cases[0].ops));
        assert!(
            agent
                .clock_bound_ns
                .is_some_and(|bound| bound < 100_000_000),
            "{agent:?}"
        );
    }
    // Only the keys of other programs are left on the target, and nothing but the last orders on the coordinator.
    assert!(site.target.says("DBSIZE", ":0"));
    assert!(site.coordinator.says("DBSIZE", ":1"));
}

#[test]
fn killed_agent_stops_the_run_and_no_figure_is_a_result() {
    let site = Site::new();
    let words = ["--rate", "2000", "--duration", "60s", "--lease", "4s"];
    let leader = site.lead("2", &words);
    let mut agent = site.agent("1");
    wait_until("both measure", || site.target.calls("get") > 500);
    kill(&agent);
    let killed = Instant::now();
    agent.wait().unwrap();
    let ended = end(leader);
    assert!(killed.elapsed() < PATIENCE);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("agent 1 sent nothing for 4000 ms"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stdout.contains("INCOMPLETE: agent 1 sent nothing"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.ends_with("loadline: run: incomplete (4)"),
        "{}",
        ended.stdout
    );
    let record = site.record();
    assert!(record.run.cut_short && record.findings.is_empty());
    assert_eq!(record.lost_agents[0].rank, 1);
    let url = site.target.url();
    let run = record.lost_agents[0].run.as_deref().unwrap();
    let clean = ["clean", &url, "--run", run];
    let named = format!("`loadline {}`", clean.join(" "));
    assert!(ended.stdout.contains(&named), "{}", ended.stdout);
    assert!(site.target.says("DBSIZE", ":200"));
    site.dir.run(&clean).succeeded();
    assert!(site.target.says("DBSIZE", ":0"));
    // The part of the other agent is there.
    assert_eq!(record.agents.len(), 1);
    assert!(record.cases[0].ops > 100);
}

/// Nanoseconds of CPU time of the thread that talks to the coordinator.
fn reporting_ns(agent: &Child) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", agent.id())).unwrap();
    let read = |task: &std::fs::DirEntry, file: &str| {
        std::fs::read_to_string(task.path().join(file)).unwrap_or_default()
    };
    let mut tasks = tasks.map(Result::unwrap);
    let thread = tasks.find(|task| read(task, "comm").trim() == "member");
    let times = read(&thread.expect("an agent has it"), "schedstat");
    times.split(' ').next().unwrap().parse().unwrap()
}

/// Prints the share of a CPU that reports take; docs/scale.md has that of an optimized build.
#[test]
fn agent_spends_little_of_a_cpu_on_its_reports() {
    const REPORTS: u64 = 5;
    let site = Site::new();
    let words = ["--rate", "2000", "--duration", "60s", "--lease", PATIENT];
    let mut leader = site.lead("2", &words);
    let mut agent = site.agent("1");
    wait_until("both measure", || site.target.calls("get") > 1_000);
    let reports = || site.coordinator.length_of("loadline:agents:test-1:reports");
    let (reports_before, before) = (reports(), reporting_ns(&agent));
    // Those of the leader are among them.
    wait_until("both report", || reports() >= reports_before + 2 * REPORTS);
    let each_ns = (reporting_ns(&agent) - before) / REPORTS;
    println!("{} us per report and second", each_ns / 1_000);
    // Half a percent of the CPU time of a second, and five times that without optimization.
    let most_ns = if cfg!(debug_assertions) {
        25_000_000
    } else {
        5_000_000
    };
    assert!(each_ns <= most_ns, "{each_ns} ns");
    for process in [&mut leader, &mut agent] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

#[test]
fn degraded_run_goes_on_and_says_so() {
    let site = Site::new();
    let words = [
        "--rate",
        "2000",
        "--duration",
        "6s",
        "--degraded",
        "1",
        "--lease",
        "4s",
    ];
    let leader = site.lead("2", &words);
    let mut agent = site.agent("1");
    wait_until("both measure", || site.target.calls("get") > 500);
    kill(&agent);
    agent.wait().unwrap();
    let text = end(leader).succeeded();
    assert!(
        text.contains("DEGRADED: from 1 agent only, because agent 1 sent nothing"),
        "{text}"
    );
    let record = site.record();
    assert_eq!(record.lost_agents.len(), 1);
    assert_eq!(record.cases[0].planned, Some(6_000));
}

#[test]
fn lost_coordinator_leaves_a_file_per_agent_that_can_be_merged() {
    let site = Site::new();
    let leader = site.lead("2", &["--rate", "2000", "--duration", "60s"]);
    let agent = site.agent("1");
    wait_until("both measure", || site.target.calls("get") > 1_000);
    signal(site.coordinator.pid(), "KILL");
    for ended in [end(leader), end(agent)] {
        assert_eq!(ended.code, Some(4), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("loadline-test-1-"),
            "{}",
            ended.stderr
        );
    }
    let words = ["merge", "loadline-test-1-0.json", "loadline-test-1-1.json"];
    let merged = site.dir.run(&words);
    assert_eq!(merged.code, Some(4), "{}", merged.stderr);
    assert!(merged.stdout.contains("agent 1"), "{}", merged.stdout);
}

#[test]
fn missing_agent_ends_the_run_with_its_name() {
    let site = Site::new();
    let words = ["--duration", "1s", "--join-timeout", "1s"];
    let ended = end(site.lead("2", &words));
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("agent 1 did not join"),
        "{}",
        ended.stderr
    );
}

#[test]
fn agent_refuses_a_plan_that_is_not_signed_with_its_secret() {
    let site = Site::new();
    let words = ["--duration", "1s", "--join-timeout", "30s"];
    let mut leader = site.lead("2", &words);
    wait_until("there is a plan", || {
        site.coordinator
            .says("EXISTS loadline:agents:test-1:plan", ":1")
    });
    site.dir
        .write("secret.txt", "another secret of many letters\n");
    let ended = end(site.agent("1"));
    ended.failed(64, "not signed with the secret");
    leader.kill().unwrap();
    leader.wait().unwrap();
}

/// One of the servers burns CPU time in each command.
#[test]
fn agents_compare_two_targets_round_by_round() {
    let site = Site::new();
    let slow = Serving::embedded(&site.dir, &["--burn-per-command", "2ms"]);
    let (fast, slow) = (site.target.url(), format!("redis://{}", slow.address));
    let words = [
        "compare",
        &fast,
        &slow,
        "--agents",
        "2",
        "--rank",
        "0",
        "--json",
        "all.json",
        "--workload",
        "get",
        "--connections",
        "1",
        "--threads",
        "1",
        "--keys",
        "100",
        "--duration",
        "800ms",
        "--rounds",
        "10",
        "--lease",
        PATIENT,
    ];
    let (leader, agent) = (site.start(&words), site.agent("1"));
    assert_eq!(end(agent).succeeded(), "");
    let ended = end(leader);
    assert_eq!(ended.code, Some(2), "{}{}", ended.stdout, ended.stderr);
    assert!(
        ended.stdout.ends_with("loadline: compare: critical (2)"),
        "{}",
        ended.stdout
    );
    let record = site.record();
    assert_eq!((record.cases.len(), record.agents.len()), (2, 2));
    // A block in which a busy machine ran few operations has no median, but it has a rate.
    let rates = &record.comparisons[0];
    assert_eq!(rates.metric, "throughput_ops_per_s");
    assert_eq!((rates.a, rates.b, rates.rounds), (0, 1, 10));
    assert!(rates.ratio < 0.8, "{rates:?}");
    // Both agents measured the same target at the same time.
    for case in &record.cases {
        assert_eq!(case.rounds.len(), 10);
        assert!(
            case.rounds
                .iter()
                .all(|round| round.duration_ns < 1_000_000_000)
        );
    }
}

/// The words of a short run of one case.
const SHORT: [&str; 14] = [
    "--workload",
    "get",
    "--connections",
    "1",
    "--threads",
    "1",
    "--keys",
    "100",
    "--rounds",
    "2",
    "--duration",
    "60ms",
    "--lease",
    PATIENT,
];

#[test]
fn agents_save_a_baseline_and_gate_repeats_its_runs() {
    let site = Site::new();
    let url = site.target.url();
    let save = ["baseline", "save", "b.json", &url, "--runs", "2"];
    site.together(&[&save[..], &SHORT].concat()).succeeded();
    site.together(&["baseline", "add", "b.json", "--lease", PATIENT])
        .succeeded();
    let saved = Baseline::from_json(site.dir.read("b.json").as_bytes()).unwrap();
    assert_eq!((saved.runs.len(), &saved.plan["agents"]), (3, &2.into()));
    let case = saved.runs[0].cases.values().next().unwrap();
    assert!(case.reference_ns_p50.is_some_and(|ns| ns > 0.0));

    // Without a suspicion, there is no second run, and the agents hear of that.
    let gate = ["gate", "b.json", "--lease", PATIENT, "--json", "all.json"];
    let ended = site.together(&gate);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(site.record().agents.len(), 2);
    let ended = site.together(&[&gate[..], &["--limit", "get.p50<1ns"]].concat());
    assert_eq!(ended.code, Some(2), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("measuring again"), "{}", ended.stderr);
    assert!(
        ended.stdout.contains(", from 2 agents."),
        "{}",
        ended.stdout
    );

    let alone = site.dir.run(&["gate", "b.json"]);
    alone.failed(64, "its runs are of 2 agents together; give --agents 2");
    assert!(site.target.says("DBSIZE", ":0"));
}

#[test]
fn run_without_one_of_its_agents_is_in_no_baseline() {
    let site = Site::new();
    let url = site.target.url();
    let words = [
        "baseline", "save", "b.json", &url, "--agents", "2", "--rank", "0",
    ];
    let long = [
        "--workload",
        "get",
        "--threads",
        "1",
        "--duration",
        "60s",
        "--lease",
        "4s",
    ];
    let leader = site.start(&[&words[..], &long].concat());
    let mut agent = site.agent("1");
    wait_until("both measure", || site.target.calls("get") > 500);
    kill(&agent);
    agent.wait().unwrap();
    let ended = end(leader);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    assert!(
        ended.stderr.contains(": agent 1 sent nothing for 4000 ms."),
        "{}",
        ended.stderr
    );
    assert!(!site.dir.path().join("b.json").exists());
}

/// A short suite.
const SUITE: [&str; 8] = [
    "--ops", "400", "--rounds", "1", "--warmup", "0ms", "--lease", PATIENT,
];

impl Site {
    /// A site whose target has no XADD.
    fn without_streams() -> Self {
        Self {
            target: Redis::start(&["--rename-command", "XADD", ""]),
            ..Self::new()
        }
    }
}

#[test]
fn suite_of_agents_adds_up_case_by_case_without_those_that_the_target_lacks() {
    let site = Site::without_streams();
    let url = site.target.url();
    let words = ["run", &url, "--agents", "2", "--rank", "0"];
    let suite = ["--workload", "manager", "--json", "all.json"];
    let leader = site.start(&[&words[..], &suite, &SUITE].concat());
    let agent = site.agent("1");
    let text = end(leader).succeeded();
    assert_eq!(end(agent).succeeded(), "");
    assert!(text.contains(", from 2 agents"), "{text}");
    let lacks = "has no XADD: xadd, xread, stream left out.";
    assert!(text.contains(lacks), "{text}");

    let record = site.record();
    let names: Vec<String> = record.cases.iter().map(Case::name).collect();
    let rest = crate::suite::MANAGER.into_iter();
    let rest = rest.filter(|name| !["xadd", "xread", "stream"].contains(name));
    assert_eq!(names, rest.collect::<Vec<_>>());
    for (index, case) in record.cases.iter().enumerate() {
        let about = case.name();
        let parts = record.agents.iter().map(|agent| &agent.cases[index]);
        let each: Vec<u64> = parts.map(|part| part.ops).collect();
        // A job of whole blocks does not divide them.
        let ops = case.ops / 2;
        assert_eq!((each, case.error_count()), (vec![ops; 2], 0), "{about}");
        assert!((200..=400).contains(&ops), "{about}: {ops}");
        let times = case.response_histogram().unwrap().unwrap();
        assert_eq!(times.count(), case.ops, "{about}");
    }
    let memory = &record.cases.last().unwrap().cost;
    let bytes = memory.client_bytes_per_connection.unwrap();
    assert!((1e3..1e6).contains(&bytes), "{bytes} bytes");
    assert!(site.target.says("DBSIZE", ":0"));
}

#[test]
fn agents_save_a_baseline_of_a_suite_that_the_gate_repeats() {
    let site = Site::new();
    let url = site.target.url();
    let suite = ["--workload", "manager-classic", "--runs", "1"];
    let save = [&["baseline", "save", "b.json", &url], &suite[..], &SUITE].concat();
    site.together(&save).succeeded();
    let gate = ["gate", "b.json", "--lease", PATIENT, "--json", "all.json"];
    let ended = site.together(&gate);
    // One run says nothing about the spread of runs.
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(
        ended.stdout.contains(", from 2 agents."),
        "{}",
        ended.stdout
    );
    let record = site.record();
    assert_eq!((record.cases.len(), record.agents.len()), (7, 2));
    assert!(record.judgement.is_some());
}

#[test]
fn agents_compare_the_cases_of_a_suite_that_both_targets_have() {
    let site = Site::without_streams();
    let (url, other) = (site.target.url(), Redis::start(&[]));
    let words = ["compare", &other.url(), &url, "--json", "all.json"];
    let suite = ["--workload", "manager-classic"];
    let ended = site.together(&[&words[..], &suite, &SUITE].concat());
    assert!(ended.code.is_some_and(|code| code <= 2), "{}", ended.stderr);
    let record = site.record();
    let names: Vec<String> = record.cases.iter().map(Case::name).collect();
    let common = ["set", "get", "del", "set_sequential", "pipeline_set"];
    let pairs = common.into_iter().flat_map(|name| [name; 2]);
    assert_eq!(names, pairs.collect::<Vec<_>>());
}

#[test]
fn agent_without_a_right_that_others_have_ends_the_run() {
    let site = Site::new();
    let url = site.target.url();
    let ann = "ACL SETUSER ann on >hunter2 ~* &* +@all -xadd";
    assert!(site.target.says(ann, "+OK"));
    site.dir.write("password.txt", "hunter2");
    let words = ["run", &url, "--agents", "2", "--rank", "0"];
    let suite = ["--workload", "manager-classic"];
    let leader = site.start(&[&words[..], &suite, &SUITE].concat());
    let login = ["--user", "ann", "--password-file", "password.txt"];
    let agent = site.start(&[&["agent", "--rank", "1"], &login[..]].concat());
    let ended = end(leader);
    end(agent);
    assert_eq!(ended.code, Some(4), "{}{}", ended.stdout, ended.stderr);
    let why = "INCOMPLETE: agent 1 left out a case that others measure";
    assert!(ended.stdout.contains(why), "{}", ended.stdout);
}

/// The words of a short search with two agents.
const SEARCH: [&str; 21] = [
    "--agents",
    "2",
    "--rank",
    "0",
    "--slo",
    "p90<50ms",
    "--duration",
    "50ms",
    "--max-time",
    "16s",
    "--connections",
    "1",
    "--threads",
    "1",
    "--keys",
    "100",
    "--json",
    "all.json",
    "--join-timeout",
    "20s",
    "--lease",
];

/// Whether there is time for a confirmed answer depends on the machine.
#[test]
fn agents_are_added_to_a_search_and_its_trials_are_those_of_the_most() {
    let site = Site::new();
    let url = site.target.url();
    let words = [&["capacity", &url], &SEARCH[..], &[PATIENT]].concat();
    let (leader, agent) = (site.start(&words), site.agent("1"));
    let text = end(leader).succeeded();
    let ended = end(agent);
    assert!(ended.stderr.contains("done (0)"), "{}", ended.stderr);
    let record = site.record();
    let answer = crate::capacity::answer(&record);
    let tried: Vec<u64> = answer.agents.iter().map(|step| step.agents).collect();
    assert_eq!(tried, [1, 2], "{text}");
    let best = answer
        .agents
        .iter()
        .max_by(|a, b| a.rate.total_cmp(&b.rate));
    let best = best.unwrap();
    assert_eq!(record.agents.len() as u64, best.agents);
    assert_eq!(answer.lower.map_or(0.0, |lower| lower.rate), best.rate);
    for agent in &record.agents {
        assert_eq!(agent.cases.len(), record.cases.len());
        // The machine of each was watched in each trial.
        let watched = agent.cases.iter().all(|case| {
            let pauses = case.cpu_pauses;
            pauses.is_some_and(|pauses| pauses.others_ns.is_some())
        });
        assert!(watched, "{agent:?}");
    }
    assert!(text.contains("2 agents carried"), "{text}");
    assert!(site.target.says("DBSIZE", ":0"));
}

#[test]
fn answers_of_fewer_agents_outlive_an_agent_that_is_killed_in_a_later_search() {
    let site = Site::new();
    let url = site.target.url();
    let words = [&["capacity", &url], &SEARCH[..], &["4s"]].concat();
    let (leader, mut agent) = (site.start(&words), site.agent("1"));
    let key = "loadline:agents:test-1";
    let holds = |command: String, part| site.coordinator.says(&command, part);
    wait_until("both agents search", || {
        holds(format!("GET {key}:plan"), "\"agents\":2")
            && holds(format!("XRANGE {key}:reports - +"), "\"rank\":1")
    });
    kill(&agent);
    agent.wait().unwrap();
    let ended = end(leader);
    assert_eq!(ended.code, Some(4), "{}{}", ended.stdout, ended.stderr);
    for said in [
        "INCOMPLETE: agent 1",
        "Searches that were complete, in operations per second: ",
        " with 1 agent.",
        "loadline: capacity: incomplete (4)",
    ] {
        assert!(ended.stdout.contains(said), "{}", ended.stdout);
    }
    let record = site.record();
    assert!(record.run.cut_short);
    assert_eq!(record.lost_agents[0].rank, 1);
    let answer = crate::capacity::answer(&record);
    let [step] = &answer.agents[..] else {
        panic!("{answer:?}")
    };
    assert_eq!((step.agents, record.agents.len()), (1, 1));
    assert_eq!(answer.interval().0.unwrap_or(0.0), step.rate);
    assert!(!answer.curve.is_empty());
    // No sentence claims a side that limits the load.
    let claims = |text: &String| text.contains("carries") || text.contains("the limit");
    assert!(!record.findings.iter().any(claims), "{:?}", record.findings);
}

#[test]
fn plans_that_agents_cannot_share_are_refused() {
    let site = Site::new();
    let refused = |words: &[&str], why: &str| {
        let membership = site.membership();
        let membership = membership.iter().map(String::as_str);
        let own = ["--agents", "2", "--rank", "0"]
            .into_iter()
            .chain(membership);
        let words: Vec<&str> = words.iter().copied().chain(own).collect();
        site.dir.run(&words).failed(64, why);
    };
    refused(&["run"], "name a TARGET");
    refused(
        &["run", "redis://db", "redis://other", "--degraded", "1"],
        "needs the same load in all of its rounds",
    );
    refused(&["compare", "redis://db", "embedded"], "cannot be shared");
    refused(&["compare", "a.json", "b.json"], "name two running servers");
    refused(
        &["baseline", "save", "b.json", "embedded"],
        "cannot be shared",
    );
    refused(
        &[
            "baseline",
            "save",
            "b.json",
            "redis://db",
            "--degraded",
            "1",
        ],
        "the runs of a baseline need the same load",
    );
    refused(&["capacity", "embedded"], "cannot be shared");
    refused(&["run", "embedded"], "cannot be shared");
    refused(&["run", "redis://ann:hunter2@db"], "holds no credentials");
    site.dir
        .write("x.toml", "[[command]]\ntemplate = \"GET {key}\"\n");
    refused(&["run", "redis://db", "--workload", "x.toml"], "x.toml");
    for alone in ["modes", "tiers", "engines", "clients", "failover", "prove"] {
        let why = format!("--agents: `{alone}` has one load generator, because ");
        refused(&[alone], &why);
    }
    let url = site.target.url();
    assert!(site.target.says("SET theirs 1", "+OK"));
    for measured in [&["run", &url][..], &["baseline", "save", "b.json", &url]] {
        refused(measured, "already holds 1 key");
    }
    let own = site.coordinator.url();
    refused(&["run", &own], "is a server of the target");
    // The same server by another address.
    refused(
        &["run", &own.replace("127.0.0.1", "localhost")],
        "is a server of the target",
    );
    site.dir
        .run(&[
            "agent",
            "--coordinator",
            &own,
            "--run",
            "x",
            "--secret-file",
            "secret.txt",
        ])
        .failed(64, "--rank is missing");
}

#[test]
fn rank_comes_from_the_launcher() {
    let site = Site::new();
    let url = site.target.url();
    let membership = site.membership();
    let start = |rank: &str| {
        let own = [
            "run",
            &url,
            "--agents",
            "2",
            "--duration",
            "1s",
            "--lease",
            PATIENT,
        ]
        .into_iter();
        let words: Vec<&str> = own
            .chain(PLAN)
            .chain(membership.iter().map(String::as_str))
            .collect();
        let mut command = site.dir.command(&words);
        command.env("OMPI_COMM_WORLD_RANK", rank);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let (second, first) = (start("1"), start("0"));
    let text = end(first).succeeded();
    assert!(text.contains(", from 2 agents"), "{text}");
    assert_eq!(end(second).succeeded(), "");
}
