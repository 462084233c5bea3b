//! The WAIT after each write.

use std::time::Duration;

use loadline_measure::failover::{Topology, Wait};

use crate::exit::Failure;
use crate::units::{self, duration_text, nanoseconds};

/// The shortest and the longest time limit. The server counts milliseconds, and takes 0 for no limit.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(60);

/// # Errors
/// A usage error for an invalid value, for more replicas than a master has, or if the client has no connection for it.
pub(super) fn resolve(text: Option<&str>, topology: &Topology) -> Result<Option<Wait>, Failure> {
    let Some(text) = text else {
        return Ok(None);
    };
    let invalid = |why: String| Failure::invalid("--wait", "value", text, why);
    let form = || invalid("expected N:T, such as 1:100ms".to_owned());
    let (replicas, time) = text.split_once(':').ok_or_else(form)?;
    let replicas: u64 = replicas.parse().map_err(|_| form())?;
    let time = units::duration(time).map_err(|_| form())?;
    if !(SHORTEST..=LONGEST).contains(&time) {
        let (shortest, longest) = (duration_text(SHORTEST), duration_text(LONGEST));
        return Err(invalid(format!("the time is from {shortest} to {longest}")));
    }
    let most = match topology {
        Topology::Replica => 1,
        Topology::Sentinel => 2,
        Topology::Cluster => {
            return Err(Failure::usage(
                "--wait: WAIT needs a pool, and loadline-client has no pool of connections to a cluster; use replica or sentinel.",
            ));
        }
        _ => {
            return Err(Failure::usage(format!(
                "--wait: `{topology}` has no replica; use replica or sentinel."
            )));
        }
    };
    if !(1..=most).contains(&replicas) {
        return Err(invalid(match most {
            1 => "expected 1 replica".to_owned(),
            most => format!("expected 1 to {most} replicas"),
        }));
    }
    Ok(Some(Wait {
        replicas,
        timeout_ns: nanoseconds(time),
    }))
}
