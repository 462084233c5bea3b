//! The state of a pool.

use std::fmt;

/// The state of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Connections that are free.
    pub free: usize,
    /// Connections that are lent or being reset.
    pub in_use: usize,
    /// Connections that are being opened.
    pub opening: usize,
    /// Waiting borrowers.
    pub waiting: usize,
    /// The maximum number of connections.
    pub max: usize,
    /// The error of the last attempt to open a connection, if none has succeeded since.
    pub last_error: Option<String>,
}

impl Status {
    /// Both states as one.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            free: self.free + other.free,
            in_use: self.in_use + other.in_use,
            opening: self.opening + other.opening,
            waiting: self.waiting + other.waiting,
            max: self.max + other.max,
            last_error: self.last_error.or(other.last_error),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} connections in use, {} free, {} being opened, {} borrowers waiting",
            self.in_use, self.max, self.free, self.opening, self.waiting
        )?;
        match &self.last_error {
            Some(error) => write!(f, "; the last attempt to open one failed: {error}"),
            None => Ok(()),
        }
    }
}
