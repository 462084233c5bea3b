//! Tests of what connections can see of each other, and unauthenticated ones cannot.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loadline_server::{Listen, Server, ServerConfig};

use crate::support::{Ours, ask};

/// Clients tell a restarted server from the one before by it.
#[test]
fn every_start_of_the_server_has_a_name_of_its_own() {
    let name = || {
        let info = ask(
            &mut Ours::start(ServerConfig::default()).connect(),
            "INFO server",
        );
        let line = info.lines().find_map(|line| line.strip_prefix("run_id:"));
        line.unwrap_or_else(|| panic!("no run_id in {info}"))
            .to_owned()
    };
    let (first, second) = (name(), name());
    for name in [&first, &second] {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        assert!(name.len() == 40 && name.bytes().all(is_digit), "{name}");
    }
    assert_ne!(first, second);
}

#[test]
fn connections_are_listed_and_killed() {
    let ours = Ours::start(ServerConfig::default());
    let (mut one, mut other) = (ours.connect(), ours.connect());
    ask(&mut other, "CLIENT SETNAME victim\r\nSELECT 2\r\nHELLO 3");
    let list = ask(&mut one, "CLIENT LIST");
    let line = list
        .lines()
        .find(|line| line.contains("name=victim"))
        .unwrap();
    assert!(line.contains("db=2") && line.contains("resp=3"), "{line}");
    let address = other.local_addr().unwrap();
    assert!(line.contains(&format!("addr={address}")), "{line}");
    assert_eq!(ask(&mut one, &format!("CLIENT KILL {address}")), "+OK\r\n");
    assert_eq!(other.read(&mut [0; 8]).unwrap(), 0);
    assert!(!ask(&mut one, "CLIENT LIST").contains("victim"));
    // With SKIPME no, the caller gets its reply before it is closed.
    one.write_all(b"CLIENT KILL TYPE normal SKIPME no\r\n")
        .unwrap();
    let mut said = String::new();
    one.read_to_string(&mut said).unwrap();
    assert_eq!(said, ":1\r\n");
}

#[test]
fn unauthenticated_client_learns_nothing() {
    let ours = Ours::start(ServerConfig {
        password: Some("s3cret".into()),
        ..ServerConfig::default()
    });
    let mut stream = ours.connect();
    stream
        .write_all(b"GET a\r\nAUTH wrong\r\nAUTH s3cret\r\nGET a\r\nQUIT\r\n")
        .unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    assert_eq!(
        replies,
        "-NOAUTH Authentication required.\r\n-WRONGPASS invalid username-password pair or user is disabled.\r\n+OK\r\n$-1\r\n+OK\r\n"
    );
}

/// The address of this machine in its network, if it has one. Nothing is sent to find it.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// A server can lose its password while it is open to other machines.
#[test]
fn connections_from_outside_are_denied_without_a_password() {
    let mut server = Server::bind(ServerConfig {
        listen: vec![Listen::Tcp((Ipv4Addr::UNSPECIFIED, 0).into())],
        password: Some("s3cret".into()),
        ..ServerConfig::default()
    })
    .unwrap();
    let port = server.local_addrs()[0].port();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || server.run(&stopped).unwrap());
    let outside = own_address().map(|address| (address, port));
    let mut inside = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    for (password, begin) in [("s3cret", "+OK"), ("", "-DENIED ")] {
        let line = format!("AUTH s3cret\r\nCONFIG SET requirepass \"{password}\"");
        assert!(ask(&mut inside, &line).ends_with("+OK\r\n"));
        if let Some(outside) = outside {
            let mut said = String::new();
            let mut stream = TcpStream::connect(outside).unwrap();
            let _ = stream.write_all(b"AUTH s3cret\r\nQUIT\r\n");
            let _ = stream.read_to_string(&mut said);
            assert!(said.starts_with(begin), "{said}");
        }
        let mut other = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(ask(&mut other, "AUTH s3cret\r\nPING").ends_with("+PONG\r\n"));
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
}

#[test]
fn open_address_needs_a_password() {
    let listen = vec![Listen::Tcp((Ipv4Addr::UNSPECIFIED, 0).into())];
    let refused = Server::bind(ServerConfig {
        listen: listen.clone(),
        ..ServerConfig::default()
    });
    assert!(
        matches!(refused, Err(loadline_server::Error::Unprotected { .. })),
        "{refused:?}"
    );
}
