//! A cold cache, whose server fails in the midst of its reads.

use std::io;
use std::time::Duration;

use loadline_cache::codec::Raw;
use loadline_cache::{Cache, Tier};
use loadline_client::{Client, OwnedReply, cmd};

use super::redis::Redis;
use super::{Count, MS};

/// Keys of which the even ones are in the server.
const KEYS: u32 = 400;
/// The fault begins after this number of them.
const BEFORE: u32 = 100;
/// The breaker opens for longer than the test: a fault that opens it for reads that the server answers costs loads.
const PAUSE: Duration = Duration::from_secs(600);

type Pages = Cache<u32, Vec<u8>>;

fn pages(redis: &Redis, loads: &Count) -> Pages {
    let (tier, loads) = (Tier::open(&redis.url()).prefix("p:"), loads.clone());
    Pages::builder()
        .tier(tier.timeout(300 * MS).breaker(3, PAUSE, PAUSE), Raw)
        .build(move |key| {
            loads.add();
            Ok::<_, io::Error>(Some(key.to_string().into_bytes()))
        })
        .unwrap()
}

/// Runs commands, one a line, on one connection.
fn run(redis: &Redis, commands: &str) {
    let mut connection = Client::open(&redis.url()).unwrap().blocking().unwrap();
    for command in commands.lines() {
        let mut words = command.split(' ');
        let name = words.next().unwrap();
        let command = cmd::<OwnedReply>(name).arg(words.collect::<Vec<_>>());
        connection.run(command).unwrap();
    }
}

const OTHER_TYPES: &str = "for _, key in ipairs(redis.call('KEYS', '*')) do \
                           redis.call('DEL', key) redis.call('RPUSH', key, 'x') end";

#[test]
fn eleven_faults_of_the_server_cost_no_error_and_no_load_that_is_not_needed() {
    type Cause = fn(&mut Redis);
    let faults: [(&str, bool, Cause); 11] = [
        ("killed", false, Redis::kill),
        ("frozen", false, |redis| redis.signal("-STOP")),
        ("paused", false, |redis| {
            run(redis, "CLIENT PAUSE 600000 ALL");
        }),
        ("wants a password", false, |redis| {
            run(
                redis,
                "CONFIG SET requirepass secret\nCLIENT KILL TYPE normal",
            );
        }),
        ("emptied", false, |redis| run(redis, "FLUSHALL")),
        ("holds other types", false, |redis| {
            redis.run(&["EVAL", OTHER_TYPES, "0"]);
        }),
        ("closes connections", true, |redis| {
            run(redis, "CLIENT KILL TYPE normal");
        }),
        ("full", true, |redis| run(redis, "CONFIG SET maxmemory 1")),
        ("lacks replicas", true, |redis| {
            run(redis, "CONFIG SET min-replicas-to-write 1");
        }),
        ("became a replica", true, |redis| {
            run(redis, "REPLICAOF 127.0.0.1 1");
        }),
        ("forbids writes and scripts", true, |redis| {
            run(redis, "ACL SETUSER default -@write -@scripting");
        }),
    ];
    for (fault, is_readable, cause) in faults {
        let (mut redis, loads) = (Redis::start(), Count::default());
        pages(&redis, &loads).get_many(&(0..KEYS).step_by(2).collect::<Vec<_>>());
        let (pages, filled) = (pages(&redis, &loads), loads.get());
        for pass in 0..2 {
            for key in 0..KEYS {
                if (pass, key) == (0, BEFORE) {
                    cause(&mut redis);
                }
                let value = pages.get(&key);
                let value = value.unwrap_or_else(|error| panic!("{fault}: {key}: {error}"));
                assert_eq!(*value.unwrap(), key.to_string().into_bytes(), "{fault}");
            }
        }
        // Odd keys are loaded in any case, and even ones where they can be read no more.
        let needed = match is_readable {
            true => KEYS / 2,
            false => KEYS - BEFORE / 2,
        };
        let loaded = loads.get() - filled;
        let stats = pages.stats();
        assert!(
            (u64::from(needed)..=u64::from(needed) * 11 / 10).contains(&loaded),
            "{fault}: {loaded} loads of {needed}, {stats:?}"
        );
    }
}
