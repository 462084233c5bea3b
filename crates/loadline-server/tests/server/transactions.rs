//! Transactions of our server and of a real redis-server: random sequences of what begins, ends and spoils one.

use loadline_server::ServerConfig;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::support::{Ours, Redis, ask_one};

/// `DISCONNECT` closes the connection and opens another one. The keys `k` and `l` hold a number and a list.
const STEPS: &str = "\
MULTI|MULTI|MULTI|EXEC|EXEC|EXEC|DISCARD|RESET|DISCONNECT|WATCH k|WATCH k|UNWATCH|MULTI x|EXEC x|DISCARD x|WATCH
SET k 1|INCR k|GET k|LPUSH l 1|INCR l|GET|NOSUCH a|SHUTDOWN BOGUS|OBJECT NOSUCH k|OBJECT HELP|CLIENT NOSUCH|PING
SELECT 1|SELECT 0|SELECT 99|SWAPDB 0 1|FLUSHALL|HELLO 9|AUTH x|PEXPIRE k 0|CONFIG SET maxmemory 1|CONFIG SET maxmemory 0|ECHO x";

#[test]
fn transactions_end_where_those_of_redis_do() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let steps: Vec<&str> = STEPS.split(['|', '\n']).collect();
    let (mut nested, mut executed) = (0, 0);
    for seed in 0..60 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (mut one, mut other) = (ours.connect(), redis.connect());
        let mut asked = vec![];
        for _ in 0..rng.random_range(10..80) {
            let step = *steps.choose(&mut rng).unwrap();
            asked.push(step);
            if step == "DISCONNECT" {
                (one, other) = (ours.connect(), redis.connect());
                continue;
            }
            let (reply, expected) = (ask_one(&mut one, step), ask_one(&mut other, step));
            assert_eq!(reply, expected, "seed {seed}: {asked:?}");
            nested += u32::from(reply.contains("nested"));
            executed += u32::from(step == "EXEC" && reply.starts_with('*'));
        }
        for step in ["RESET", "CONFIG SET maxmemory 0", "FLUSHALL"] {
            assert_eq!(ask_one(&mut one, step), ask_one(&mut other, step));
        }
    }
    assert!(
        nested > 10 && executed > 10,
        "{nested} nested, {executed} executed"
    );
}
