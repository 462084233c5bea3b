//! The clients: ours and its peers, each behind the same few calls.

mod cluster;
mod fred;
mod hiredis;
mod ours;
mod redis_rs;
mod rustis;

use std::future::Future;

use anyhow::ensure;
use tokio::runtime::{Builder, Runtime};

use crate::KEYS;

/// The work of an arm.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// One operation after the other on one connection; `spin` waits awake, where a client can.
    Single { set: bool, spin: bool },
    /// Pipelines of `size` on one connection, values owned by the caller.
    Pipeline { set: bool, size: usize },
    /// Pipelines of GETs on one connection, values read where they were received, and not copied.
    Lent { size: usize },
    /// Tasks that share one connection, each with one GET after the other, on tokio's
    /// current_thread runtime or on a multi_thread one with one worker.
    Tasks { tasks: u64, multi_thread: bool },
}

/// A client.
pub trait Arm {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Does `ops` operations. Returns the CPU time in nanoseconds that another program used for
    /// them, or `None` where the client has no such kind of call.
    fn run(&mut self, work: Work, ops: u64) -> anyhow::Result<Option<u64>>;
}

/// Connects a client.
type Connect<'a> = &'a dyn Fn() -> anyhow::Result<Box<dyn Arm>>;

/// The clients that are connected, and the name and the error of each one that could not be.
pub type Connected<'a> = (Vec<Box<dyn Arm>>, Vec<(&'a str, anyhow::Error)>);

/// The clients on the server or cluster of this URL: the one that is called `only`, or every one that is there. The others are not
/// started, since a count of the whole process would have them in it.
pub fn all(
    url: &str,
    hiredis: Option<&str>,
    only: Option<&str>,
) -> anyhow::Result<Connected<'static>> {
    if let Some(nodes) = url.strip_prefix("cluster://") {
        return cluster::all(nodes, only);
    }
    ours::fill(url)?;
    let ours = || -> anyhow::Result<Box<dyn Arm>> { Ok(Box::new(ours::Ours::connect(url)?)) };
    let redis =
        || -> anyhow::Result<Box<dyn Arm>> { Ok(Box::new(redis_rs::RedisRs::connect(url)?)) };
    let fred = || -> anyhow::Result<Box<dyn Arm>> { Ok(Box::new(fred::Fred::connect(url)?)) };
    let rustis = || -> anyhow::Result<Box<dyn Arm>> { Ok(Box::new(rustis::Rustis::connect(url)?)) };
    let driven = hiredis.map(|program| {
        move || -> anyhow::Result<Box<dyn Arm>> {
            Ok(Box::new(hiredis::Hiredis::start(program, url)?))
        }
    });
    let mut known: Vec<(&str, Connect<'_>)> = vec![
        ("loadline-client", &ours),
        ("redis-rs", &redis),
        ("fred", &fred),
        ("rustis", &rustis),
    ];
    if let Some(driven) = &driven {
        known.push(("hiredis", driven));
    }
    connected(&known, only)
}

/// Connects the clients that are asked for. If it is a single one, its error is that of the program.
fn connected<'a>(
    known: &[(&'a str, Connect<'_>)],
    only: Option<&str>,
) -> anyhow::Result<Connected<'a>> {
    let (mut arms, mut unconnected) = (Vec::new(), Vec::new());
    for (name, connect) in known {
        if only.is_some_and(|only| only != *name) {
            continue;
        }
        match connect() {
            Ok(arm) => arms.push(arm),
            Err(error) if only.is_some() => return Err(error),
            Err(error) => unconnected.push((*name, error)),
        }
    }
    ensure!(
        !(arms.is_empty() && unconnected.is_empty()),
        "there is no arm {}",
        only.unwrap_or("at all")
    );
    Ok((arms, unconnected))
}

/// The runtimes that tasks run on, and a connection on each.
struct Runtimes<C> {
    one: (Runtime, C),
    multi: (Runtime, C),
}

impl<C> Runtimes<C> {
    fn new<F: Future<Output = anyhow::Result<C>>>(connect: impl Fn() -> F) -> anyhow::Result<Self> {
        let one = Builder::new_current_thread().enable_all().build()?;
        let multi = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let (first, second) = (one.block_on(connect())?, multi.block_on(connect())?);
        Ok(Self {
            one: (one, first),
            multi: (multi, second),
        })
    }

    fn choose(&self, multi_thread: bool) -> &(Runtime, C) {
        if multi_thread { &self.multi } else { &self.one }
    }
}

/// Runs `tasks` tasks that share `ops` operations; `work` is one task's share of them.
async fn spread<F>(tasks: u64, ops: u64, work: impl Fn(u64, u64) -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let share = ops / tasks + u64::from(task < ops % tasks);
            tokio::spawn(work(task, share))
        })
        .collect();
    for task in running {
        task.await??;
    }
    Ok(())
}

/// The name of a key.
fn key(number: usize) -> String {
    format!("key:{:04}", number % KEYS)
}

/// All names, so that no arm formats them in its block.
fn keys() -> Vec<String> {
    (0..KEYS).map(key).collect()
}

fn value() -> String {
    "x".repeat(crate::VALUE_BYTES)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    struct Named(&'static str);

    impl Arm for Named {
        fn name(&self) -> &'static str {
            self.0
        }

        fn run(&mut self, _: Work, _: u64) -> anyhow::Result<Option<u64>> {
            Ok(None)
        }
    }

    #[test]
    fn only_the_arm_that_is_asked_for_is_started() {
        let started = RefCell::new(Vec::new());
        let start = |name: &'static str| -> anyhow::Result<Box<dyn Arm>> {
            started.borrow_mut().push(name);
            Ok(Box::new(Named(name)))
        };
        let (a, b) = (|| start("a"), || start("b"));
        let known: [(&str, Connect<'_>); 2] = [("a", &a), ("b", &b)];
        assert_eq!(connected(&known, Some("b")).unwrap()[0].name(), "b");
        assert_eq!(*started.borrow(), ["b"]);
        assert_eq!(connected(&known, None).unwrap().len(), 2);
        assert!(connected(&known, Some("c")).is_err());
    }
}
