//! The null server, called as the servers of a comparison are.

use std::sync::Arc;

use loadline_cache::connect;
use loadline_client::Tls;
use loadline_null::Reads;
use loadline_resp::Protocol;

use super::Connect;
use crate::exit::Failure;
use crate::systems::client::client;
use crate::systems::null::{as_server, null_server};

/// Starts the server, and opens connections to it as long as the returned function exists. Reads have as many bytes as
/// the last write.
///
/// # Errors
/// If no port is free.
pub(super) fn start() -> Result<Connect, Failure> {
    let server = null_server(Reads::Sized(Arc::default()), None)?;
    let at = as_server(&server);
    let client = client(&at, &at.address, &Tls::default(), Protocol::Resp3);
    Ok(Arc::new(move || {
        let _ = &server;
        Ok(connect(client.clone())?.into())
    }))
}
