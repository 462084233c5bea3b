//! Clients that send what they should not, more than they should, or do not read.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::{Duration, Instant};

use loadline_resp::encode;
use loadline_server::{Listen, Server, ServerConfig};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::support::{Ours, ask};

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
        // A client that waits for a key is let go by its end.
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
        assert_eq!(
            ask(&mut ours.connect(), "PING"),
            "+PONG\r\n",
            "{commands:?}"
        );
    }
}

#[test]
fn hostile_requests_end_only_their_own_connection() {
    let ours = Ours::start(ServerConfig::default());
    for (request, reply) in [
        (
            "*2147483648\r\n",
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

/// A socket that is closed with unread bytes resets the connection, and its peer reads nothing.
#[test]
fn error_arrives_although_more_was_sent() {
    let ours = Ours::start(ServerConfig::default());
    for _ in 0..20 {
        let mut stream = ours.connect();
        stream.write_all(b"*2147483648\r\n").unwrap();
        stream.write_all(&b"$1\r\na\r\n".repeat(1 << 20)).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert_eq!(said, "-ERR Protocol error: invalid multibulk length\r\n");
    }
}

/// One that goes on sending after its error is closed after a while, and so is one that does nothing.
#[test]
fn refused_connection_does_not_stay() {
    let ours = Ours::start(ServerConfig::default());
    let mut one = ours.connect();
    let mut silent = ours.connect();
    silent.write_all(b"*1\r\n:1\r\n").unwrap();
    let mut busy = ours.connect();
    busy.write_all(b"*1\r\n:1\r\n").unwrap();
    let junk = vec![b'x'; 1 << 20];
    assert!(
        (0..1_000).any(|_| busy.write_all(&junk).is_err()),
        "a gigabyte was read"
    );
    let until = Instant::now() + Duration::from_secs(60);
    while !ask(&mut one, "INFO clients").contains("connected_clients:1\r\n") {
        assert!(Instant::now() < until, "{}", ask(&mut one, "CLIENT LIST"));
    }
}

/// Its requests wait, and not the replies to them; and when they fill their bound it is closed.
#[test]
fn one_that_sends_and_never_reads_is_closed_before_it_fills_the_memory() {
    let ours = Ours::start(ServerConfig {
        max_request_bytes: 1 << 20,
        ..ServerConfig::default()
    });
    let mut one = ours.connect();
    ask(&mut one, &format!("SET big {}", "x".repeat(60_000)));
    let mut greedy = ours.connect();
    greedy
        .set_write_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let requests = "GET big\r\n".repeat(1_000);
    let mut refusals = (0..2_000).filter_map(|_| greedy.write_all(requests.as_bytes()).err());
    let refusal = refusals.next().expect("eighteen megabytes were taken");
    assert_ne!(
        refusal.kind(),
        ErrorKind::WouldBlock,
        "it is held up, not closed"
    );
    // Only what was written and the little that waited was ever executed.
    let stats = ask(&mut one, "INFO commandstats");
    let calls: usize = field(&stats, "cmdstat_get:calls=").parse().unwrap();
    assert!(
        calls < 5_000,
        "{calls} replies of 60 kB for one who reads none"
    );
}

/// If the replies of a pipeline are more than may wait, the requests wait.
#[test]
fn pipeline_with_more_replies_than_may_wait_is_answered_whole() {
    const COUNT: usize = 4_000;
    let ours = Ours::start(ServerConfig {
        max_output_bytes: 4 << 20,
        ..ServerConfig::default()
    });
    let mut stream = ours.connect();
    ask(&mut stream, &format!("SET big {}", "x".repeat(60_000)));
    stream
        .write_all("GET big\r\n".repeat(COUNT).as_bytes())
        .unwrap();
    // It may even say that this was all.
    stream.shutdown(Shutdown::Write).unwrap();
    let mut replies = 0;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => break,
            bytes => replies += bytes,
        }
    }
    assert_eq!(replies, COUNT * ("$60000\r\n\r\n".len() + 60_000));
}

/// A short request may ask for a reply that is larger than any memory.
#[test]
fn one_command_cannot_fill_the_memory_with_its_reply() {
    let ours = Ours::start(ServerConfig {
        max_output_bytes: 4 << 20,
        ..ServerConfig::default()
    });
    let mut one = ours.connect();
    let big = "x".repeat(60_000);
    ask(
        &mut one,
        &format!("SET big {big}\r\nSADD s {big}\r\nHSET h f {big}"),
    );
    // The same a hundred thousand times: six gigabytes each.
    let many = 100_000;
    for (names, reply) in [
        (format!("MGET{}", " big".repeat(many)), ""),
        (format!("HMGET h{}", " f".repeat(many)), ""),
        (format!("SRANDMEMBER s -{many}"), ""),
        (format!("HRANDFIELD h -{many} WITHVALUES"), ""),
        (
            format!("MULTI\r\n{}EXEC", "GET big\r\n".repeat(many)),
            "+OK\r\n+QUEUED\r\n",
        ),
    ] {
        let mut greedy = ours.connect();
        greedy.write_all(&request(&names)).unwrap();
        let mut said = Vec::new();
        // Replies sent before may be lost with the connection.
        let _ = greedy.read_to_end(&mut said);
        let said = String::from_utf8(said).unwrap();
        let name = names.split_whitespace().next().unwrap();
        assert!(
            said.is_empty() || said.starts_with(reply) && !said.contains('x'),
            "{name}"
        );
        assert_eq!(ask(&mut one, "PING"), "+PONG\r\n", "after {name}");
    }
}

/// Inline commands, those of one long line in the form that may be longer.
fn request(lines: &str) -> Vec<u8> {
    if lines.contains('\r') {
        return format!("{lines}\r\n").into_bytes();
    }
    let words: Vec<&str> = lines.split(' ').collect();
    let mut request = Vec::new();
    encode::command(&mut request, &words);
    request
}

/// The text after `name` in the text of INFO, up to a comma or the end of the line.
fn field<'t>(text: &'t str, name: &str) -> &'t str {
    let (_, behind) = text.split_once(name).unwrap();
    behind.split([',', '\r']).next().unwrap()
}

/// Watching many keys takes time in proportion, and the keys count as what the connection holds.
#[test]
fn flood_of_watched_keys_delays_no_other_client() {
    let ours = Ours::start(ServerConfig {
        max_request_bytes: 24 << 20,
        ..ServerConfig::default()
    });
    let mut stream = ours.connect();
    let watch = |from: usize| {
        let keys = (from..from + 100_000).map(|n| format!(" k{n}"));
        request(&format!("WATCH{}", keys.collect::<String>()))
    };
    let begun = Instant::now();
    stream.write_all(&watch(0)).unwrap();
    assert_eq!(ask(&mut stream, "PING"), "+OK\r\n+PONG\r\n");
    // It was a minute when every key was compared with all before, and is far below a second.
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    ask(&mut ours.connect(), "SET k77777 v");
    assert_eq!(
        ask(&mut stream, "MULTI\r\nPING\r\nEXEC"),
        "+OK\r\n+QUEUED\r\n*-1\r\n"
    );
    // Buffers take the keys of some more after the last one that the server read.
    let is_refused = (0..30).any(|n| stream.write_all(&watch(n * 100_000)).is_err());
    assert!(is_refused, "three million keys are watched");
    assert_eq!(ask(&mut ours.connect(), "PING"), "+PONG\r\n");
}

/// The kernel asks silent peers whether they are there, so that those that went without a word do not
/// hold their places for good.
#[test]
fn silent_connections_are_probed() {
    let ours = Ours::start(ServerConfig::default());
    let mut client = ours.connect();
    assert_eq!(
        ask(&mut client, "CONFIG GET tcp-keepalive"),
        "*2\r\n$13\r\ntcp-keepalive\r\n$3\r\n300\r\n"
    );
    let port = |port: u16| format!("0100007F:{port:04X}");
    let ends = [ours.address.port(), client.local_addr().unwrap().port()].map(port);
    // Until the reply is acknowledged, the timer is that of its repetition.
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let fields = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        // The local end, the other end, the state, the queues, and the timer that runs: 2 is keep-alive.
        let mut servers = fields.filter(|fields| fields[1..3] == ends);
        let timer = servers.next().expect("the connection is in the table")[5];
        if timer.starts_with("02:") {
            break;
        }
        assert!(Instant::now() < until, "{timer}");
    }
}

/// A burst of connections waits in the kernel until the server has its turn. Where its queue is shorter
/// than the burst, the rest has to try again after a second.
#[test]
fn burst_of_connections_is_taken_in() {
    let listen = vec![Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())];
    let server = Server::bind(ServerConfig {
        listen,
        ..ServerConfig::default()
    });
    // It does not run, so no connection is accepted meanwhile.
    let server = server.unwrap();
    let address = server.local_addrs()[0];
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(900));
    let clients: Result<Vec<TcpStream>, _> = (0..600).map(connect).collect();
    assert_eq!(clients.unwrap().len(), 600);
}

/// Clients of some languages send a whole pipeline before they read. They must get every reply, however
/// many of them wait meanwhile.
#[test]
fn pipeline_that_is_sent_before_a_reply_is_read_is_answered_whole() {
    const COUNT: usize = 40_000;
    let ours = Ours::start(ServerConfig::default());
    let value = "x".repeat(1_000);
    let mut stream = ours.connect();
    ask(&mut stream, &format!("SET k {value}"));
    let mut requests = String::from("GET k\r\n").repeat(COUNT);
    requests.push_str(&"APPEND k y\r\n".repeat(COUNT));
    requests.push_str("QUIT\r\n");
    // More than the buffers of both sockets hold.
    stream
        .set_write_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream.write_all(requests.as_bytes()).unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    let get = format!("${}\r\n{value}\r\n", value.len());
    let (gets, rest) = replies.split_at(get.len() * COUNT);
    assert!(gets == get.repeat(COUNT));
    let appended: String = (1..=COUNT)
        .map(|n| format!(":{}\r\n", value.len() + n))
        .collect();
    assert!(rest == appended + "+OK\r\n");
}

#[test]
fn value_of_many_megabytes_goes_in_and_out_whole() {
    const BYTES: usize = 64 << 20;
    let ours = Ours::start(ServerConfig::default());
    let value: Vec<u8> = (0..BYTES).map(|n| (n / 251 + n) as u8).collect();
    let mut stream = ours.connect();
    let mut request = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${BYTES}\r\n").into_bytes();
    request.extend_from_slice(&value);
    request.extend_from_slice(b"\r\nGET k\r\nQUIT\r\n");
    stream.write_all(&request).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let header = format!("+OK\r\n${BYTES}\r\n").into_bytes();
    assert_eq!(reply.len(), header.len() + BYTES + "\r\n+OK\r\n".len());
    assert!(reply[header.len()..].starts_with(&value));
}

/// One that says it has no more to say still hears what it has asked for.
#[test]
fn half_closed_connection_gets_its_replies() {
    let ours = Ours::start(ServerConfig::default());
    ask(&mut ours.connect(), "SETRANGE k 1048575 x");
    let mut stream = ours.connect();
    // Far more than a socket takes at once.
    stream.write_all(&b"GET k\r\n".repeat(64)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).unwrap();
    assert_eq!(replies.len(), 64 * ("$1048576\r\n\r\n".len() + (1 << 20)));
}

#[test]
fn requests_byte_by_byte_are_answered_and_delay_no_other_client() {
    let ours = Ours::start(ServerConfig::default());
    let (mut slow, mut quick) = (ours.connect(), ours.connect());
    for byte in b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\nPING\r\n" {
        slow.write_all(&[*byte]).unwrap();
        assert_eq!(ask(&mut quick, "PING"), "+PONG\r\n");
    }
    let mut reply = [0; 15];
    slow.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"$2\r\nhi\r\n+PONG\r\n");
}

#[test]
fn client_over_the_limit_gets_an_error() {
    let ours = Ours::start(ServerConfig {
        max_clients: 200,
        ..ServerConfig::default()
    });
    let mut clients: Vec<_> = (0..200).map(|_| ours.connect()).collect();
    for client in &mut clients {
        assert_eq!(ask(client, "PING"), "+PONG\r\n");
    }
    let mut said = String::new();
    ours.connect().read_to_string(&mut said).unwrap();
    assert_eq!(said, "-ERR max number of clients reached\r\n");
    let info = ask(&mut clients[0], "INFO clients\r\nINFO stats");
    assert!(info.contains("connected_clients:200\r\n"), "{info}");
    assert!(info.contains("rejected_connections:1\r\n"), "{info}");
    // As soon as one goes, the next may come.
    drop(clients.pop());
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let mut client = ours.connect();
        client.write_all(b"QUIT\r\n").unwrap();
        let mut said = String::new();
        // The server may close it before it has read the QUIT, which the system then says.
        let is_in = client.read_to_string(&mut said).is_ok() && said == "+OK\r\n";
        if is_in {
            break;
        }
        assert!(Instant::now() < until, "{said}");
    }
}

#[test]
fn transaction_larger_than_a_request_may_be_ends_its_connection() {
    let ours = Ours::start(ServerConfig {
        max_request_bytes: 1 << 20,
        ..ServerConfig::default()
    });
    let mut stream = ours.connect();
    let sets = format!("SET k {}\r\n", "x".repeat(60_000)).repeat(100);
    let is_refused = stream
        .write_all(format!("MULTI\r\n{sets}").as_bytes())
        .is_err()
        || stream
            .read_to_end(&mut Vec::new())
            .is_err_and(|error| error.kind() != ErrorKind::WouldBlock)
        || stream.write_all(b"EXEC\r\n").is_err()
        || stream.read(&mut [0; 8]).is_ok_and(|bytes| bytes == 0);
    assert!(is_refused, "six megabytes were queued");
    assert_eq!(ask(&mut ours.connect(), "EXISTS k"), ":0\r\n");
}

/// Expired keys are freed even if no client reads them and other clients keep the server busy.
#[test]
fn expired_keys_go_under_load() {
    let ours = Ours::start(ServerConfig::default());
    let mut stream = ours.connect();
    for batch in 0..20 {
        let sets: String = (0..1_000)
            .map(|n| format!("SET gone:{batch}:{n} v PX 1\r\nSET stays:{batch}:{n} v\r\n"))
            .collect();
        ask(&mut stream, sets.trim_end());
    }
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let busy = "INCR counter\r\n".repeat(1_000);
        ask(&mut stream, busy.trim_end());
        if ask(&mut stream, "DBSIZE") == ":20001\r\n" {
            break;
        }
        assert!(Instant::now() < until, "{}", ask(&mut stream, "DBSIZE"));
    }
    let info = ask(&mut stream, "INFO stats\r\nINFO keyspace");
    assert!(info.contains("expired_keys:20000\r\n"), "{info}");
    assert!(info.contains("db0:keys=20001,expires=0,"), "{info}");
}

/// `used_memory` follows the data: it grows by what is put in and shrinks by what is taken out.
#[test]
fn used_memory_is_that_of_the_data() {
    let ours = Ours::start(ServerConfig::default());
    let mut stream = ours.connect();
    let used = |stream: &mut TcpStream| -> i64 {
        let info = ask(stream, "INFO memory");
        field(&info, "used_memory:").parse().unwrap()
    };
    ask(&mut stream, "SET k v");
    let before = used(&mut stream);
    ask(&mut stream, "SETRANGE big 9999999 x");
    let with_big = used(&mut stream) - before;
    assert!((10_000_000..10_010_000).contains(&with_big), "{with_big}");
    ask(&mut stream, "HSET h f v\r\nSADD s 1 2 3\r\nRPUSH l a b");
    let sets: String = (0..10_000)
        .map(|n| format!("SADD many member:{n}\r\n"))
        .collect();
    ask(&mut stream, sets.trim_end());
    let with_set = used(&mut stream) - before - with_big;
    assert!((500_000..2_000_000).contains(&with_set), "{with_set}");
    ask(&mut stream, "DEL big many h s l");
    let left = used(&mut stream) - before;
    assert!(left.abs() < 1_000, "{left}");
}
