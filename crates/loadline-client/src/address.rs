//! Where a server listens.

use std::path::PathBuf;

use crate::sentinel::Sentinel;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// A host name or address, and a port.
    Tcp {
        /// The name or address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// The same with TLS; the certificate must be for this host.
    Tls {
        /// The name or address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A socket in the file system.
    Unix(PathBuf),
    /// The server that sentinels name.
    Sentinel(Sentinel),
}
