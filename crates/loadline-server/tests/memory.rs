//! Memory that data left behind goes back to the system. A process of its own, since it is about all the
//! memory of the process.

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use loadline_server::{Listen, Server, ServerConfig};

const KEYS: usize = 400_000;

/// The resident memory of this process, in MiB.
fn resident_mib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.unwrap().split_ascii_whitespace().nth(1).unwrap();
    kib.parse::<usize>().unwrap() / 1024
}

/// Sends a command for each key; `{key}` stands for the key.
fn send(stream: &mut TcpStream, command: &str, reply: &str) {
    const BATCH: usize = 10_000;
    for first in (0..KEYS).step_by(BATCH) {
        let keys = first..first + BATCH;
        let request: String = keys
            .map(|key| command.replace("{key}", &format!("key:{key:012}")) + "\r\n")
            .collect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut replies = vec![0; BATCH * reply.len()];
        stream.read_exact(&mut replies).unwrap();
        assert_eq!(replies, reply.repeat(BATCH).as_bytes());
    }
}

/// Waits until the resident memory is at most `most_mib`, and returns what it is then.
fn settled(most_mib: usize) -> usize {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let resident = resident_mib();
        if resident <= most_mib || Instant::now() >= until {
            return resident;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Held by the test that looks at the memory of the process.
static ALONE: Mutex<()> = Mutex::new(());

/// Connections of the short and of the long setting, and the most bytes of each.
const CONNECTIONS: usize = 400;
const LONG_CONNECTIONS: usize = 9_000;
const CONNECTION_BYTES: usize = 10_000;

/// Connections that wait take memory and no time.
#[test]
fn idle_connections_take_little_memory() {
    let _alone = ALONE.lock().unwrap();
    let is_long = std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1");
    let count = if is_long {
        LONG_CONNECTIONS
    } else {
        CONNECTIONS
    };
    let mut server = Server::bind(ServerConfig {
        listen: vec![Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())],
        // The other ends are in this process, too.
        max_clients: 2 * count + 100,
        ..ServerConfig::default()
    })
    .unwrap();
    let address = server.local_addrs()[0];
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || server.run(&stopped).unwrap());
    let before = resident_mib();
    let mut streams: Vec<TcpStream> = (0..count)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    for stream in &mut streams {
        stream.write_all(b"PING\r\n").unwrap();
        stream.read_exact(&mut [0; b"+PONG\r\n".len()]).unwrap();
    }
    let after = resident_mib();
    println!("{count} connections: {before} MiB before, {after} MiB afterwards");
    let most = before + count * CONNECTION_BYTES / (1 << 20) + 1;
    assert!(after <= most, "{after} MiB, {before} before");
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
}

#[test]
fn memory_of_removed_keys_goes_back_to_the_system() {
    let _alone = ALONE.lock().unwrap();
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
    let mut stream = TcpStream::connect(address).unwrap();

    let empty = resident_mib();
    let set = format!("SET {{key}} {}", "x".repeat(64));
    for end in ["FLUSHALL", "FLUSHDB", "PEXPIRE {key} 1"] {
        send(&mut stream, &set, "+OK\r\n");
        let full = resident_mib();
        if end.contains("{key}") {
            send(&mut stream, end, ":1\r\n");
        } else {
            stream.write_all(format!("{end}\r\n").as_bytes()).unwrap();
            stream.read_exact(&mut [0; b"+OK\r\n".len()]).unwrap();
        }
        // The tables of 4,096 parts stay after keys have expired, and the allocator keeps some of what this thread has sent:
        // 3 to 9 MiB. Without a return to the system, it would be all of it.
        let most = empty + full.saturating_sub(empty) / 3;
        let after = settled(most);
        println!("{end}: {empty} MiB without keys, {full} MiB with {KEYS}, {after} MiB afterwards");
        assert!(
            full > empty + 40,
            "{full} MiB with the keys, {empty} before"
        );
        assert!(after <= most, "{after} MiB after {end}, {empty} before");
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
}
