//! The place of a process among several load generators.

use std::time::Duration;

use loadline_measure::agents::protocol::LEASE;

use crate::args::{AgentsArgs, MembershipArgs, TlsArgs};
use crate::exit::Failure;
use crate::files;
use crate::plan::TlsFiles;
use crate::secret::{Secret, redact_argument};
use crate::spelling::{Address, Server, Target};
use crate::units::duration_text;

/// The most agents of a run.
pub(super) const MOST_AGENTS: u32 = 4_096;
/// The shortest secret, in bytes.
const SHORTEST_SECRET: usize = 16;
/// The longest name of a run.
const LONGEST_NAME: usize = 64;
/// Bounds of a lease.
pub(super) const SHORTEST_LEASE: Duration = Duration::from_secs(2);
pub(super) const LONGEST_LEASE: Duration = Duration::from_secs(60);
/// The longest time for agents to join.
const LONGEST_JOIN: Duration = Duration::from_secs(86_400);
/// Environment variables that hold the rank of a process: of Kubernetes, Slurm, Open MPI and other MPIs.
const RANKS: [&str; 4] = [
    "JOB_COMPLETION_INDEX",
    "SLURM_PROCID",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
];

/// The place of this process in a run of several agents.
#[derive(Debug)]
pub(crate) struct Membership {
    /// The server that coordinates them.
    pub(crate) coordinator: Server,
    pub(crate) tls: TlsFiles,
    /// The name of the run.
    pub(crate) run: String,
    /// Signs all messages.
    pub(crate) secret: Secret,
    pub(crate) rank: u32,
    /// Time for all agents to join.
    pub(crate) join: Duration,
}

/// Number of agents, and what is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) agents: u32,
    pub(crate) fewest: u32,
    /// Time without a message after which an agent is lost.
    pub(crate) lease: Duration,
}

/// Resolves the place of this process; `variable` reads the environment.
///
/// # Errors
/// A usage error for what is missing or invalid; a bad file if the secret cannot be read.
pub(crate) fn resolve_membership(
    args: &MembershipArgs,
    tls: &TlsArgs,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Membership, Failure> {
    let missing = |flag: &str| {
        Failure::usage(format!(
            "{flag} is missing: an agent needs --coordinator URL, --run ID and --secret-file FILE."
        ))
    };
    let url = args.coordinator.as_deref();
    let url = url.ok_or_else(|| missing("--coordinator"))?;
    let run = args.run.clone().ok_or_else(|| missing("--run"))?;
    let file = args.secret_file.as_deref();
    let file = file.ok_or_else(|| missing("--secret-file"))?;
    check_run_name(&run)?;
    if args.join_timeout > LONGEST_JOIN {
        let why = "expected at most 24h";
        let given = duration_text(args.join_timeout);
        return Err(Failure::invalid("--join-timeout", "duration", given, why));
    }
    let secret = files::read_password(file)?;
    if secret.reveal().len() < SHORTEST_SECRET {
        return Err(Failure::usage(format!(
            "--secret-file {}: the secret is too short: expected at least {SHORTEST_SECRET} bytes.",
            file.display()
        )));
    }
    Ok(Membership {
        coordinator: coordinator(url)?,
        tls: TlsFiles::given(tls),
        run,
        secret,
        rank: rank(args.rank, variable)?,
        join: args.join_timeout,
    })
}

/// Refuses a name of a run that cannot be.
///
/// # Errors
/// A usage error.
pub(crate) fn check_run_name(run: &str) -> Result<(), Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if run.is_empty() || run.len() > LONGEST_NAME || !run.chars().all(is_plain) {
        let why = "expected up to 64 letters, digits, dots, underscores and hyphens";
        return Err(Failure::invalid("--run", "name", run, why));
    }
    Ok(())
}

/// Refuses the URL of a coordinator that cannot be shown to others.
///
/// # Errors
/// A usage error.
pub(crate) fn check_shown_coordinator(url: &str) -> Result<(), Failure> {
    let server = coordinator(url)?;
    let is_reachable = matches!(server.address, Address::Tcp { .. });
    if !is_reachable || url.contains('@') {
        return Err(Failure::usage(
            "--coordinator: a manifest holds no password and no socket of this machine; leave the credentials to LOADLINE_COORDINATOR_PASSWORD.",
        ));
    }
    Ok(())
}

fn coordinator(url: &str) -> Result<Server, Failure> {
    let shown = redact_argument(url);
    match Target::parse(url) {
        Ok(Target::Server(mut server)) => {
            let login = &mut server.login;
            login.password = login.password.take().or_else(Secret::of_coordinator);
            Ok(server)
        }
        _ => Err(Failure::invalid(
            "--coordinator",
            "server",
            shown,
            "expected redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH",
        )),
    }
}

fn rank(given: Option<u32>, variable: impl Fn(&str) -> Option<String>) -> Result<u32, Failure> {
    if let Some(rank) = given {
        return Ok(rank);
    }
    let found = RANKS
        .into_iter()
        .find_map(|name| Some((name, variable(name)?)));
    let Some((name, text)) = found else {
        return Err(Failure::usage(format!(
            "--rank is missing, and none of {} is set; give each agent its number, from 0.",
            RANKS.join(", ")
        )));
    };
    text.parse()
        .map_err(|_| Failure::invalid(name, "rank", text, "expected a number from 0"))
}

/// Resolves the number of agents of a run in which this process has `rank`.
///
/// # Errors
/// A usage error for numbers that cannot be.
pub(crate) fn resolve_group(agents: u32, args: &AgentsArgs, rank: u32) -> Result<Group, Failure> {
    if agents > MOST_AGENTS {
        let why = format!("at most {MOST_AGENTS}");
        return Err(Failure::invalid("--agents", "count", agents, why));
    }
    let fewest = args.degraded.unwrap_or(agents);
    if fewest > agents {
        let why = format!("there are only {agents} agents");
        return Err(Failure::invalid("--degraded", "count", fewest, why));
    }
    if rank >= agents {
        let why = format!("the ranks of {agents} agents are 0 to {}", agents - 1);
        return Err(Failure::invalid("--rank", "rank", rank, why));
    }
    let lease = args.lease.unwrap_or(LEASE);
    if !(SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease) {
        let given = duration_text(lease);
        let why = "expected 2s to 60s, because agents send a message per second";
        return Err(Failure::invalid("--lease", "duration", given, why));
    }
    Ok(Group {
        agents,
        fewest,
        lease,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_is_that_of_the_launcher() {
        let of = |set: &'static str, text: &'static str| {
            rank(None, move |name| (name == set).then(|| text.to_owned()))
        };
        for name in RANKS {
            assert_eq!(of(name, "17").unwrap(), 17);
        }
        assert_eq!(rank(Some(3), |_| Some("17".to_owned())).unwrap(), 3);
        assert!(of("SLURM_PROCID", "-1").is_err());
        assert!(
            of("OTHER", "1")
                .unwrap_err()
                .to_string()
                .contains("SLURM_PROCID")
        );
    }
}
