//! Which targets are measured, with which credentials, and over which paths.

use std::slice;
use std::time::Duration;

use super::Surroundings;
use super::path::{self, PathShape};
use crate::args::{ConnectionArgs, LinkArg, LoadArgs, LoginArgs, TlsArgs};
use crate::exit::Failure;
use crate::files;
use crate::secret::Secret;
use crate::spelling::{Login, Server, Target};

/// Resolves the targets, or the default ones if none are given, and their credentials.
///
/// # Errors
/// A usage error for an invalid target, and for flags that apply to none of them; a bad file if the password file
/// cannot be read.
pub(super) fn resolve(
    texts: &[String],
    connection: &ConnectionArgs,
    around: &Surroundings,
) -> Result<Vec<Target>, Failure> {
    let mut targets = texts
        .iter()
        .map(|text| Target::parse(text))
        .collect::<Result<Vec<_>, _>>()?;
    if targets.is_empty() {
        targets.push(Target::Embedded);
        if around.has_redis_server {
            targets.push(Target::Spawn("redis-server".into()));
        }
    }
    refuse_unused_tls(&targets, &connection.tls)?;
    log_in(&mut targets, &connection.login, around)?;
    Ok(targets)
}

/// Refuses TLS flags if no target uses TLS.
///
/// # Errors
/// A usage error.
pub(super) fn refuse_unused_tls(targets: &[Target], args: &TlsArgs) -> Result<(), Failure> {
    let wants_tls = args.tls_ca.is_some() || args.tls_cert.is_some() || args.tls_insecure;
    if wants_tls && !targets.iter().flat_map(running).any(|server| server.tls) {
        return Err(Failure::usage(
            "--tls-ca, --tls-cert, --tls-key and --tls-insecure apply to rediss://, clusters:// and sentinels:// targets, and no TARGET is one.",
        ));
    }
    Ok(())
}

/// Completes the credentials of existing servers.
///
/// # Errors
/// A usage error if none of the targets is one, or a user has no password; the failure to read the password file.
pub(super) fn log_in(
    targets: &mut [Target],
    args: &LoginArgs,
    around: &Surroundings,
) -> Result<(), Failure> {
    let is_given = args.user.is_some() || args.password_file.is_some();
    if is_given && targets.iter().flat_map(running).next().is_none() {
        return Err(Failure::usage(
            "--user and --password-file apply only to existing servers, but no TARGET is one.",
        ));
    }
    let file_password = args
        .password_file
        .as_deref()
        .map(files::read_password)
        .transpose()?;
    let given = file_password.or_else(|| around.password.clone());
    for target in targets {
        let servers = match target {
            Target::Server(server) => slice::from_mut(server),
            Target::Cluster(seeds) => seeds,
            Target::Sentinel(named) => &mut named.sentinels,
            _ => &mut [],
        };
        for server in servers {
            complete_login(&mut server.login, args, given.as_ref())?;
        }
    }
    Ok(())
}

/// The added round-trip time, and the other properties of the path.
///
/// # Errors
/// A usage error for an invalid path, or if a target has no network path.
pub(super) fn path_to(
    load: &LoadArgs,
    targets: &[Target],
) -> Result<(Duration, PathShape), Failure> {
    let latency = path::latency(load.traffic.latency.as_deref().unwrap_or("0"))?;
    let path = PathShape::resolve(
        load.path.jitter.as_deref(),
        load.path.bandwidth.as_deref(),
        LinkArg::Auto,
    )?;
    match targets.iter().find(|target| target.is_in_process()) {
        Some(target) if !latency.is_zero() || !path.is_plain() => Err(Failure::usage(format!(
            "--latency, --jitter, --bandwidth: {target} runs in this process and has no network path."
        ))),
        _ => Ok((latency, path)),
    }
}

/// Refuses flags about connections for a target in this process.
///
/// # Errors
/// A usage error that names the flag.
pub(super) fn refuse_for_calls(load: &LoadArgs, targets: &[Target]) -> Result<(), Failure> {
    let Some(called) = targets.iter().find(|target| target.is_in_process()) else {
        return Ok(());
    };
    let in_flight = load
        .traffic
        .pipeline
        .map(|_| "--pipeline")
        .or(load.in_flight.map(|_| "--in-flight"));
    let connections = load.traffic.connections.map(|_| "--connections");
    let all_called = targets.iter().all(Target::is_in_process);
    match in_flight.or(connections.filter(|_| all_called)) {
        None => Ok(()),
        Some(flag) => Err(Failure::usage(format!(
            "{flag}: {called} runs in this process and has no connections; use --threads to set the number of concurrent callers."
        ))),
    }
}

/// The server of `target`, if it is an existing one.
#[cfg(test)]
pub(super) fn server_of(target: &Target) -> Option<&Server> {
    match target {
        Target::Server(server) => Some(server),
        _ => None,
    }
}

/// The existing servers that `target` names; for a cluster, some of its nodes, and for the master of a name, the sentinels
/// with its login.
fn running(target: &Target) -> &[Server] {
    match target {
        Target::Server(server) => slice::from_ref(server),
        Target::Cluster(seeds) => seeds,
        Target::Sentinel(named) => &named.sentinels,
        _ => &[],
    }
}

/// The URL takes precedence, then the flags, then the environment.
fn complete_login(
    login: &mut Login,
    args: &LoginArgs,
    password: Option<&Secret>,
) -> Result<(), Failure> {
    login.user = login.user.take().or_else(|| args.user.clone());
    login.password = login.password.take().or_else(|| password.cloned());
    match (&login.user, &login.password) {
        (Some(user), None) => Err(Failure::usage(format!(
            "User `{user}` has no password; set it in the URL, in {} or in a file with --password-file.",
            crate::secret::PASSWORD_VARIABLE
        ))),
        _ => Ok(()),
    }
}
