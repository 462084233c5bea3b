//! The hit ratio of a keyspace with eviction compared with well-known policies, on keys chosen by Zipf's law.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

use std::collections::{HashMap, HashSet, VecDeque};

use loadline_store::{Evicted, Keyspace, Victim};

/// A cache of a fixed number of keys.
trait Cache {
    /// Looks `key` up, adds it where it is not there, and returns whether it was.
    fn access(&mut self, key: u32) -> bool;
}

/// The keyspace: the counts of uses lie in the entries, and no list is kept.
struct Ours {
    keyspace: Keyspace,
    most: usize,
}

impl Ours {
    fn new(most: usize, victim: Victim) -> Self {
        let mut keyspace = Keyspace::for_keys(most);
        keyspace.evict_by(Some(victim));
        Self { keyspace, most }
    }
}

impl Cache for Ours {
    fn access(&mut self, key: u32) -> bool {
        let key = key.to_le_bytes();
        if self.keyspace.view(&key, 0, |value| value.is_some()) {
            return true;
        }
        self.keyspace.put_string(&key, b"", 0, |_| Some(None));
        while self.keyspace.len() > self.most {
            let _: Evicted = self.keyspace.evict(false, Some(&key), |_| {});
        }
        false
    }
}

/// The key that was used least recently goes.
#[derive(Default)]
struct Lru {
    most: usize,
    /// Every use with its time; those that are not the last of their key are passed over.
    uses: VecDeque<(u32, u64)>,
    last: HashMap<u32, u64>,
    time: u64,
}

impl Cache for Lru {
    fn access(&mut self, key: u32) -> bool {
        self.time += 1;
        self.uses.push_back((key, self.time));
        let was_there = self.last.insert(key, self.time).is_some();
        while self.last.len() > self.most {
            let (key, time) = self.uses.pop_front().unwrap();
            if self.last[&key] == time {
                self.last.remove(&key);
            }
        }
        was_there
    }
}

/// A queue in which a key that was used goes to the end once more.
#[derive(Default)]
struct Clock {
    most: usize,
    queue: VecDeque<u32>,
    is_used: HashMap<u32, bool>,
}

impl Cache for Clock {
    fn access(&mut self, key: u32) -> bool {
        if let Some(is_used) = self.is_used.get_mut(&key) {
            *is_used = true;
            return true;
        }
        while self.queue.len() >= self.most {
            let oldest = self.queue.pop_front().unwrap();
            let is_used = self.is_used.get_mut(&oldest).unwrap();
            if std::mem::take(is_used) {
                self.queue.push_back(oldest);
            } else {
                self.is_used.remove(&oldest);
            }
        }
        self.queue.push_back(key);
        self.is_used.insert(key, false);
        false
    }
}

/// S3-FIFO (Yang et al., SOSP 2023): a small queue for what is new, a main one, and the names of what went from
/// the small one.
#[derive(Default)]
struct S3Fifo {
    most: usize,
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    ghosts: VecDeque<u32>,
    is_ghost: HashSet<u32>,
    uses: HashMap<u32, u8>,
}

impl S3Fifo {
    fn evict(&mut self) {
        if self.small.len() > self.most / 10 || self.main.is_empty() {
            let key = self.small.pop_front().unwrap();
            if self.uses[&key] > 1 {
                self.uses.insert(key, 0);
                self.main.push_back(key);
                return;
            }
            self.uses.remove(&key);
            if self.is_ghost.insert(key) {
                self.ghosts.push_back(key);
            }
            if self.ghosts.len() > self.most {
                let forgotten = self.ghosts.pop_front().unwrap();
                self.is_ghost.remove(&forgotten);
            }
            return;
        }
        let key = self.main.pop_front().unwrap();
        let uses = self.uses.get_mut(&key).unwrap();
        if *uses > 0 {
            *uses -= 1;
            self.main.push_back(key);
        } else {
            self.uses.remove(&key);
        }
    }
}

impl Cache for S3Fifo {
    fn access(&mut self, key: u32) -> bool {
        if let Some(uses) = self.uses.get_mut(&key) {
            *uses = 3.min(*uses + 1);
            return true;
        }
        while self.uses.len() >= self.most {
            self.evict();
        }
        self.uses.insert(key, 0);
        if self.is_ghost.contains(&key) {
            self.main.push_back(key);
        } else {
            self.small.push_back(key);
        }
        false
    }
}

/// Keys by Zipf's law, and a generator of random numbers (xorshift) with a fixed seed.
struct Zipf {
    sums: Vec<f64>,
    state: u64,
}

impl Zipf {
    fn new(keys: u32, exponent: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=keys).map(|rank| f64::from(rank).powf(-exponent));
        let sums = weights.map(|weight| {
            sum += weight;
            sum
        });
        Self {
            sums: sums.collect(),
            state: 0x9E37_79B9_7F4A_7C15,
        }
    }

    fn next(&mut self) -> u32 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let share = (self.state >> 11) as f64 / (1_u64 << 53) as f64;
        let wanted = share * self.sums.last().unwrap();
        self.sums.partition_point(|sum| *sum < wanted) as u32
    }
}

/// The share of accesses that find their key, after as many to warm up.
fn hit_ratio(cache: &mut dyn Cache, keys: &[u32]) -> f64 {
    let (warm_up, counted) = keys.split_at(keys.len() / 2);
    for key in warm_up {
        cache.access(*key);
    }
    let hits = counted.iter().filter(|key| cache.access(**key)).count();
    hits as f64 / counted.len() as f64
}

/// Hit ratios of ours, LRU, CLOCK, S3-FIFO, and of ours by age and at random.
fn ratios(keys: u32, accesses: usize, exponent: f64, most: usize) -> [f64; 6] {
    let mut zipf = Zipf::new(keys, exponent);
    let keys: Vec<u32> = (0..accesses).map(|_| zipf.next()).collect();
    let lru = Lru {
        most,
        ..Lru::default()
    };
    let clock = Clock {
        most,
        ..Clock::default()
    };
    let s3_fifo = S3Fifo {
        most,
        ..S3Fifo::default()
    };
    let caches: [Box<dyn Cache>; 6] = [
        Box::new(Ours::new(most, Victim::LeastUsed)),
        Box::new(lru),
        Box::new(clock),
        Box::new(s3_fifo),
        Box::new(Ours::new(most, Victim::LeastRecent)),
        Box::new(Ours::new(most, Victim::Random)),
    ];
    caches.map(|mut cache| hit_ratio(&mut *cache, &keys))
}

/// With `LOADLINE_LONG=1` for 1,000,000 keys and 10,000,000 accesses.
#[test]
fn our_hit_ratio_is_above_that_of_lru() {
    let is_long = std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1");
    let (keys, accesses) = if is_long {
        (1_000_000, 10_000_000)
    } else {
        (20_000, 60_000)
    };
    println!(
        "{keys} keys, {accesses} accesses; hit ratio of ours, LRU, CLOCK, S3-FIFO, ours by age, ours at random"
    );
    for exponent in [0.7, 1.0] {
        for share in [100, 10] {
            let most = keys as usize / share;
            let all = ratios(keys, accesses, exponent, most);
            let [ours, lru, clock, s3_fifo, by_age, random] = all;
            println!("zipf {exponent}, room for 1 key in {share}: {all:.3?}");
            assert!(ours >= lru + 0.015, "{ours} against {lru} of LRU");
            assert!(ours >= clock + 0.01, "{ours} against {clock} of CLOCK");
            assert!(
                ours >= s3_fifo - 0.07,
                "{ours} against {s3_fifo} of S3-FIFO"
            );
            assert!((by_age - lru).abs() < 0.02, "{by_age} against {lru} of LRU");
            assert!(random < by_age + 0.01, "{random} at random");
        }
    }
}
