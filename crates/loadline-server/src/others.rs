//! The other connections, while a command of one of them takes long.

use crate::state::Shared;

/// The other connections of the server.
pub(crate) trait Others {
    /// Executes requests that have arrived, as far as they are allowed while a script runs for long.
    fn serve(&self, shared: &mut Shared);
}

/// No other connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nobody;

impl Others for Nobody {
    fn serve(&self, _: &mut Shared) {}
}
