//! A replica ends with SIGKILL. Not undone: the servers end with the trial.

use std::time::Instant;

use super::Happened;
use crate::systems::site::Site;

pub(super) fn cause(site: &mut Site) -> Happened {
    let began = Instant::now();
    site.lose_replica();
    Happened {
        began,
        ended: None,
        ready: None,
        times: 1,
    }
}
