use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::*;

/// Values of the scripts: the INCR at which a fault begins, error replies in a row, and the time that a server is away.
const FIRST: u64 = 6;
const REFUSALS: u64 = 5;
const AWAY: Duration = Duration::from_secs(1);

/// A server that answers every command with the number of commands so far.
fn counting() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counted = Arc::clone(&counted);
            thread::spawn(move || {
                let mut stream = stream;
                let mut buffer = [0; 1_024];
                while let Ok(read) = stream.read(&mut buffer) {
                    if read == 0 {
                        break;
                    }
                    let number = counted.fetch_add(1, Ordering::Relaxed) + 1;
                    let _ = stream.write_all(format!(":{number}\r\n").as_bytes());
                }
            });
        }
    });
    (address, count)
}

/// Time of silence that counts as nothing coming.
const QUIET: Duration = Duration::from_millis(500);

struct Caller(TcpStream);

impl Caller {
    fn connect(proxy: &Faulty) -> Self {
        Self(TcpStream::connect(proxy.address()).unwrap())
    }

    /// The reply to an INCR; empty where the connection was closed.
    fn incr(&mut self) -> Vec<u8> {
        let reply = self.incr_within(Duration::from_secs(60));
        reply.expect("nothing came")
    }

    /// The same; `None` where nothing came.
    fn incr_within(&mut self, longest: Duration) -> Option<Vec<u8>> {
        self.0.set_read_timeout(Some(longest)).unwrap();
        let _ = self.0.write_all(b"*2\r\n$4\r\nincr\r\n$1\r\nk\r\n");
        let mut buffer = vec![0; 1 << 20];
        match self.0.read(&mut buffer) {
            Ok(read) => Some(buffer[..read].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(_) => Some(Vec::new()),
        }
    }

    fn until_the_fault(&mut self) {
        for _ in 1..FIRST {
            assert!(self.incr().starts_with(b":"));
        }
    }
}

#[test]
fn cut_reply_belongs_to_an_executed_command() {
    let (server, executed) = counting();
    let proxy = Faulty::start(Fault::ReplyCut, server).unwrap();
    let mut caller = Caller::connect(&proxy);
    caller.until_the_fault();
    assert_eq!(caller.incr(), Vec::<u8>::new());
    assert_eq!(executed.load(Ordering::Relaxed), FIRST);
    assert_eq!(proxy.faults(), 1);
    // Others work again until the next one.
    let mut other = Caller::connect(&proxy);
    assert!(other.incr().starts_with(b":"));
}

#[test]
fn error_replies_come_in_a_row_and_their_commands_reach_no_server() {
    let (server, executed) = counting();
    let proxy = Faulty::start(Fault::ReadOnly, server).unwrap();
    let mut caller = Caller::connect(&proxy);
    caller.until_the_fault();
    for _ in 0..REFUSALS {
        assert!(caller.incr().starts_with(b"-READONLY "));
    }
    assert!(caller.incr().starts_with(b":"));
    assert_eq!(executed.load(Ordering::Relaxed), FIRST);
}

#[test]
fn silent_connection_leaves_others_working_and_frozen_server_does_not() {
    for (fault, is_answered) in [(Fault::Silent, true), (Fault::Frozen, false)] {
        let (server, executed) = counting();
        let proxy = Faulty::start(fault, server).unwrap();
        let mut caller = Caller::connect(&proxy);
        caller.until_the_fault();
        assert_eq!(caller.incr_within(QUIET), None);
        assert_eq!(executed.load(Ordering::Relaxed), FIRST - 1);
        let mut other = Caller::connect(&proxy);
        if is_answered {
            assert!(other.incr().starts_with(b":"));
        } else {
            assert_eq!(other.incr_within(QUIET), None);
        }
    }
}

#[test]
fn away_server_refuses_connections_and_comes_back() {
    let (server, _) = counting();
    let proxy = Faulty::start(Fault::Away, server).unwrap();
    let mut caller = Caller::connect(&proxy);
    caller.until_the_fault();
    let away = Instant::now();
    assert_eq!(caller.incr(), Vec::<u8>::new());
    let mut refused = 0;
    let back = loop {
        match TcpStream::connect(proxy.address()) {
            Ok(_) if refused > 0 => break away.elapsed(),
            Ok(_) => {}
            Err(_) => refused += 1,
        }
        thread::sleep(Duration::from_millis(5));
        assert!(away.elapsed() < 20 * AWAY, "it did not come back");
    };
    assert!(back >= AWAY, "{back:?}");
}

/// With the last of several cuts, a run would end with a fault and have no recovery.
#[test]
fn recovery_from_cut_replies_counts_from_the_first() {
    let (server, _) = counting();
    let proxy = Faulty::start(Fault::ReplyCut, server).unwrap();
    let mut caller = Caller::connect(&proxy);
    caller.until_the_fault();
    assert_eq!(caller.incr(), Vec::<u8>::new());
    let first = proxy.ended().unwrap();
    while proxy.faults() < 2 {
        Caller::connect(&proxy).incr();
    }
    assert_eq!(proxy.ended(), Some(first));
}
