//! Two processes of the operating system that change and read the same keys of one server.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use loadline_cache::codec::Raw;
use loadline_cache::{Cache, Tier};
use loadline_client::blocking::Connection;
use loadline_client::{Client, FromReply, cmd};

use super::processes::Settings;
use super::redis::Redis;
use super::{MS, wait_until};

/// Gives the server to the test that runs as a process of its own.
const SERVER: &str = "LOADLINE_CACHE_SERVER";
/// Few, so that one process changes what the other one loads.
const KEYS: u64 = 4;
/// The time to live of values whose changes are not reported.
const TTL: Duration = Duration::from_millis(4);
/// Longer than anything takes that works, on a machine that pauses as well.
const LIMIT: Duration = Duration::from_secs(20);

/// Random numbers: the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = (self.0.wrapping_mul(6_364_136_223_846_793_005))
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// The server, which has the source of each key (`source:`), and its last change that has returned (`floor:`).
struct Server(RefCell<Connection>);

impl Server {
    fn open(url: &str) -> Self {
        Self(RefCell::new(Client::open(url).unwrap().blocking().unwrap()))
    }

    fn run<T: FromReply>(&self, words: &[&str]) -> T {
        let command = cmd::<T>(words[0]);
        let command = words[1..]
            .iter()
            .fold(command, |command, word| command.arg(*word));
        self.0.borrow_mut().run(command).unwrap()
    }

    fn source(&self, key: u64) -> u64 {
        let version: Option<String> = self.run(&["GET", &format!("source:{key}")]);
        version.map_or(0, |version| version.parse().unwrap())
    }
}

/// A change that has returned.
#[derive(Debug, Clone, Copy)]
struct Change {
    version: u64,
    returned: Duration,
}

/// A process in some settings. It changes the keys whose remainder by 2 is its number, and reads all of them.
struct Process {
    number: u64,
    settings: Settings,
    server: Server,
    cache: Cache<u64, Vec<u8>>,
    random: Random,
    /// The changes that this process knows of.
    changes: HashMap<u64, Vec<Change>>,
    longest_read: Duration,
    stale: Vec<String>,
}

impl Process {
    fn new(number: u64, settings: Settings, url: &str) -> Self {
        let source = Mutex::new((Server::open(url), Random(number)));
        let load = move |key: &u64| {
            let (pause, version) = {
                let mut source = source.lock().unwrap();
                (source.1.below(2_000), source.0.source(*key))
            };
            // The load goes on, while the other process changes what was read.
            std::thread::sleep(Duration::from_micros(pause));
            Ok::<_, io::Error>(Some(version.to_le_bytes().to_vec()))
        };
        let tier: Tier = settings.tier(url);
        let builder = Cache::builder().tier(tier, Raw).jitter(0.0);
        let builder = match settings.is_tracked {
            true => builder,
            false => builder.ttl(TTL),
        };
        let cache = builder.build(load).unwrap();
        wait_until("changes are not reported", || {
            cache.stats().tier.unwrap().is_tracking || !settings.is_tracked
        });
        Self {
            number,
            settings,
            server: Server::open(url),
            cache,
            random: Random(7 + number),
            changes: HashMap::new(),
            longest_read: Duration::ZERO,
            stale: Vec::new(),
        }
    }

    fn get(&self, key: u64) -> u64 {
        version(&self.cache.get(&key).unwrap().unwrap())
    }

    fn act(&mut self) {
        let key = self.random.below(KEYS);
        let is_own = key % 2 == self.number;
        match is_own && self.random.below(3) == 0 {
            true => self.change(key),
            false => self.check(key, is_own),
        }
    }

    fn change(&mut self, key: u64) {
        let version: u64 = self.server.run(&["INCR", &format!("source:{key}")]);
        match self.random.below(2) {
            0 => self.cache.insert(&key, version.to_le_bytes().to_vec()),
            _ => self.cache.invalidate(&key),
        }
        let returned = now().as_micros();
        let change = format!("{version} {returned}");
        let _: String = (self.server).run(&["SET", &format!("floor:{key}"), &change]);
    }

    /// Compares what the server and this process have with what the documentation of the crate allows.
    fn check(&mut self, key: u64, is_own: bool) {
        let floor: Option<String> = self.server.run(&["GET", &format!("floor:{key}")]);
        let Some(floor) = floor else {
            return;
        };
        let (floor, returned) = floor.split_once(' ').unwrap();
        let change = Change {
            version: floor.parse().unwrap(),
            returned: Duration::from_micros(returned.parse().unwrap()),
        };
        let frame: Option<Vec<u8>> = self.server.run(&["GET", &format!("p:{key}")]);
        if let Some(frame) = frame {
            let stored = version(&frame[frame.len() - 8..]);
            self.expect(key, "the server", stored, change.version);
        }
        let begun = now();
        let seen = self.get(key);
        let changes = self.changes.entry(key).or_default();
        changes.push(change);
        // An object that was read before the change returned is in memory from the end of that read at the latest.
        let is_over = |change: &&Change| change.returned + self.longest_read + TTL < begun;
        let oldest = match (is_own, self.settings.is_tracked) {
            (true, _) => change.version,
            (false, true) => 0,
            (false, false) => {
                let over = changes.iter().filter(is_over);
                over.map(|change| change.version).max().unwrap_or(0)
            }
        };
        self.longest_read = self.longest_read.max(now().saturating_sub(begun));
        self.expect(key, "this process", seen, oldest);
    }

    fn expect(&mut self, key: u64, place: &str, seen: u64, oldest: u64) {
        if seen < oldest {
            let (settings, number) = (self.settings, self.number);
            (self.stale).push(format!(
                "{settings:?}, process {number}, key {key}: {place} has {seen}, but {oldest} had returned"
            ));
        }
    }

    /// Waits until this process has the newest values, as it must once the notices have arrived, or their time is over.
    fn settle(&mut self) {
        for key in 0..KEYS {
            let newest = self.server.source(key);
            let until = now() + LIMIT;
            while self.get(key) != newest {
                if now() > until {
                    return self.expect(key, "this process for good", self.get(key), newest);
                }
                std::thread::sleep(MS);
            }
        }
    }
}

fn version(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// Does what the lines of its input say, and answers each. Does nothing when it is run as a test.
#[test]
fn notified_process() {
    let Ok(url) = std::env::var(SERVER) else {
        return;
    };
    let mut process = None;
    for line in io::stdin().lines() {
        let line = line.unwrap();
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["open", number, is_tracked, shares_loads] => {
                let settings = Settings {
                    is_tracked: is_tracked == "true",
                    shares_loads: shares_loads == "true",
                    inserts: true,
                };
                process = Some(Process::new(number.parse().unwrap(), settings, &url));
            }
            ["act", count] => {
                let process = process.as_mut().unwrap();
                (0..count.parse().unwrap()).for_each(|_| process.act());
            }
            ["settle"] => process.as_mut().unwrap().settle(),
            ["close"] => {
                let stale = process.take().unwrap().stale;
                stale.iter().for_each(|stale| println!("stale: {stale}"));
            }
            _ => panic!("{line}"),
        }
        println!("done");
    }
}

/// The process, and what it prints.
struct Other {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn start(url: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "apart::notified_process", "--nocapture"])
            .env(SERVER, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Waits until it has done what it was told. Returns the values that it has found to be too old.
    fn done(&mut self) -> Vec<String> {
        let mut stale = Vec::new();
        for line in self.output.by_ref().map(Result::unwrap) {
            match line.as_str() {
                "done" => return stale,
                line if line.starts_with("stale: ") => stale.push(line.to_owned()),
                _ => {}
            }
        }
        panic!("the process has ended");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn processes_see_no_value_older_than_documented() {
    let is_long = std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1");
    let rounds = if is_long { 200 } else { 4 };
    let redis = Redis::start();
    let mut others = [Other::start(&redis.url()), Other::start(&redis.url())];
    let mut both = |first: &str, second: &str| {
        others[0].tell(first);
        others[1].tell(second);
        let stale = others.iter_mut().flat_map(Other::done);
        stale.collect::<Vec<_>>()
    };
    let mut stale = Vec::new();
    for settings in Settings::all().filter(|settings| settings.inserts) {
        redis.run(&["FLUSHALL"]);
        let rest = format!("{} {}", settings.is_tracked, settings.shares_loads);
        both(&format!("open 0 {rest}"), &format!("open 1 {rest}"));
        for _ in 0..rounds {
            both("act 100", "act 100");
            both("settle", "settle");
        }
        stale.extend(both("close", "close"));
    }
    assert_eq!(stale, [""; 0]);
}
