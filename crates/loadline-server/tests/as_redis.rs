//! The same commands to our server and to a real redis-server: the replies must be the same bytes.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loadline_server::{Listen, Server, ServerConfig};

/// Our server on a thread of its own; it ends with this value.
struct Ours {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ours {
    fn start(config: ServerConfig) -> Self {
        let listen = vec![Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())];
        let mut server = Server::bind(ServerConfig { listen, ..config }).unwrap();
        let address = server.local_addrs()[0];
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || server.run(&stopped).unwrap());
        Self {
            address,
            stop,
            thread: Some(thread),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        stream
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A real redis-server on a Unix socket; it ends with this value.
struct Redis {
    process: Child,
    dir: tempfile::TempDir,
}

impl Redis {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let process = Command::new("redis-server")
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--unixsocket",
            ])
            .arg(dir.path().join("socket"))
            .arg("--dir")
            .arg(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("this test needs redis-server; `cargo xtask test --install` installs it");
        Self { process, dir }
    }

    fn connect(&self) -> UnixStream {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match UnixStream::connect(self.dir.path().join("socket")) {
                Ok(stream) => {
                    stream
                        .set_read_timeout(Some(Duration::from_secs(10)))
                        .unwrap();
                    return stream;
                }
                Err(error) => assert!(
                    Instant::now() < deadline,
                    "redis-server does not answer: {error}"
                ),
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends `line` and an ECHO behind it, and returns everything before the echo.
fn ask(stream: &mut (impl Read + Write), line: &str) -> String {
    const END: &[u8] = b"$5\r\n(end)\r\n";
    stream
        .write_all(format!("{line}\r\nECHO (end)\r\n").as_bytes())
        .unwrap();
    let mut reply = Vec::new();
    let mut buffer = [0; 4_096];
    while !reply.ends_with(END) {
        let bytes = stream.read(&mut buffer).unwrap();
        assert!(bytes > 0, "closed after {line}");
        reply.extend_from_slice(&buffer[..bytes]);
    }
    reply.truncate(reply.len() - END.len());
    String::from_utf8(reply).unwrap()
}

/// Inline commands, in this order. Collections hold one element where their whole is asked for, since
/// their order is nobody's promise.
const COMMANDS: &str = "\
PING|PING hello|PING a b|ECHO x|ECHO|get|GET a|SET a 1|GET a|SET a 2 NX|SET a 2 XX|GET a|SET b 2 XX
SET a 3 GET|SET none 3 GET XX|SET a v EX 100|TTL a|SET a w KEEPTTL|TTL a|SET a x|TTL a|SET a v EX 0|SET a v EX -1|SET a v EX x
SET a v PX|SET a v NX XX|SET a v bogus|SETNX a 1|SETNX n 1|SETEX e 100 v|TTL e|SETEX e 0 v|PSETEX e 100000 v|GETSET a 5|GETDEL a|GETDEL a
INCR c|INCR c|DECR c|INCRBY c 10|DECRBY c 3|INCRBY c x|SET s abc|INCR s|SET big 9223372036854775807|INCR big|DECRBY c -9223372036854775808
SET z 01|INCR z|INCRBY c 1.5|MSET m1 1 m2 2|MSET m1|MSET m1 1 m2|MGET m1 m2 m3|APPEND s def|APPEND new x|STRLEN s|STRLEN nope|GET s
EXISTS s s nope|DEL s nope|UNLINK m1 m2|EXISTS s|TYPE c|TYPE nope|EXPIRE c 100|TTL c|PERSIST c|PERSIST c|TTL c|TTL nope|PTTL nope
EXPIRE nope 10|EXPIRE c -1|EXISTS c|EXPIRE c x|EXPIREAT n 1|EXISTS n|SET r 1|RENAME r q|RENAME r q|GET q
SADD set a|SADD set a b c|SCARD set|SISMEMBER set a|SISMEMBER set x|SREM set a b x|SMEMBERS set|TYPE set|GET set|INCR set|SADD q x|SREM set c|EXISTS set
SMEMBERS set|SPOP set|SPOP set 2|SADD one m|SPOP one|SPOP one -1|HSET h f v|HSET h f w|HSET h a|HSET h f 1 g 2|HGET h f|HGET h x|HGET nope x|HMGET h f g x
HLEN h|HEXISTS h f|HEXISTS h x|HDEL h g x|HGETALL h|HGETALL nope|HINCRBY h f 5|HINCRBY h f x|HSET h s abc|HINCRBY h s 1|HMSET h2 a b|HMSET h2 a|TYPE h|SADD h x|HSET q f v|HDEL h f s|EXISTS h
MULTI|SET t 1|INCR t|GET t|NOSUCHX|EXEC|MULTI|SET t 5|INCR t|EXEC|GET t|MULTI|NOSUCH a|EXEC|EXEC|DISCARD|MULTI|MULTI|DISCARD|MULTI|GET one|SADD t x|EXEC
SELECT 3|GET t|SELECT 0|SELECT 16|SELECT x|NOSUCH|NOSUCH a b c|HELLO 9|HELLO x|AUTH x|AUTH a b|CLIENT GETNAME|CLIENT SETNAME me|CLIENT GETNAME|CLIENT
SCAN x|SCAN 0 MATCH|SCAN 0 COUNT 0|SCAN 0 BOGUS 1|KEYS nope*|DBSIZE x|FLUSHALL|DBSIZE|RESET";

#[test]
fn replies_are_those_of_redis_to_the_byte() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    for hello in [None, Some("HELLO 3")] {
        let (mut one, mut other) = (ours.connect(), redis.connect());
        if let Some(hello) = hello {
            ask(&mut one, hello);
            ask(&mut other, hello);
        }
        let mut count = 0;
        // A group is sent whole, since what is sent after MULTI is queued.
        for group in COMMANDS.lines() {
            let commands = group.replace('|', "\r\n");
            let (one, other) = (ask(&mut one, &commands), ask(&mut other, &commands));
            assert_eq!(one, other, "{group} (ours left, after {hello:?})");
            count += group.split('|').count();
        }
        assert!(count > 170, "{count} commands");
    }
}

#[test]
fn without_the_password_nothing_is_told() {
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

#[test]
fn hostile_requests_end_their_connection_and_nobody_elses() {
    let ours = Ours::start(ServerConfig::default());
    for (request, reply) in [
        (
            "*2000000000\r\n",
            "-ERR Protocol error: invalid multibulk length\r\n",
        ),
        (
            "*1\r\n$-5\r\n",
            "-ERR Protocol error: invalid bulk length\r\n",
        ),
        (
            "*1\r\n$10737418240\r\n",
            "-ERR Protocol error: invalid bulk length\r\n",
        ),
        (
            "*1\r\n:1\r\n",
            "-ERR Protocol error: expected '$', got ':'\r\n",
        ),
        (
            "GET \"a\r\n",
            "-ERR Protocol error: unbalanced quotes in request\r\n",
        ),
    ] {
        let mut stream = ours.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert_eq!(said, reply, "{request:?}");
    }
    assert_eq!(ask(&mut ours.connect(), "PING"), "+PONG\r\n");
}

#[test]
fn one_that_sends_and_never_reads_is_closed_before_its_replies_fill_the_memory() {
    let ours = Ours::start(ServerConfig {
        max_output_bytes: 1 << 20,
        ..ServerConfig::default()
    });
    ask(
        &mut ours.connect(),
        &format!("SET big {}", "x".repeat(60_000)),
    );
    let mut greedy = ours.connect();
    greedy
        .set_write_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let requests = "GET big\r\n".repeat(1_000);
    let refused = (0..1_000).any(|_| greedy.write_all(requests.as_bytes()).is_err());
    assert!(refused, "a gigabyte of replies was promised");
    assert_eq!(ask(&mut ours.connect(), "PING"), "+PONG\r\n");
}

#[test]
fn an_open_address_needs_a_password() {
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
