//! Commands that a script calls.

use std::time::Duration;

use loadline_resp::{Decoder, Limits, Protocol, head};
use mlua::{Lua, Value};

use super::calls::{Answer, Asked, Commands};
use super::convert::{self, Plain};
use super::interpreter::make;
use super::progress::{Flags, Progress};
use super::runner::Given;
use crate::acl::Denial;
use crate::buffer::Output;
use crate::commands::{Access, Call, Keys, Known, Refusal, find_again, find_of, fits, is};
use crate::long_script::LongScript;

/// The most bytes of a reply to a script.
const MOST_REPLY_BYTES: usize = 512 << 20;

/// The call of a script, as far as its commands need it.
pub(super) struct Nested<'n, 'c> {
    call: &'n mut Call<'c>,
    /// The name of the script, and its words.
    subject: (&'n str, Given<'n>),
    flags: Flags,
    progress: &'n Progress,
    /// The protocol of the client.
    protocol: Protocol,
    /// Whether the script is a part of a transaction.
    is_nested: bool,
    /// Whether all changes before the script were in the log when it began.
    comes_first: bool,
    out: Output,
    /// The error of the last command, if it has no reply.
    refused: Refusal,
}

impl<'n, 'c> Nested<'n, 'c> {
    pub(super) fn new(
        call: &'n mut Call<'c>,
        subject: (&'n str, Given<'n>),
        flags: Flags,
        progress: &'n Progress,
        (protocol, is_nested): (Protocol, bool),
    ) -> Self {
        Self {
            comes_first: call.shared.pending_bytes() == 0,
            call,
            protocol,
            is_nested,
            subject,
            flags,
            progress,
            out: Output::new(MOST_REPLY_BYTES),
            refused: "".into(),
        }
    }

    /// Keeps an error.
    fn refuse(&mut self, refusal: Refusal, is_counted: bool) -> Answer {
        self.refused = refusal;
        Answer::Error {
            text: &raw const *self.refused.0,
            is_counted,
        }
    }

    /// Executes a command and leaves its reply in `out`.
    fn reply(&mut self, words: &[&[u8]]) -> Result<(), Refusal> {
        let command = find_again(&mut self.call.shared.last_called, words[0]);
        let known = command.and_then(|command| command.of(words));
        let known = known.ok_or("ERR Unknown Redis command called from script")?;
        if let Err(refusal) = self.permit(known, words) {
            self.call.count_rejected(known);
            return Err(refusal);
        }
        self.call.admit_known(known, words)?;
        self.call.session.protocol = self.progress.protocol();
        let mut call = Call {
            session: self.call.session,
            shared: self.call.shared,
            out: &mut self.out,
            changed: None,
            others: self.call.others,
        };
        call.shared.monitors.is_script = true;
        call.perform(known, words);
        call.shared.monitors.is_script = false;
        Ok(())
    }

    /// Checks that the script can call a command.
    fn permit(&mut self, known: &Known, words: &[&[u8]]) -> Result<(), Refusal> {
        if !fits(known.arity, words.len()) {
            return Err("ERR Wrong number of args calling Redis command from script".into());
        }
        if !known.is_scriptable {
            return Err("ERR This Redis command is not allowed from script".into());
        }
        if let Some(denial) = self.call.denial(known, words, "lua") {
            let why = match denial {
                Denial::Key => {
                    "can't access at least one of the keys mentioned in the command arguments"
                }
                Denial::Channel => "can't publish to the channel mentioned in the command",
                Denial::Command | Denial::Login => "can't run this command or subcommand",
            };
            return Err(format!("ERR The user executing the script {why}").into());
        }
        if known.access == Access::Write {
            if self.flags.no_writes {
                return Err("ERR Write commands are not allowed from read-only scripts.".into());
            }
            let shared = &mut *self.call.shared;
            if let Some(refusal) = shared.unwritable(known.grows) {
                return Err(refusal);
            }
            // A script that has written goes on, so that its effects stay together.
            let is_limited = shared.settings.maxmemory > 0 && !self.flags.allow_oom;
            if is_limited && known.grows && !self.progress.has_written() && !shared.make_room() {
                return Err("OOM command not allowed when used memory > 'maxmemory'.".into());
            }
            self.progress.note_write();
        }
        if waits_for_streams(known, words) {
            let name = String::from_utf8_lossy(words[0]);
            return Err(format!(
                "ERR {name} command is not allowed with BLOCK option from scripts"
            )
            .into());
        }
        Ok(())
    }
}

impl Commands for Nested<'_, '_> {
    fn execute(&mut self, asked: Asked<'_>) -> Answer {
        self.out.truncate(0);
        let words = match asked {
            Ok(words) => words,
            // As in Redis, this counts only if it becomes the script's reply.
            Err(text) => return self.refuse(text.into(), false),
        };
        match self.reply(words) {
            Ok(()) => plain(self.out.as_slice()),
            Err(refusal) => {
                self.call.shared.stats.count_error(&refusal.0);
                self.refuse(refusal, true)
            }
        }
    }

    fn kept(&mut self, lua: &Lua) -> mlua::Result<Result<Value, &'static str>> {
        let bytes = self.out.len();
        let mut decoder = Decoder::new(Limits::default());
        let outcome = match decoder.decode(self.out.as_slice()) {
            Ok(Some((reply, _))) => Ok(make(lua, bytes, || {
                convert::to_lua(lua, &reply, self.progress.protocol())
            })?),
            Ok(None) | Err(_) => Err("ERR the reply to the command is too large for a script"),
        };
        self.out.truncate(0);
        Ok(outcome)
    }

    fn may_call(&mut self, asked: Asked<'_>) -> Answer {
        let unknown = "ERR Invalid command passed to redis.acl_check_cmd()";
        let found = asked.and_then(|words| Ok((find_of(words).ok_or(unknown)?, words)));
        match found {
            Ok((known, words)) => Answer::Flag(self.call.may_call(known, words)),
            Err(text) => self.refuse(text.into(), false),
        }
    }

    fn finish(&mut self, result: Plain<'_>) {
        if !self.progress.is_over() {
            result.write(self.call.out, self.protocol, self.progress.protocol());
        }
    }

    fn serve_others(&mut self) -> bool {
        let (name, given) = self.subject;
        let shared = &mut *self.call.shared;
        if shared.long_script.is_none() {
            // The changes of a transaction are in the log as a whole.
            let can_commit = !self.is_nested && !self.progress.has_written();
            let comes_first = can_commit && shared.commit() || self.comes_first;
            let has_run = Duration::from_millis(shared.settings.busy_reply_threshold);
            let words = (given.words, given.is_function);
            let script = LongScript::new(name, words, has_run, comes_first);
            shared.long_script = Some(Box::new(script));
        }
        let Some(script) = &mut shared.long_script else {
            return true;
        };
        script.has_written = self.progress.has_written();
        self.call.others.serve(shared);
        let is_killed = |script: &LongScript| script.is_killed;
        !shared.shutdown && !shared.long_script.as_deref().is_some_and(is_killed)
    }
}

/// The answer to a script with a reply that is one value.
fn plain(reply: &[u8]) -> Answer {
    let len = reply.len();
    match reply {
        b"$-1\r\n" => Answer::Flag(false),
        b"_\r\n" => Answer::Nil,
        [b'+', text @ .., b'\r', b'\n'] => Answer::Status(text),
        [b'-', text @ .., b'\r', b'\n'] => Answer::Error {
            text,
            is_counted: true,
        },
        [b'$', ..] => match head::bulk(reply) {
            Some(place) if place.end + 2 == len => Answer::Text(&raw const reply[place]),
            _ => Answer::Kept,
        },
        [b':', ..] => match head::length(reply, b':') {
            Some((number, bytes)) if bytes == len => Answer::Integer(number as i64),
            _ => Answer::Kept,
        },
        _ => Answer::Kept,
    }
}

/// Whether BLOCK is among the options of XREAD or XREADGROUP.
fn waits_for_streams(known: &Known, words: &[&[u8]]) -> bool {
    let options = words.iter().take_while(|word| !is(word, "STREAMS"));
    known.keys == Keys::Streams && options.into_iter().any(|word| is(word, "BLOCK"))
}
