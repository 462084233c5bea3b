//! `loadline serve`, spoken to in raw RESP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use crate::util::{Dir, PATIENCE, Serving, converse, is_long, signal, wait_until};

#[test]
fn server_ends_on_a_signal() {
    for name in ["TERM", "INT"] {
        let mut serving = Serving::start(&Dir::new(), &[]);
        serving.answers("PING\r\n", "+PONG\r\n");
        serving.answers(
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nNOPE\r\n",
            "+OK\r\n$1\r\nv\r\n-ERR unknown command 'NOPE', with args beginning with: \r\n",
        );
        signal(serving.process.id(), name);
        let mut status = None;
        wait_until("the server ends", || {
            status = serving.process.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success(), "{name}: {status:?}");
    }
}

#[test]
fn server_listens_on_a_unix_socket() {
    let dir = Dir::new();
    let _serving = Serving::start(&dir, &["--unix", "served.sock"]);
    let stream = UnixStream::connect(dir.path().join("served.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    converse(stream, "PING\r\n", "+PONG\r\n");
}

#[test]
fn encrypted_port_serves_those_who_trust_its_certificate() {
    let dir = Dir::new();
    for name in ["server", "stranger"] {
        let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        dir.write(&format!("{name}.pem"), &certified.cert.pem());
        let key = certified.signing_key.serialize_pem();
        dir.write(&format!("{name}.key"), &key);
    }
    let files = ["--tls-cert-file", "server.pem", "--tls-key-file"];
    let words = [&["--tls-port", "0"], &files[..], &["server.key"]].concat();
    let open = [&words[..], &["--tls-auth-clients", "no"]].concat();
    let serving = Serving::start(&dir, &open);
    let target = format!("rediss://{}", serving.second.unwrap());
    let clean = |authority| dir.run(&["clean", &target, "--tls-ca", authority]);
    clean("server.pem").succeeded();
    clean("stranger.pem").failed(69, "certificate");
    serving.answers("PING\r\n", "+PONG\r\n");

    let refused = |words: &[&str], code, reason| {
        dir.run(&[&["serve"], words].concat()).failed(code, reason);
    };
    refused(&words, 64, "--tls-auth-clients no");
    let of_another = [&files[..], &["stranger.key", "--tls-port", "0"]].concat();
    let of_another = [&of_another[..], &["--tls-auth-clients", "no"]].concat();
    let unfit = "stranger.key: is not the key of the certificate in server.pem";
    refused(&of_another, 65, unfit);
    let missing = [&files[..], &["missing.key", "--tls-port", "0"]].concat();
    let missing = [&missing[..], &["--tls-auth-clients", "no"]].concat();
    refused(&missing, 65, "missing.key");
}

#[test]
fn with_a_password_strangers_are_refused() {
    let dir = Dir::new();
    dir.write("secret.txt", "hunter2\n");
    let serving = Serving::start(&dir, &["--password-file", "secret.txt"]);
    serving.answers("GET k\r\n", "-NOAUTH Authentication required.\r\n");
    serving.answers(
        "AUTH nope\r\n",
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
    );
    serving.answers("AUTH hunter2\r\nGET k\r\n", "+OK\r\n$-1\r\n");
}

#[test]
fn users_are_those_of_the_file() {
    let dir = Dir::new();
    dir.write(
        "users.acl",
        "user default off\nuser reader on >word ~* +get\n",
    );
    let serving = Serving::start(&dir, &["--aclfile", "users.acl"]);
    serving.answers("GET k\r\n", "-NOAUTH Authentication required.\r\n");
    serving.answers(
        "AUTH reader word\r\nGET k\r\nSET k v\r\n",
        "+OK\r\n$-1\r\n-NOPERM this user has no permissions to run the 'set' command\r\n",
    );
    dir.run(&["serve", "--listen", "127.0.0.1:0", "--aclfile", "none.acl"])
        .failed(69, "none.acl");
}

#[test]
fn memory_limit_is_that_of_the_command_line() {
    let flags = ["--maxmemory", "1MiB", "--maxmemory-policy", "allkeys-lfu"];
    let serving = Serving::start(&Dir::new(), &flags);
    serving.answers(
        "CONFIG GET maxmemory\r\nCONFIG GET maxmemory-policy\r\n",
        "*2\r\n$9\r\nmaxmemory\r\n$7\r\n1048576\r\n*2\r\n$16\r\nmaxmemory-policy\r\n$11\r\nallkeys-lfu\r\n",
    );
}

#[test]
fn debug_is_enabled_by_the_flag() {
    for (flags, reply) in [
        (&["--enable-debug-command", "local"][..], "-MY test\r\n"),
        (&[], "-ERR DEBUG command not allowed."),
    ] {
        let serving = Serving::start(&Dir::new(), flags);
        serving.answers("DEBUG ERROR \"MY test\"\r\n", reply);
    }
}

#[test]
fn port_that_is_taken_ends_with_69() {
    let dir = Dir::new();
    let serving = Serving::start(&dir, &[]);
    let address = serving.address.to_string();
    dir.run(&["serve", "--listen", &address])
        .failed(69, &address);
}

/// The value of a bulk reply, or of a number, to one command over a connection of its own.
fn ask(serving: &Serving, command: &str) -> String {
    let mut stream = TcpStream::connect(serving.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(format!("{command}\r\nQUIT\r\n").as_bytes())
        .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply.strip_suffix("+OK\r\n").unwrap().to_owned()
}

/// Counts in transactions of two keys, over some connections, until it is killed. Returns the last number that
/// each connection was told.
fn count_and_kill(mut serving: Serving, acknowledged: usize) -> Vec<u64> {
    const CONNECTIONS: usize = 3;
    let (counted, count) = std::sync::mpsc::channel();
    let threads: Vec<_> = (0..CONNECTIONS)
        .map(|connection| {
            let mut stream = BufReader::new(TcpStream::connect(serving.address).unwrap());
            let counted = counted.clone();
            std::thread::spawn(move || {
                let request = format!(
                    "MULTI\r\nINCR a:{connection}\r\nHINCRBY b:{connection} count 1\r\nRPUSH log:{connection} x\r\nEXEC\r\n"
                );
                let mut last = 0;
                // Four replies before that of EXEC, which is an array of three numbers.
                let mut lines = vec![String::new(); 8];
                loop {
                    if stream.get_mut().write_all(request.as_bytes()).is_err() {
                        return last;
                    }
                    for line in &mut lines {
                        line.clear();
                        match stream.read_line(line) {
                            Ok(bytes) if bytes > 0 && line.ends_with('\n') => {}
                            _ => return last,
                        }
                    }
                    last = lines[5].trim()[1..].parse().unwrap();
                    // The receiver may have seen enough.
                    let _ = counted.send(());
                }
            })
        })
        .collect();
    for _ in 0..acknowledged {
        count.recv_timeout(PATIENCE).unwrap();
    }
    serving.process.kill().unwrap();
    threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect()
}

#[test]
fn killed_server_loses_no_acknowledged_write() {
    let kills = if is_long() { 100 } else { 2 };
    for durability in ["process", "interval:50ms", "always"] {
        let dir = Dir::new();
        let flags = ["--dir", "data", "--durability", durability];
        let mut total = 0;
        for kill in 0..kills {
            let serving = Serving::start(&dir, &flags);
            let told = count_and_kill(serving, 40 + 7 * kill);
            let serving = Serving::start(&dir, &flags);
            for (connection, told) in told.into_iter().enumerate() {
                let counts = [
                    ask(&serving, &format!("GET a:{connection}")),
                    ask(&serving, &format!("HGET b:{connection} count")),
                ];
                // A connection can be slower than all others, and have no transaction yet.
                let [a, b] = counts.map(|reply| match reply.as_str() {
                    "$-1\r\n" => 0_u64,
                    count => count.split("\r\n").nth(1).unwrap().parse().unwrap(),
                });
                let length = ask(&serving, &format!("LLEN log:{connection}"));
                assert_eq!(
                    (a, length.trim()),
                    (b, &*format!(":{a}")),
                    "half of a transaction is there"
                );
                assert!(a >= told, "{told} was acknowledged, {a} is there");
                total += told;
            }
        }
        println!("{durability}: {kills} kills, {total} acknowledged, none lost");
    }
}

#[test]
fn data_survives_a_signal_and_says_so() {
    for name in ["TERM", "INT"] {
        let dir = Dir::new();
        let mut serving = Serving::start(&dir, &["--dir", "data"]);
        serving.answers(
            "SET k v PX 100000\r\nSADD s a b\r\nCONFIG GET append*\r\nBGSAVE\r\nSAVE\r\n",
            "+OK\r\n:2\r\n*4\r\n$11\r\nappendfsync\r\n$2\r\nno\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n+Background saving started\r\n+OK\r\n",
        );
        let config = ask(&serving, "CONFIG GET dir");
        assert!(
            config.contains(&dir.path().join("data").display().to_string()),
            "{config}"
        );
        signal(serving.process.id(), name);
        wait_until("the server ends", || {
            serving.process.try_wait().unwrap().is_some()
        });
        let checked = dir.run(&["store", "check", "data"]).succeeded();
        assert!(checked.contains("sound"), "{checked}");
        let serving = Serving::start(&dir, &["--dir", "data", "--durability", "always"]);
        serving.answers(
            "GET k\r\nSCARD s\r\nCONFIG GET appendfsync\r\n",
            "$1\r\nv\r\n:2\r\n*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n",
        );
        let info = ask(&serving, "INFO persistence");
        for line in [
            "aof_enabled:1",
            "aof_last_write_status:ok",
            "log_durability:always",
            "rdb_changes_since_last_save:0",
        ] {
            assert!(info.contains(line), "{info}");
        }
    }
}

#[test]
fn directory_that_is_in_use_or_damaged_is_refused() {
    let dir = Dir::new();
    let mut serving = Serving::start(&dir, &["--dir", "data"]);
    let pid = format!("in use by process {}", serving.process.id());
    dir.run(&["serve", "--listen", "127.0.0.1:0", "--dir", "data"])
        .failed(69, &pid);
    let flags = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--dir",
        "data",
        "--durability",
    ];
    for wrong in ["memory", "often"] {
        dir.run(&[&flags[..], &[wrong]].concat())
            .failed(64, "invalid durability");
    }
    serving.answers("SET k v\r\nSET l w\r\nSHUTDOWN\r\n", "+OK\r\n+OK\r\n");
    wait_until("the server ends", || {
        serving.process.try_wait().unwrap().is_some()
    });
    let name = dir.path().join("data/0000000001.log");
    let mut file = std::fs::read(&name).unwrap();
    file[64 + 20] ^= 1;
    std::fs::write(&name, file).unwrap();
    dir.run(&["serve", "--listen", "127.0.0.1:0", "--dir", "data"])
        .failed(65, "0000000001.log is damaged at byte 64");
}

/// The output of one redis-cli for these commands, a line each.
fn replies(serving: &Serving, commands: impl Iterator<Item = String>) -> Vec<String> {
    let commands: Vec<String> = commands.collect();
    let mut process = Command::new("redis-cli")
        .args(["-p", &serving.address.port().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = process.stdin.take().unwrap();
    let lines = commands.join("\n");
    let writing = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let output = process.wait_with_output().unwrap();
    writing.join().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let printed: Vec<String> = printed.lines().map(str::to_owned).collect();
    assert_eq!(printed.len(), commands.len(), "{printed:?}");
    printed
}

#[test]
fn tools_of_redis_find_their_data_after_a_kill() {
    let dir = Dir::new();
    let tool = |serving: &Serving, program: &str, words: &[&str]| {
        let port = serving.address.port().to_string();
        let output = Command::new(program)
            .args(["-p", &port])
            .args(words)
            .output();
        let output = output.unwrap_or_else(|error| {
            panic!("{program}: {error}; `cargo xtask test --install` installs it")
        });
        assert!(output.status.success(), "{program} {words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let mut serving = Serving::start(&dir, &["--dir", "data", "--durability", "interval:1s"]);
    let words = [
        "-c",
        "10",
        "-n",
        "2000",
        "-P",
        "16",
        "-r",
        "500",
        "-t",
        "set,incr,lpush,sadd,hset,spop,mset",
        "--csv",
    ];
    let table = tool(&serving, "redis-benchmark", &words);
    assert_eq!(table.lines().count(), 8, "{table}");
    assert_eq!(
        tool(&serving, "redis-cli", &["set", "greeting", "hello"]),
        "OK\n"
    );
    let of = |serving: &Serving| {
        let mut keys: Vec<String> = tool(serving, "redis-cli", &["--scan"])
            .lines()
            .map(str::to_owned)
            .collect();
        keys.sort();
        let others: Vec<&String> = keys
            .iter()
            .filter(|key| !key.starts_with("key:0"))
            .collect();
        let types = replies(serving, others.iter().map(|key| format!("type {key}")));
        let sizes = others
            .iter()
            .zip(&types)
            .map(|(key, kind)| match &kind[..] {
                "list" => format!("llen {key}"),
                "set" => format!("scard {key}"),
                "hash" => format!("hlen {key}"),
                _ => format!("get {key}"),
            });
        let sizes = replies(serving, sizes);
        let dumps = others.iter().zip(types).zip(sizes);
        let dumps: Vec<String> = dumps
            .map(|((key, kind), size)| format!("{key} {kind} {size}"))
            .collect();
        (keys, dumps)
    };
    let before = of(&serving);
    serving.process.kill().unwrap();
    serving.process.wait().unwrap();
    let serving = Serving::start(&dir, &["--dir", "data", "--durability", "interval:1s"]);
    assert_eq!(of(&serving), before);
    assert!(before.0.len() > 300 && before.1.len() >= 3, "{before:?}");
}
