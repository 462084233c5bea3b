//! Errors of scripts: how functions of the server raise them, how scripts see them, and the reply in the end.

use std::fmt;

use mlua::{Lua, Table, Value};

use crate::commands::Refusal;

/// The name of the functions that are not of scripts, in errors.
pub(super) const SERVER: &str = "=server";

/// An error that a function of the server raises.
#[derive(Debug)]
struct Failure {
    text: Vec<u8>,
    /// Whether the text is a reply, with a code in front.
    is_reply: bool,
}

/// The field of errors that the statistics have already, as Redis calls it.
pub(super) const COUNTED: &str = "ignore_error_stats_update";

/// The reply of a script that failed.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) reply: Refusal,
    /// Whether the statistics have it already, since it is that of a command which the script called.
    pub(super) is_counted: bool,
}

impl From<Refusal> for Failed {
    fn from(reply: Refusal) -> Self {
        Self {
            reply,
            is_counted: false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text))
    }
}

impl std::error::Error for Failure {}

/// An error with the text of a reply.
pub(super) fn reply(text: impl Into<Vec<u8>>) -> mlua::Error {
    mlua::Error::external(Failure {
        text: text.into(),
        is_reply: true,
    })
}

/// An error of the function of a library, with the place of its call, as functions in C raise it.
pub(super) fn of_library(lua: &Lua, text: &str) -> mlua::Error {
    let place = lua.inspect_stack(1, |frame| {
        let source = frame.source();
        let name = source.short_src.map(std::borrow::Cow::into_owned);
        name.zip(frame.current_line())
    });
    let place = place
        .flatten()
        .map(|(name, line)| format!("{name}:{line}: "));
    mlua::Error::external(Failure {
        text: (place.unwrap_or_default() + text).into_bytes(),
        is_reply: false,
    })
}

/// Adds the functions by which the prelude handles errors.
///
/// # Errors
/// If Lua has no memory.
pub(super) fn register(lua: &Lua, server: &Table) -> mlua::Result<()> {
    server.set("caught", lua.create_function(caught)?)?;
    server.set("failure", lua.create_function(described)?)
}

/// An error as scripts see it that catch it: a table for the text of a reply, and else a string.
fn caught(lua: &Lua, error: Value) -> mlua::Result<Value> {
    let Value::Error(raised) = &error else {
        return Ok(error);
    };
    let (text, is_reply) = text_of(raised);
    let text = lua.create_string(text)?;
    if !is_reply {
        return Ok(Value::String(text));
    }
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("err", text)?;
    Ok(Value::Table(table))
}

fn text_of(error: &mlua::Error) -> (Vec<u8>, bool) {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return (failure.text.clone(), failure.is_reply);
    }
    let text = error.to_string();
    let first = text.lines().next().unwrap_or("unknown error");
    (first.as_bytes().to_vec(), false)
}

/// An error as a table with its text, and where it happened. It is called by the handler of errors.
fn described(lua: &Lua, error: Value) -> mlua::Result<Table> {
    let table = if let Value::Table(table) = error {
        table
    } else {
        let (text, is_reply) = match &error {
            Value::Error(raised) => text_of(raised),
            Value::String(text) => (text.as_bytes().to_vec(), false),
            other => (other.to_string()?.into_bytes(), false),
        };
        let text = if is_reply {
            text
        } else {
            [b"ERR ", &text[..]].concat()
        };
        let table = lua.create_table_with_capacity(0, 4)?;
        table.raw_set("err", lua.create_string(text)?)?;
        table
    };
    if let Some((source, line)) = whereabouts(lua, 2) {
        table.raw_set("source", source)?;
        table.raw_set("line", line)?;
    }
    Ok(table)
}

/// Whether the statistics have an error already that was raised, or that is a table.
pub(super) fn is_counted(error: &Value) -> bool {
    error
        .as_table()
        .is_some_and(|table| table.raw_get(COUNTED).unwrap_or(false))
}

/// The source and the line of the innermost function of a script.
pub(super) fn whereabouts(lua: &Lua, first: usize) -> Option<(String, usize)> {
    // In front of it are this function, the handler of errors, and what raised the error if that was no script.
    for level in first..first + 4 {
        let found = lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let is_script = source.what != "C";
            let name = source.source.map(std::borrow::Cow::into_owned);
            name.filter(|name| is_script && name != SERVER)
                .zip(frame.current_line())
        })?;
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The text of an error that the handler of errors has caught.
pub(super) fn caught_text(error: &Value) -> Vec<u8> {
    match error {
        Value::Table(table) => match table.raw_get::<Value>("err") {
            Ok(Value::String(text)) => text.as_bytes().to_vec(),
            _ => b"ERR unknown error".to_vec(),
        },
        Value::String(text) => [b"ERR ", &*text.as_bytes()].concat(),
        Value::Error(error) => [b"ERR ", &text_of(error).0[..]].concat(),
        _ => b"ERR unknown error".to_vec(),
    }
}

/// The reply for an error that Lua itself raised.
pub(super) fn fatal(digest: &str, error: &mlua::Error) -> Refusal {
    let (text, _) = text_of(error);
    let digest = digest.as_bytes();
    [b"ERR Error running script ", digest, b": ", &text[..]].into()
}

/// The reply of a script that was ended.
pub(super) fn ended(digest: &str, place: Option<(String, usize)>) -> Refusal {
    let place = place.map_or_else(String::new, |(source, line)| {
        format!(" script: {digest}, on {source}:{line}.")
    });
    format!("ERR Script killed by user with SCRIPT KILL...{place}").into()
}

/// The reply for an error of a script: a table made by the handler of errors.
pub(super) fn failed(digest: &str, error: &Value) -> Failed {
    Failed {
        reply: refusal(digest, error),
        is_counted: is_counted(error),
    }
}

fn refusal(digest: &str, error: &Value) -> Refusal {
    let table = match error {
        Value::Table(table) => table,
        // Without memory, the handler is not called.
        Value::String(text) => return [b"ERR ", &*text.as_bytes()].into(),
        Value::Error(error) => return fatal(digest, error),
        _ => return [b"ERR Error running script ", digest.as_bytes()].into(),
    };
    let text = |name: &str| match table.raw_get::<Value>(name) {
        Ok(Value::String(text)) => Some(text.as_bytes().to_vec()),
        Ok(Value::Integer(number)) => Some(number.to_string().into_bytes()),
        _ => None,
    };
    let mut shown = caught_text(error);
    if let (Some(source), Some(line)) = (text("source"), text("line")) {
        let parts = [
            b" script: ",
            digest.as_bytes(),
            b", on ",
            &source,
            b":",
            &line,
            b".",
        ];
        parts.iter().for_each(|part| shown.extend_from_slice(part));
    }
    Refusal(shown.into())
}
