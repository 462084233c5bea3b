//! `loadline serve`: our store as a server.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

use loadline_server::{
    ClientCertificates, DebugCommand, Error, Eviction, Listen, Server, ServerConfig, Slowdown, Tls,
    TlsFiles,
};

use super::store;
use crate::args::{
    AuthClientsArg, DebugCommandArg, EmbeddedArgs, EvictionArg, ServeArgs, ServeTlsArgs,
};
use crate::exit::Failure;
use crate::files;
use crate::interrupt::interrupt;
use crate::spelling::Durability;
use crate::systems::servers::LISTENING;
use crate::systems::tls;

/// Default address: that of Redis.
const DEFAULT_ADDRESS: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 6379);

pub(super) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    serve(args, None)
}

/// Serves as the target `embedded`.
pub(super) fn run_slowed(args: &EmbeddedArgs) -> anyhow::Result<ExitCode> {
    let slowdown = Slowdown {
        burn: args.burn_per_command,
        work: args.work_per_command,
    };
    serve(
        &args.serve,
        Some(slowdown).filter(|slowdown| *slowdown != Slowdown::default()),
    )
}

fn serve(args: &ServeArgs, slowdown: Option<Slowdown>) -> anyhow::Result<ExitCode> {
    let stop = interrupt()?;
    let mut listen: Vec<Listen> = args.listen.iter().copied().map(Listen::Tcp).collect();
    listen.extend(args.unix.clone().map(Listen::Unix));
    listen.extend(args.tls.tls_port.map(Listen::Tls));
    if listen.is_empty() {
        listen.push(Listen::Tcp(SocketAddr::from(DEFAULT_ADDRESS)));
    }
    let password = args
        .password_file
        .as_deref()
        .map(files::read_password)
        .transpose()?;
    let config = ServerConfig {
        listen,
        tls: encrypted(&args.tls)?,
        password: password.map(|password| password.reveal().to_owned()),
        acl_file: args.aclfile.clone(),
        dir: args.dir.clone(),
        durability: durability(args.durability.as_deref())?,
        max_memory_bytes: args.maxmemory.unwrap_or(0),
        eviction: eviction(args.maxmemory_policy),
        debug_command: match args.enable_debug_command {
            DebugCommandArg::No => DebugCommand::No,
            DebugCommandArg::Local => DebugCommand::Local,
            DebugCommandArg::Yes => DebugCommand::Yes,
        },
        slowdown,
        on_warning: files::warn,
        ..ServerConfig::default()
    };
    let dir = args.dir.as_deref();
    let mut server = Server::bind(config).map_err(|error| failure(&error, dir))?;
    let places: Vec<String> = server
        .local_addrs()
        .iter()
        .map(ToString::to_string)
        .chain(args.unix.iter().map(|path| path.display().to_string()))
        .collect();
    files::print(&format!("{LISTENING}{}\n", places.join(", ")))?;
    server.run(&stop).map_err(|error| failure(&error, dir))?;
    Ok(ExitCode::SUCCESS)
}

/// The certificates of encrypted connections. As in redis-server, clients need one unless said otherwise.
fn encrypted(args: &ServeTlsArgs) -> Result<Option<Tls>, Failure> {
    let files = args.tls_cert_file.clone().zip(args.tls_key_file.clone());
    let Some((certificate, key)) = files else {
        return Ok(None);
    };
    let files = TlsFiles {
        certificate,
        key,
        authorities: args.tls_ca_cert_file.clone(),
        clients: match args.tls_auth_clients {
            None | Some(AuthClientsArg::Yes) => ClientCertificates::Yes,
            Some(AuthClientsArg::Optional) => ClientCertificates::Optional,
            Some(AuthClientsArg::No) => ClientCertificates::No,
        },
    };
    Ok(Some(Tls {
        config: tls::server(&files)?,
        files,
        read: |files| tls::server(files).map_err(|failure| failure.to_string()),
    }))
}

fn eviction(policy: EvictionArg) -> Eviction {
    match policy {
        EvictionArg::Noeviction => Eviction::None,
        EvictionArg::AllkeysLru => Eviction::LeastRecent,
        EvictionArg::AllkeysLfu => Eviction::LeastUsed,
        EvictionArg::AllkeysRandom => Eviction::Random,
        EvictionArg::VolatileLru => Eviction::LeastRecentVolatile,
        EvictionArg::VolatileLfu => Eviction::LeastUsedVolatile,
        EvictionArg::VolatileRandom => Eviction::RandomVolatile,
        EvictionArg::VolatileTtl => Eviction::FirstToExpire,
    }
}

/// The durability of a server with a directory.
fn durability(class: Option<&str>) -> Result<loadline_server::Durability, Failure> {
    use loadline_server::Durability as Served;
    let Some(class) = class else {
        return Ok(Served::Process);
    };
    let refused = || {
        const EXPECTED: &str = "expected process, interval:T (such as interval:1s) or always. Without --dir, nothing is kept";
        Failure::invalid("--durability", "durability", class, EXPECTED)
    };
    match Durability::parse(class).map_err(|_| refused())? {
        Durability::Memory => Err(refused()),
        Durability::Process => Ok(Served::Process),
        Durability::Interval(interval) => Ok(Served::Interval(interval)),
        Durability::Always => Ok(Served::Always),
    }
}

fn failure(error: &Error, dir: Option<&Path>) -> Failure {
    match (error, dir) {
        (Error::Log(error), Some(dir)) => store::failure_in(dir, error),
        (Error::Unprotected { .. }, _) => Failure::usage(format!(
            "{error}.\nName a file that contains one with --password-file."
        )),
        (Error::Listen { source, .. }, _) if source.kind() == ErrorKind::AddrInUse => {
            Failure::unavailable(format!(
                "{error}.\nEnd the program that listens there, or choose another address with --listen or --unix."
            ))
        }
        _ => Failure::unavailable(format!("{error}.")),
    }
}
