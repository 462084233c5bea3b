//! `loadline __engine`: an engine in a separate process, so that its memory and writes can be measured separately,
//! and so that it can be killed.

use std::io;
use std::process::ExitCode;
use std::time::Instant;

use crate::args::{EngineArgs, EngineStep};
use crate::files;
use crate::spelling::{CacheLimits, Choice, Durability, Kind};
use crate::systems::engines::{
    Contents, EngineAccess, Filled, Reopened, resident_bytes, written_bytes,
};
use crate::units::nanoseconds;

pub(super) fn run(args: &EngineArgs) -> anyhow::Result<ExitCode> {
    let Choice::Embedded(kind, _) = Choice::parse(&args.engine)? else {
        anyhow::bail!("{} is not an engine in this process", args.engine);
    };
    let durability = Durability::parse(&args.durability).map_err(anyhow::Error::msg)?;
    let limits = args.max_keys.zip(args.ttl);
    let child = Child {
        args,
        kind,
        durability,
        cache: limits.map(|(keys, ttl)| CacheLimits { keys, ttl }),
        contents: Contents::new(args.keys, args.value_size.clone(), args.seed)?,
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
    cache: Option<CacheLimits>,
    contents: Contents,
}

impl Child<'_> {
    fn access(&self) -> anyhow::Result<EngineAccess> {
        let memory_bytes = self.args.memory;
        EngineAccess::open_at(
            self.kind,
            self.durability,
            self.cache,
            memory_bytes,
            &self.args.dir,
        )
    }

    /// Writes every key twice and prints the cost. Then waits to be killed.
    fn fill(&self) -> anyhow::Result<()> {
        let (memory, written) = (resident_bytes("self"), written_bytes("self"));
        let access = self.access()?;
        let store = access.connect()?;
        let live_bytes = self.contents.write_twice(&*store, None)?;
        let grown = |now: Option<u64>, before: Option<u64>| {
            now.zip(before)
                .map(|(now, before)| now.saturating_sub(before))
        };
        let filled = Filled {
            live_bytes,
            memory_bytes: grown(resident_bytes("self"), memory),
            written_bytes: grown(written_bytes("self"), written),
        };
        files::print(&(serde_json::to_string(&filled)? + "\n"))?;
        wait()
    }

    /// Opens the engine again, measures the time of the first read, and counts keys that are missing or wrong.
    fn open(&self) -> anyhow::Result<()> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        self.contents.pair(0, &mut key, &mut value);
        value.clear();
        let begun = Instant::now();
        let access = self.access()?;
        let store = access.connect()?;
        store.get_into(&key, &mut value)?;
        let open_ns = nanoseconds(begun.elapsed());
        let lost = self.contents.missing(&*store)?;
        files::print(&(serde_json::to_string(&Reopened { open_ns, lost })? + "\n"))?;
        wait()
    }

    /// Performs operations one by one on a filled engine, while the parent process counts the allocations.
    fn operate(&self, step: EngineStep) -> anyhow::Result<()> {
        let access = self.access()?;
        let store = access.connect()?;
        self.contents.write_once(&*store)?;
        let (mut key, mut value, mut out) = (Vec::new(), Vec::new(), Vec::new());
        for place in 0..self.args.ops {
            self.contents.pair(place, &mut key, &mut value);
            match step {
                EngineStep::Put => store.put(&key, &value)?,
                EngineStep::Delete => store.remove(&key)?,
                _ => {
                    out.clear();
                    store.get_into(&key, &mut out)?;
                }
            }
        }
        Ok(())
    }
}

/// Waits to be killed, because closing an engine would write data that a killed one does not write.
fn wait() -> anyhow::Result<()> {
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
