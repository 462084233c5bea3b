//! Why a link cannot be set up or go on.

use std::io;

use crate::address::Address;

/// Why a link cannot be set up or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A shape that no path can have.
    #[error("a link cannot have this shape: {what}")]
    Shape {
        /// What is wrong with it.
        what: &'static str,
    },
    /// An address or a path cannot be listened on.
    #[error("the link cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: Address,
        /// What the operating system said.
        source: io::Error,
    },
    /// A name that no class has.
    #[error("a link is of class netem, l3 or l4")]
    UnknownClass,
    /// There is nothing to forward.
    #[error("a link needs at least one route")]
    NoRoute,
    /// The operating system refused something that the link needs.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What came back.
        source: io::Error,
    },
    /// A program that sets up the link did not.
    #[error("`{command}` failed: {source}")]
    Program {
        /// The program and its arguments.
        command: String,
        /// What it or the operating system said.
        source: io::Error,
    },
    /// The thread of the link has ended.
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
