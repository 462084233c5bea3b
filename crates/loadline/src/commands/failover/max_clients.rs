//! The server closes the connections of all clients and takes no others (`maxclients`), as when another application has opened too
//! many. Undone by setting the usual limit again.

use std::time::{Duration, Instant};

use loadline_load::Control;

use super::{Happened, wait_until};
use crate::exit::Failure;
use crate::systems::site::Site;

/// # Errors
/// If the server refuses.
pub(super) fn cause(site: &Site, time: Duration, control: &Control) -> Result<Happened, Failure> {
    let began = Instant::now();
    let times = site.crowd_out(|| wait_until(began + time, control))?;
    Ok(Happened {
        began,
        ended: Some(Instant::now()),
        ready: None,
        times,
    })
}
