//! Replies as values of Lua, and back, as the documentation of Redis states the conversions.

use std::borrow::Cow;

use loadline_resp::encode::Sink as _;
use loadline_resp::{Protocol, Reply, encode};
use mlua::{Lua, Table, Value};

use super::failure;
use super::libraries::number::shown;
use crate::buffer::Output;
use crate::stats::Stats;

/// Tables within tables that a reply can have.
const MOST_LEVELS: usize = 1_000;
const TOO_DEEP: &str = "ERR reached lua stack limit";

/// A result that is one value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Plain<'v> {
    Text(&'v [u8]),
    /// The text of a table with only a status.
    Status(&'v [u8]),
    Number(f64),
    Flag(bool),
    Nil,
}

impl Plain<'_> {
    /// Writes it as a reply in the protocol of the client. Booleans are written as such if the script has chosen RESP3.
    pub(super) fn write(self, out: &mut Output, protocol: Protocol, of_script: Protocol) {
        match self {
            Self::Text(text) => encode::bulk(out, text),
            Self::Status(text) => encode::simple(out, &without_line_breaks(text)),
            Self::Number(number) => encode::integer(out, whole(number)),
            Self::Flag(flag) if of_script == Protocol::Resp3 => {
                encode::boolean(out, flag, protocol);
            }
            Self::Flag(true) => encode::integer(out, 1),
            Self::Flag(false) | Self::Nil => encode::null(out, protocol),
        }
    }
}

/// An error as scripts see it.
///
/// # Errors
/// If Lua has no memory.
pub(super) fn error(lua: &Lua, text: &[u8]) -> mlua::Result<Value> {
    named(lua, "err", text)
}

/// A table with one text, such as a status.
///
/// # Errors
/// If Lua has no memory.
pub(super) fn named(lua: &Lua, name: &str, text: &[u8]) -> mlua::Result<Value> {
    table_with(lua, name, Value::String(lua.create_string(text)?))
}

fn table_with(lua: &Lua, name: &str, value: Value) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, value)?;
    Ok(Value::Table(table))
}

/// A reply as a value of Lua.
///
/// # Errors
/// If Lua has no memory.
pub(super) fn to_lua(lua: &Lua, reply: &Reply<'_>, protocol: Protocol) -> mlua::Result<Value> {
    let to_lua = |reply: &Reply<'_>| to_lua(lua, reply, protocol);
    let string = |bytes: &[u8]| Ok(Value::String(lua.create_string(bytes)?));
    match reply {
        Reply::Simple(text) => named(lua, "ok", text),
        Reply::Error(text) | Reply::BlobError(text) => error(lua, text),
        Reply::Integer(number) => Ok(Value::Number(*number as f64)),
        Reply::Bulk(bytes) => string(bytes),
        Reply::Null if protocol == Protocol::Resp3 => Ok(Value::Nil),
        Reply::Null => Ok(Value::Boolean(false)),
        Reply::Boolean(flag) => Ok(Value::Boolean(*flag)),
        Reply::Double(number) => table_with(lua, "double", Value::Number(*number)),
        Reply::BigNumber(digits) => named(lua, "big_number", digits),
        Reply::Verbatim { format, text } => {
            let parts = lua.create_table_with_capacity(0, 2)?;
            parts.raw_set("format", string(format)?)?;
            parts.raw_set("string", string(text)?)?;
            table_with(lua, "verbatim_string", Value::Table(parts))
        }
        Reply::Array(items) | Reply::Push(items) => {
            let list = lua.create_table_with_capacity(items.len(), 0)?;
            for (place, item) in items.iter().enumerate() {
                list.raw_set(place + 1, to_lua(item)?)?;
            }
            Ok(Value::Table(list))
        }
        Reply::Map(pairs) => {
            let map = lua.create_table_with_capacity(0, pairs.len())?;
            for (key, value) in pairs {
                map.raw_set(to_lua(key)?, to_lua(value)?)?;
            }
            table_with(lua, "map", Value::Table(map))
        }
        Reply::Set(items) => {
            let set = lua.create_table_with_capacity(0, items.len())?;
            for item in items {
                set.raw_set(to_lua(item)?, true)?;
            }
            table_with(lua, "set", Value::Table(set))
        }
        Reply::Attribute(attributed) => to_lua(&attributed.reply),
    }
}

/// A number of Lua, which is shown as an integer where it is whole.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

/// Writes a value of Lua as a reply, as [`Plain::write`] does. Errors in it are counted in `stats`, but for those of commands that the script called.
///
/// # Errors
/// The reply for tables that are too deep; what was written before is taken back.
pub(super) fn reply(
    value: Value,
    (out, stats): (&mut Output, &mut Stats),
    protocol: Protocol,
    of_script: Protocol,
) -> Result<(), &'static str> {
    let begin = out.len();
    let mut writer = Writer {
        out,
        stats,
        has_new_errors: false,
        protocol,
        of_script,
    };
    let written = writer.value(value);
    writer.stats.own_failures += u64::from(writer.has_new_errors);
    if written.is_err() {
        out.truncate(begin);
    }
    written
}

struct Writer<'o> {
    out: &'o mut Output,
    stats: &'o mut Stats,
    /// Whether it has written errors that the statistics did not have; Redis takes them for one failure together.
    has_new_errors: bool,
    protocol: Protocol,
    of_script: Protocol,
}

impl Writer<'_> {
    /// Writes a value. Tables within tables are kept in a list and not on the stack of the thread, since scripts choose how deep
    /// they are.
    fn value(&mut self, value: Value) -> Result<(), &'static str> {
        let mut open: Vec<std::vec::IntoIter<Value>> = Vec::new();
        let mut next = Some(value);
        while let Some(value) = next {
            let members = self.begin(&value);
            if value.is_table() && open.len() >= MOST_LEVELS {
                return Err(TOO_DEEP);
            }
            if !members.is_empty() {
                open.push(members.into_iter());
            }
            next = open.last_mut().and_then(Iterator::next);
            while next.is_none() && open.pop().is_some() {
                next = open.last_mut().and_then(Iterator::next);
            }
        }
        Ok(())
    }

    /// Writes a value, or the header of one with members, which are returned.
    fn begin(&mut self, value: &Value) -> Vec<Value> {
        let text;
        let plain = match value {
            Value::Table(table) => return self.table(table),
            Value::String(string) => {
                text = string.as_bytes();
                Plain::Text(&text)
            }
            Value::Boolean(flag) => Plain::Flag(*flag),
            other => number(other).map_or(Plain::Nil, Plain::Number),
        };
        plain.write(self.out, self.protocol, self.of_script);
        Vec::new()
    }

    fn table(&mut self, table: &Table) -> Vec<Value> {
        let (out, protocol) = (&mut *self.out, self.protocol);
        let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
        if let Value::String(text) = field("err") {
            if failure::is_counted(&Value::Table(table.clone())) {
                self.stats.own_failures += 1;
            } else {
                self.has_new_errors = true;
                self.stats.count_error(&text.as_bytes());
            }
            encode::error(out, &text.as_bytes());
        } else if let Value::String(text) = field("ok") {
            Plain::Status(&text.as_bytes()).write(out, protocol, self.of_script);
        } else if let Some(number) = number(&field("double")) {
            double(number, out, protocol);
        } else if let Value::Table(map) = field("map") {
            let pairs = pairs(&map);
            encode::map_header(out, pairs.len() as u64, protocol);
            return pairs.into_iter().flat_map(<[Value; 2]>::from).collect();
        } else if let Value::Table(set) = field("set") {
            let pairs = pairs(&set);
            encode::set_header(out, pairs.len() as u64, protocol);
            return pairs.into_iter().map(|(member, _)| member).collect();
        } else if let Value::String(digits) = field("big_number") {
            encode::big_number(out, &without_line_breaks(&digits.as_bytes()), protocol);
        } else if let Some((format, text)) = verbatim(&field("verbatim_string")) {
            encode::verbatim(out, format, &text, protocol);
        } else {
            return self.list(table);
        }
        Vec::new()
    }

    /// Writes the header of the items up to the first nil, which are returned.
    fn list(&mut self, table: &Table) -> Vec<Value> {
        let items = (1..).map_while(|place: i64| match table.raw_get(place) {
            Ok(Value::Nil) | Err(_) => None,
            Ok(item) => Some(item),
        });
        let items: Vec<Value> = items.collect();
        encode::array_header(self.out, items.len() as u64);
        items
    }
}

fn pairs(table: &Table) -> Vec<(Value, Value)> {
    table
        .pairs::<Value, Value>()
        .filter_map(Result::ok)
        .collect()
}

fn verbatim(value: &Value) -> Option<([u8; 3], Vec<u8>)> {
    let Value::Table(parts) = value else {
        return None;
    };
    let field = |name: &str| match parts.raw_get::<Value>(name) {
        Ok(Value::String(text)) => Some(text.as_bytes().to_vec()),
        _ => None,
    };
    let format = field("format")?;
    Some((format.try_into().ok()?, field("string")?))
}

/// Writes a double with 17 digits, as scripts of Redis do.
fn double(number: f64, out: &mut Output, protocol: Protocol) {
    let text = shown(number, 17);
    match protocol {
        Protocol::Resp2 => encode::bulk(out, text.as_bytes()),
        Protocol::Resp3 => out.put(format!(",{text}\r\n").as_bytes()),
    }
}

/// A number without its fraction; one that is too large is what the processor makes of it, as in Redis.
fn whole(number: f64) -> i64 {
    let fits = (-(2_f64.powi(63))..2_f64.powi(63)).contains(&number);
    if fits { number as i64 } else { i64::MIN }
}

/// A simple string has no line breaks.
fn without_line_breaks(text: &[u8]) -> Cow<'_, [u8]> {
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    if !text.iter().any(is_break) {
        return Cow::Borrowed(text);
    }
    let shown = |byte: &u8| if is_break(byte) { b' ' } else { *byte };
    text.iter().map(shown).collect()
}
