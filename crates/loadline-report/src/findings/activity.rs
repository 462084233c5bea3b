//! Other activity of the server or its machine.

use loadline_measure::doctor::ActivityFlaw;
use loadline_measure::words;

use super::{joined, percent};

pub(super) fn evidence(flaw: &ActivityFlaw) -> String {
    match flaw {
        ActivityFlaw::Throttled(seen) => format!(
            "The CPU quota of the server's control group stopped it in {} of {} periods: the quota is the server's limit, and the waits are in its tail.",
            seen.throttled, seen.periods
        ),
        ActivityFlaw::GeneratorThrottled(seen) => format!(
            "The CPU quota of the load generator's control group stopped it in {} of {} periods, so it is part of the limit, and its waits are in the tail.",
            seen.throttled, seen.periods
        ),
        ActivityFlaw::NetworkLimit(network) => format!(
            "The network device {} carried {} in one direction, of {} that it states: the network can be the limit.",
            network.device,
            words::bits_per_second(network.used),
            words::bits_per_second(network.speed),
        ),
        ActivityFlaw::Contention { pressure, waited } => contention(*pressure, *waited),
        ActivityFlaw::ServerBusyElsewhere {
            persistence,
            evicted_keys,
            swapped_bytes,
        } => {
            let work = [
                (!persistence.is_empty())
                    .then(|| format!("it persists ({})", persistence.join(", "))),
                (*evicted_keys > 0).then(|| format!("it evicted {evicted_keys} keys")),
                (*swapped_bytes > 0)
                    .then(|| format!("{swapped_bytes} bytes of its memory are swapped out")),
            ];
            format!("The server did other work as well: {}.", joined(work, "; "))
        }
        ActivityFlaw::OtherClients(1) => {
            "1 other client was active on the server during the run.".to_owned()
        }
        ActivityFlaw::OtherClients(clients) => {
            format!("{clients} other clients were active on the server during the run.")
        }
    }
}

pub(super) fn advice(flaw: &ActivityFlaw) -> &'static str {
    match flaw {
        ActivityFlaw::Throttled(_) => {
            "Give the server more CPU time (cpu.max or cpu.cfs_quota_us of its control group, the CPU limit of its container), or report the figures as those of this quota."
        }
        ActivityFlaw::GeneratorThrottled(_) => {
            "Give the load generator more CPU time (cpu.max or cpu.cfs_quota_us of its control group, the CPU limit of its container), or use fewer --threads and more --agents."
        }
        ActivityFlaw::NetworkLimit(_) => {
            "Use smaller values or a faster network, or run --agents on several machines if the server's network is faster than this one."
        }
        ActivityFlaw::Contention { .. } => {
            "Stop other programs on this machine, or pin server and generator to separate CPUs. Tails include scheduling delays. A ratio is quoted only where A against A, in the same rounds, would be level within 20 %."
        }
        ActivityFlaw::ServerBusyElsewhere { .. } => {
            "Disable it for the measurement, or state with the figures that it was enabled."
        }
        ActivityFlaw::OtherClients(_) => "Measure a server that has no other users.",
    }
}

fn contention(pressure: Option<f64>, waited: Option<f64>) -> String {
    let tasks = pressure.map(|share| {
        let share = percent(share);
        format!("Tasks waited for a CPU {share} of the time (pressure stall)")
    });
    let both = waited.map(|share| match pressure {
        None => format!(
            "Generator or server waited for a CPU {} of their time",
            percent(share)
        ),
        Some(_) => format!("generator or server {} of theirs", percent(share)),
    });
    joined([tasks, both], ", ") + "."
}
