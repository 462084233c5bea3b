//! The link at the packet level, with the kernel's own TCP. These tests need root.

#![expect(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use loadline_link::address::Address;
use loadline_link::fault::Fault;
use loadline_link::l3::{PacketLink, Packets, probe};
use loadline_link::l4::Route;
use loadline_link::shape::Shape;

const MS: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(60);

/// A server played by the test, behind a link.
struct Behind {
    server: TcpListener,
    link: PacketLink,
}

impl Behind {
    fn new(shape: Shape, congestion_control: &str) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let route = Route::from_loopback(server.local_addr().unwrap().into());
        let packets = Packets {
            congestion_control: Some(congestion_control.into()),
            ..Packets::default()
        };
        let link = PacketLink::start(&[route], shape, &packets).unwrap();
        Self { server, link }
    }

    fn address(&self) -> SocketAddr {
        let Address::Tcp(address) = self.link.addresses()[0] else {
            panic!("it listens on TCP");
        };
        address
    }

    fn connection(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect_timeout(&self.address(), PATIENCE).unwrap();
        (patient(client), patient(self.server.accept().unwrap().0))
    }
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Returns false, with a prominent message, if this machine does not support such links.
fn possible(test: &str) -> bool {
    let Err(missing) = probe() else {
        return true;
    };
    assert!(
        !rustix::process::geteuid().is_root(),
        "root, and yet: {missing}"
    );
    // Written directly, so that the test harness does not capture it.
    let said = format!("\n*** NOT TESTED: {test}: {missing}\n");
    std::io::stderr().write_all(said.as_bytes()).unwrap();
    false
}

/// Whether the kernel still knows the address as a peer or in a route.
fn is_known(far: &str) -> bool {
    let said = |what: &[&str]| {
        let output = Command::new("ip").args(what).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let known = said(&["address", "show"]) + &said(&["route", "show"]);
    known.contains(&format!("{far}/")) || known.contains(&format!("{far} "))
}

/// Measures, on a new connection, `requests` of 100 bytes sent together, each answered with the same number
/// of bytes.
fn pipelined(client: &mut TcpStream, server: &mut TcpStream, requests: usize) -> Duration {
    let bytes = vec![1; 100 * requests];
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut got = [0; 1 << 16];
            let mut rest = 100 * requests;
            while rest > 0 {
                let most = rest.min(got.len());
                let bytes = server.read(&mut got[..most]).unwrap();
                server.write_all(&got[..bytes]).unwrap();
                rest -= bytes;
            }
        });
        client.write_all(&bytes).unwrap();
        let mut back = vec![0; bytes.len()];
        client.read_exact(&mut back).unwrap();
        assert!(back == bytes);
    });
    start.elapsed()
}

#[test]
fn handshake_takes_a_round_trip_and_nothing_is_early() {
    if !possible("the handshake") {
        return;
    }
    let behind = Behind::new(Shape::round_trip(40 * MS), "reno");
    let start = Instant::now();
    let (mut client, mut server) = behind.connection();
    assert!(start.elapsed() >= 40 * MS);
    for _ in 0..10 {
        let start = Instant::now();
        client.write_all(b"ping").unwrap();
        server.read_exact(&mut [0; 4]).unwrap();
        assert!(start.elapsed() >= 20 * MS);
        server.write_all(b"pong").unwrap();
        client.read_exact(&mut [0; 4]).unwrap();
        assert!(start.elapsed() >= 40 * MS);
    }
}

#[test]
fn slow_start_makes_a_fresh_connection_take_several_round_trips() {
    if !possible("slow start") {
        return;
    }
    let behind = Behind::new(Shape::round_trip(100 * MS), "reno");
    let (mut client, mut server) = behind.connection();
    // 100 kB are 70 packets: 10 in the first round trip, 20 in the second, 40 in the third.
    let elapsed = pipelined(&mut client, &mut server, 1_000);
    assert!(elapsed >= 300 * MS, "{elapsed:?}");
}

#[test]
fn bytes_stay_intact_though_packets_are_lost() {
    if !possible("loss") {
        return;
    }
    let shape = Shape::round_trip(2 * MS).with_loss(0.02);
    let behind = Behind::new(shape, "reno");
    let (mut client, mut server) = behind.connection();
    let bytes: Vec<u8> = (0..2_000_000u32).map(|n| (n * 7 + n / 251) as u8).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client.write_all(&bytes).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        server.read_to_end(&mut got).unwrap();
        assert!(got == bytes);
    });
    let stats = behind.link.stats();
    assert!(stats.packets_lost > 0 && stats.packets > 1_300, "{stats:?}");
}

#[test]
fn freeze_is_survived_by_retransmission() {
    if !possible("a freeze") {
        return;
    }
    let behind = Behind::new(Shape::round_trip(2 * MS), "reno");
    let (mut client, mut server) = behind.connection();
    behind.link.inject(Fault::Freeze).unwrap();
    client.write_all(b"through").unwrap();
    server.set_read_timeout(Some(50 * MS)).unwrap();
    let silence = server.read(&mut [0; 16]).unwrap_err();
    assert_eq!(silence.kind(), ErrorKind::WouldBlock);
    let unanswered = TcpStream::connect_timeout(&behind.address(), 50 * MS).unwrap_err();
    assert_eq!(unanswered.kind(), ErrorKind::TimedOut);
    behind.link.clear().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut got = [0; 7];
    server.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"through");
}

#[test]
fn refused_and_reset_are_seen_through_the_packets() {
    if !possible("refuse and reset") {
        return;
    }
    let behind = Behind::new(Shape::round_trip(10 * MS), "reno");
    let (mut client, _server) = behind.connection();
    behind.link.inject(Fault::Reset).unwrap();
    let reset = client.read(&mut [0; 16]).unwrap_err();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    behind.link.inject(Fault::Refuse).unwrap();
    let start = Instant::now();
    let refused = TcpStream::connect_timeout(&behind.address(), PATIENCE).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert!(start.elapsed() >= 10 * MS);
    behind.link.clear().unwrap();
    drop(behind.connection());
}

#[test]
fn unknown_congestion_control_is_named() {
    if !possible("the name of a congestion control") {
        return;
    }
    let packets = Packets {
        congestion_control: Some("loadline-none".into()),
        ..Packets::default()
    };
    let route = Route::from_loopback(Address::any_loopback());
    let refusal = PacketLink::start(&[route], Shape::default(), &packets).unwrap_err();
    let said = refusal.to_string();
    assert!(said.contains("loadline-none"), "{said}");
}

#[test]
fn dropped_link_leaves_nothing_behind_and_resets_the_client() {
    if !possible("cleaning up") {
        return;
    }
    let behind = Behind::new(Shape::round_trip(100 * MS), "reno");
    let (mut client, _server) = behind.connection();
    let far = behind.address().ip().to_string();
    assert!(is_known(&far));
    drop(behind.link);
    let told = client.read(&mut [0; 16]).unwrap_err();
    assert_eq!(told.kind(), ErrorKind::ConnectionReset);
    assert!(!is_known(&far));
}

/// Not a test by itself: the process that the next test kills.
#[test]
#[ignore = "the other process of killed_link_leaves_nothing_behind"]
fn holds_a_link_until_it_is_killed() {
    let behind = Behind::new(Shape::round_trip(MS), "reno");
    let said = format!("\nlink at {}\n", behind.address().ip());
    std::io::stdout().write_all(said.as_bytes()).unwrap();
    // The other process closes this if it does not kill first.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn killed_link_leaves_nothing_behind() {
    if !possible("a kill") {
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "holds_a_link_until_it_is_killed"])
        .args(["--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let far = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .find_map(|line| Some(line.strip_prefix("link at ")?.to_owned()))
        .unwrap();
    let was_known = is_known(&far);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(was_known);
    let start = Instant::now();
    while is_known(&far) {
        assert!(start.elapsed() < PATIENCE, "{far} survived the process");
    }
}
