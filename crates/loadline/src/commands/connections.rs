//! `loadline __connections`: holds connections for `connection_memory` and prints their memory use.

use std::process::ExitCode;

use crate::files;
use crate::suites::hold_connections;

pub(super) fn run() -> anyhow::Result<ExitCode> {
    files::print(&serde_json::to_string(&hold_connections()?)?)?;
    Ok(ExitCode::SUCCESS)
}
