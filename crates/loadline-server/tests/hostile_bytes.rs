//! Hostile bytes over real sockets: to the server, and from a server to the client. Each end says no, goes on,
//! and takes no memory for what was only announced.
//!
//! `cargo test -p loadline-server --test hostile_bytes -- --nocapture` shows what was sent, what came back and
//! what memory it took. There is one test, since both ends and the test are one process, whose peak is measured.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use loadline_client::commands::get;
use loadline_client::{Client, Error};
use loadline_server::{Listen, Server, ServerConfig};

/// Bytes that are written at once.
const PIECE_BYTES: usize = 64 << 10;
/// The most memory that one input may add to the process at its peak.
const MEMORY_BOUND_BYTES: u64 = 8 << 20;

/// Represents a connection that was closed before everything was read.
const RESET: &str = "closed, the rest unread";

/// Bytes to send: `unit`, repeated.
struct Feed {
    name: &'static str,
    unit: &'static [u8],
    times: usize,
}

const fn feed(name: &'static str, unit: &'static [u8], times: usize) -> Feed {
    Feed { name, unit, times }
}

const REQUESTS: [(Feed, &str); 8] = [
    (
        feed("200,000 nested arrays", b"*1\r\n", 200_000),
        "-ERR Protocol error: expected '$', got '*'\r\n",
    ),
    (
        feed("$-5", b"*1\r\n$-5\r\n", 1),
        "-ERR Protocol error: invalid bulk length\r\n",
    ),
    (
        feed("*3000000000", b"*3000000000\r\n", 1),
        "-ERR Protocol error: invalid multibulk length\r\n",
    ),
    (
        feed("$10737418240", b"*1\r\n$10737418240\r\n", 1),
        "-ERR Protocol error: invalid bulk length\r\n",
    ),
    (
        feed("an inline request of 256 MB", b"A", 256_000_000),
        "-ERR Protocol error: too big inline request\r\n",
    ),
    (
        feed("an array length of 256 MB", b"*", 256_000_000),
        "-ERR Protocol error: too big mbulk count string\r\n",
    ),
    // Within the limits: the server waits for the rest, and the client has no more to say.
    (
        feed("$536870912, of which one", b"*1\r\n$536870912\r\nx", 1),
        "",
    ),
    (feed("*1048576, of which none", b"*1048576\r\n", 1), ""),
];

const REPLIES: [Feed; 8] = [
    feed("200,000 nested arrays", b"*1\r\n", 200_000),
    feed("200,000 nested maps", b"%1\r\n", 200_000),
    feed("$-5", b"$-5\r\n", 1),
    feed("*3000000000", b"*3000000000\r\n", 1),
    feed("$10737418240", b"$10737418240\r\n", 1),
    feed("a simple string of 256 MB", b"+", 256_000_000),
    feed("an error of 256 MB", b"-", 256_000_000),
    feed("a web page", b"HTTP/1.1 400 Bad Request\r\n\r\n", 1),
];

#[test]
fn hostile_bytes_over_sockets_are_refused_in_bounded_memory() {
    show("hears", "sent", "peak KiB", "what came back");
    requests_to_the_server();
    replies_to_the_client();
}

fn requests_to_the_server() {
    let listen = vec![Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())];
    let mut server = Server::bind(ServerConfig {
        listen,
        ..ServerConfig::default()
    })
    .unwrap();
    let address = server.local_addrs()[0];
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || server.run(&stopped).unwrap());
    // The memory of the first connection does not depend on the bytes that it sends.
    assert_eq!(said_to(address, &feed("", b"PING\r\n", 1)), "+PONG\r\n");
    for (feed, reply) in &REQUESTS {
        let said = measured("server", feed, || said_to(address, feed));
        let is_long = feed.times * feed.unit.len() > PIECE_BYTES;
        assert!(
            said == *reply || (is_long && said == RESET),
            "{}: {said:?}",
            feed.name
        );
        assert_eq!(
            said_to(address, &self::feed("", b"PING\r\n", 1)),
            "+PONG\r\n"
        );
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
}

/// Reply of the server to these bytes before it hangs up; [`RESET`] if the kernel discarded it, because
/// there were bytes that the server did not read.
fn said_to(address: SocketAddr, feed: &Feed) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut writer = stream.try_clone().unwrap();
    let (unit, times) = (feed.unit, feed.times);
    let writing = std::thread::spawn(move || {
        write(&mut writer, unit, times);
        // The server may be gone, which is what is looked for.
        let _ = writer.shutdown(Shutdown::Write);
    });
    let mut said = Vec::new();
    let mut buffer = [0; 1_024];
    let was_reset = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break false,
            Ok(bytes) => said.extend_from_slice(&buffer[..bytes]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break true,
            Err(error) => panic!("{}: {error}", feed.name),
        }
    };
    writing.join().unwrap();
    if was_reset && said.is_empty() {
        return RESET.to_owned();
    }
    String::from_utf8(said).unwrap()
}

fn replies_to_the_client() {
    for feed in &REPLIES {
        let address = serve(feed.unit, feed.times);
        let url = format!("redis://{address}?response_timeout=20s&retry=never");
        let mut connection = Client::open(&url).unwrap().blocking().unwrap();
        let said = measured("client", feed, || {
            let error = connection.run(get::<String>("k")).unwrap_err();
            assert!(matches!(error, Error::Protocol { .. }), "{error}");
            error.to_string()
        });
        assert!(!said.is_empty());
    }
}

/// A server that greets one client and answers its first request with these bytes.
fn serve(unit: &'static [u8], times: usize) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 1_024];
        assert!(stream.read(&mut buffer).unwrap() > 0);
        stream.write_all(b"%1\r\n+proto\r\n:3\r\n").unwrap();
        assert!(stream.read(&mut buffer).unwrap() > 0);
        write(&mut stream, unit, times);
        // Until the client hangs up.
        while let Ok(1..) = stream.read(&mut buffer) {}
    });
    address
}

/// Writes the bytes, or those that the other end takes.
fn write(stream: &mut TcpStream, unit: &[u8], times: usize) {
    let units = (PIECE_BYTES / unit.len()).clamp(1, times);
    let piece = unit.repeat(units);
    let mut left = times * unit.len();
    while left > 0 {
        let bytes = left.min(piece.len());
        if stream.write_all(&piece[..bytes]).is_err() {
            return;
        }
        left -= bytes;
    }
}

/// Runs `work`, prints the peak of this process's memory for it, and returns its result.
fn measured(hears: &str, feed: &Feed, work: impl FnOnce() -> String) -> String {
    std::fs::write("/proc/self/clear_refs", "5").expect("a process may forget its own peak");
    let before = memory("VmRSS:");
    let said = work();
    let peak_bytes = memory("VmHWM:").saturating_sub(before);
    let back = match said.trim_end() {
        "" => "nothing: it waited for the rest",
        text => text,
    };
    show(hears, feed.name, &(peak_bytes >> 10).to_string(), back);
    assert!(
        peak_bytes <= MEMORY_BOUND_BYTES,
        "{hears}: {}: {peak_bytes} bytes of memory",
        feed.name
    );
    said
}

/// A size of this process according to Linux, in bytes.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)).unwrap();
    let kib: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
    kib << 10
}

/// One line of the table.
#[expect(
    clippy::print_stdout,
    reason = "what was sent and what came of it is there to be shown"
)]
fn show(hears: &str, name: &str, peak_kib: &str, back: &str) {
    println!("{hears:<6}  {name:<28}  {peak_kib:>8}  {back}");
}
