//! The file system of the server's files is full for a time. Undone by removing the file that fills it; the file system ends with the
//! server.

use std::time::{Duration, Instant};

use loadline_load::Control;

use super::{Happened, wait_until};
use crate::exit::Failure;
use crate::systems::site::Site;

/// # Errors
/// If the file system cannot be reached.
pub(super) fn cause(site: &Site, time: Duration, control: &Control) -> Result<Happened, Failure> {
    let began = Instant::now();
    site.fill_disk(|| wait_until(began + time, control))?;
    Ok(Happened {
        began,
        ended: Some(Instant::now()),
        ready: None,
        times: 1,
    })
}
