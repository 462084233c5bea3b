//! The server closes the connections of all clients by CLIENT KILL, as after a change of an access control list. Nothing to
//! undo: new connections work.

use std::time::Instant;

use super::Happened;
use crate::exit::Failure;
use crate::systems::site::Site;

/// # Errors
/// If the server refuses the command.
pub(super) fn cause(site: &Site) -> Result<Happened, Failure> {
    let began = Instant::now();
    let times = site.kill_clients()?;
    Ok(Happened {
        began,
        ended: None,
        ready: None,
        times,
    })
}
