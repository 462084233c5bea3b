//! A script that runs for so long that other clients are served meanwhile.

use std::time::{Duration, Instant};

use crate::commands::Refusal;

/// A script or a function that has run for `busy-reply-threshold`.
#[derive(Debug)]
pub(crate) struct LongScript {
    /// The SHA-1 of the script, or the name of the function.
    pub(crate) name: String,
    /// The command that runs it.
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) begun: Instant,
    pub(crate) is_function: bool,
    pub(crate) has_written: bool,
    pub(crate) is_killed: bool,
    /// Whether all changes before the script are in the log.
    pub(crate) comes_first: bool,
}

impl LongScript {
    /// A script that has run for this time.
    pub(crate) fn new(
        name: &str,
        (words, is_function): (&[&[u8]], bool),
        time: Duration,
        comes_first: bool,
    ) -> Self {
        let now = Instant::now();
        Self {
            name: name.to_owned(),
            words: words.iter().map(|word| word.to_vec()).collect(),
            begun: now.checked_sub(time).unwrap_or(now),
            is_function,
            has_written: false,
            is_killed: false,
            comes_first,
        }
    }

    /// The reply to commands that have to wait for the end of the script.
    pub(crate) fn refusal(&self) -> Refusal {
        let kind = if self.is_function {
            "FUNCTION"
        } else {
            "SCRIPT"
        };
        format!(
            "BUSY Redis is busy running a script. You can only call {kind} KILL or SHUTDOWN NOSAVE."
        )
        .into()
    }
}
