//! The plan that several load generators share: how it is sent, and what it means for each of them.

use std::time::Duration;

use loadline_load::pacing::{ArrivalProcess, Pacing};
use serde::{Deserialize, Serialize};

use super::membership::{Group, LONGEST_LEASE, MOST_AGENTS, SHORTEST_LEASE};
use crate::args::{LoginArgs, MeasureArgs, TlsArgs};
use crate::exit::Failure;
use crate::plan::{self, Plan, RoundParts, RoundsEnd, Surroundings, resolve};
use crate::secret::redact_argument;
use crate::spelling::{Address, Login, Server, Target};

/// Flags that say what is measured. A plan holds no others, so none that names a file or a program.
const SHARED: [&str; 22] = [
    "ops",
    "duration",
    "warmup",
    "rounds",
    "workload",
    "command",
    "connections",
    "threads",
    "pipeline",
    "batch",
    "in-flight",
    "rate",
    "arrivals",
    "latency",
    "jitter",
    "bandwidth",
    "keys",
    "key-dist",
    "value-size",
    "value-data",
    "verify",
    "resp",
];

/// A plan as the agents of a run get it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SharedPlan {
    /// Version of Loadline.
    pub(crate) version: String,
    /// Random number: two runs of one plan differ.
    nonce: u64,
    pub(crate) agents: u32,
    /// Agents of the command; those with ranks from `agents` on have no part in this run.
    present: u32,
    /// Random number of the command.
    series: u64,
    /// Whether the command can have further runs.
    pub(crate) has_more: bool,
    /// Whether each agent also measures its reference in each round.
    has_reference: bool,
    lease_ms: u64,
    /// Determines the order of targets in each round, and the seeds of the agents.
    pub(crate) seed: u64,
    /// One target, or several that are compared.
    targets: Vec<String>,
    /// The arguments that say what is measured, as they would be typed.
    words: Vec<String>,
}

impl SharedPlan {
    /// The plan of `targets` and the arguments `words`, resolved as `plan`, for the agents of `group`.
    ///
    /// # Errors
    /// A usage error for a plan that agents cannot share.
    pub(crate) fn of(
        targets: &[String],
        words: &[String],
        plan: &Plan,
        group: &Group,
        entropy: u64,
    ) -> Result<Self, Failure> {
        let mut words = words.to_vec();
        words.retain(|word| is_shared(word));
        words.extend(plan.threads_word(&words));
        let shared = Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            nonce: entropy,
            agents: group.agents,
            present: group.agents,
            series: entropy,
            has_more: false,
            has_reference: false,
            lease_ms: u64::try_from(group.lease.as_millis()).unwrap_or(u64::MAX),
            seed: plan.seed,
            targets: targets.to_vec(),
            words,
        };
        shared.check()?;
        Ok(shared)
    }

    /// The plan of a further run of the command, with another `nonce`.
    #[must_use]
    pub(crate) fn again(&self, nonce: u64, has_more: bool) -> Self {
        Self {
            nonce,
            has_more,
            ..self.clone()
        }
    }

    /// The plan with a block of the reference in each round, which takes its own start for each block.
    #[must_use]
    pub(crate) fn with_reference(self) -> Self {
        Self {
            has_reference: true,
            ..self
        }
    }

    /// The plan for the first `agents` of the agents, with `words` after its own.
    #[must_use]
    pub(crate) fn of_fewer(&self, agents: u32, words: &[String]) -> Self {
        Self {
            agents,
            words: [&self.words, words].concat(),
            ..self.clone()
        }
    }

    /// Whether `next` is of the same command.
    pub(crate) fn is_followed_by(&self, next: &Self) -> bool {
        self.series == next.series
    }

    /// Whether the agent `rank` only waits for the next run of the command.
    pub(crate) fn leaves_out(&self, rank: u32) -> bool {
        (self.agents..self.present).contains(&rank)
    }

    /// The arguments that say what is measured.
    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    /// Reads a plan that another process has sent.
    ///
    /// # Errors
    /// A failure for a plan of another version, or with anything but measuring in it.
    pub(crate) fn from_json(text: &str) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        struct Head {
            version: String,
        }
        let wrong = |error: serde_json::Error| {
            Failure::unavailable(format!("The plan of the run cannot be read: {error}."))
        };
        let Head { version } = serde_json::from_str(text).map_err(wrong)?;
        if version != env!("CARGO_PKG_VERSION") {
            return Err(Failure::usage(format!(
                "The plan of the run is of loadline {}, and this is {}; install the same version everywhere.",
                shortened(&version),
                env!("CARGO_PKG_VERSION")
            )));
        }
        let plan: Self = serde_json::from_str(text).map_err(wrong)?;
        plan.check()?;
        Ok(plan)
    }

    /// The plan as it is sent.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a plan holds only texts and numbers")
    }

    /// Refuses a plan that holds anything but measuring.
    fn check(&self) -> Result<(), Failure> {
        if let Some(word) = self.words.iter().find(|word| !is_shared(word)) {
            return Err(Failure::usage(format!(
                "The plan of the run holds `{}`, which agents do not accept.",
                shortened(&redact_argument(word))
            )));
        }
        let is_file = |word: &&String| {
            let workload = word.strip_prefix("--workload=");
            workload.is_some_and(|name| name.to_ascii_lowercase().ends_with(".toml"))
        };
        if let Some(word) = self.words.iter().find(is_file) {
            return Err(Failure::usage(format!(
                "{}: agents do not read workloads from files; use --command.",
                shortened(word)
            )));
        }
        if !(1..=self.present.min(MOST_AGENTS)).contains(&self.agents) {
            return Err(Failure::usage(format!(
                "The plan of the run is for {} of {} agents; expected 1 to {MOST_AGENTS}.",
                self.agents, self.present
            )));
        }
        if !(SHORTEST_LEASE..=LONGEST_LEASE).contains(&self.lease()) {
            return Err(Failure::usage(format!(
                "The plan of the run has a lease of {} ms.",
                self.lease_ms
            )));
        }
        if self.targets.is_empty() {
            return Err(Failure::usage(
                "--agents: agents start no servers; name a TARGET, such as redis://HOST:PORT.",
            ));
        }
        self.targets
            .iter()
            .try_for_each(|target| refuse_target(target))
    }

    /// The targets, and the arguments that say what is measured.
    pub(crate) fn command(&self) -> impl Iterator<Item = String> {
        self.targets.iter().chain(&self.words).cloned()
    }

    /// Time without a message after which an agent is lost.
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// The plan of the agent `rank`, with the credentials of its own machine.
    ///
    /// # Errors
    /// Those of [`resolve`].
    pub(crate) fn resolve(
        &self,
        rank: u32,
        login: &LoginArgs,
        tls: &TlsArgs,
        around: &Surroundings,
    ) -> Result<Plan, Failure> {
        if rank >= self.agents {
            let why = format!("the run has {} agents", self.agents);
            return Err(Failure::invalid("--rank", "rank", rank, why));
        }
        let measure = MeasureArgs::from_words(&self.words)
            .map_err(|why| Failure::usage(format!("The plan of the run cannot be read: {why}")))?;
        let mut args = measure.over(self.targets.clone());
        args.connection.login = login.clone();
        args.connection.tls = tls.clone();
        let mut plan = resolve(&args, around)?;
        plan.seed = seed_of(self.seed, rank);
        // The keys of other agents are there.
        plan.allow_non_empty = true;
        // Operations one at a time would not be measured beside those of other agents.
        plan.schedule.parts = match self.has_reference {
            true => RoundParts::Reference,
            false => RoundParts::Blocks,
        };
        plan.schedule.end = RoundsEnd::Planned;
        for case in &mut plan.cases {
            if let Pacing::Open { rate, .. } = &mut case.pacing {
                *rate /= f64::from(self.agents);
            }
        }
        Ok(plan)
    }
}

impl Plan {
    /// Whether each block of a group starts together, because there are others between them, and not only each case.
    pub(crate) fn starts_by_block(&self) -> bool {
        self.targets.len() > 1 || self.schedule.has_reference()
    }

    /// The number of times that the agents of a group start together.
    pub(crate) fn starts(&self) -> u32 {
        self.starts_before(self.cases.len())
    }

    /// The same before the case with the index `case`. A case that the targets do not support leaves a gap.
    pub(crate) fn starts_before(&self, case: usize) -> u32 {
        let blocks = match u32::try_from(self.targets.len()) {
            targets if self.starts_by_block() => {
                targets.unwrap_or(u32::MAX).saturating_mul(self.rounds)
            }
            _ => 1,
        };
        let cases = u32::try_from(case).unwrap_or(u32::MAX);
        cases.saturating_mul(blocks)
    }
}

impl plan::Case {
    /// Time from the common start to the first operation of the agent `rank` of `agents`: the operations of all of them
    /// are evenly spaced. Independent random arrivals need no such offset.
    pub(crate) fn offset_of(&self, rank: u32, agents: u32) -> Duration {
        match self.pacing {
            Pacing::Open {
                rate,
                arrivals: ArrivalProcess::Uniform,
            } => Duration::from_secs_f64(f64::from(rank) / (rate * f64::from(agents))),
            _ => Duration::ZERO,
        }
    }
}

/// The seed of an agent: agents choose different keys and arrivals.
fn seed_of(seed: u64, rank: u32) -> u64 {
    seed.wrapping_add(u64::from(rank).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn is_shared(word: &str) -> bool {
    let name = word.strip_prefix("--").unwrap_or_default();
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    SHARED.contains(&name)
}

/// Refuses targets that other machines cannot reach, or with credentials, which a plan does not hold.
fn refuse_target(text: &str) -> Result<(), Failure> {
    let target = Target::parse(text)?;
    let servers = match &target {
        Target::Server(server) => std::slice::from_ref(server),
        Target::Cluster(seeds) => seeds,
        _ => &[],
    };
    let is_reachable = |server: &Server| matches!(server.address, Address::Tcp { .. });
    if servers.is_empty() || !servers.iter().all(is_reachable) {
        return Err(Failure::usage(format!(
            "--agents: {target} cannot be shared; the agents of a run measure a running server or cluster, such as redis://HOST:PORT."
        )));
    }
    if servers
        .iter()
        .any(|server| server.login != Login::default())
    {
        return Err(Failure::usage(format!(
            "--agents: the plan holds no credentials, and {target} has some; give them to each agent in LOADLINE_REDIS_PASSWORD, or with --user and --password-file."
        )));
    }
    Ok(())
}

/// The beginning of a text of someone else.
fn shortened(text: &str) -> String {
    let printable = text.chars().map(|c| if c.is_control() { '?' } else { c });
    printable.take(80).collect()
}

#[cfg(test)]
mod tests {
    use loadline_load::pacing::Pacing;
    use proptest::prelude::*;

    use super::super::resolve_group;
    use super::*;
    use crate::args::{Cli, Command};

    fn shared(words: &[&str]) -> Result<SharedPlan, Failure> {
        let words = ["loadline", "run"].iter().chain(words);
        let words = words.chain(&["--agents", "3", "--coordinator", "redis://c"]);
        let Command::Run(args) = Cli::read(words.map(Into::into).collect()).unwrap().command else {
            panic!("it is a run");
        };
        let around = Surroundings::of_tests();
        let group = resolve_group(3, &args.agents, 0)?;
        let plan = resolve(&args, &around)?;
        SharedPlan::of(&args.targets, &args.agents.words, &plan, &group, 1)
    }

    fn of_rank(plan: &SharedPlan, rank: u32) -> Result<Plan, Failure> {
        let around = Surroundings::of_tests();
        plan.resolve(rank, &LoginArgs::default(), &TlsArgs::default(), &around)
    }

    #[test]
    fn agents_share_the_rate_and_nothing_else() {
        let plan = shared(&[
            "redis://db",
            "--rate",
            "3000",
            "--workload=get",
            "--keys",
            "70",
        ])
        .unwrap();
        let read = SharedPlan::from_json(&plan.to_json()).unwrap();
        assert_eq!(read, plan);
        let plans: Vec<Plan> = (0..3).map(|rank| of_rank(&read, rank).unwrap()).collect();
        for (rank, plan) in (0..).zip(&plans) {
            let case = &plan.cases[0];
            assert!(matches!(case.pacing, Pacing::Open { rate, .. } if rate == 1_000.0));
            assert_eq!((case.keys, case.threads), (70, 1));
            let offset = Duration::from_secs_f64(f64::from(rank) / 3_000.0);
            assert_eq!(case.offset_of(rank, 3), offset);
        }
        assert!(plans[0].seed != plans[1].seed && plans[1].seed != plans[2].seed);
        assert!(of_rank(&read, 3).is_err());
    }

    #[test]
    fn targets_of_agents_start_block_by_block_in_one_order() {
        let one = shared(&["redis://db", "--rounds", "7"]).unwrap();
        let cases = of_rank(&one, 0).unwrap().cases.len();
        assert_eq!(of_rank(&one, 0).unwrap().starts() as usize, cases);
        let two = shared(&["redis://a", "redis://b", "--rounds", "7"]).unwrap();
        assert_eq!(of_rank(&two, 1).unwrap().starts() as usize, cases * 2 * 7);
    }

    #[test]
    fn random_arrivals_of_agents_need_no_offset() {
        let words = ["redis://db", "--rate", "3000", "--arrivals", "poisson"];
        let plan = of_rank(&shared(&words).unwrap(), 2).unwrap();
        assert_eq!(plan.cases[0].offset_of(2, 3), Duration::ZERO);
    }

    #[test]
    fn plan_with_a_path_a_program_or_credentials_is_refused() {
        let good = shared(&["redis://db", "--workload", "get"]).unwrap();
        for (target, word) in [
            ("redis://db", "--json=/etc/passwd"),
            ("redis://db", "--tls-ca=/etc/passwd"),
            ("redis://db", "--password-file=/etc/passwd"),
            ("redis://db", "--profile=/tmp"),
            ("redis://db", "--workload=/etc/x.TOML"),
            ("redis://db", "embedded"),
            ("redis://db", "--"),
            ("unix:///run/redis.sock", "--verify"),
            ("spawn:redis-server", "--verify"),
            ("spawn-cluster:redis-server", "--verify"),
            ("embedded", "--verify"),
            ("store:/tmp", "--verify"),
            ("redis://ann:hunter2@db", "--verify"),
        ] {
            let bad = SharedPlan {
                targets: vec!["redis://db".to_owned(), target.to_owned()],
                words: vec!["--workload=get".to_owned(), word.to_owned()],
                ..good.clone()
            };
            let said = SharedPlan::from_json(&bad.to_json())
                .unwrap_err()
                .to_string();
            assert!(!said.contains("hunter2"), "{said}");
        }
        let other = SharedPlan {
            version: "0.0.1".to_owned(),
            ..good
        };
        let said = SharedPlan::from_json(&other.to_json())
            .unwrap_err()
            .to_string();
        assert!(said.contains("is of loadline 0.0.1"), "{said}");
    }

    proptest! {
        #[test]
        fn no_plan_makes_a_panic(text in "\\PC{0,60}", word in "--[a-z-]{0,12}=?[a-z0-9:/]{0,12}") {
            let _ = SharedPlan::from_json(&text);
            let mut plan = shared(&["redis://db"]).unwrap();
            plan.words.push(word);
            if let Ok(plan) = SharedPlan::from_json(&plan.to_json()) {
                let _ = of_rank(&plan, 0);
            }
        }
    }
}
