//! `loadline __engine`: an engine in a process of its own, so that its memory and its writes can be told from those of
//! others, and so that it can be killed.

use std::fs;
use std::io;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use loadline_load::values::{ValueData, Values};

use crate::args::{EngineArgs, EngineStep};
use crate::files;
use crate::target::{Choice, Durability, Kind};
use crate::targets::engines::{Batch, EngineAccess, Filled, Handle, Names, Reopened};
use crate::units::nanoseconds;

/// Keys of a write.
const BATCH: usize = 100;
/// What the names of the keys begin with.
const PREFIX: &str = "loadline:footprint:";

pub(super) fn run(args: &EngineArgs) -> anyhow::Result<ExitCode> {
    let Choice::Embedded(kind, _) = Choice::parse(&args.engine)? else {
        anyhow::bail!("{} is not an engine in this process", args.engine);
    };
    let durability = Durability::parse(&args.durability).map_err(anyhow::Error::msg)?;
    let child = Child {
        args,
        kind,
        durability,
        names: Names::new(PREFIX, args.keys),
        values: Values::new(args.value_size.clone(), ValueData::Random, args.seed)?,
    };
    match args.step {
        EngineStep::Fill => child.fill()?,
        EngineStep::Open => child.open()?,
        step => child.operate(step)?,
    }
    Ok(ExitCode::SUCCESS)
}

struct Child<'a> {
    args: &'a EngineArgs,
    kind: Kind,
    durability: Durability,
    names: Names,
    values: Values,
}

impl Child<'_> {
    fn access(&self) -> anyhow::Result<EngineAccess> {
        EngineAccess::open_at(self.kind, self.durability, &self.args.dir)
    }

    /// Writes every key twice, the second time in scattered order, and says what that took. Then it waits to be killed.
    fn fill(&self) -> anyhow::Result<()> {
        let (memory, written) = (resident_bytes()?, written_bytes());
        let access = self.access()?;
        let mut handle = access.handle()?;
        let live_bytes = self.write_all(&mut *handle, |number| number)?;
        self.write_all(&mut *handle, |number| self.names.scattered(number))?;
        let filled = Filled {
            live_bytes,
            logical_bytes: 2 * live_bytes,
            memory_bytes: resident_bytes()?.saturating_sub(memory),
            written_bytes: written_bytes()
                .zip(written)
                .map(|(now, before)| now.saturating_sub(before)),
        };
        files::print(&(serde_json::to_string(&filled)? + "\n"))?;
        wait()
    }

    /// Writes every key once and returns their bytes with those of the values.
    fn write_all(
        &self,
        handle: &mut dyn Handle,
        order: impl Fn(u64) -> u64,
    ) -> anyhow::Result<u64> {
        let mut batch = Batch::default();
        let mut bytes = 0;
        for place in 0..self.args.keys {
            let values = Some(&self.values);
            self.names.push(order(place), values, &mut batch);
            if batch.len() == BATCH || place + 1 == self.args.keys {
                bytes += batch.bytes();
                handle.put_all(&batch)?;
                batch.clear();
            }
        }
        Ok(bytes)
    }

    /// Opens the engine again and reads a key, which is timed, and counts the keys that are missing or wrong.
    fn open(&self) -> anyhow::Result<()> {
        let mut key = Vec::new();
        self.names.append(self.names.scattered(0), &mut key);
        let mut value = Vec::new();
        let begun = Instant::now();
        let access = self.access()?;
        let mut handle = access.handle()?;
        handle.get(&key, &mut value)?;
        let open_ns = nanoseconds(begun.elapsed());
        let mut lost = 0;
        for number in 0..self.args.keys {
            key.clear();
            value.clear();
            self.names.append(number, &mut key);
            let is_there = handle.get(&key, &mut value)? && self.values.matches(number, &value);
            lost += u64::from(!is_there);
        }
        files::print(&(serde_json::to_string(&Reopened { open_ns, lost })? + "\n"))?;
        wait()
    }

    /// Performs operations one by one on a filled engine; whoever started this process counts its allocations.
    fn operate(&self, step: EngineStep) -> anyhow::Result<()> {
        let access = self.access()?;
        let mut handle = access.handle()?;
        self.write_all(&mut *handle, |number| number)?;
        let (mut key, mut value, mut out) = (Vec::new(), Vec::new(), Vec::new());
        for place in 0..self.args.ops {
            let number = self.names.scattered(place);
            key.clear();
            self.names.append(number, &mut key);
            match step {
                EngineStep::Put => {
                    value.clear();
                    self.values.append(number, &mut value);
                    handle.put(&key, &value)?;
                }
                EngineStep::Delete => handle.delete(&key)?,
                _ => {
                    out.clear();
                    handle.get(&key, &mut out)?;
                }
            }
        }
        Ok(())
    }
}

/// Waits to be killed: an engine that is closed would write what a killed one does not.
fn wait() -> anyhow::Result<()> {
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

fn resident_bytes() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/self/statm").context("/proc/self/statm")?;
    let pages: u64 = text
        .split_ascii_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .context("/proc/self/statm has no resident size")?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// What this process has caused to be written to storage, where the kernel tells.
fn written_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes:"))?;
    line.trim().parse().ok()
}
