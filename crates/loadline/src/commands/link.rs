//! `loadline link`: latency and faults between any client and server.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use loadline_link::Error;
use loadline_link::l4::{Proxy, Scripted};

use crate::args::LinkArgs;
use crate::exit::Failure;
use crate::files;
use crate::framing::RespMessages;
use crate::interrupt::interrupt;
use crate::plan::LinkPlan;
use crate::systems::servers::LISTENING;

/// Interval at which faults are looked for, which does not change when they happen.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The most connections at a time, which take two descriptors each.
const MOST_CONNECTIONS: usize = 10_000;

pub(super) fn run(args: &LinkArgs) -> anyhow::Result<ExitCode> {
    let stop = interrupt()?;
    let plan = LinkPlan::resolve(args, rand::random())?;
    let seed = plan.script.seed;
    let scripted = Scripted {
        script: plan.script,
        messages: Some(Box::new(|| Box::new(RespMessages::new()))),
        max_connections: MOST_CONNECTIONS,
    };
    let started = Instant::now();
    let proxy =
        Proxy::scripted(&[plan.route], plan.shape, scripted).map_err(|error| failure(&error))?;
    files::print(&format!(
        "{LISTENING}{}, forwarding to {}; seed {seed}.\n",
        proxy.addresses()[0],
        args.to
    ))?;
    let mut printed = 0;
    loop {
        let is_over = stop.load(Ordering::Relaxed);
        let occurrences = proxy.occurrences();
        for one in &occurrences[printed..] {
            let time = one.began.saturating_duration_since(started).as_secs_f64();
            files::print(&format!("{time:.3} s  {}\n", args.fault[one.step]))?;
        }
        printed = occurrences.len();
        if is_over {
            break;
        }
        thread::sleep(LOOK_EVERY);
    }
    let connections = proxy.stats().connections;
    files::print(&format!("{printed} faults in {connections} connections.\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn failure(error: &Error) -> Failure {
    match error {
        Error::Script { .. } | Error::Shape { .. } => Failure::usage(format!("{error}.")),
        _ => Failure::unavailable(format!("{error}.")),
    }
}
