//! The slots of the writers on a master are moved to another master, key by key, as when a cluster grows. Undone by new servers.

use std::time::{Duration, Instant};

use loadline_load::Control;

use super::Happened;
use crate::exit::Failure;
use crate::systems::site::Site;

/// # Errors
/// If a server refuses, or on an interrupt.
pub(super) fn cause(
    site: &Site,
    tags: &[String],
    time: Duration,
    control: &Control,
) -> Result<Happened, Failure> {
    let began = Instant::now();
    let times = site.move_slots(tags, time, &control.interrupt)?;
    Ok(Happened {
        began,
        ended: Some(Instant::now()),
        ready: None,
        times,
    })
}
