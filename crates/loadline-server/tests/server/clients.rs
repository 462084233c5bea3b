//! Tests of what connections can see of each other, and unauthenticated ones cannot.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loadline_server::{Listen, Server, ServerConfig};

use crate::support::{Ours, ReadWrite, Redis, ask, ask_one};

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
fn idle_clients_are_closed_after_the_timeout_as_in_redis() {
    fn check(connect: impl Fn() -> Box<dyn ReadWrite>) {
        let [
            mut operator,
            mut idle,
            mut subscriber,
            mut waiter,
            mut monitor,
        ] = [(); 5].map(|()| connect());
        ask_one(&mut subscriber, "SUBSCRIBE news");
        waiter.write_all(b"BLPOP list 0\r\n").unwrap();
        while !ask(&mut operator, "INFO clients").contains("blocked_clients:1") {}
        assert_eq!(ask(&mut operator, "CONFIG SET timeout 1"), "+OK\r\n");
        let timeout = ask(&mut operator, "CONFIG GET timeout");
        assert!(timeout.ends_with("$7\r\ntimeout\r\n$1\r\n1\r\n"));
        assert_eq!(ask_one(&mut monitor, "MONITOR"), "+OK\r\n");
        // It waits for the end of the connection.
        assert_eq!(idle.read(&mut [0; 8]).unwrap(), 0);
        let mut operator = connect();
        assert_eq!(ask(&mut operator, "CONFIG SET timeout 0"), "+OK\r\n");
        assert_eq!(ask(&mut operator, "PUBLISH news x"), ":1\r\n");
        assert_eq!(ask(&mut operator, "RPUSH list x"), ":1\r\n");
        let mut served = [0; 8];
        waiter.read_exact(&mut served).unwrap();
        assert_eq!(served, *b"*2\r\n$4\r\n");
        let list = ask(&mut operator, "CLIENT LIST");
        assert!(list.contains("flags=O"), "{list}");
    }
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    check(|| Box::new(ours.connect()));
    check(|| Box::new(redis.connect()));
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

/// The value of a field in the line of a client, by the name of the client.
fn field_of(list: &str, name: &str, field: &str) -> Option<String> {
    let line = list
        .lines()
        .find(|line| line.contains(&format!(" name={name} ")))?;
    let mut fields = line.split(' ');
    let value = fields.find_map(|word| word.strip_prefix(&format!("{field}=")));
    Some(
        value
            .unwrap_or_else(|| panic!("{field}: {line}"))
            .to_owned(),
    )
}

fn evicted_clients(stream: &mut dyn ReadWrite) -> u64 {
    let mut stream = stream;
    let info = ask(&mut stream, "INFO stats");
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("evicted_clients:"));
    line.unwrap_or_else(|| panic!("{info}")).parse().unwrap()
}

/// Gives a client a name and a request of this size whose end is missing, and waits until the server has it or has closed the
/// connection.
fn fill(
    control: &mut dyn ReadWrite,
    stream: &mut dyn ReadWrite,
    name: &str,
    setup: &str,
    bytes: usize,
) {
    let (mut control, mut stream) = (control, stream);
    ask(&mut stream, &format!("CLIENT SETNAME {name}\r\n{setup}"));
    let _ = stream.write_all(format!("*2\r\n${bytes}\r\n").as_bytes());
    let _ = stream.write_all(&vec![b'x'; bytes]);
    let is_seen = |list: &str| {
        let used = field_of(list, name, "qbuf");
        used.is_none_or(|used| used.parse::<usize>().unwrap() >= bytes)
    };
    while !is_seen(&ask(&mut control, "CLIENT LIST")) {}
}

/// The largest clients go first, those of NO-EVICT never, and their memory counts.
#[test]
fn clients_are_evicted_at_maxmemory_clients_as_in_redis() {
    const MIB: usize = 1 << 20;
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let connect = || Box::new(ours.connect()) as Box<dyn ReadWrite>;
    let connect_redis = || Box::new(redis.connect()) as Box<dyn ReadWrite>;
    let seen = [&connect as &dyn Fn() -> Box<dyn ReadWrite>, &connect_redis].map(|connect| {
        let mut control = connect();
        ask(
            &mut control,
            "CLIENT SETNAME control\r\nCLIENT NO-EVICT ON\r\nCONFIG SET maxmemory-clients 3mb",
        );
        let (mut seen, mut open) = (Vec::new(), Vec::new());
        let mut note = |control: &mut Box<dyn ReadWrite>| {
            let list = ask(control, "CLIENT LIST");
            let names = ["control", "small", "large", "kept", "middle", "other"];
            // Those of Redis are on a Unix socket.
            let flags = |name| Some(field_of(&list, name, "flags")?.replace(['U', 'N'], ""));
            let left = names.map(flags);
            seen.push((left, evicted_clients(control)));
        };
        for (name, setup, bytes) in [
            ("small", "", MIB / 4),
            ("large", "", 2 * MIB),
            // Redis counts what it has later than the others, so it is little.
            ("kept", "CLIENT NO-EVICT ON", MIB / 10),
            // Together with it, they are over the limit.
            ("middle", "", MIB),
        ] {
            let mut stream = connect();
            fill(&mut control, &mut stream, name, setup, bytes);
            open.push(stream);
            note(&mut control);
        }
        // Smaller limits take effect at once.
        for limit in ["1mb", "1"] {
            ask(
                &mut control,
                &format!("CONFIG SET maxmemory-clients {limit}"),
            );
            note(&mut control);
        }
        ask(&mut control, "CONFIG SET maxmemory-clients 0");
        let mut stream = connect();
        fill(&mut control, &mut stream, "other", "", 3 * MIB);
        note(&mut control);
        ask(
            &mut control,
            "CONFIG SET maxmemory 10mb maxmemory-clients 10%",
        );
        note(&mut control);
        seen
    });
    assert_eq!(seen[0], seen[1], "ours left");
    let evicted: Vec<u64> = seen[0].iter().map(|(_, evicted)| *evicted).collect();
    assert_eq!(evicted, [0, 0, 0, 1, 2, 3, 3, 4]);
}

/// Replies that nobody reads are memory of a client.
#[test]
fn client_that_does_not_read_is_evicted() {
    let ours = Ours::start(ServerConfig::default());
    let (mut control, mut reader) = (ours.connect(), ours.connect());
    ask(
        &mut control,
        "CLIENT NO-EVICT ON\r\nSETRANGE k 500000 x\r\nCONFIG SET maxmemory-clients 2mb",
    );
    let requests = "GET k\r\n".repeat(64);
    while evicted_clients(&mut control) == 0 {
        // What was sent can be lost, and the connection closed.
        let _ = reader.write_all(requests.as_bytes());
    }
    let mut all = Vec::new();
    let read = reader.read_to_end(&mut all);
    println!("{} bytes before the end: {read:?}", all.len());
    let list = ask(&mut control, "CLIENT LIST");
    assert_eq!(
        list.matches("addr=").count() - list.matches("laddr=").count(),
        1
    );
}

#[test]
fn client_that_does_not_touch_keys_has_a_flag() {
    let ours = Ours::start(ServerConfig::default());
    let mut stream = ours.connect();
    ask(&mut stream, "CLIENT SETNAME one\r\nCLIENT NO-TOUCH ON");
    let list = ask(&mut stream, "CLIENT LIST");
    assert_eq!(field_of(&list, "one", "flags").as_deref(), Some("T"));
}
