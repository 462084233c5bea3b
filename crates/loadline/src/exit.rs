//! Exit codes, in one place, and the errors that carry them.

use std::fmt;
use std::process::ExitCode;

use crate::secret;

/// Exit codes, which scripts rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Measurements that cannot be compared.
    Incomparable,
    /// A part of the load generators did not measure the whole plan.
    Incomplete,
    /// A flag, a value or a plan that cannot be.
    Usage,
    /// A file that cannot be read as what it should be, or an output that cannot be written.
    BadFile,
    /// A target, a program or a driver that is not there or does not answer.
    Unavailable,
    /// Our own fault.
    Internal,
    /// Interrupted; what was measured so far was still written.
    Interrupted,
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Incomparable => 3,
            Self::Incomplete => 4,
            Self::Usage => 64,
            Self::BadFile => 65,
            Self::Unavailable => 69,
            Self::Internal => 70,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An error that says how the program ends: what was tried, what came back, and what to do.
///
/// Its message is redacted when it is made, so that no later step can print a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    /// A failure that ends the program with `exit`.
    pub(crate) fn new(exit: Exit, message: impl AsRef<str>) -> Self {
        Self {
            exit,
            message: secret::redact(message.as_ref()),
        }
    }

    /// A flag, a value or a plan that cannot be.
    pub(crate) fn usage(message: impl AsRef<str>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// A usage error for the `value` of a `flag`, in the form in which the command line's own are reported.
    pub(crate) fn invalid(
        flag: &str,
        noun: &str,
        value: impl fmt::Display,
        why: impl fmt::Display,
    ) -> Self {
        Self::usage(format!("{flag}: invalid {noun} `{value}`: {why}."))
    }

    /// A target or a program that is not there or does not answer.
    pub(crate) fn unavailable(message: impl AsRef<str>) -> Self {
        Self::new(Exit::Unavailable, message)
    }

    /// A file that cannot be read as what it should be.
    pub(crate) fn bad_file(message: impl AsRef<str>) -> Self {
        Self::new(Exit::BadFile, message)
    }

    /// The same failure with `sentence` on a line of its own.
    pub(crate) fn followed_by(&self, sentence: &str) -> Self {
        Self::new(self.exit, format!("{}\n{sentence}", self.message))
    }

    /// Exit code of the program.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The exit that an error asks for; one that asks for none is our own fault.
pub(crate) fn of(error: &anyhow::Error) -> Exit {
    error
        .downcast_ref::<Failure>()
        .map_or(Exit::Internal, Failure::exit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn error_ends_as_it_asks_also_under_a_context() {
        let failure: Result<(), _> = Err(Failure::usage("no"));
        assert_eq!(
            of(&failure.context("while planning").unwrap_err()),
            Exit::Usage
        );
        assert_eq!(of(&anyhow::anyhow!("a fault")), Exit::Internal);
    }

    #[test]
    fn message_never_holds_a_password() {
        let failure = Failure::unavailable("redis://ann:hunter2@db:6379 did not answer");
        assert_eq!(
            failure.to_string(),
            "redis://ann:***@db:6379 did not answer"
        );
    }
}
