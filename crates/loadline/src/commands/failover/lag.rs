//! A replica receives nothing from its master for a time, and goes on answering reads. Undone by joining the two again.

use std::time::{Duration, Instant};

use loadline_load::Control;

use super::{Happened, wait_until};
use crate::exit::Failure;
use crate::systems::site::Site;

/// # Errors
/// If the proxy between them has ended.
pub(super) fn cause(site: &Site, time: Duration, control: &Control) -> Result<Happened, Failure> {
    let began = Instant::now();
    site.hold_replication(|| wait_until(began + time, control))?;
    Ok(Happened {
        began,
        ended: Some(Instant::now()),
        ready: None,
        times: 1,
    })
}
