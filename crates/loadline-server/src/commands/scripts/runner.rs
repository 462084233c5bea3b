//! Runs scripts and functions by the interface of Lua in C.
//!
//! mlua would pass the function, KEYS, ARGV and the result as handles, which take longer than a short script. Here, [`enter`]
//! makes KEYS and ARGV in place and calls the function, and a result that is one value is written from the stack. The methods of
//! mlua that give access to the stack (`exec_raw_lua` and those of its conversions) are not in its documentation.
//!
//! The rules at the head of `calls.rs` apply: [`enter`] and what it calls own nothing, since an error of Lua jumps over them
//! to `lua_pcall` in [`Runner::run`]. Beyond that:
//!
//! - [`Runner::run`] holds the lock of the Lua state, and what it calls outside `lua_pcall` raises no error. It has the 20 places
//!   on the stack that Lua keeps free for the program (`LUA_MINSTACK`), uses four, and leaves the stack as it was.
//! - The pointer that [`enter`] gets is to a variable of [`Runner::run`], which waits for it.
#![expect(
    unsafe_code,
    reason = "mlua passes values as handles, and these take most of the time of a short script"
)]

use std::ffi::c_int;

use mlua::{FromLua as _, Function, IntoLua as _, Lua, Table, Value, ffi, lua_State};

use super::calls::{self, Commands, push};
use super::convert::Plain;
use crate::commands::Words;

/// The words behind a script or a function, and whether it finds them in KEYS and ARGV or as its arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given<'w> {
    /// The whole command.
    pub(super) words: Words<'w>,
    pub(super) keys: Words<'w>,
    pub(super) arguments: Words<'w>,
    pub(super) is_function: bool,
}

/// The end of a script.
#[derive(Debug)]
pub(super) enum Ended {
    /// With one value, which the commands have written.
    Replied,
    /// With a value of any kind.
    Returned(Value),
    /// With an error, which the handler of errors has described.
    Failed(Value),
}

/// Runs scripts in a Lua state.
#[derive(Debug)]
pub(super) struct Runner {
    enter: Function,
    /// The handler of errors.
    handler: Function,
}

/// A run, as [`enter`] gets it. It has no destructor.
struct Run<'w> {
    given: Given<'w>,
    /// Whether the result is the text of a status.
    is_status: bool,
}

/// The values that [`enter`] has with it.
mod held {
    use mlua::ffi::lua_upvalueindex;

    /// The table of global variables.
    pub(super) const GLOBALS: i32 = lua_upvalueindex(1);
    pub(super) const KEYS: i32 = lua_upvalueindex(2);
    pub(super) const ARGV: i32 = lua_upvalueindex(3);
    pub(super) const ERR: i32 = lua_upvalueindex(4);
    pub(super) const OK: i32 = lua_upvalueindex(5);
}

impl Runner {
    /// Runs scripts with these global variables.
    ///
    /// # Errors
    /// If Lua has no memory.
    pub(super) fn new(lua: &Lua, globals: &Table, handler: Function) -> mlua::Result<Self> {
        let held = (globals, "KEYS", "ARGV", "err", "ok");
        // SAFETY: the closure runs in a protected call, owns nothing, and replaces the five values on the stack by a function.
        let enter = unsafe { lua.exec_raw(held, |state| ffi::lua_pushcclosure(state, enter, 5)) };
        Ok(Self {
            enter: enter?,
            handler,
        })
    }

    /// Runs a script or a function, which calls `commands`.
    ///
    /// # Errors
    /// If Lua cannot be used.
    pub(super) fn run(
        &self,
        lua: &Lua,
        function: &Function,
        given: Given<'_>,
        commands: &mut dyn Commands,
    ) -> mlua::Result<Ended> {
        let mut run = Run {
            given,
            is_status: false,
        };
        lua.exec_raw_lua(|raw| {
            let stack = Stack::of(raw.state());
            let Stack { state, top } = stack;
            // SAFETY: the lock of the state is held, four values fit on its stack, and functions pushed by their handles are in the
            // same Lua. The pointer is valid until the call ends.
            let status = unsafe {
                (&self.handler).push_into_stack(raw)?;
                (&self.enter).push_into_stack(raw)?;
                function.push_into_stack(raw)?;
                ffi::lua_pushlightuserdata(state, (&raw mut run).cast());
                calls::set_commands(commands, || ffi::lua_pcall(state, 2, 1, top + 1))
            };
            // SAFETY: the result is on top of the stack, where it stays until `stack` is dropped.
            unsafe {
                if status != ffi::LUA_OK {
                    return Value::from_stack(-1, raw).map(Ended::Failed);
                }
                match plain(state, run.is_status) {
                    Some(result) => {
                        commands.finish(result);
                        Ok(Ended::Replied)
                    }
                    None => Value::from_stack(-1, raw).map(Ended::Returned),
                }
            }
        })
    }
}

/// The stack of Lua, which gets its height back when this is dropped.
struct Stack {
    state: *mut lua_State,
    top: c_int,
}

impl Stack {
    fn of(state: *mut lua_State) -> Self {
        // SAFETY: mlua gave the state. It reads a number.
        let top = unsafe { ffi::lua_gettop(state) };
        Self { state, top }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: it removes values, and raises no error.
        unsafe { ffi::lua_settop(self.state, self.top) }
    }
}

/// The value on top of the stack, unless a handle is needed to read it.
///
/// # Safety
/// There is a value, and it stays there for the lifetime.
unsafe fn plain<'s>(state: *mut lua_State, is_status: bool) -> Option<Plain<'s>> {
    // SAFETY: each function reads a value of the type that was checked, and none of them allocates.
    unsafe {
        Some(match ffi::lua_type(state, -1) {
            ffi::LUA_TNIL => Plain::Nil,
            ffi::LUA_TBOOLEAN => Plain::Flag(ffi::lua_toboolean(state, -1) != 0),
            ffi::LUA_TNUMBER => Plain::Number(ffi::lua_tonumber(state, -1)),
            ffi::LUA_TSTRING => {
                let mut len = 0;
                let bytes = ffi::lua_tolstring(state, -1, &raw mut len);
                let text = std::slice::from_raw_parts(bytes.cast(), len);
                match is_status {
                    true => Plain::Status(text),
                    false => Plain::Text(text),
                }
            }
            _ => return None,
        })
    }
}

/// Calls the function that is the first argument, with the words of the [`Run`] at which the second one points.
unsafe extern "C-unwind" fn enter(state: *mut lua_State) -> c_int {
    // SAFETY: `Runner::run` passes a function and the pointer, and waits. No frame from here to Lua has a value with a destructor.
    unsafe {
        let run: *mut Run<'_> = ffi::lua_touserdata(state, 2).cast();
        let given = (*run).given;
        if given.is_function {
            ffi::lua_settop(state, 1);
            push_list(state, given.keys);
            push_list(state, given.arguments);
            ffi::lua_call(state, 2, 1);
        } else {
            for (name, words) in [(held::KEYS, given.keys), (held::ARGV, given.arguments)] {
                ffi::lua_pushvalue(state, name);
                push_list(state, words);
                ffi::lua_rawset(state, held::GLOBALS);
            }
            ffi::lua_settop(state, 1);
            ffi::lua_call(state, 0, 1);
        }
        if ffi::lua_type(state, 1) == ffi::LUA_TTABLE {
            (*run).is_status = push_status(state);
        }
    }
    1
}

/// Pushes a table with these words.
///
/// # Safety
/// No frame up to the next protected call has a value with a destructor, and two values fit on the stack.
unsafe fn push_list(state: *mut lua_State, words: Words<'_>) {
    // A request has fewer words than the largest number.
    // SAFETY: Lua copies the words into the table that was pushed.
    unsafe {
        ffi::lua_createtable(state, words.len() as c_int, 0);
        for (place, word) in (1..).zip(words) {
            push(state, *word);
            ffi::lua_rawseti_(state, -2, place);
        }
    }
}

/// Pushes the text of the status that the table on the stack is, and returns whether it is one. An error is none.
///
/// # Safety
/// There is a table on top of the stack, and three values fit on it. The running function is [`enter`].
unsafe fn push_status(state: *mut lua_State) -> bool {
    // SAFETY: it reads fields of the table, without metamethods.
    unsafe {
        ffi::lua_pushvalue(state, held::ERR);
        ffi::lua_rawget_(state, 1);
        let is_error = ffi::lua_type(state, -1) == ffi::LUA_TSTRING;
        ffi::lua_pushvalue(state, held::OK);
        ffi::lua_rawget_(state, 1);
        let is_status = !is_error && ffi::lua_type(state, -1) == ffi::LUA_TSTRING;
        ffi::lua_settop(state, if is_status { -1 } else { 1 });
        is_status
    }
}
