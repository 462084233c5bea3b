//! The reason why a value does not fit, and the place.

use std::fmt;

use crate::{Error, ServerError};

/// The most bytes of a path or reason in an error. Both can quote what the server sent.
const SHOWN_BYTES: usize = 256;

/// The outcome of reading or writing with the path kept track of.
type Tracked<T, E> = Result<T, serde_path_to_error::Error<E>>;

/// The reason why a value cannot be read or written.
#[derive(Debug)]
pub(super) enum Fault {
    /// The reply holds an error.
    Server(ServerError),
    /// The value does not fit.
    Text(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => error.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Fault {}

impl serde_core::de::Error for Fault {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::Text(text.to_string())
    }
}

impl serde_core::ser::Error for Fault {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::Text(text.to_string())
    }
}

/// The error for a reply. `tracked` is another try, which kept track of the path to what does not fit.
pub(super) fn undecodable<T, E>(tracked: &Tracked<T, E>, reason: &impl fmt::Display) -> Error {
    Error::Decode {
        path: path_of(tracked),
        reason: shortened(reason.to_string()),
    }
}

/// The error for a value that is to be sent, as [`undecodable`].
pub(super) fn unencodable<T, E>(tracked: &Tracked<T, E>, reason: &impl fmt::Display) -> Error {
    Error::Encode {
        path: path_of(tracked),
        reason: shortened(reason.to_string()),
    }
}

/// The path to what does not fit, or nothing if that is the whole value.
fn path_of<T, E>(tracked: &Tracked<T, E>) -> Box<str> {
    let path = tracked.as_ref().err().map(|error| error.path().to_string());
    shortened(path.filter(|path| path != ".").unwrap_or_default())
}

fn shortened(mut text: String) -> Box<str> {
    if text.len() > SHOWN_BYTES {
        text.truncate(text.floor_char_boundary(SHOWN_BYTES));
        text.push('…');
    }
    text.into()
}
