//! A script that runs for so long that other clients are served meanwhile.

use std::time::{Duration, Instant};

use crate::commands::blocking::owned;
use crate::commands::reply::Reply;
use crate::commands::{Call, Known, Refusal, Words, is};

/// A script or a function that has run for `busy-reply-threshold`.
#[derive(Debug)]
pub(crate) struct LongScript {
    /// The SHA-1 of the script, or the name of the function.
    name: String,
    /// The command that runs it.
    words: Vec<Vec<u8>>,
    begun: Instant,
    pub(super) is_function: bool,
    pub(super) has_written: bool,
    pub(super) is_killed: bool,
    /// Whether all changes before the script are in the log.
    pub(crate) comes_first: bool,
}

impl LongScript {
    /// A script that has run for this time.
    pub(super) fn new(
        name: &str,
        (words, is_function): (Words<'_>, bool),
        time: Duration,
        comes_first: bool,
    ) -> Self {
        let now = Instant::now();
        Self {
            name: name.to_owned(),
            words: owned(words),
            begun: now.checked_sub(time).unwrap_or(now),
            is_function,
            has_written: false,
            is_killed: false,
            comes_first,
        }
    }

    /// The reply to commands that have to wait for the end of the script.
    pub(in crate::commands) fn refusal(&self) -> Refusal {
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

    /// Writes the fields of FUNCTION STATS.
    pub(super) fn describe(&self, reply: &mut Reply<'_>) {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(self.name.as_bytes());
        reply.bulk(b"command");
        reply.array(self.words.len());
        self.words.iter().for_each(|word| reply.bulk(word));
        reply.bulk(b"duration_ms");
        reply.count(self.begun.elapsed().as_millis() as usize);
    }
}

/// Whether a command is executed while a script runs for long, as in Redis. None of them reads or changes the data.
pub(in crate::commands) fn is_for_busy_server(known: &Known, words: Words<'_>) -> bool {
    let second = |names: &[&str]| names.iter().any(|name| is(words[1], name));
    match known.name {
        "AUTH" | "DISCARD" | "HELLO" | "MULTI" | "QUIT" | "REPLCONF" | "RESET" | "SHUTDOWN"
        | "UNWATCH" | "WATCH" => true,
        "FUNCTION" => second(&["KILL", "STATS"]),
        "SCRIPT" => second(&["KILL"]),
        _ => false,
    }
}

/// Ends the running script, or the running function, unless it has written: its effects must be complete.
pub(super) fn kill(call: &mut Call<'_>, is_function: bool) -> Result<(), Refusal> {
    let script = call.shared.long_script.as_mut();
    let script = script.ok_or("NOTBUSY No scripts in execution right now.")?;
    if script.has_written {
        return Err("UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.".into());
    }
    if script.is_function != is_function {
        return Err(script.refusal());
    }
    script.is_killed = true;
    call.reply().ok();
    Ok(())
}
