//! The master that sentinels name.

use std::time::Duration;

use loadline_client::sentinel::{Node, Sentinel};
use loadline_client::{Address, ConnectionEvent, ConnectionEvents, Error, Password, Tls};

use super::client::node;
use super::connect::builder;
use super::hints::hint;
use super::tls;
use crate::exit::Failure;
use crate::plan::TlsFiles;
use crate::secret::Secret;
use crate::spelling::{self, Named, Server};

/// Time limit for the sentinels and the master to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Finds the present master, which is measured for the whole run.
///
/// # Errors
/// If no sentinel names a server that is the master by its own account.
pub(crate) fn master(named: &Named, files: &TlsFiles) -> Result<Server, Failure> {
    let first = &named.sentinels[0];
    let tls = match first.tls {
        true => tls::trust(files, &[])?,
        false => Tls::default(),
    };
    let found = find(named, &tls).map_err(|error| {
        let said = error.to_string();
        let advice = hint(&said).unwrap_or(
            "Name sentinels that run, and a master that they monitor; `redis-cli -p 26379 SENTINEL MASTERS` lists them.",
        );
        Failure::unavailable(format!("{named} cannot be used: {said}.\n{advice}"))
    })?;
    Ok(Server {
        address: found,
        ..first.clone()
    })
}

/// The name of a master, and the sentinels that know it.
pub(super) fn sentinel(named: &Named) -> Sentinel {
    let sentinels = named.sentinels.iter();
    let nodes: Vec<Node> = sentinels
        .filter_map(|sentinel| node(&sentinel.address))
        .collect();
    Sentinel::new(&named.name, nodes)
}

fn find(named: &Named, tls: &Tls) -> Result<spelling::Address, Error> {
    let first = &named.sentinels[0];
    let mut sentinel = sentinel(named).encrypted(first.tls, first.tls);
    if let Some(password) = Secret::of_sentinels() {
        sentinel = sentinel.login(None, Password::new(password.reveal()));
    }
    let events = ConnectionEvents::new(16);
    let client = builder(first, tls)
        .address(Address::Sentinel(sentinel))
        .connect_timeout(PATIENCE)
        .response_timeout(Some(PATIENCE))
        .events(events.clone())
        .build();
    let connection = client.blocking()?;
    drop(connection);
    let connected = std::iter::from_fn(|| events.try_next()).find_map(|event| match event {
        ConnectionEvent::Connected { address } => Some(address),
        _ => None,
    });
    match connected {
        Some(Address::Tcp { host, port } | Address::Tls { host, port }) => {
            Ok(spelling::Address::Tcp { host, port })
        }
        _ => Err(Error::Sentinel("the sentinels name no server".into())),
    }
}
