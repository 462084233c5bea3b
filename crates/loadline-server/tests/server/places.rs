//! Tests of the addresses on which the server listens.

use std::os::unix::net::{UnixListener, UnixStream};

use loadline_server::{Error, Listen, Server, ServerConfig};

fn bind(path: &std::path::Path) -> Result<Server, Error> {
    Server::bind(ServerConfig {
        listen: vec![Listen::Unix(path.to_owned())],
        ..ServerConfig::default()
    })
}

#[test]
fn socket_of_a_killed_server_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    // The standard library leaves the file where it is, as a killed process does.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let server = bind(&path).unwrap();
    UnixStream::connect(&path).unwrap();
    drop(server);
    assert!(!path.exists());
}

#[test]
fn socket_of_a_running_server_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let running = bind(&path).unwrap();
    let refusal = bind(&path).unwrap_err();
    assert!(matches!(refusal, Error::Listen { .. }), "{refusal}");
    UnixStream::connect(&path).unwrap();
    drop(running);
}

#[test]
fn file_that_is_no_socket_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    std::fs::write(&path, "precious").unwrap();
    assert!(bind(&path).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}
