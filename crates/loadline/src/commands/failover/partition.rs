//! The client and the master are cut off from the other servers for a time, and one of those is promoted: two masters at a
//! time. Undone by connecting them again; the old master ends as a replica of the new one, or with the trial.

use std::time::{Duration, Instant};

use loadline_load::Control;

use super::{Happened, LOOK_EVERY, wait_until};
use crate::exit::Failure;
use crate::systems::site::Site;

/// # Errors
/// If a server refuses.
pub(super) fn cause(
    site: &Site,
    time: Duration,
    probe: &str,
    control: &Control,
) -> Result<Happened, Failure> {
    let began = Instant::now();
    let cut = site.cut_off()?;
    let mut ready = None;
    while ready.is_none() && began.elapsed() < time && !control.interrupted() {
        ready = cut.promoted(probe).then(Instant::now);
        wait_until(Instant::now() + LOOK_EVERY, control);
    }
    wait_until(began + time, control);
    cut.end(&control.interrupt)?;
    Ok(Happened {
        began,
        ended: Some(Instant::now()),
        ready,
        times: 1,
    })
}
