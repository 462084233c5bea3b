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
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

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

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

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
SET f 10.5|INCRBYFLOAT f 0.1|INCRBYFLOAT f -5|SET f 1.5|INCRBYFLOAT f 5.0e3|INCRBYFLOAT f x|SET f abc|INCRBYFLOAT f 1|INCRBYFLOAT nf 3|SET f 3.0|INCRBYFLOAT f 1.500
MSETNX y1 a y2 b|MSETNX y2 c y3 d|MSETNX y1|EXISTS y1 y2 y3|GETEX y1|GETEX y1 EX 100|TTL y1|GETEX y1 PERSIST|TTL y1|GETEX y1 EX 0|GETEX y1 BOGUS|GETEX nope EX 5|GETEX y1 PXAT 1|EXISTS y1
SET rg Hello|GETRANGE rg 0 -1|GETRANGE rg 1 3|GETRANGE rg -3 -1|GETRANGE rg 3 1|GETRANGE rg -1 -3|GETRANGE rg 10 20|GETRANGE nope 0 1|SUBSTR rg 0 1|GETRANGE rg a b|GETRANGE h 0 1
SETRANGE rg 1 ipp|GET rg|SETRANGE rg 8 x|GET rg|SETRANGE rg -1 x|SETRANGE none 5 \"\"|EXISTS none|SETRANGE rg 536870912 x|SETRANGE rg a b
DEL u1 u2 u3|SADD u1 a b c|SADD u2 b|SADD u3 b z|SINTER u1 u2 u3|SINTER u1 nope|SUNION u2 nope|SDIFF u2 u1|SDIFF u3 u1|SINTERSTORE d1 u1 u2|SMEMBERS d1|SUNIONSTORE d2 u2|SDIFFSTORE d3 u3 u1|SMEMBERS d3|SINTERSTORE d1 u1 nope|EXISTS d1
SINTERCARD 2 u1 u2|SINTERCARD 2 u1 u3 LIMIT 1|SINTERCARD 0 u1|SINTERCARD 3 u1|SINTERCARD 1 u1 LIMIT -1|SINTERCARD 1 u1 BOGUS|SINTERCARD x u1|SMISMEMBER u1 a x|SMISMEMBER nope a|SMISMEMBER rg a
SMOVE u1 u2 a|SMOVE u1 u2 nope|SMOVE nope u2 x|SMOVE u2 rg b|SMOVE rg u2 b|SCARD u2|SMOVE u2 u2 a|SRANDMEMBER nope|SRANDMEMBER nope 2|SRANDMEMBER d2|SRANDMEMBER d2 5|SRANDMEMBER d2 -3|SRANDMEMBER d2 x|SSCAN d2 0|SSCAN d2 0 MATCH x*|SSCAN nope 0|SSCAN d2 x|SSCAN d2 0 COUNT 0|SINTER u1 rg
HSET k a 1|HSETNX k a 2|HSETNX k b 2|HDEL k b|HKEYS k|HVALS k|HKEYS nope|HSTRLEN k a|HSTRLEN k x|HINCRBYFLOAT k a 1.5|HINCRBYFLOAT k n 0.1|HDEL k n|HINCRBYFLOAT k a x|HSET k s abc|HINCRBYFLOAT k s 1|HDEL k s
HRANDFIELD k|HRANDFIELD k 3|HRANDFIELD k -2|HRANDFIELD k 2 WITHVALUES|HRANDFIELD nope|HRANDFIELD nope 2|HRANDFIELD k x|HRANDFIELD k 1 BOGUS|HSCAN k 0|HSCAN k 0 MATCH z|HSCAN nope 0|HSCAN k x|HKEYS rg
SET c1 v|COPY c1 c2|COPY c1 c2|COPY c1 c2 REPLACE|COPY c1 c1|COPY nope c9|COPY c1 c2 DB 3|COPY c1 c2 DB 99|COPY c1 c2 BOGUS|GET c2|RENAMENX c1 c2|RENAMENX c1 c3|RENAMENX nope c4|RENAMENX c3 c3|TOUCH c2 c3 nope|FLUSHDB|RANDOMKEY|SET only 1|RANDOMKEY
SET x1 v EXAT 33177117420|EXPIRETIME x1|PEXPIRETIME x1|EXPIRETIME nope|SET x2 v|EXPIRETIME x2|EXPIRE x2 100 XX|EXPIRE x2 100 NX|EXPIRE x2 50 GT|EXPIRE x2 200 GT|TTL x2|EXPIRE x2 100 LT|TTL x2|EXPIRE x2 10 NX XX|EXPIRE x2 10 GT LT|EXPIRE x2 10 BOGUS|EXPIRE x2 5 NX|PERSIST x2|EXPIRE x2 5 GT|EXPIRE x2 500 LT|TTL x2
OBJECT ENCODING x1|SET num 12|OBJECT ENCODING num|OBJECT REFCOUNT x1|OBJECT ENCODING nope|OBJECT BOGUS x1|OBJECT FREQ x1|SADD ints 1 2|OBJECT ENCODING ints|HSET small a b|OBJECT ENCODING small
WAIT 0 0|WAIT x 0|WAIT 0 -1|ACL WHOAMI|SLOWLOG LEN|SLOWLOG RESET|CONFIG RESETSTAT|CONFIG SET maxmemory 0|CONFIG SET a|CLIENT NO-EVICT on|CLIENT NO-EVICT x|CLIENT KILL ID 0|CLIENT KILL ID 999999|CLIENT KILL 1.2.3.4:5|CLIENT KILL BOGUS x|CLIENT LIST TYPE pubsub|CLIENT LIST TYPE x|CLIENT LIST ID x|MEMORY USAGE nope
WATCH x1|MULTI|SET x1 2|EXEC|UNWATCH|MULTI|WATCH x1|EXEC|WATCH x1|SET x1 3|MULTI|GET x1|EXEC|WATCH x1|SET x1 4|UNWATCH|MULTI|GET x1|EXEC|WATCH nope|DEL nope|MULTI|EXEC|WATCH x1|FLUSHALL|MULTI|EXEC|WATCH|LASTSAVE x
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
        assert!(count > 390, "{count} commands");
    }
}

/// What another connection does between WATCH and EXEC decides about the transaction, as in Redis.
#[test]
fn watched_keys_are_watched_over_connections() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    let (mut one_else, mut other_else) = (ours.connect(), redis.connect());
    let setup = "FLUSHALL\r\nSET a 1\r\nSADD s m\r\nHSET h f v\r\nSET gone v PX 60";
    for (watched, meanwhile) in [
        ("a", "SET a 1"),
        ("a", "SET b 1"),
        ("a", "DEL a"),
        ("a", "EXPIRE a 100"),
        ("a", "SET a x NX"),
        ("a", "SADD a x"),
        ("s", "SADD s m"),
        ("s", "SADD s n"),
        ("s", "SMOVE s t m"),
        ("t", "SMOVE s t m"),
        ("h", "HSET h f w"),
        ("h", "HDEL h nope"),
        ("a b", "RENAME a b"),
        ("b", "COPY a b"),
        ("nope", "FLUSHALL"),
        ("a", "FLUSHALL"),
        ("a", "SELECT 1\r\nSET a 2\r\nSELECT 0"),
        ("a", "MULTI\r\nINCR a\r\nEXEC"),
        ("a", "GETEX a EX 9"),
        ("a", "APPEND a x"),
    ] {
        let ends = [
            (
                &mut one as &mut dyn ReadWrite,
                &mut one_else as &mut dyn ReadWrite,
            ),
            (&mut other, &mut other_else),
        ]
        .map(|(mut watcher, mut writer)| {
            ask(&mut watcher, setup);
            ask(&mut watcher, &format!("WATCH {watched}"));
            let said = ask(&mut writer, meanwhile);
            let end = ask(&mut watcher, "MULTI\r\nPING\r\nEXEC");
            (said, end)
        });
        assert_eq!(ends[0], ends[1], "{watched} watched, then {meanwhile}");
    }
    // A key whose time comes between the two is a change; one that was not there is none.
    for stream in [&mut one as &mut dyn ReadWrite, &mut other] {
        let mut stream = stream;
        ask(&mut stream, setup);
        ask(&mut stream, "WATCH gone");
        std::thread::sleep(Duration::from_millis(200));
        let end = ask(&mut stream, "MULTI\r\nPING\r\nEXEC");
        assert!(end.ends_with("*-1\r\n"), "{end}");
        ask(&mut stream, "WATCH gone");
        let end = ask(&mut stream, "MULTI\r\nPING\r\nEXEC");
        assert!(end.ends_with("+PONG\r\n"), "{end}");
    }
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
    // With SKIPME no, the caller is told before it goes.
    one.write_all(b"CLIENT KILL TYPE normal SKIPME no\r\n")
        .unwrap();
    let mut said = String::new();
    one.read_to_string(&mut said).unwrap();
    assert_eq!(said, ":1\r\n");
}

/// Every command that the server knows, with words that mean something somewhere, in any number and
/// order: whatever the reply is, there is one, and the server goes on.
#[test]
fn no_arguments_bring_the_server_down() {
    let ours = Ours::start(ServerConfig::default());
    let mut stream = ours.connect();
    let known = ask(&mut stream, "COMMAND");
    let names: Vec<&str> = known
        .lines()
        .filter(|line| line.bytes().all(|byte| byte.is_ascii_lowercase()) && line.len() > 2)
        .filter(|name| !["quit", "shutdown", "write", "readonly"].contains(name))
        .collect();
    assert!(names.len() > 90, "{names:?}");
    let words = [
        "a",
        "b",
        "s",
        "h",
        "0",
        "1",
        "-1",
        "2",
        "9223372036854775807",
        "-9223372036854775808",
        "1.5",
        "x",
        "\"\"",
        "EX",
        "PX",
        "NX",
        "XX",
        "GT",
        "GET",
        "MATCH",
        "*",
        "[",
        "COUNT",
        "LIMIT",
        "WITHVALUES",
        "KILL",
        "LIST",
        "ID",
        "SETNAME",
        "REPLACE",
        "DB",
        "USAGE",
        "ENCODING",
        "AUTH",
    ];
    let mut rng = SmallRng::seed_from_u64(1);
    for _ in 0..400 {
        let commands: Vec<String> = (0..50)
            .map(|_| {
                let count = rng.random_range(0..6);
                let mut line = vec![*names.choose(&mut rng).unwrap()];
                line.extend((0..count).map(|_| *words.choose(&mut rng).unwrap()));
                line.join(" ")
            })
            .collect();
        stream = ours.connect();
        // A connection may have killed itself, or be in a transaction; what counts is that the server
        // takes the next one.
        let _ = stream.write_all((commands.join("\r\n") + "\r\nQUIT\r\n").as_bytes());
        let _ = stream.read_to_end(&mut Vec::new());
        assert_eq!(
            ask(&mut ours.connect(), "PING"),
            "+PONG\r\n",
            "{commands:?}"
        );
    }
}

/// The tools that come with Redis, against our server.
#[test]
fn the_tools_of_redis_work() {
    let ours = Ours::start(ServerConfig::default());
    let port = ours.address.port().to_string();
    let run = |program: &str, words: &[&str]| {
        let output = Command::new(program)
            .args(["-p", &port])
            .args(words)
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| {
                panic!("{program}: {error}; `cargo xtask test --install` installs it")
            });
        assert!(output.status.success(), "{program} {words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run("redis-cli", &["set", "greeting", "hello"]), "OK\n");
    assert_eq!(run("redis-cli", &["-3", "get", "greeting"]), "hello\n");
    assert_eq!(run("redis-cli", &["--scan"]), "greeting\n");
    assert!(run("redis-cli", &["info", "server"]).contains("redis_version:7.0.15"));
    assert!(run("redis-cli", &["--bigkeys"]).contains("1 keys"));
    let tests = "ping,set,get,incr,sadd,hset,spop,mset";
    let words = [
        "-c", "10", "-n", "2000", "-P", "4", "-r", "100", "-t", tests, "--csv",
    ];
    let table = run("redis-benchmark", &words);
    // Two kinds of PING, and a line of headings.
    assert_eq!(table.lines().count(), 10, "{table}");
    assert!(run("redis-cli", &["info", "commandstats"]).contains("cmdstat_spop:calls="));
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
