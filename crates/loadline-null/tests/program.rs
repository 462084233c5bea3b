//! The program over real sockets.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n";
const OK: &[u8] = b"+OK\r\n";
const PATIENCE: Duration = Duration::from_secs(20);

/// The program. It ends when its input is dropped.
struct NullServer {
    process: Child,
    input: Option<ChildStdin>,
    address: SocketAddr,
}

impl NullServer {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_null-server"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self {
            input: process.stdin.take(),
            process,
            address: line.trim().parse().unwrap(),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        drop(self.input.take());
        // Both fail only where the process is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn replies(stream: &mut TcpStream, count: usize) {
    let mut got = vec![0; count * OK.len()];
    stream.read_exact(&mut got).unwrap();
    assert!(got.chunks(OK.len()).all(|reply| reply == OK));
}

#[test]
fn server_ends_with_its_standard_input() {
    let mut server = NullServer::start();
    let mut client = server.connect();
    client.write_all(GET).unwrap();
    replies(&mut client, 1);
    server
        .input
        .as_mut()
        .unwrap()
        .write_all(b"go on\n")
        .unwrap();
    client.write_all(GET).unwrap();
    replies(&mut client, 1);
    drop(server.input.take());
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = server.process.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it goes on without its input");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{status}");
}

#[test]
fn request_that_comes_byte_by_byte_is_answered_once() {
    let server = NullServer::start();
    let mut client = server.connect();
    for byte in GET {
        client.write_all(&[*byte]).unwrap();
    }
    replies(&mut client, 1);
    // The bytes that follow are not taken for more of it.
    client.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
    let mut pong = [0; 7];
    client.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"+PONG\r\n");
}

#[test]
fn requests_before_a_half_close_are_answered() {
    let server = NullServer::start();
    let mut client = server.connect();
    client.write_all(&GET.repeat(1_000)).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), 1_000 * OK.len());
}

#[test]
fn nonsense_ends_its_connection_and_no_other() {
    let server = NullServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.write_all(b"*1\r\n:1\r\n").unwrap();
    let end = client.read(&mut [0; 64]);
    let reset = |error: &std::io::Error| error.kind() == ErrorKind::ConnectionReset;
    assert!(
        matches!(end, Ok(0)) || end.as_ref().is_err_and(reset),
        "{end:?}"
    );
    other.write_all(GET).unwrap();
    replies(&mut other, 1);
}

/// The server holds unread replies, and stops reading until they are read.
#[test]
fn unread_client_is_paused_and_gets_every_reply_in_the_end() {
    // More than the sockets of both directions hold.
    const COUNT: usize = 8_000_000;
    let server = NullServer::start();
    let mut client = server.connect();
    let mut sender = client.try_clone().unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let sending = std::thread::spawn(move || {
        let requests = GET.repeat(1_000);
        while counter.fetch_add(1_000, Ordering::Relaxed) < COUNT - 1_000 {
            sender.write_all(&requests).unwrap();
        }
        sender.write_all(&requests).unwrap();
    });
    let mut before = 0;
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = sent.load(Ordering::Relaxed);
        assert!(now < COUNT, "all was read though no reply was taken");
        if now == before {
            break;
        }
        before = now;
    }
    replies(&mut client, COUNT);
    sending.join().unwrap();
    let mut other = server.connect();
    other.write_all(GET).unwrap();
    replies(&mut other, 1);
}

/// Ten connections with pipelines of 100, as in the generators' table. The rate is printed.
#[test]
fn pipelines_on_ten_connections_are_all_answered() {
    const PIPELINES: usize = 2_000;
    let server = NullServer::start();
    let mut clients: Vec<TcpStream> = (0..10).map(|_| server.connect()).collect();
    let requests = GET.repeat(100);
    let mut got = vec![0; 100 * OK.len()];
    let start = Instant::now();
    for _ in 0..PIPELINES {
        for client in &mut clients {
            client.write_all(&requests).unwrap();
        }
        for client in &mut clients {
            client.read_exact(&mut got).unwrap();
            assert!(got.chunks(OK.len()).all(|reply| reply == OK));
        }
    }
    let rate = (PIPELINES * clients.len() * 100) as f64 / start.elapsed().as_secs_f64();
    println!("{:.1} million requests per second", rate / 1e6);
}
