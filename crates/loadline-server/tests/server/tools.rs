//! The tools that come with Redis, against our server.

use std::process::{Command, Stdio};

use loadline_server::ServerConfig;

use crate::support::Ours;

#[test]
fn tools_of_redis_work() {
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
    assert!(run("redis-cli", &["memory", "stats"]).contains("\nkeys.count\n1\n"));
    assert!(run("redis-cli", &["memory", "doctor"]).contains("No problem"));
    assert_eq!(run("redis-cli", &["pfselftest"]), "OK\n");
    let tests = "ping,set,get,incr,sadd,hset,spop,mset";
    let words = [
        "-c", "10", "-n", "2000", "-P", "4", "-r", "100", "-t", tests, "--csv",
    ];
    let table = run("redis-benchmark", &words);
    // Two kinds of PING, and a line of headings.
    assert_eq!(table.lines().count(), 10, "{table}");
    assert!(run("redis-cli", &["info", "commandstats"]).contains("cmdstat_spop:calls="));
}
