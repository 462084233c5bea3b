//! What can go wrong, one variant per choice that a caller has.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use loadline_resp::Reply;
use thiserror::Error;

/// Why a request has no reply of the wanted kind.
///
/// It can be cloned, since one broken connection fails every request that was on it.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The server answered with an error. The connection is as good as before.
    #[error("the server answered `{0}`")]
    Server(ServerError),
    /// The connection broke, or could not be made, and the request was not sent again by itself.
    #[error(
        "the connection to the server was lost or could not be made{}: {source}",
        executed(*maybe_executed)
    )]
    Connection {
        /// Whether the server may have executed the request. Where it is false, sending it again is safe.
        maybe_executed: bool,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// No reply came within the response timeout.
    #[error(
        "no reply came within the response timeout of {after:?}{}",
        executed(*maybe_executed)
    )]
    Timeout {
        /// Whether the server may have executed the request. Where it is false, sending it again is safe.
        maybe_executed: bool,
        /// The timeout.
        after: Duration,
    },
    /// Too many bytes wait to be sent or answered, so this request was not taken. It did not run.
    #[error(
        "the request was not taken, since over {limit_bytes} bytes of requests already wait for \
         their replies"
    )]
    QueueFull {
        /// The limit in bytes.
        limit_bytes: usize,
    },
    /// The server sent something that is not RESP or is over a limit; the connection was given up.
    #[error("{source}{}", executed(*maybe_executed))]
    Protocol {
        /// Whether the server may have executed the request. Where it is false, sending it again is safe.
        maybe_executed: bool,
        /// What was wrong with the bytes.
        source: loadline_resp::Error,
    },
    /// The reply is there, but it is not of the type that was asked for. The request did run.
    #[error("the reply is {got}, which does not fit {expected}")]
    Type {
        /// What was asked for.
        expected: &'static str,
        /// What came.
        got: &'static str,
    },
    /// The request cannot be made like this; nothing was sent.
    #[error("{0}")]
    Usage(&'static str),
    /// The server refused the handshake: a wrong password, an unknown database, no such protocol.
    #[error("the server refused {step} with `{answer}`")]
    Login {
        /// The command of the handshake that was refused, without its arguments.
        step: &'static str,
        /// What the server answered.
        answer: ServerError,
    },
    /// A URL or option that cannot be understood.
    #[error("{0}")]
    Url(String),
    /// TLS could not be set up, or this build has none.
    #[error("TLS cannot be used: {0}")]
    Tls(String),
    /// No connection of a pool was free in time. Nothing was sent.
    #[cfg(feature = "tokio")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    #[error("no connection of the pool was free within {waited:?}: {status}")]
    Pool {
        /// How long the borrower waited.
        waited: Duration,
        /// What the pool was doing then.
        status: crate::pool::Status,
    },
    /// The cluster has no node for the request, or none that says which nodes there are. Nothing was sent.
    #[error("{0}")]
    Cluster(String),
    /// The client was closed.
    #[error("the client was closed before the request was answered{}", executed(*maybe_executed))]
    Closed {
        /// Whether the server may have executed the request.
        maybe_executed: bool,
    },
}

impl Error {
    /// Whether the server may have executed the request although there is no result: a write that failed
    /// this way must not be blindly repeated.
    ///
    /// Errors that come with an answer of the server are certain, and not meant here.
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

    /// Whether the error is an answer of the server with this code, such as `WRONGTYPE`.
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

    /// The error that a reply is.
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

/// What a reply is called in an error text.
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
    /// An error reply with this text; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn new(text: &[u8]) -> Self {
        Self {
            text: String::from_utf8_lossy(text).into(),
        }
    }

    /// The first word, which is by custom a code: `ERR`, `WRONGTYPE`, `NOSCRIPT`, `MOVED`.
    #[must_use]
    pub fn code(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    /// The whole text, with its code.
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
    fn the_code_is_the_first_word() {
        let error = ServerError::new(b"MOVED 866 127.0.0.1:7001");
        assert_eq!(error.code(), "MOVED");
        assert_eq!(error.text(), "MOVED 866 127.0.0.1:7001");
    }
}
