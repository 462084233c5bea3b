//! Runs that something interrupts: a server that is stopped, a host that takes the CPUs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use loadline_measure::Record;
use loadline_measure::doctor::Finding;
use loadline_measure::record::StallCause;
use rustix::thread::{CpuSet, sched_setaffinity};
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

use crate::commands::measured;
use crate::redis::Redis;
use crate::util::{Dir, signal, wait_until};
use crate::{alone, caught};

const PACE: &str = "--workload get --keys 500 --connections 8 --threads 1 --rate 10k --rounds 1 --warmup 20ms --seed 1";

/// An open loop at 10,000 per second against `redis`, while `disturb` runs.
fn disturbed(redis: &Redis, duration: &str, disturb: impl FnOnce() + Send) -> Record {
    let (dir, url) = (Dir::new(), redis.url());
    let words: Vec<&str> = [url.as_str(), "--duration", duration]
        .into_iter()
        .chain(PACE.split(' '))
        .collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("the load is under way", || redis.calls("get") > 5_000);
            disturb();
        });
        measured(&dir, &words)
    })
}

#[test]
fn server_that_is_stopped_for_a_second() {
    let _alone = alone();
    let redis = Redis::start(&[]);
    let stopped = Mutex::new(Duration::ZERO);
    let record = disturbed(&redis, "4s", || {
        let begun = Instant::now();
        signal(redis.pid(), "STOP");
        thread::sleep(Duration::from_secs(1));
        signal(redis.pid(), "CONT");
        *stopped.lock().unwrap() = begun.elapsed();
    });
    let found = caught("a server that stops", "LL037", &record.doctor);
    assert!(
        found.evidence.contains("the server did not answer"),
        "{}",
        found.evidence
    );
    let stalls = record.cases[0].stalls.iter();
    let longest = stalls.max_by_key(|stall| stall.length_ns).unwrap();
    assert_eq!(longest.cause, StallCause::Server, "{longest:?}");
    let length_ms = longest.length_ns / 1_000_000;
    // The signals take their time too, and so does the server until it goes on.
    let most_ms = stopped.lock().unwrap().as_millis() as u64 + 500;
    assert!((950..most_ms).contains(&length_ms), "{longest:?}");
    // The load was under way for half a second, and a warm-up is a part of that.
    let start_ms = longest.start_ns / 1_000_000;
    assert!((300..4_000).contains(&start_ms), "{longest:?}");
    let sentence = &record.findings[0];
    for part in ["p50 ", "p99 ", " s without a reply"] {
        assert!(sentence.contains(part), "{sentence}");
    }
}

/// Takes `cpu` for 60 ms six times, ahead of everything else on it, as a host does. Returns whether this
/// process may do that.
fn steal(cpu: usize) -> bool {
    let mut own = CpuSet::new();
    own.set(cpu);
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    if sched_setaffinity(None, &own).is_err()
        || set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Max, fifo).is_err()
    {
        return false;
    }
    for _ in 0..6 {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(60) {
            std::hint::spin_loop();
        }
        thread::sleep(Duration::from_millis(300));
    }
    true
}

/// It takes the right to real time; without it the run must say that it could not tell.
#[test]
fn host_that_takes_the_cpus() {
    let _alone = alone();
    let cpus = thread::available_parallelism().unwrap().get();
    let redis = Redis::start(&[]);
    let could = AtomicBool::new(true);
    let record = disturbed(&redis, "4s", || {
        let thieves = (0..cpus).map(|cpu| thread::spawn(move || steal(cpu)));
        for thief in thieves.collect::<Vec<_>>() {
            could.fetch_and(thief.join().unwrap(), Ordering::Relaxed);
        }
    });
    let pauses = record.cases[0].cpu_pauses.unwrap();
    assert_eq!(pauses.real_time, could.load(Ordering::Relaxed));
    if !pauses.real_time {
        println!("| a host that takes the CPUs | - | needs the right to real time |");
        return;
    }
    let found = caught("a host that takes the CPUs", "LL035", &record.doctor);
    assert!(found.evidence.contains("did not run"), "{}", found.evidence);
    let by_host = record.cases[0].stalls.iter();
    let by_host = by_host
        .filter(|stall| stall.cause == StallCause::Host)
        .count();
    assert!(by_host > 0, "{:#?}", record.cases[0].stalls);
    caught("stalls by the host", "LL037", &record.doctor);
}

/// A control group of its own with a CPU quota of a tenth; removed in the end.
struct Group(PathBuf);

impl Group {
    /// Makes a group of either version; `None` where this process may not, or no CPU controller is mounted.
    fn with_quota() -> Option<Self> {
        let own = format!("loadline-zoo-{}", std::process::id());
        let first = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
        let quotas: [(&str, &[(&str, &str)]); 2] = [
            (
                "cpu.cfs_quota_us",
                &[("cpu.cfs_period_us", "20000"), ("cpu.cfs_quota_us", "2000")],
            ),
            ("cpu.max", &[("cpu.max", "2000 20000")]),
        ];
        first
            .into_iter()
            .chain(["/sys/fs/cgroup"])
            .find_map(|mount| {
                let dir = Path::new(mount).join(&own);
                fs::create_dir(&dir).ok()?;
                let group = Self(dir);
                let (_, settings) = quotas
                    .iter()
                    .find(|(file, _)| group.0.join(file).exists())?;
                let is_set =
                    |(file, value): &(&str, &str)| fs::write(group.0.join(file), value).is_ok();
                settings.iter().all(is_set).then_some(group)
            })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn quota_of_the_server_is_not_the_contention_of_others() {
    let _alone = alone();
    let Some(group) = Group::with_quota() else {
        println!("| a CPU quota of the server | - | needs the right to make a control group |");
        return;
    };
    let redis = Redis::start(&[]);
    fs::write(group.0.join("cgroup.procs"), redis.pid().to_string()).unwrap();
    let (dir, url) = (Dir::new(), redis.url());
    let words = "--workload get --keys 500 --connections 8 --threads 1 --duration 700ms --rounds 3";
    let record = measured(
        &dir,
        &[&[url.as_str()], &words.split(' ').collect::<Vec<_>>()[..]].concat(),
    );
    // A group with a process cannot be removed.
    drop(redis);
    let found = caught("a CPU quota of the server", "LL028", &record.doctor);
    assert!(
        found.evidence.contains("control group stopped it in"),
        "{}",
        found.evidence
    );
    let mut stalls = record.cases[0].stalls.iter();
    assert!(
        stalls.any(|stall| stall.cause == StallCause::Quota),
        "{:?}",
        record.cases[0].stalls
    );
    let blames_others = |finding: &Finding| finding.evidence.contains("other programs");
    assert!(
        !record.doctor.iter().any(blames_others),
        "{:#?}",
        record.doctor
    );
}
