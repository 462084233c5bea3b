//! The server becomes a replica by command, as after a failover that a client did not notice, and refuses writes with READONLY.
//! Undone by REPLICAOF NO ONE; it keeps its data.

use std::time::{Duration, Instant};

use loadline_load::Control;

use super::{Happened, wait_until};
use crate::exit::Failure;
use crate::systems::site::Site;

/// # Errors
/// If the server refuses.
pub(super) fn cause(site: &Site, time: Duration, control: &Control) -> Result<Happened, Failure> {
    let began = Instant::now();
    site.demote(|| wait_until(began + time, control))?;
    Ok(Happened {
        began,
        ended: Some(Instant::now()),
        ready: None,
        times: 1,
    })
}
