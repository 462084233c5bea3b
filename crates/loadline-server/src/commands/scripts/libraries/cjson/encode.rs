//! Values of Lua as JSON.

use mlua::{Table, Value};

use super::super::{Fault, number};
use super::{Invalid, Settings};

pub(super) fn encode(value: &Value, settings: &Settings) -> Result<Vec<u8>, Fault> {
    let mut writer = Writer {
        out: Vec::new(),
        settings,
    };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer<'s> {
    out: Vec<u8>,
    settings: &'s Settings,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Fault> {
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            value if *value == Value::NULL => self.out.extend_from_slice(b"null"),
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::String(text) => self.text(&text.as_bytes()),
            Value::Table(table) => return self.table(table, depth + 1),
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

    fn table(&mut self, table: &Table, depth: usize) -> Result<(), Fault> {
        if depth > self.settings.encode_depth {
            return Err(format!("Cannot serialise, excessive nesting ({depth})").into());
        }
        match self.places(table)? {
            Some(places) if places > 0 => {
                self.out.push(b'[');
                for place in 1..=places {
                    if place > 1 {
                        self.out.push(b',');
                    }
                    self.value(&table.raw_get(place)?, depth)?;
                }
                self.out.push(b']');
            }
            _ => self.object(table, depth)?,
        }
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: usize) -> Result<(), Fault> {
        self.out.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            match &key {
                Value::String(text) => self.text(&text.as_bytes()),
                Value::Integer(_) | Value::Number(_) => {
                    self.out.push(b'"');
                    self.value(&key, depth)?;
                    self.out.push(b'"');
                }
                _ => {
                    return Err(format!(
                        "Cannot serialise {}: table key must be a number or string",
                        key.type_name()
                    )
                    .into());
                }
            }
            self.out.push(b':');
            self.value(&value, depth)?;
        }
        self.out.push(b'}');
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
