//! COMMAND GETKEYS and GETKEYSANDFLAGS of our server and of a real redis-server, for all commands that ours has.

use loadline_server::ServerConfig;

use crate::support::{LATER, Ours, Redis, ask};

/// Arguments in whose number, numbers and keywords the rules for keys differ.
const ARGUMENTS: [&str; 19] = [
    "a",
    "a b",
    "a b c",
    "a b c d",
    "a b c d e",
    "1 a",
    "2 a b c",
    "a 2 b c",
    "0 a b",
    "x 1 a",
    "a store b",
    "a STORE b store c",
    "a store",
    "a by store store b",
    "a get b limit 0 store store c",
    "usage a store b",
    "a get u8 0",
    "a get u8 0 overflow sat get u8 1",
    "a get u8 0 set u8 0 1",
];

#[test]
fn keys_of_every_command_are_those_of_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    let list = ask(&mut one, "COMMAND LIST");
    let names: Vec<&str> = list
        .lines()
        .filter(|line| !line.starts_with(['*', '$']) && !line.contains('|'))
        .filter(|name| !LATER.contains(&name.to_uppercase().as_str()))
        .collect();
    assert!(names.len() > 100 && names.contains(&"sort"), "{names:?}");
    for name in names {
        for arguments in ARGUMENTS {
            for form in ["GETKEYS", "GETKEYSANDFLAGS"] {
                let line = format!("COMMAND {form} {name} {arguments}");
                assert_eq!(ask(&mut one, &line), ask(&mut other, &line), "{line}");
            }
        }
    }
}
