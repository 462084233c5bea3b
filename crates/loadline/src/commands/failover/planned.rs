//! A replica becomes the master by command, as before maintenance. Not undone: every server goes on, and the servers end with
//! the trial.

use std::time::Instant;

use loadline_load::Control;

use super::Happened;
use crate::exit::Failure;
use crate::systems::site::Site;

/// # Errors
/// If a server refuses, if none accepts writes again, or on an interrupt.
pub(super) fn cause(site: &Site, probe: &str, control: &Control) -> Result<Happened, Failure> {
    let began = Instant::now();
    site.fail_over(probe, &control.interrupt)?;
    Ok(Happened {
        began,
        ended: None,
        ready: Some(Instant::now()),
        times: 1,
    })
}
