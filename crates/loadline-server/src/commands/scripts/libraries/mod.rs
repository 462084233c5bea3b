//! Libraries of scripts: `redis` (without what executes commands), `bit`, `cjson`, `cmsgpack` and `struct`.

mod bit;
mod cjson;
mod cmsgpack;
pub(super) mod number;
pub(super) mod random;
mod redis;
pub(super) mod register;
mod structs;

use std::fmt;
use std::sync::Arc;

use mlua::{IntoLuaMulti, Lua, MultiValue, Table, Value};

use super::progress::Progress;
use super::{convert, failure};

/// A failed function of a library.
#[derive(Debug)]
enum Fault {
    /// An error for the script, which gets the place of the call in front.
    Text(String),
    /// An error with the text of a reply.
    Reply(&'static str),
    /// Lua itself has failed, as without memory.
    Lua(mlua::Error),
}

impl From<mlua::Error> for Fault {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

impl From<&str> for Fault {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Fault {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// The results of a function.
enum Results {
    One(Value),
    Several(Vec<Value>),
}

impl From<Value> for Results {
    fn from(value: Value) -> Self {
        Self::One(value)
    }
}

/// All libraries by their names. `report` gets what scripts log.
///
/// # Errors
/// If Lua has no memory.
pub(super) fn all(lua: &Lua, report: fn(&str), progress: &Arc<Progress>) -> mlua::Result<Table> {
    let all = lua.create_table()?;
    all.set("redis", redis::library(lua, report, progress)?)?;
    all.set("bit", bit::library(lua)?)?;
    all.set("cjson", cjson::library(lua)?)?;
    all.set("cmsgpack", cmsgpack::library(lua)?)?;
    all.set("struct", structs::library(lua)?)?;
    Ok(all)
}

/// The library `redis` as libraries of functions see it while they are loaded.
///
/// # Errors
/// If Lua has no memory.
pub(super) fn loading(
    lua: &Lua,
    report: fn(&str),
    registry: &register::Registry,
) -> mlua::Result<Table> {
    let library = redis::loading(lua, report)?;
    register::add_to(lua, &library, registry)?;
    Ok(library)
}

/// Adds a function to a library.
fn add<R: Into<Results>>(
    lua: &Lua,
    library: &Table,
    name: &'static str,
    function: impl Fn(&Lua, &Arguments) -> Result<R, Fault> + Send + 'static,
) -> mlua::Result<()> {
    let raising = lua.create_function(move |lua, values: MultiValue| {
        match function(lua, &Arguments { name, values }).map(Into::into) {
            Ok(Results::One(value)) => value.into_lua_multi(lua),
            Ok(Results::Several(values)) => Ok(MultiValue::from_vec(values)),
            Err(Fault::Text(text)) => Err(failure::of_library(lua, &text)),
            Err(Fault::Reply(text)) => Err(failure::reply(text)),
            Err(Fault::Lua(error)) => Err(error),
        }
    })?;
    library.set(name, raising)
}

/// The arguments of a call of a function.
struct Arguments {
    name: &'static str,
    values: MultiValue,
}

impl Arguments {
    fn len(&self) -> usize {
        self.values.len()
    }

    /// The argument at `place`, counted from 1; nil without one.
    fn value(&self, place: usize) -> Value {
        self.values.get(place - 1).cloned().unwrap_or(Value::Nil)
    }

    fn wrong(&self, place: usize, why: impl fmt::Display) -> Fault {
        Fault::Text(format!("bad argument #{place} to '{}' ({why})", self.name))
    }

    /// The type of the argument at `place`, as errors name it.
    fn found(&self, place: usize) -> &'static str {
        match self.values.get(place - 1) {
            None => "no value",
            Some(Value::Integer(_)) => "number",
            Some(value) => value.type_name(),
        }
    }

    fn number(&self, lua: &Lua, place: usize) -> Result<f64, Fault> {
        let (value, found) = (self.value(place), self.found(place));
        let number = lua.coerce_number(value)?;
        number.ok_or_else(|| self.wrong(place, format_args!("number expected, got {found}")))
    }

    fn optional_number(&self, lua: &Lua, place: usize) -> Result<Option<f64>, Fault> {
        if self.value(place).is_nil() {
            return Ok(None);
        }
        self.number(lua, place).map(Some)
    }

    fn text(&self, lua: &Lua, place: usize) -> Result<Vec<u8>, Fault> {
        let (value, found) = (self.value(place), self.found(place));
        let text = match value {
            Value::Integer(_) | Value::Number(_) | Value::String(_) => lua.coerce_string(value)?,
            _ => None,
        };
        let text = text.map(|text| text.as_bytes().to_vec());
        text.ok_or_else(|| self.wrong(place, format_args!("string expected, got {found}")))
    }
}
