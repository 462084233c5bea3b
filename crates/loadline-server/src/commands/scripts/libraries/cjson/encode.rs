//! Values of Lua as JSON.

use std::vec;

use mlua::{Table, Value};

use super::super::{Fault, number};
use super::{Invalid, MOST_LEVELS, Settings};

pub(super) fn encode(value: &Value, settings: &Settings) -> Result<Vec<u8>, Fault> {
    let mut writer = Writer {
        out: Vec::new(),
        settings,
    };
    writer.value(value)?;
    Ok(writer.out)
}

struct Writer<'s> {
    out: Vec<u8>,
    settings: &'s Settings,
}

/// A table whose members are not all written.
enum Open {
    /// The list, the place of its next member, and the last place.
    List(Table, usize, usize),
    Object(vec::IntoIter<(Value, Value)>),
}

impl Writer<'_> {
    /// Writes a value. Tables within tables are kept in a list and not on the stack of the thread, since scripts choose how deep
    /// they are.
    fn value(&mut self, value: &Value) -> Result<(), Fault> {
        let mut open = Vec::new();
        self.begin(value, &mut open)?;
        while let Some(last) = open.last_mut() {
            let next = match last {
                Open::List(list, place, last) if *place <= *last => {
                    if *place > 1 {
                        self.out.push(b',');
                    }
                    *place += 1;
                    list.raw_get(*place - 1)?
                }
                Open::List(..) => {
                    self.out.push(b']');
                    open.pop();
                    continue;
                }
                Open::Object(pairs) => {
                    let Some((key, value)) = pairs.next() else {
                        self.out.push(b'}');
                        open.pop();
                        continue;
                    };
                    self.key(&key)?;
                    value
                }
            };
            self.begin(&next, &mut open)?;
        }
        Ok(())
    }

    /// Writes a value, or the begin of a table that joins those in `open`.
    fn begin(&mut self, value: &Value, open: &mut Vec<Open>) -> Result<(), Fault> {
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            value if *value == Value::NULL => self.out.extend_from_slice(b"null"),
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::String(text) => self.text(&text.as_bytes()),
            Value::Table(table) => {
                let table = self.table(table, open.len() + 1)?;
                open.push(table);
            }
            other => {
                return Err(
                    format!("Cannot serialise {}: type not supported", other.type_name()).into(),
                );
            }
        }
        Ok(())
    }

    fn number(&mut self, number: f64) -> Result<(), Fault> {
        let is_valid = number.is_finite();
        match self.settings.encodes_invalid {
            Invalid::No if !is_valid => {
                return Err("Cannot serialise number: must not be NaN or Inf".into());
            }
            Invalid::AsNull if !is_valid => self.out.extend_from_slice(b"null"),
            _ => {
                let text = number::shown(number, self.settings.precision);
                self.out.extend_from_slice(text.as_bytes());
            }
        }
        Ok(())
    }

    /// A number between quotes.
    fn numeral(&mut self, number: f64) -> Result<(), Fault> {
        self.out.push(b'"');
        self.number(number)?;
        self.out.push(b'"');
        Ok(())
    }

    fn text(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for byte in text {
            let escape = match byte {
                b'"' => b'"',
                b'\\' => b'\\',
                b'/' => b'/',
                0x08 => b'b',
                b'\t' => b't',
                b'\n' => b'n',
                0x0C => b'f',
                b'\r' => b'r',
                0..0x20 | 0x7F => {
                    self.out
                        .extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                    continue;
                }
                _ => {
                    self.out.push(*byte);
                    continue;
                }
            };
            self.out.extend([b'\\', escape]);
        }
        self.out.push(b'"');
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<Open, Fault> {
        if depth > self.settings.encode_depth.min(MOST_LEVELS) {
            return Err(format!("Cannot serialise, excessive nesting ({depth})").into());
        }
        match self.places(table)? {
            Some(places) if places > 0 => {
                self.out.push(b'[');
                Ok(Open::List(table.clone(), 1, places))
            }
            _ => {
                self.out.push(b'{');
                let pairs: mlua::Result<Vec<_>> = table.pairs().collect();
                Ok(Open::Object(pairs?.into_iter()))
            }
        }
    }

    /// Writes the key of an object, after a comma if it is not the first.
    fn key(&mut self, key: &Value) -> Result<(), Fault> {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        match key {
            Value::String(text) => self.text(&text.as_bytes()),
            Value::Integer(place) => self.numeral(*place as f64)?,
            Value::Number(number) => self.numeral(*number)?,
            _ => {
                return Err(format!(
                    "Cannot serialise {}: table key must be a number or string",
                    key.type_name()
                )
                .into());
            }
        }
        self.out.push(b':');
        Ok(())
    }

    /// The number of places if the table is a list: its keys are positive whole numbers.
    fn places(&self, table: &Table) -> Result<Option<usize>, Fault> {
        let (mut largest, mut items) = (0_i64, 0_i64);
        for pair in table.pairs::<Value, Value>() {
            match pair?.0 {
                Value::Integer(place) if place > 0 => largest = largest.max(place),
                _ => return Ok(None),
            }
            items += 1;
        }
        let settings = self.settings;
        let is_sparse = settings.sparse_ratio > 0.0
            && largest as f64 > items as f64 * settings.sparse_ratio
            && largest as f64 > settings.sparse_safe;
        if !is_sparse {
            return Ok(usize::try_from(largest).ok());
        }
        if settings.converts_sparse {
            return Ok(None);
        }
        Err("Cannot serialise table: excessively sparse array".into())
    }
}
