//! Replies in memory, against a real server that reports the changes.

use std::time::{Duration, Instant};

use loadline_client::caching::ReadCache;
use loadline_client::commands::{hget, hset, set};
use loadline_client::{Error, FromReply};

use crate::server::Redis;

/// Longer than anything takes that works.
const LIMIT: Duration = Duration::from_secs(60);
const BUDGET: usize = 1 << 20;

/// Number of calls of a command that the server has executed.
fn executed(redis: &Redis, command: &str) -> u64 {
    let stats = redis.ask("INFO commandstats");
    let line = stats
        .lines()
        .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|line| line.split(',').next())
        .map_or(0, |calls| calls.parse().unwrap())
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The operations of a connection, for threads and for tasks.
trait Reads {
    fn cached<T: FromReply>(&mut self, cache: &ReadCache, key: &str) -> Result<T, Error>;
    fn field(&mut self, cache: &ReadCache) -> Option<String>;
    fn write(&mut self, cache: &ReadCache, key: &str, value: &str);
}

impl Reads for loadline_client::blocking::Connection {
    fn cached<T: FromReply>(&mut self, cache: &ReadCache, key: &str) -> Result<T, Error> {
        self.get_cached(cache, key)
    }

    fn field(&mut self, cache: &ReadCache) -> Option<String> {
        self.run_cached(cache, hget("u:h", "f")).unwrap()
    }

    fn write(&mut self, cache: &ReadCache, key: &str, value: &str) {
        self.run_cached(cache, set(key, value)).unwrap();
    }
}

struct Tasks<'r>(
    &'r tokio::runtime::Runtime,
    loadline_client::multiplexed::Connection,
);

impl Reads for Tasks<'_> {
    fn cached<T: FromReply>(&mut self, cache: &ReadCache, key: &str) -> Result<T, Error> {
        self.0.block_on(self.1.get_cached(cache, key))
    }

    fn field(&mut self, cache: &ReadCache) -> Option<String> {
        let read = self.1.run_cached(cache, hget("u:h", "f"));
        self.0.block_on(read).unwrap()
    }

    fn write(&mut self, cache: &ReadCache, key: &str, value: &str) {
        let write = self.1.run_cached(cache, set(key, value));
        self.0.block_on(write).unwrap();
    }
}

fn check(redis: &Redis, cache: &ReadCache, connection: &mut impl Reads) {
    let mut other = redis.client().blocking().unwrap();
    other.run(set("u:1", "old")).unwrap();
    other.run(hset("u:h", [("f", "old")])).unwrap();
    let before = executed(redis, "get");
    for _ in 0..10 {
        let value: Option<String> = connection.cached(cache, "u:1").unwrap();
        assert_eq!(value.as_deref(), Some("old"));
        assert_eq!(connection.field(cache).as_deref(), Some("old"));
    }
    // A notice of the writes above can arrive after the first reads.
    let sent = executed(redis, "get") - before;
    assert!((1..=2).contains(&sent), "{sent} of 10 were sent");
    // A change by another client, of a value that is kept.
    wait_until("the value is kept", || {
        let before = cache.stats().hits;
        let _: Option<String> = connection.cached(cache, "u:1").unwrap();
        cache.stats().hits > before
    });
    other.run(set("u:1", "new")).unwrap();
    other.run(hset("u:h", [("f", "new")])).unwrap();
    wait_until("the change is seen", || {
        let value: String = connection.cached(cache, "u:1").unwrap();
        value == "new" && connection.field(cache).as_deref() == Some("new")
    });
    // The own write is seen at once.
    for number in 0..100 {
        connection.write(cache, "u:1", &number.to_string());
        assert_eq!(connection.cached::<u32>(cache, "u:1").unwrap(), number);
    }
    // A value of another type is an error, whether it is kept or not.
    connection.write(cache, "u:1", "text");
    for _ in 0..2 {
        let wrong = connection.cached::<u32>(cache, "u:1");
        assert!(matches!(wrong, Err(Error::Type { .. })), "{wrong:?}");
    }
    // Other keys are not reported, and so not kept.
    let hits = cache.stats().hits;
    for _ in 0..2 {
        let other = connection.cached::<Option<String>>(cache, "v:1").unwrap();
        assert!(other.is_none());
    }
    assert_eq!(cache.stats().hits, hits);
}

#[test]
fn kept_reply_sends_no_request_until_its_key_changes() {
    let redis = Redis::start();
    let client = redis.client();
    let cache = client.blocking_cache("u:", BUDGET).unwrap();
    check(&redis, &cache, &mut client.blocking().unwrap());
    let runtime = runtime_of_threads();
    let cache = runtime.block_on(client.cache("u:", BUDGET)).unwrap();
    let connection = runtime.block_on(client.multiplexed()).unwrap();
    check(&redis, &cache, &mut Tasks(&runtime, connection));
}

/// A runtime whose tasks run while the test itself does not wait in it.
fn runtime_of_threads() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn nothing_from_before_an_outage_is_used_after_it() {
    let mut redis = Redis::start();
    let client = redis.client();
    let cache = client.blocking_cache("", BUDGET).unwrap();
    let mut connection = client.blocking().unwrap();
    connection.run_cached(&cache, set("k", "before")).unwrap();
    wait_until("the value is kept", || {
        let value: String = connection.get_cached(&cache, "k").unwrap();
        value == "before" && cache.stats().hits > 0
    });
    redis.kill();
    wait_until("the loss is seen", || !cache.stats().is_current);
    assert!(
        connection
            .get_cached::<Option<String>>(&cache, "k")
            .is_err()
    );
    redis.restart();
    let mut other = redis.client().blocking().unwrap();
    other.run(set("k", "after")).unwrap();
    wait_until("changes are reported again", || cache.stats().is_current);
    // The first request after the outage can still meet the old connection.
    let value = connection.get_cached::<String>(&cache, "k");
    let value = value.or_else(|_| connection.get_cached(&cache, "k"));
    assert_eq!(value.unwrap(), "after");
    let stats = cache.stats();
    assert!(stats.gaps >= 1, "{stats:?}");
}
