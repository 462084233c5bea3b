//! Scripts in Lua 5.1: EVAL and SCRIPT. A script is one change in the log, like a transaction.

mod convert;
mod failure;
mod interpreter;
mod libraries;
mod nested;
mod progress;

use loadline_resp::Protocol;

use super::numbers::integer;
use super::refusal::{Refusal, no_such_form};
use super::{Access, Call, Keys, Known, Words, find, is, other, sub};
pub(crate) use interpreter::Interpreter;
use interpreter::Script;
use nested::Nested;
use progress::Flags;

pub(super) const TABLE: &[Known] = &[
    eval("EVAL", Access::Write, |call, words| {
        eval_text(call, words, false)
    }),
    eval("EVAL_RO", Access::Read, |call, words| {
        eval_text(call, words, true)
    }),
    eval("EVALSHA", Access::Write, |call, words| {
        eval_digest(call, words, false)
    }),
    eval("EVALSHA_RO", Access::Read, |call, words| {
        eval_digest(call, words, true)
    }),
    other("SCRIPT", -2, script).with(&[
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

const fn eval(name: &'static str, access: Access, handler: super::table::Handler) -> Known {
    Known {
        name,
        arity: -3,
        access,
        keys: Keys::CountedOrNone(2),
        subcommands: &[],
        handler,
    }
}

/// Digits of a SHA-1.
const DIGEST_DIGITS: usize = 40;
const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

/// Commands that scripts cannot call.
const REFUSED: [&str; 38] = [
    "ACL",
    "AUTH",
    "BGREWRITEAOF",
    "BGSAVE",
    "BLMOVE",
    "BLMPOP",
    "BLPOP",
    "BRPOP",
    "BRPOPLPUSH",
    "BZMPOP",
    "BZPOPMAX",
    "BZPOPMIN",
    "CLIENT",
    "CONFIG",
    "DEBUG",
    "DISCARD",
    "EVAL",
    "EVALSHA",
    "EVALSHA_RO",
    "EVAL_RO",
    "EXEC",
    "FUNCTION",
    "HELLO",
    "LATENCY",
    "MONITOR",
    "MULTI",
    "PSUBSCRIBE",
    "PUNSUBSCRIBE",
    "QUIT",
    "RESET",
    "SAVE",
    "SCRIPT",
    "SHUTDOWN",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "UNSUBSCRIBE",
    "UNWATCH",
];

/// Whether a script can call a command.
fn is_for_scripts(name: &str) -> bool {
    name != "WAIT" && name != "WATCH" && !REFUSED.contains(&name)
}

fn eval_text(call: &mut Call<'_>, words: Words<'_>, is_read_only: bool) -> Result<(), Refusal> {
    let (keys, arguments) = arguments(words)?;
    let mut interpreter = take_interpreter(call)?;
    let outcome = interpreter
        .compile(words[1])
        .and_then(|script| run(call, &interpreter, &script, is_read_only, keys, arguments));
    call.shared.interpreter = Some(interpreter);
    outcome
}

fn eval_digest(call: &mut Call<'_>, words: Words<'_>, is_read_only: bool) -> Result<(), Refusal> {
    if words[1].len() != DIGEST_DIGITS {
        return Err(NO_SCRIPT.into());
    }
    let (keys, arguments) = arguments(words)?;
    let interpreter = take_interpreter(call)?;
    let script = interpreter.known(words[1]);
    let outcome = script.ok_or(NO_SCRIPT.into());
    let outcome =
        outcome.and_then(|script| run(call, &interpreter, &script, is_read_only, keys, arguments));
    call.shared.interpreter = Some(interpreter);
    outcome
}

/// The keys and the other arguments behind their number.
fn arguments<'w>(words: &'w [&'w [u8]]) -> Result<(Words<'w>, Words<'w>), Refusal> {
    let number = integer(words[2])?;
    let number = usize::try_from(number).map_err(|_| "ERR Number of keys can't be negative")?;
    if number > words.len() - 3 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    Ok(words[3..].split_at(number))
}

/// The interpreter of the server, which has to be put back. It is made for the first script.
fn take_interpreter(call: &mut Call<'_>) -> Result<Box<Interpreter>, Refusal> {
    if let Some(interpreter) = call.shared.interpreter.take() {
        return Ok(interpreter);
    }
    let report = call.shared.warnings.report;
    match Interpreter::new(report, |name| find(name).is_some()) {
        Ok(interpreter) => Ok(Box::new(interpreter)),
        Err(error) => Err(format!("ERR Lua cannot be started: {error}").into()),
    }
}

fn run(
    call: &mut Call<'_>,
    interpreter: &Interpreter,
    script: &Script,
    is_read_only: bool,
    keys: Words<'_>,
    arguments: Words<'_>,
) -> Result<(), Refusal> {
    if is_read_only && script.flags.is_declared && !script.flags.no_writes {
        return Err("ERR Can not execute a script with write flag using *_ro command.".into());
    }
    let flags = Flags {
        no_writes: script.flags.no_writes || is_read_only,
        ..script.flags
    };
    call.may_run(flags)?;
    let (database, protocol) = (call.session.database, call.session.protocol);
    let may_not_block = std::mem::replace(&mut call.session.may_not_block, true);
    call.session.protocol = Protocol::Resp2;
    let limit = call.shared.settings.busy_reply_threshold;
    let mut nested = Nested::new(call, flags, interpreter.progress());
    let outcome = interpreter.run(script, keys, arguments, limit, &mut |lua, words| {
        nested.execute(lua, words)
    });
    call.session.database = database;
    call.session.protocol = protocol;
    call.session.may_not_block = may_not_block;
    match outcome {
        Ok(value) => {
            let of_script = interpreter.progress().protocol();
            convert::reply(&value, call.out, protocol, of_script).map_err(Refusal::from)
        }
        Err(refusal) => Err(refusal),
    }
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
            return Err(
                "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"
                    .into(),
            );
        }
        Ok(())
    }
}

fn script(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match *words {
        [_, word, text] if is(word, "LOAD") => {
            let mut interpreter = take_interpreter(call)?;
            let compiled = interpreter.compile(text);
            call.shared.interpreter = Some(interpreter);
            let digest = compiled?.digest;
            call.reply().bulk(digest.as_bytes());
        }
        [_, word, ref digests @ ..] if is(word, "EXISTS") => {
            let interpreter = call.shared.interpreter.take();
            let known = |digest: &&[u8]| {
                let interpreter = interpreter.as_ref();
                interpreter.is_some_and(|interpreter| interpreter.known(digest).is_some())
            };
            let mut reply = call.reply();
            reply.array(digests.len());
            digests.iter().for_each(|digest| reply.flag(known(digest)));
            call.shared.interpreter = interpreter;
        }
        [_, word] if is(word, "FLUSH") => flush(call),
        [_, word, mode] if is(word, "FLUSH") => {
            if !is(mode, "ASYNC") && !is(mode, "SYNC") {
                return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into());
            }
            flush(call);
        }
        // No other client is served while a script runs.
        [_, word] if is(word, "KILL") => {
            return Err("NOTBUSY No scripts in execution right now.".into());
        }
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

/// Forgets all scripts, and whatever they left in the interpreter.
fn flush(call: &mut Call<'_>) {
    call.shared.interpreter = None;
    call.reply().ok();
}
