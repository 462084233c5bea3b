//! The addresses of drivers, and their first line.

use std::cell::RefCell;
use std::rc::Rc;

use loadline_client::commands::set;
use loadline_load::pacing::Pacing;

use crate::exit::Failure;
use crate::plan::{Case, Driver, DriverMode, Op};
use crate::spelling::Address;
use crate::subjects::Admins;
use crate::systems::drivers::{Config, PROTOCOL};
use crate::systems::{Access, Admin, Opened};

/// Keys that are written in one call.
pub(super) const LOAD_SIZE: usize = 100;

/// The lab's own connections to the servers that execute operations, and where drivers call them.
pub(super) fn way_to(target: &Opened) -> Result<(Admins, Server), Failure> {
    let (admins, known) = match &target.access {
        Access::Server(server) => {
            let through = server.path.as_ref().map(|(_, further)| further);
            let through = through.unwrap_or(&server.endpoint);
            let admin = Admin::open(&server.endpoint)?;
            (vec![admin], through.server().clone())
        }
        Access::Cluster(cluster) => {
            let masters = target
                .nodes_asked()?
                .into_iter()
                .filter(|node| node.is_master);
            let admins = masters.map(|node| node.admin).collect();
            // A client learns the others from any node; the first one is a master.
            (admins, cluster.nodes().swap_remove(0))
        }
        Access::Engine(_) => {
            return Err(Failure::usage(format!("{}: not a server.", target.name)));
        }
    };
    let Address::Tcp { host, port } = &known.address else {
        return Err(Failure::usage(format!(
            "{}: not reached by TCP.",
            target.name
        )));
    };
    let server = Server {
        host: host.clone(),
        port: *port,
        is_cluster: target.target.is_cluster(),
        user: known.login.user.clone(),
        password: known
            .login
            .password
            .as_ref()
            .map(|one| one.reveal().to_owned()),
        database: known.database,
    };
    Ok((Rc::new(RefCell::new(admins)), server))
}

/// Writes the keys of a case. The values are those that drivers write, text that every client can read as a string.
pub(super) fn load(target: &Opened, case: &Case, prefix: &str) -> Result<(), Failure> {
    let failed = |error: loadline_client::Error| {
        Failure::unavailable(format!(
            "{}: the keys could not be loaded: {error}.",
            target.name
        ))
    };
    let mut connection = target.connector(None)?.blocking().map_err(failed)?;
    let value = "x".repeat(usize::try_from(case.value_size.max()).unwrap_or(usize::MAX));
    let mut numbers = (0..case.keys).peekable();
    while numbers.peek().is_some() {
        let some = numbers.by_ref().take(LOAD_SIZE);
        let writes: Vec<_> = some
            .map(|number| set(format!("{prefix}{number:08}"), &value))
            .collect();
        for written in connection.run(&writes) {
            written.map_err(failed)?;
        }
    }
    Ok(())
}

/// The address and the user of drivers.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_cluster: bool,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: u32,
}

/// The first line for a driver.
pub(super) fn config(
    server: &Server,
    driver: &Driver,
    resp: u8,
    op: Op,
    case: &Case,
    prefix: String,
) -> Config {
    let is_concurrent = matches!(op.mode, DriverMode::Multiplexed | DriverMode::Pool);
    Config {
        protocol: PROTOCOL,
        client: driver.name.clone(),
        host: server.host.clone(),
        port: server.port,
        cluster: server.is_cluster,
        sentinel: None,
        user: server.user.clone(),
        password: server.password.clone(),
        database: server.database,
        resp,
        mode: op.mode.name(),
        depth: if op.mode == DriverMode::Pipeline {
            op.size
        } else {
            1
        },
        concurrency: if is_concurrent { op.size } else { 1 },
        rate: match case.pacing {
            Pacing::Open { rate, .. } if op.mode != DriverMode::Faults => rate as u64,
            _ => 0,
        },
        operation: op.command(),
        key_prefix: prefix,
        keys: case.keys,
        value_bytes: case.value_size.max(),
        decode: "bytes",
    }
}
