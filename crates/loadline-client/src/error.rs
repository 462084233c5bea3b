//! Errors, one variant per choice of the caller.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use loadline_resp::Reply;
use thiserror::Error;

/// The reason why a request has no reply of the wanted type.
///
/// `Clone`, since one broken connection fails every request on it.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The server replied with an error. The connection is unaffected.
    #[error("the server replied `{0}`")]
    Server(ServerError),
    /// The connection broke or could not be opened, and the request was not sent again automatically.
    #[error(
        "the connection to the server was lost or could not be opened{}: {source}",
        executed(*maybe_executed)
    )]
    Connection {
        /// Whether the server may have executed the request. If false, sending it again is safe.
        maybe_executed: bool,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// No reply arrived within the response timeout.
    #[error(
        "no reply arrived within the response timeout of {after:?}{}",
        executed(*maybe_executed)
    )]
    Timeout {
        /// Whether the server may have executed the request. If false, sending it again is safe.
        maybe_executed: bool,
        /// The timeout.
        after: Duration,
    },
    /// The requests that wait to be sent or answered hold too much memory. This request was not sent.
    #[error(
        "the request was not sent: the requests that wait for their replies hold more than {limit_bytes} bytes"
    )]
    QueueFull {
        /// The limit in bytes.
        limit_bytes: usize,
    },
    /// The server sent bytes that are not RESP or exceed a limit. The connection was closed.
    #[error("{source}{}", executed(*maybe_executed))]
    Protocol {
        /// Whether the server may have executed the request. If false, sending it again is safe.
        maybe_executed: bool,
        /// The error in the bytes.
        source: loadline_resp::Error,
    },
    /// The reply does not have the requested type. The request was executed.
    #[error("the reply is {got}, but expected {expected}")]
    Type {
        /// The requested type.
        expected: &'static str,
        /// The type of the reply.
        got: &'static str,
    },
    /// The reply cannot be read as the requested type. The request was executed.
    #[cfg(feature = "serde")]
    #[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
    #[error("the reply cannot be read{}: {reason}", place(path))]
    Decode {
        /// The path to the part that does not fit, such as `users[3].name`; empty for the whole.
        path: Box<str>,
        /// The reason.
        reason: Box<str>,
    },
    /// A value cannot be written as an argument. Nothing was sent.
    #[cfg(feature = "serde")]
    #[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
    #[error("the value cannot be written{}: {reason}", place(path))]
    Encode {
        /// The path to the part that does not fit; empty for the whole.
        path: Box<str>,
        /// The reason.
        reason: Box<str>,
    },
    /// The request is invalid. Nothing was sent.
    #[error("{0}")]
    Usage(&'static str),
    /// The server refused the handshake: a wrong password, an unknown database, no such protocol.
    #[error("the server refused {step} with `{answer}`")]
    Login {
        /// The refused command of the handshake, without its arguments.
        step: &'static str,
        /// The reply of the server.
        answer: ServerError,
    },
    /// An invalid URL or option.
    #[error("{0}")]
    Url(String),
    /// TLS could not be set up, or this build does not have it.
    #[error("TLS cannot be used: {0}")]
    Tls(String),
    /// No connection of the pool was free in time. Nothing was sent.
    #[cfg(feature = "tokio")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    #[error("no connection of the pool was free within {waited:?}: {status}")]
    Pool {
        /// Time that the borrower waited.
        waited: Duration,
        /// The state of the pool at that time.
        status: crate::pool::Status,
    },
    /// The cluster has no node for the request, or no node that knows the map of slots. Nothing was sent.
    #[error("{0}")]
    Cluster(String),
    /// The sentinels name no server, or refuse to answer. Nothing was sent.
    #[error("{0}")]
    Sentinel(String),
    /// A key that a transaction watches was changed by others in each attempt. Nothing was written.
    #[error(
        "a watched key was changed by others in each of {attempts} attempts; nothing was written"
    )]
    Conflict {
        /// The number of attempts.
        attempts: u32,
    },
    /// The client was closed.
    #[error("the client was closed before the request was answered{}", executed(*maybe_executed))]
    Closed {
        /// Whether the server may have executed the request.
        maybe_executed: bool,
    },
}

impl Error {
    /// Returns whether the server may have executed the request although there is no result. A write that failed
    /// this way must not be repeated blindly.
    ///
    /// False for errors that are a reply of the server.
    #[must_use]
    pub fn maybe_executed(&self) -> bool {
        match self {
            Self::Connection { maybe_executed, .. }
            | Self::Timeout { maybe_executed, .. }
            | Self::Protocol { maybe_executed, .. }
            | Self::Closed { maybe_executed } => *maybe_executed,
            _ => false,
        }
    }

    /// Returns whether the error is a reply of the server with this code, such as `WRONGTYPE`.
    #[must_use]
    pub fn is_server_code(&self, code: &str) -> bool {
        matches!(self, Self::Server(error) if error.code() == code)
    }

    /// The same error with its statement about execution changed.
    pub(crate) fn with_executed(self, maybe_executed: bool) -> Self {
        match self {
            Self::Connection { source, .. } => Self::Connection {
                maybe_executed,
                source,
            },
            Self::Timeout { after, .. } => Self::Timeout {
                maybe_executed,
                after,
            },
            Self::Protocol { source, .. } => Self::Protocol {
                maybe_executed,
                source,
            },
            Self::Closed { .. } => Self::Closed { maybe_executed },
            other => other,
        }
    }

    /// A broken connection.
    pub(crate) fn connection(source: io::Error, maybe_executed: bool) -> Self {
        Self::Connection {
            maybe_executed,
            source: Arc::new(source),
        }
    }

    /// An error reply.
    pub(crate) fn server(text: &[u8]) -> Self {
        Self::Server(ServerError::new(text))
    }

    /// A reply of the wrong type.
    pub(crate) fn unfit(expected: &'static str, got: &Reply<'_>) -> Self {
        if let Some(text) = got.error_text() {
            return Self::server(text);
        }
        Self::Type {
            expected,
            got: kind(got),
        }
    }
}

fn executed(maybe: bool) -> &'static str {
    if maybe {
        " (the server may have executed the request)"
    } else {
        ""
    }
}

#[cfg(feature = "serde")]
fn place(path: &str) -> String {
    match path {
        "" => String::new(),
        path => format!(" at `{path}`"),
    }
}

/// The name of the type of a reply in an error text.
fn kind(reply: &Reply<'_>) -> &'static str {
    match reply.without_attributes() {
        Reply::Simple(_) => "a simple string",
        Reply::Error(_) | Reply::BlobError(_) => "an error",
        Reply::Integer(_) => "an integer",
        Reply::Bulk(_) => "a string",
        Reply::Null => "nil",
        Reply::Boolean(_) => "a boolean",
        Reply::Double(_) => "a double",
        Reply::BigNumber(_) => "a big number",
        Reply::Verbatim { .. } => "a verbatim string",
        Reply::Array(_) => "an array",
        Reply::Map(_) => "a map",
        Reply::Set(_) => "a set",
        Reply::Push(_) => "a push message",
        Reply::Attribute(_) => "a reply with attributes",
    }
}

/// An error reply, such as `WRONGTYPE Operation against a key holding the wrong kind of value`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct ServerError {
    text: Box<str>,
}

impl ServerError {
    /// An error reply with this text. Bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn new(text: &[u8]) -> Self {
        Self {
            text: String::from_utf8_lossy(text).into(),
        }
    }

    /// Returns the first word, which is a code by convention: `ERR`, `WRONGTYPE`, `NOSCRIPT`, `MOVED`.
    #[must_use]
    pub fn code(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    /// Returns the whole text, including the code.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_whether_the_request_may_have_run() {
        let lost = Error::connection(io::ErrorKind::BrokenPipe.into(), true);
        assert!(lost.maybe_executed());
        assert!(lost.to_string().contains("may have executed"));
        let unsent = lost.with_executed(false);
        assert!(!unsent.maybe_executed());
        assert!(!unsent.to_string().contains("may have executed"));
    }

    #[test]
    fn code_is_the_first_word() {
        let error = ServerError::new(b"MOVED 866 127.0.0.1:7001");
        assert_eq!(error.code(), "MOVED");
        assert_eq!(error.text(), "MOVED 866 127.0.0.1:7001");
    }
}
