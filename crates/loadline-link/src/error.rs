//! Errors of links.

use std::io;

use crate::address::Address;

/// An error while setting up or running a link.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An invalid shape.
    #[error("a link cannot have this shape: {what}")]
    Shape {
        /// The problem.
        what: &'static str,
    },
    /// An impossible script of faults.
    #[error("faults cannot follow this script: {what}")]
    Script {
        /// The problem.
        what: &'static str,
    },
    /// Listening on an address or path failed.
    #[error("the link cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: Address,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An unknown class name.
    #[error("a link is of class netem, l3 or l4")]
    UnknownClass,
    /// A link without routes.
    #[error("a link needs at least one route")]
    NoRoute,
    /// An operation that the link needs failed.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A program that sets up the link failed.
    #[error("`{command}` failed: {source}")]
    Program {
        /// The program and its arguments.
        command: String,
        /// The program's error output, or the error of the operating system.
        source: io::Error,
    },
    /// The link's thread has ended.
    #[error("the link has stopped")]
    Stopped,
}

impl Error {
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System {
            what,
            source: source.into(),
        }
    }
}
