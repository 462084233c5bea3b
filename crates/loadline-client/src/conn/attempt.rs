//! Errors of attempts to connect.

use std::io;

/// An error with the likely cause after it.
#[derive(Debug, thiserror::Error)]
#[error("{source}; {likely}")]
struct Advised {
    source: io::Error,
    likely: &'static str,
}

/// The error of the same kind that also names its likely cause.
pub(crate) fn advised(source: io::Error, likely: &'static str) -> io::Error {
    io::Error::new(source.kind(), Advised { source, likely })
}

/// Whether this is how an attempt ends on which the server hangs up.
pub(crate) fn hung_up(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}
