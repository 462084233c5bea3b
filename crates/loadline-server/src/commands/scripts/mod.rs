//! Scripts in Lua 5.1: EVAL and SCRIPT. A script is one change in the log, like a transaction.

mod calls;
mod convert;
mod failure;
pub(super) mod functions;
mod interpreter;
mod libraries;
mod library;
mod long;
mod nested;
mod progress;
mod runner;

use std::sync::Arc;

use loadline_resp::{Protocol, encode};

use super::numbers::integer;
use super::refusal::{Refusal, no_such_form};
use super::{Call, Keys, Listed, Words, is, listed, sub};
use crate::state::Shared;
pub(crate) use interpreter::Interpreter;
use interpreter::{DIGEST_DIGITS, Script};
pub(crate) use library::Libraries;
pub use library::library_name;
use mlua::Function;
use nested::Nested;
use progress::Flags;
use runner::Given;

/// The keys of the commands that run a script.
const EVALUATED: Keys = Keys::CountedOrNone(2);

pub(super) const TABLE: &[Listed] = &[
    listed("EVAL", -3, EVALUATED, |call, words| {
        eval_text(call, words, false)
    }),
    listed("EVAL_RO", -3, EVALUATED, |call, words| {
        eval_text(call, words, true)
    }),
    listed("EVALSHA", -3, EVALUATED, |call, words| {
        eval_digest(call, words, false)
    }),
    listed("EVALSHA_RO", -3, EVALUATED, |call, words| {
        eval_digest(call, words, true)
    }),
    listed("SCRIPT", -2, Keys::None, script).with(&[
        sub(
            "DEBUG",
            3,
            "(YES|SYNC|NO)\nSet the debug mode for subsequent scripts executed.",
        ),
        sub(
            "EXISTS",
            -3,
            "<sha1> [<sha1> ...]\nReturn information about the existence of the scripts in the script cache.",
        ),
        sub(
            "FLUSH",
            -2,
            "[ASYNC|SYNC]\nFlush the Lua scripts cache. Very dangerous on replicas.\nWhen called without the optional mode argument, the behavior is determined by the\nlazyfree-lazy-user-flush configuration directive. Valid modes are:\n* ASYNC: Asynchronously flush the scripts cache.\n* SYNC: Synchronously flush the scripts cache.",
        ),
        sub("KILL", 2, "\nKill the currently executing Lua script."),
        sub(
            "LOAD",
            3,
            "<script>\nLoad a script into the scripts cache without executing it.",
        ),
    ]),
];

const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

fn eval_text(call: &mut Call<'_>, words: Words<'_>, is_read_only: bool) -> Result<(), Refusal> {
    let given = arguments(words)?;
    let script = compile(call, words[1])?;
    run_script(call, &script, is_read_only, given)
}

fn eval_digest(call: &mut Call<'_>, words: Words<'_>, is_read_only: bool) -> Result<(), Refusal> {
    if words[1].len() != DIGEST_DIGITS {
        return Err(NO_SCRIPT.into());
    }
    let given = arguments(words)?;
    let interpreter = call.shared.interpreter.as_ref();
    let script = interpreter.and_then(|interpreter| interpreter.known(words[1]));
    let script = script.ok_or(NO_SCRIPT)?;
    run_script(call, &script, is_read_only, given)
}

/// The keys and the other arguments behind their number.
fn arguments<'w>(words: Words<'w>) -> Result<Given<'w>, Refusal> {
    let number = integer(words[2])?;
    let number = usize::try_from(number).map_err(|_| "ERR Number of keys can't be negative")?;
    if number > words.len() - 3 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let (keys, arguments) = words[3..].split_at(number);
    Ok(Given {
        words,
        keys,
        arguments,
        is_function: false,
    })
}

/// Compiles a script in the interpreter of the server, which is made for the first one.
fn compile(call: &mut Call<'_>, text: &[u8]) -> Result<Arc<Script>, Refusal> {
    let interpreter = match &mut call.shared.interpreter {
        Some(interpreter) => interpreter,
        none => {
            let made = Interpreter::new(call.shared.warnings.report);
            let made = made.map_err(|error| format!("ERR Lua cannot be started: {error}"))?;
            none.insert(Arc::new(made))
        }
    };
    let interpreter = Arc::get_mut(interpreter).expect("no script runs");
    interpreter.compile(text)
}

/// A script or a function to run.
#[derive(Debug, Clone, Copy)]
struct Subject<'s> {
    /// Its name in errors.
    name: &'s str,
    flags: Flags,
    function: &'s Function,
}

fn run_script(
    call: &mut Call<'_>,
    script: &Script,
    is_read_only: bool,
    given: Given<'_>,
) -> Result<(), Refusal> {
    let interpreter = call.shared.interpreter.clone();
    let interpreter = interpreter.expect("the script was compiled");
    let subject = Subject {
        name: &script.digest,
        flags: script.flags,
        function: &script.function,
    };
    run(call, &interpreter, subject, is_read_only, given)
}

fn run(
    call: &mut Call<'_>,
    interpreter: &Interpreter,
    Subject {
        name,
        flags,
        function,
    }: Subject<'_>,
    is_read_only: bool,
    given: Given<'_>,
) -> Result<(), Refusal> {
    if is_read_only && flags.is_declared && !flags.no_writes {
        return Err("ERR Can not execute a script with write flag using *_ro command.".into());
    }
    let flags = Flags {
        no_writes: flags.no_writes || is_read_only,
        ..flags
    };
    call.may_run(flags)?;
    let (database, protocol) = (call.session.database, call.session.protocol);
    let may_not_block = std::mem::replace(&mut call.session.may_not_block, true);
    call.session.protocol = Protocol::Resp2;
    let limit = call.shared.settings.busy_reply_threshold;
    if call.session.is_tracking {
        let keys = given.keys.iter().map(|key| key.to_vec());
        call.shared.watched.tracking.script_keys = Some(keys.collect());
    }
    let mut nested = Nested::new(
        call,
        (name, given),
        flags,
        interpreter.progress(),
        (protocol, may_not_block),
    );
    let outcome = interpreter.run((name, function), given, limit, &mut nested);
    call.shared.long_script = None;
    call.shared.watched.tracking.script_keys = None;
    call.session.database = database;
    call.session.protocol = protocol;
    call.session.may_not_block = may_not_block;
    let value = match outcome {
        Ok(Some(value)) => value,
        Ok(None) => return Ok(()),
        Err(failed) if failed.is_counted => {
            let Refusal(text) = failed.reply;
            call.shared.stats.own_failures += 1;
            encode::error(call.out, &text);
            return Ok(());
        }
        Err(failed) => return Err(failed.reply),
    };
    let of_script = interpreter.progress().protocol();
    let written = (&mut *call.out, &mut call.shared.stats);
    let write = |value| convert::reply(value, written, protocol, of_script);
    let written = interpreter.read(value, write);
    Ok(written.map_err(|error| failure::fatal(name, &error))??)
}

impl Call<'_> {
    /// Checks the flags that a script declares in its first line.
    fn may_run(&mut self, flags: Flags) -> Result<(), Refusal> {
        if !flags.is_declared || flags.no_writes {
            return Ok(());
        }
        if let Some(refusal) = self.shared.unwritable(true) {
            return Err(refusal);
        }
        let is_limited = self.shared.settings.maxmemory > 0 && !flags.allow_oom;
        if is_limited && !self.shared.make_room() {
            return Err("OOM command not allowed when used memory > 'maxmemory'.".into());
        }
        Ok(())
    }
}

fn script(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match *words {
        [_, word, text] if is(word, "LOAD") => {
            let script = compile(call, text)?;
            call.reply().bulk(script.digest.as_bytes());
        }
        [_, word, ref digests @ ..] if is(word, "EXISTS") => {
            let interpreter = call.shared.interpreter.clone();
            let known = |digest: &&[u8]| {
                let interpreter = interpreter.as_ref();
                interpreter.is_some_and(|interpreter| interpreter.known(digest).is_some())
            };
            let mut reply = call.reply();
            reply.array(digests.len());
            digests.iter().for_each(|digest| reply.flag(known(digest)));
        }
        [_, word] if is(word, "FLUSH") => flush(call),
        [_, word, mode] if is(word, "FLUSH") => {
            if !is(mode, "ASYNC") && !is(mode, "SYNC") {
                return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into());
            }
            flush(call);
        }
        [_, word] if is(word, "KILL") => return long::kill(call, false),
        [_, word, mode] if is(word, "DEBUG") => {
            if is(mode, "NO") {
                call.reply().ok();
            } else if is(mode, "YES") || is(mode, "SYNC") {
                return Err("ERR this server has no debugger of scripts".into());
            } else {
                return Err("ERR Use SCRIPT DEBUG YES/SYNC/NO".into());
            }
        }
        _ => return Err(no_such_form(words)),
    }
    Ok(())
}

/// Memory and numbers of scripts and functions. What is compiled is a part of the memory of Lua.
#[derive(Debug)]
pub(super) struct Usage {
    pub(super) script_bytes: usize,
    pub(super) function_bytes: usize,
    pub(super) scripts: usize,
    pub(super) libraries: usize,
    pub(super) functions: usize,
}

impl Usage {
    pub(super) fn of(shared: &Shared) -> Self {
        let interpreter = shared.interpreter.as_ref();
        let all = shared.libraries.as_ref();
        let (libraries, functions) = all.map_or((0, 0), |all| all.counts());
        Self {
            script_bytes: interpreter.map_or(0, |interpreter| interpreter.memory_bytes()),
            function_bytes: all.map_or(0, |all| all.interpreter.memory_bytes()),
            scripts: interpreter.map_or(0, |interpreter| interpreter.scripts()),
            libraries,
            functions,
        }
    }
}

/// Forgets all scripts, and whatever they left in the interpreter.
fn flush(call: &mut Call<'_>) {
    call.shared.interpreter = None;
    call.reply().ok();
}
