//! Child servers under sentinels on loopback: a master, two replicas, and three sentinels.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use super::tidy::WatchedDir;
use super::{Child, Wanted, go_on};
use crate::exit::Failure;
use crate::spelling::Named;
use crate::systems::admin::Admin;
use crate::systems::connect::Endpoint;

/// The name of the master.
const NAME: &str = "mymaster";
const REPLICAS: usize = 2;
const SENTINELS: usize = 3;
/// Sentinels that must agree that the master is down.
const QUORUM: usize = 2;
/// Time limit for all to know each other. Sentinels announce themselves every two seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval between queries meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Periods of the sentinels' work in milliseconds: short ones, with which they find each other soon, and the usual ones.
const STARTING: [&str; 4] = ["INFO-PERIOD", "100", "PUBLISH-PERIOD", "100"];
const USUAL: [&str; 4] = ["INFO-PERIOD", "10000", "PUBLISH-PERIOD", "2000"];

/// The servers around a master, which end when this value is dropped. Sentinels keep their state in files, so each needs a
/// directory until it ends.
#[derive(Debug)]
pub(crate) struct SentinelChildren {
    sentinels: Vec<Child>,
    replicas: Vec<Child>,
    /// The parent of their directories, removed after they have ended.
    dir: WatchedDir,
}

impl SentinelChildren {
    /// Starts a master of `program`, which is redis-server or compatible with it, and the servers around it, which find it at
    /// the address that `seen` returns. The sentinels replace a master some time after it was silent for `down_after`, by
    /// default 30 s.
    ///
    /// # Errors
    /// If one is not found or does not start, with its last output; if they do not find each other; if `interrupt` was set
    /// meanwhile.
    pub(crate) fn spawn(
        program: &Path,
        down_after: Option<Duration>,
        seen: impl FnOnce(&Child) -> Result<SocketAddr, Failure>,
        interrupt: &AtomicBool,
    ) -> Result<(Child, Self), Failure> {
        let name = format!("spawn-sentinel:{}", program.display());
        let mut children = Self {
            sentinels: Vec::with_capacity(SENTINELS),
            replicas: Vec::with_capacity(REPLICAS),
            dir: WatchedDir::new(&name)?,
        };
        let wanted = Wanted {
            name: &name,
            dir: children.dir.path(),
            config: None,
            under: None,
            has_disk: false,
            host: Ipv4Addr::LOCALHOST,
            interrupt,
        };
        let master = wanted.spawn(program, || Ok(Vec::new()))?;
        let seen = seen(&master)?;
        let (host, port) = (seen.ip().to_string(), seen.port().to_string());
        let replica = [
            "--replicaof",
            &host,
            &port,
            "--repl-diskless-sync-delay",
            "0",
        ];
        for _ in 0..REPLICAS {
            let replica = wanted.spawn(program, || Ok(replica.map(ToOwned::to_owned).into()))?;
            children.replicas.push(replica);
        }
        let config = monitor(&host, &port, down_after);
        let watching = Wanted {
            config: Some(config.as_bytes()),
            ..wanted
        };
        for _ in 0..SENTINELS {
            let sentinel = watching.spawn(program, || Ok(vec!["--sentinel".to_owned()]))?;
            children.sentinels.push(sentinel);
        }
        children.work_every(STARTING);
        wait_for(&mut children.replicas, wanted, "master_link_status", "up")?;
        let complete = format!("slaves={REPLICAS},sentinels={SENTINELS}");
        wait_for(&mut children.sentinels, wanted, "master0", &complete)?;
        children.work_every(USUAL);
        Ok((master, children))
    }

    /// Sets the periods of the sentinels' work.
    fn work_every(&self, periods: [&str; 4]) {
        let command = [&["SENTINEL", "DEBUG"], &periods[..]].concat();
        for sentinel in &self.sentinels {
            // Those before Redis 7.0 cannot change them, and take longer.
            let _ = Endpoint::local(sentinel.server()).say(&command);
        }
    }

    /// The sentinels.
    pub(crate) fn sentinels(&self) -> &[Child] {
        &self.sentinels
    }

    /// The replicas.
    pub(crate) fn replicas(&self) -> &[Child] {
        &self.replicas
    }

    /// The first replica.
    pub(crate) fn first_replica(&mut self) -> &mut Child {
        &mut self.replicas[0]
    }

    /// Lets the sentinels replace the master, which goes on meanwhile.
    ///
    /// # Errors
    /// If the first sentinel refuses.
    pub(crate) fn fail_over(&self) -> Result<(), Failure> {
        let sentinel = Endpoint::local(self.sentinels[0].server());
        sentinel.say(&["SENTINEL", "FAILOVER", NAME]).map(drop)
    }

    /// The master by its name.
    pub(crate) fn named(&self) -> Named {
        Named {
            name: NAME.to_owned(),
            sentinels: self.sentinels.iter().map(Child::server).collect(),
        }
    }
}

/// The configuration of a sentinel.
fn monitor(host: &str, port: &str, down_after: Option<Duration>) -> String {
    let mut config = format!("sentinel monitor {NAME} {host} {port} {QUORUM}\n");
    if let Some(time) = down_after {
        let ms = time.as_millis();
        // Sentinels that did not agree on a leader try again after twice the second time.
        config += &format!("sentinel down-after-milliseconds {NAME} {ms}\n");
        config += &format!("sentinel failover-timeout {NAME} {ms}\n");
    }
    config
}

/// Queries each server until this field of its INFO contains this text.
fn wait_for(
    children: &mut [Child],
    wanted: Wanted<'_>,
    field: &str,
    text: &str,
) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    for child in children {
        let mut admin = Admin::open(&Endpoint::local(child.server()))?;
        loop {
            // On a busy machine, a reply can come later than the client waits for it.
            let info = admin.info(&[]);
            let reports = |value: &str| value.contains(text);
            if info
                .as_ref()
                .is_ok_and(|info| info.get(field).is_some_and(reports))
            {
                break;
            }
            go_on(wanted.name, wanted.interrupt)?;
            if let Some(failure) = child.has_ended() {
                return Err(failure);
            }
            if Instant::now() >= deadline {
                return Err(info.err().unwrap_or_else(|| {
                    Failure::unavailable(format!(
                        "{}: {} did not report {text} within {PATIENCE:?}.",
                        wanted.name, child.address
                    ))
                }));
            }
            thread::sleep(ASK_EVERY);
        }
    }
    Ok(())
}
