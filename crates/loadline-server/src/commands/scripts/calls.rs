//! `redis.call`, `redis.pcall` and `redis.acl_check_cmd`, written as functions in C would be.
//!
//! mlua passes every argument and every result of a function as a handle, which is a slot of a table in Lua that is taken and
//! given back. For a command of a few words that takes longer than the command. The functions here read the words in
//! place, on the stack of Lua, and push plain replies and errors themselves. Replies with several values they leave to a
//! function of mlua, their upvalue.
//!
//! An error of Lua jumps to the next protected call, over all frames in between. The rules that keep this sound:
//!
//! - A function that can raise an error is called only where no frame up to the protected call has a value with a destructor:
//!   in [`finished`], what calls it and what it calls. An [`Answer`] is plain data.
//! - Values with destructors live in [`answered`]. It calls only functions that raise no error (`lua_gettop`, `lua_type`,
//!   `lua_tolstring` of a string, `lua_tonumber` of a number), and catches panics, which must not pass through the frames of
//!   Lua. The function of mlua continues a panic, as it does with those of all other functions.
//! - The words are strings on the stack, where they stay until the function returns, and Lua moves no string. Commands do not
//!   run Lua.
//! - The bytes of an answer are in the output of the commands, which only the next command changes. Lua can collect garbage before it
//!   copies them, but that executes no command: tables have no finalizers in Lua 5.1, and scripts have no `newproxy`.
//! - Lua has `LUA_MINSTACK` (20) free places on the stack for a function that it calls. Three are used.
#![expect(
    unsafe_code,
    reason = "mlua offers no way to read arguments in place, and its handles take most of the time of a short command"
)]

use std::any::Any;
use std::cell::{Cell, LazyCell};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use mlua::{Function, Lua, MultiValue, Table, Value, ffi, lua_CFunction, lua_State};
use scoped_tls_hkt::scoped_thread_local;

use super::convert::{self, Plain};
use super::failure;
use super::libraries::number::shown;
use crate::commands::Words;

/// Up to this number of words, a call allocates no list of them.
const FEW_WORDS: usize = 16;

/// The words of a command, or the error for arguments that are none.
pub(super) type Asked<'w> = Result<Words<'w>, &'static str>;

/// The commands of the server, as the running script can call them.
pub(super) trait Commands {
    /// Executes a command. The bytes of the answer remain until the next one.
    fn execute(&mut self, asked: Asked<'_>) -> Answer;

    /// The value that the last [`Answer::Kept`] stands for, or the text of an error that the statistics do not have.
    ///
    /// # Errors
    /// If Lua has no memory for it.
    fn kept(&mut self, lua: &Lua) -> mlua::Result<Result<Value, &'static str>>;

    /// Whether the rights of the user permit a command; an error is kept.
    fn may_call(&mut self, asked: Asked<'_>) -> Answer;

    /// Writes the result of the script, unless it was ended.
    fn finish(&mut self, result: Plain<'_>);

    /// Serves other clients while the script runs for long. Returns whether it goes on.
    fn serve_others(&mut self) -> bool;
}

/// An answer to a script. It has no destructor, and its bytes belong to the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Text(*const [u8]),
    /// A status, which becomes a table with its text at `ok`.
    Status(*const [u8]),
    Integer(i64),
    Flag(bool),
    Nil,
    /// An error, which becomes a table with its text at `err`.
    Error {
        text: *const [u8],
        /// Whether the statistics have it already.
        is_counted: bool,
    },
    /// Something else, which the commands keep.
    Kept,
}

scoped_thread_local! {
    /// The commands of the script that this thread runs. The functions of Lua that need them are made once, so they cannot borrow them.
    static mut COMMANDS: for<'a> &'a mut (dyn Commands + 'a)
}

thread_local! {
    /// A panic in a command, until the function of mlua continues it.
    static PANIC: Cell<Option<Box<dyn Any + Send>>> = const { Cell::new(None) };
}

/// Runs `script`, which can call `commands`.
pub(super) fn set_commands<R>(commands: &mut dyn Commands, script: impl FnOnce() -> R) -> R {
    COMMANDS.set(commands, script)
}

/// Passes the commands of the running script to a closure. There are none while a library of functions is loaded.
///
/// # Errors
/// Without commands.
pub(super) fn with_commands<R>(access: impl FnOnce(&mut dyn Commands) -> R) -> mlua::Result<R> {
    // A command cannot call a script, so no two closures have the commands at once.
    if !COMMANDS.is_set() {
        return Err(mlua::Error::RecursiveMutCallback);
    }
    Ok(COMMANDS.with(|commands| access(commands)))
}

/// Adds the functions that execute commands, and the one that checks rights.
///
/// # Errors
/// If Lua has no memory.
pub(super) fn add_to(lua: &Lua, redis: &Table) -> mlua::Result<()> {
    let kept = |lua: &Lua| {
        if let Some(panic) = PANIC.take() {
            resume_unwind(panic);
        }
        with_commands(|commands| commands.kept(lua))?
    };
    // The second result is whether the first one is an error.
    let kept = lua.create_function(move |lua, _: MultiValue| match kept(lua)? {
        Ok(reply) => Ok((reply, false)),
        Err(text) => Ok((convert::error(lua, text.as_bytes())?, true)),
    })?;
    redis.raw_set("call", function(lua, call, &kept)?)?;
    redis.raw_set("pcall", function(lua, pcall, &kept)?)?;
    redis.raw_set("acl_check_cmd", function(lua, check, &kept)?)
}

/// A function of Lua whose upvalue makes what the commands have kept.
fn function(lua: &Lua, function: lua_CFunction, rest: &Function) -> mlua::Result<Function> {
    // SAFETY: the closure runs in a protected call, owns nothing, and replaces the one value on the stack by a function.
    unsafe { lua.exec_raw(rest, |state| ffi::lua_pushcclosure(state, function, 1)) }
}

/// Executes the command in the arguments, and raises its error.
unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
    // SAFETY: Lua passes the state in which it calls this function.
    unsafe {
        let answer = answered(state, |commands, asked| commands.execute(asked));
        finished(state, answer, true)
    }
}

/// Executes the command in the arguments. Its error is a result.
unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: Lua passes the state in which it calls this function.
    unsafe {
        let answer = answered(state, |commands, asked| commands.execute(asked));
        finished(state, answer, false)
    }
}

/// Checks the rights to the command in the arguments.
unsafe extern "C-unwind" fn check(state: *mut lua_State) -> c_int {
    // SAFETY: Lua passes the state in which it calls this function.
    unsafe {
        let answer = answered(state, |commands, asked| commands.may_call(asked));
        finished(state, answer, true)
    }
}

/// Pushes the result of the running function, and returns that there is one; or raises an error, if it `raises` them.
///
/// # Safety
/// The running function has an upvalue that is a function, no frame up to it has a value with a destructor, and `answer` is of the last
/// command.
unsafe fn finished(state: *mut lua_State, answer: Answer, raises: bool) -> c_int {
    let mut is_error = false;
    // SAFETY: see the head of this file; no frame from here to Lua has a value with a destructor.
    unsafe {
        match answer {
            Answer::Text(bytes) => push(state, bytes),
            Answer::Status(bytes) => {
                ffi::lua_createtable(state, 0, 1);
                push(state, b"ok");
                push(state, bytes);
                ffi::lua_rawset(state, -3);
            }
            Answer::Integer(number) => ffi::lua_pushnumber(state, number as f64),
            Answer::Flag(flag) => ffi::lua_pushboolean(state, flag.into()),
            Answer::Nil => ffi::lua_pushnil(state),
            Answer::Error { text, is_counted } => {
                is_error = true;
                ffi::lua_createtable(state, 0, 1);
                push(state, b"err");
                push(state, text);
                ffi::lua_rawset(state, -3);
                if is_counted {
                    push(state, failure::COUNTED.as_bytes());
                    ffi::lua_pushboolean(state, 1);
                    ffi::lua_rawset(state, -3);
                }
            }
            Answer::Kept => {
                ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
                ffi::lua_call(state, 0, 2);
                is_error = ffi::lua_toboolean(state, -1) != 0;
                ffi::lua_settop(state, -2);
            }
        }
        if is_error && raises {
            // mlua would make an object with a traceback of it, which takes longer than the command.
            ffi::lua_error(state);
        }
    }
    1
}

/// Pushes a string.
///
/// # Safety
/// No frame up to the next protected call has a value with a destructor, and the bytes can be read.
pub(super) unsafe fn push(state: *mut lua_State, bytes: *const [u8]) {
    // SAFETY: Lua copies the bytes.
    unsafe { ffi::lua_pushlstring_(state, bytes.cast(), bytes.len()) }
}

/// Asks the commands about the arguments of the running function. Raises no error of Lua, and lets no panic through.
///
/// # Safety
/// `state` is that of the running function.
unsafe fn answered(
    state: *mut lua_State,
    ask: impl FnOnce(&mut dyn Commands, Asked<'_>) -> Answer,
) -> Answer {
    let asked = || {
        let ask = |asked: Asked<'_>| with_commands(|commands| ask(commands, asked));
        // SAFETY: it is the state of the running function.
        unsafe { with_words(state, ask) }
    };
    match catch_unwind(AssertUnwindSafe(asked)) {
        // Without commands, the function of mlua fails as well.
        Ok(answer) => answer.unwrap_or(Answer::Kept),
        Err(panic) => {
            PANIC.set(Some(panic));
            Answer::Kept
        }
    }
}

/// Passes the arguments of the running function to a closure.
///
/// # Safety
/// `state` is that of the running function.
unsafe fn with_words<R>(state: *mut lua_State, act: impl FnOnce(Asked<'_>) -> R) -> R {
    // SAFETY: `lua_gettop` reads the number of arguments.
    let count = unsafe { ffi::lua_gettop(state) };
    if count == 0 {
        return act(Err(
            "ERR Please specify at least one argument for this redis lib call",
        ));
    }
    // SAFETY: it reads the type of an argument that exists.
    let kind = |place: c_int| unsafe { ffi::lua_type(state, place) };
    // SAFETY: it reads a number.
    let number = |place| shown(unsafe { ffi::lua_tonumber(state, place) }, 17);
    let is_number = |place: &c_int| kind(*place) == ffi::LUA_TNUMBER;
    // Most commands have none.
    let numbers: LazyCell<Vec<String>, _> =
        LazyCell::new(|| (1..=count).filter(is_number).map(number).collect());
    let mut shown_numbers = 0;
    let mut few: [&[u8]; FEW_WORDS] = [&[]; FEW_WORDS];
    let mut many;
    let words = match few.get_mut(..count as usize) {
        Some(words) => words,
        None => {
            many = vec![&[][..]; count as usize];
            &mut many[..]
        }
    };
    for (place, word) in (1..).zip(&mut *words) {
        *word = match kind(place) {
            // SAFETY: a string is not converted, so nothing is allocated, and it lives as long as the call.
            ffi::LUA_TSTRING => unsafe {
                let mut len = 0;
                let bytes = ffi::lua_tolstring(state, place, &raw mut len);
                std::slice::from_raw_parts(bytes.cast(), len)
            },
            ffi::LUA_TNUMBER => {
                shown_numbers += 1;
                numbers[shown_numbers - 1].as_bytes()
            }
            _ => {
                return act(Err(
                    "ERR Lua redis lib command arguments must be strings or integers",
                ));
            }
        };
    }
    act(Ok(words))
}
