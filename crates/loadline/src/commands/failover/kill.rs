//! The process ends with SIGKILL. Undone by starting it again, by promoting its replica, or by the cluster itself.

use std::time::Instant;

use loadline_load::Control;

use super::Happened;
use crate::exit::Failure;
use crate::systems::site::Site;

/// # Errors
/// If no server accepts writes again, or on an interrupt.
pub(super) fn cause(site: &mut Site, probe: &str, control: &Control) -> Result<Happened, Failure> {
    let began = Instant::now();
    site.kill(probe, &control.interrupt)?;
    Ok(Happened {
        began,
        ended: None,
        ready: Some(Instant::now()),
        times: 1,
    })
}
