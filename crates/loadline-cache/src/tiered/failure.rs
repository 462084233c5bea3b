//! The reasons why a request to a tier has no result.

use loadline_client::Error as ClientError;
use loadline_store::Error as StoreError;

use crate::Error;

/// The reason why a request has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Refused by a tier that answers. It has not happened.
    Refused,
    /// An error that says nothing about other kinds of request. A write can have happened.
    Opaque,
    /// Never sent, or refused by a tier that answers nothing at the moment.
    NotDone,
    /// No answer. A write can have happened, and can still happen.
    Unknown,
}

impl Failure {
    /// The codes of a server that answers no request.
    const DOWN: [&str; 5] = ["LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "NOAUTH"];
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Client(ClientError::Server(reply)) if !Self::DOWN.contains(&reply.code()) => {
                Self::Refused
            }
            Error::Client(ClientError::Type { .. }) => Self::Opaque,
            Error::Client(error) if !error.maybe_executed() => Self::NotDone,
            Error::Client(_) => Self::Unknown,
            Error::Store(
                StoreError::Full { .. }
                | StoreError::AtLimit
                | StoreError::TooLarge { .. }
                | StoreError::NotAString { .. }
                | StoreError::ReadOnly
                | StoreError::Failed { .. },
            )
            | Error::Key { .. }
            | Error::Slots => Self::Refused,
            _ => Self::Opaque,
        }
    }
}

#[cfg(test)]
mod tests {
    use loadline_client::ServerError;

    use super::*;

    #[test]
    fn errors_are_classed_by_what_they_say_about_other_requests() {
        let reply =
            |text: &str| Error::Client(ClientError::Server(ServerError::new(text.as_bytes())));
        let closed = |maybe_executed| Error::Client(ClientError::Closed { maybe_executed });
        for (error, failure) in [
            (reply("READONLY You can't write"), Failure::Refused),
            (reply("LOADING Redis is loading"), Failure::NotDone),
            (closed(false), Failure::NotDone),
            (closed(true), Failure::Unknown),
            (StoreError::ReadOnly.into(), Failure::Refused),
            (StoreError::AtLimit.into(), Failure::Refused),
            (Error::Slots, Failure::Refused),
            (Error::Engine("disk".into()), Failure::Opaque),
            (Error::Settings("of a user's store"), Failure::Opaque),
        ] {
            let text = error.to_string();
            assert_eq!(Failure::from(error), failure, "{text}");
        }
    }
}
