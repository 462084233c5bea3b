//! Two processes over one server: what one has invalidated or inserted, a load of the other one does not undo.

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loadline_cache::codec::Raw;
use loadline_cache::{AsyncCache, Cache, Tier};
use loadline_server::{Listen, Server, ServerConfig};

use super::redis::Redis;
use super::{cluster, wait_until};

/// Longer than anything takes that works.
const LONG: Duration = Duration::from_secs(60);

type Pages = Cache<u32, Vec<u8>>;

/// A load that waits until the test lets it go on.
struct Gate {
    has_begun: Sender<()>,
    may_end: Mutex<Receiver<()>>,
}

/// The source of both processes: a number, which one of them has read before the other one changes it.
#[derive(Clone, Default)]
struct Source {
    number: Arc<AtomicU64>,
    gate: Arc<Mutex<Option<Gate>>>,
}

impl Source {
    fn load(&self) -> Vec<u8> {
        let number = self.number.load(Ordering::SeqCst);
        if let Some(gate) = self.gate.lock().unwrap().take() {
            gate.has_begun.send(()).unwrap();
            gate.may_end.lock().unwrap().recv().unwrap();
        }
        text(number)
    }
}

fn text(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) is_tracked: bool,
    pub(super) shares_loads: bool,
    pub(super) inserts: bool,
}

impl Settings {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..8).map(|bits| Self {
            is_tracked: bits & 1 != 0,
            shares_loads: bits & 2 != 0,
            inserts: bits & 4 != 0,
        })
    }

    pub(super) fn tier(self, url: &str) -> Tier {
        let tier = Tier::open(url).prefix("p:").timeout(LONG);
        let tier = match self.is_tracked {
            true => tier.tracked(),
            false => tier,
        };
        match self.shares_loads {
            true => tier.shared_loads(LONG),
            false => tier,
        }
    }
}

/// The operations of a process, for threads and for tasks.
trait Process: Sync {
    fn get(&self, key: u32) -> Vec<u8>;
    fn change(&self, key: u32, value: Option<Vec<u8>>);
}

impl Process for Pages {
    fn get(&self, key: u32) -> Vec<u8> {
        Cache::get(self, &key).unwrap().unwrap().to_vec()
    }

    fn change(&self, key: u32, value: Option<Vec<u8>>) {
        match value {
            Some(value) => self.insert(&key, value),
            None => self.invalidate(&key),
        }
    }
}

struct Tasks(AsyncCache<u32, Vec<u8>>, tokio::runtime::Runtime);

impl Process for Tasks {
    fn get(&self, key: u32) -> Vec<u8> {
        let value = self.1.block_on(self.0.get(&key));
        value.unwrap().unwrap().to_vec()
    }

    fn change(&self, key: u32, value: Option<Vec<u8>>) {
        self.1.block_on(async {
            match value {
                Some(value) => self.0.insert(&key, value).await,
                None => self.0.invalidate(&key).await,
            }
        });
    }
}

fn threads(url: &str, settings: Settings, source: &Source) -> Pages {
    let source = source.clone();
    let pages = Pages::builder().tier(settings.tier(url), Raw);
    let pages = pages.build(move |_| Ok::<_, io::Error>(Some(source.load())));
    let pages = pages.unwrap();
    wait_until("changes are not reported", || {
        pages.stats().tier.unwrap().is_tracking || !settings.is_tracked
    });
    pages
}

fn tasks(url: &str, settings: Settings, source: &Source) -> Tasks {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
    let source = source.clone();
    let pages = AsyncCache::<u32, Vec<u8>>::builder().tier(settings.tier(url), Raw);
    let load = move |_| {
        let source = source.clone();
        let loaded = tokio::task::spawn_blocking(move || source.load());
        async move { Ok::<_, io::Error>(Some(loaded.await.unwrap())) }
    };
    let pages = runtime.block_on(async { pages.build_async(load).await.unwrap() });
    wait_until("changes are not reported", || {
        pages.stats().tier.unwrap().is_tracking || !settings.is_tracked
    });
    Tasks(pages, runtime)
}

/// Lets `second` load 1 while the source changes to 2 and `first` says so. Returns what both see at the end.
fn race(first: &dyn Process, second: &dyn Process, source: &Source, inserts: bool) -> [Vec<u8>; 2] {
    source.number.store(1, Ordering::SeqCst);
    let (has_begun, begun) = channel();
    let (end, may_end) = channel();
    *source.gate.lock().unwrap() = Some(Gate {
        has_begun,
        may_end: Mutex::new(may_end),
    });
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| second.get(7));
        begun.recv().unwrap();
        source.number.store(2, Ordering::SeqCst);
        first.change(7, inserts.then(|| text(2)));
        end.send(()).unwrap();
        // It has begun before the change.
        assert_eq!(loading.join().unwrap(), b"1");
    });
    [first.get(7), second.get(7)]
}

/// Runs the race in all settings, and returns those in which a process sees the older value.
fn stale(url: &str) -> Vec<String> {
    let mut stale = Vec::new();
    for settings in Settings::all() {
        let source = Source::default();
        let (first, second) = (
            threads(url, settings, &source),
            threads(url, settings, &source),
        );
        let tasks = [tasks(url, settings, &source), tasks(url, settings, &source)];
        let pairs: [[&dyn Process; 2]; 2] = [[&first, &second], [&tasks[0], &tasks[1]]];
        for (kind, [first, second]) in ["threads", "tasks"].into_iter().zip(pairs) {
            let seen = race(first, second, &source, settings.inserts);
            if seen != [text(2), text(2)] {
                let seen = seen.map(|text| String::from_utf8(text).unwrap());
                stale.push(format!("{kind}, {settings:?}: {seen:?}"));
            }
            first.change(7, None);
        }
    }
    stale
}

/// Our own server, for the time of `work`.
fn with_our_server(work: impl FnOnce(&str)) {
    let mut server = Server::bind(ServerConfig {
        listen: vec![Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())],
        ..ServerConfig::default()
    })
    .unwrap();
    let url = format!("redis://{}", server.local_addrs()[0]);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || server.run(&stopped).unwrap());
    work(&url);
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
}

#[test]
fn change_by_one_process_is_not_undone_by_a_load_of_another() {
    let redis = Redis::start();
    assert_eq!(stale(&redis.url()), [""; 0]);
}

#[test]
fn change_is_not_undone_on_a_cluster() {
    assert_eq!(stale(&cluster::shared().url()), [""; 0]);
}

/// A miss is three round trips: GET, SET and MGET together, and EVALSHA. The second call is a hit in memory.
#[test]
fn hit_sends_one_command_and_miss_takes_a_lease() {
    let redis = Redis::start();
    let source = Source::default();
    for settings in Settings::all().filter(|settings| !settings.is_tracked && !settings.inserts) {
        let sent = |key: u32| {
            let pages = threads(&redis.url(), settings, &source);
            redis.run(&["CONFIG", "RESETSTAT"]);
            let (value, _) = (Process::get(&pages, key), Process::get(&pages, key));
            assert_eq!(value, text(0));
            let stats = redis.command_stats();
            let of = |name: &str| stats.get(name).copied().unwrap_or_default();
            ["get", "set", "mget", "evalsha", "eval"].map(of)
        };
        let key = u32::from(settings.shares_loads);
        // The script is not known at first, and its own commands count as well.
        let whole = u64::from(key == 0);
        let [gets, sets, mgets, evalshas, evals] = sent(key);
        assert_eq!([mgets, evalshas, evals], [1, 1, whole], "{settings:?}");
        let by_script = 1;
        assert_eq!([gets, sets], [1 + by_script, 1 + by_script], "{settings:?}");
        assert_eq!(sent(key), [1, 0, 0, 0, 0], "{settings:?}");
    }
}

/// A user who must not call scripts.
#[test]
fn change_is_not_undone_without_the_right_to_scripts() {
    let redis = Redis::start();
    let rights = ["on", ">secret", "~*", "&*", "+@all", "-@scripting"];
    redis.run(&[&["ACL", "SETUSER", "ann"], &rights[..]].concat());
    let url = redis.url().replace("//", "//ann:secret@");
    assert_eq!(stale(&url), [""; 0]);
}

#[test]
fn change_is_not_undone_on_our_server() {
    with_our_server(|url| assert_eq!(stale(url), [""; 0]));
}
