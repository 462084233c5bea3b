//! A null server in this process, as a target.

use std::net::Ipv4Addr;
use std::path::Path;

use loadline_null::{Listener, NullServer, Reads};

use crate::exit::Failure;
use crate::spelling::{Address, Server};

/// Starts a null server on a free port of loopback, or on a socket in the file system.
///
/// # Errors
/// If it cannot listen there.
pub(crate) fn null_server(reads: Reads, unix: Option<&Path>) -> Result<NullServer, Failure> {
    let listener = unix.map_or_else(Listener::loopback, Listener::unix);
    let started = listener.and_then(|listener| NullServer::on(listener, reads));
    started.map_err(|error| {
        let place = unix.map_or("loopback".into(), Path::to_string_lossy);
        Failure::unavailable(format!(
            "The null server on {place} could not be started: {error}."
        ))
    })
}

/// The null server as a server without a login.
pub(crate) fn as_server(null: &NullServer) -> Server {
    let nowhere = (Ipv4Addr::LOCALHOST, 0).into();
    let server = Server::local(null.address().unwrap_or(nowhere));
    match null.path() {
        None => server,
        Some(path) => Server {
            address: Address::Unix(path.to_owned()),
            ..server
        },
    }
}
