//! Changes and slow commands as Redis counts them.

use loadline_server::{DebugCommand, ServerConfig};

use crate::support::{Ours, ReadWrite, Redis, ask};

/// Commands that write, one a line.
const WRITES: &str = include_str!("changes.txt");

/// The value of a field of INFO.
fn field(info: &str, name: &str) -> u64 {
    let found = info.lines().find_map(|line| line.strip_prefix(name));
    let value = found.and_then(|value| value.strip_prefix(':'));
    value
        .unwrap_or_else(|| panic!("{name}: {info}"))
        .parse()
        .unwrap()
}

#[test]
fn changes_are_counted_as_in_redis() {
    changes_are_those_of_redis(ServerConfig::default());
}

#[test]
fn changes_are_counted_as_in_redis_with_a_log() {
    let dir = tempfile::tempdir().unwrap();
    changes_are_those_of_redis(ServerConfig {
        dir: Some(dir.path().to_owned()),
        ..ServerConfig::default()
    });
}

fn changes_are_those_of_redis(config: ServerConfig) {
    let ours = Ours::start(ServerConfig {
        debug_command: DebugCommand::Local,
        ..config
    });
    let redis = Redis::start_with(&["--enable-debug-command", "local"]);
    let (mut one, mut other) = (ours.connect(), redis.connect());
    let mut others = Vec::new();
    for line in WRITES.lines() {
        let [one, other] = [&mut one as &mut dyn ReadWrite, &mut other].map(|stream| {
            let mut stream = stream;
            let before = ask(&mut stream, "INFO persistence");
            let reply = ask(&mut stream, line);
            let after = ask(&mut stream, "INFO persistence");
            let count = |info: &str| field(info, "rdb_changes_since_last_save");
            (reply, count(&after) - count(&before))
        });
        if one != other {
            others.push(format!("{line}\n  ours  {one:?}\n  Redis {other:?}"));
        }
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
}

/// Not when they begin to wait, nor when their time is over.
#[test]
fn waiting_commands_are_in_the_slow_log_once_they_are_served() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let ends = [
        (
            Box::new(ours.connect()) as Box<dyn ReadWrite>,
            Box::new(ours.connect()) as Box<dyn ReadWrite>,
        ),
        (Box::new(redis.connect()), Box::new(redis.connect())),
    ]
    .map(|(mut waiter, mut other)| {
        ask(
            &mut other,
            "CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 1000\r\nSLOWLOG RESET",
        );
        let words = |log: &str| {
            let word = |line: &&str| {
                let name = line.to_ascii_lowercase();
                ["blpop", "bzpopmin", "blmove", "xread"].contains(&name.as_str())
            };
            log.lines()
                .filter(word)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let mut seen = Vec::new();
        for (wait, feed) in [
            ("BLPOP l 0", "RPUSH l x"),
            ("BLMOVE l m LEFT LEFT 0", "RPUSH l y"),
            ("BZPOPMIN z 0", "ZADD z 1 m"),
            ("XREAD BLOCK 0 STREAMS s $", "XADD s 1-1 a b"),
            ("BLPOP n 0.01", "PING"),
        ] {
            waiter.write_all(format!("{wait}\r\n").as_bytes()).unwrap();
            while field(&ask(&mut other, "INFO clients"), "blocked_clients") == 0 && feed != "PING"
            {
            }
            let waiting = words(&ask(&mut other, "SLOWLOG GET -1"));
            ask(&mut other, feed);
            ask(&mut waiter, "");
            seen.push((waiting, words(&ask(&mut other, "SLOWLOG GET -1"))));
        }
        seen
    });
    assert_eq!(ends[0], ends[1], "ours left");
    assert_eq!(ends[0][4].1, ["XREAD", "BZPOPMIN", "BLMOVE", "BLPOP"]);
}

/// Also while a script or a function runs, and where a library was kept from the last start.
#[test]
fn scripts_and_functions_are_counted_as_in_redis() {
    let dir = tempfile::tempdir().unwrap();
    let config = || ServerConfig {
        dir: Some(dir.path().to_owned()),
        ..ServerConfig::default()
    };
    let count = |mut stream: &mut dyn ReadWrite| {
        let names = ["cached_scripts", "functions", "libraries"];
        let info = ask(&mut stream, "INFO memory");
        assert!(field(&info, "used_memory_vm_total") >= field(&info, "used_memory_vm_functions"));
        names.map(|name| field(&info, &format!("number_of_{name}")))
    };
    let library = "FUNCTION LOAD \"#!lua name=a\\nlocal function f() return redis.call('info', 'memory') end redis.register_function('f', f) redis.register_function('g', f)\"";
    let (ours, redis) = (Ours::start(config()), Redis::start());
    let [ours_seen, redis_seen] = [
        Box::new(ours.connect()) as Box<dyn ReadWrite>,
        Box::new(redis.connect()),
    ]
    .map(|mut stream| {
        let mut seen = vec![count(&mut stream)];
        for line in [
            "EVAL \"return 1\" 0\r\nSCRIPT LOAD \"return 2\"\r\nEVAL \"return 1\" 0",
            library,
            "SCRIPT FLUSH",
            "SCRIPT LOAD \"return 3\"",
        ] {
            ask(&mut stream, line);
            seen.push(count(&mut stream));
        }
        for line in [
            "EVAL \"return redis.call('info', 'memory')\" 0",
            "FCALL f 0",
        ] {
            let info = ask(&mut stream, line);
            let names = ["number_of_cached_scripts", "number_of_functions"];
            let [scripts, functions] = names.map(|name| field(&info, name));
            seen.push([scripts, functions, 0]);
        }
        seen
    });
    assert_eq!(ours_seen, redis_seen, "ours left");
    drop(ours);
    assert_eq!(count(&mut Ours::start(config()).connect()), [0, 2, 1]);
}

/// By subcommand, and with the calls that were refused or failed.
#[test]
fn calls_are_counted_as_in_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let seen = [
        Box::new(ours.connect()) as Box<dyn ReadWrite>,
        Box::new(redis.connect()),
    ]
    .map(|mut stream| {
        for line in [
            "CONFIG RESETSTAT",
            "SET k v\r\nGET k\r\nINCR k\r\nGET",
            "CLIENT\r\nCLIENT NOSUCH\r\nCLIENT ID\r\nCLIENT ID x\r\nCLIENT GETNAME\r\nCLIENT HELP\r\nCLIENT KILL x",
            "OBJECT ENCODING k\r\nOBJECT FREQ k\r\nXINFO STREAM nosuch\r\nCONFIG SET nosuch x",
            "MULTI\r\nCLIENT ID\r\nCLIENT NOSUCH\r\nEXEC",
            "EVAL \"return redis.pcall('config', 'get', 'x')\" 0\r\nEVAL \"return redis.call('object', 'encoding', 'k')\" 0",
            "ACL SETUSER u on nopass ~* +@all -client|id\r\nAUTH u x\r\nCLIENT ID\r\nCLIENT GETNAME\r\nAUTH default x",
        ] {
            ask(&mut stream, line);
        }
        let info = ask(&mut stream, "INFO commandstats");
        let mut lines: Vec<String> = info
            .lines()
            .filter(|line| line.starts_with("cmdstat_"))
            .map(|line| {
                let fields = line.split([':', ',']).filter(|field| !field.starts_with("usec"));
                fields.collect::<Vec<_>>().join(" ")
            })
            .collect();
        lines.sort_unstable();
        lines
    });
    assert_eq!(seen[0], seen[1], "ours left");
    let ids = "cmdstat_client|id calls=1 rejected_calls=2 failed_calls=0";
    assert!(seen[0].iter().any(|line| line == ids), "{:#?}", seen[0]);
}
