//! `cmsgpack`: `MessagePack` as the library of this name writes and reads it.

use mlua::{Lua, Table, Value};

use super::{Fault, Results, add};

/// Tables within tables that are written; deeper ones become nil, as in the library.
const MOST_LEVELS: usize = 16;
/// Tables within tables that are read.
const MOST_READ: usize = 1_000;
const BAD: &str = "Bad data format in input.";
const MISSING: &str = "Missing bytes in input.";

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.set("_NAME", "cmsgpack")?;
    library.set("_VERSION", "lua-cmsgpack 0.4.0")?;
    library.set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    library.set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    add(lua, &library, "pack", |lua, arguments| {
        if arguments.len() == 0 {
            return Err(arguments.wrong(0, "MessagePack pack needs input."));
        }
        let mut out = Vec::new();
        for value in &arguments.values {
            pack(value, &mut out, 0)?;
        }
        Ok(Value::String(lua.create_string(out)?))
    })?;
    add(lua, &library, "unpack", |lua, arguments| {
        unpack_all(lua, &arguments.text(lua, 1)?)
    })?;
    add(lua, &library, "unpack_one", |lua, arguments| {
        let offset = arguments.optional_number(lua, 2)?.unwrap_or(0.0);
        unpack_some(lua, &arguments.text(lua, 1)?, 1.0, offset)
    })?;
    add(lua, &library, "unpack_limit", |lua, arguments| {
        let limit = arguments.number(lua, 2)?;
        let offset = arguments.optional_number(lua, 3)?.unwrap_or(0.0);
        let bytes = arguments.text(lua, 1)?;
        if limit == 0.0 && offset == 0.0 {
            return unpack_all(lua, &bytes);
        }
        unpack_some(lua, &bytes, limit, offset)
    })?;
    Ok(library)
}

fn unpack_all(lua: &Lua, bytes: &[u8]) -> Result<Results, Fault> {
    let mut reader = Reader { rest: bytes };
    let mut values = Vec::new();
    while !reader.rest.is_empty() {
        values.push(reader.value(lua, MOST_READ)?);
    }
    Ok(Results::Several(values))
}

/// Reads up to `most` values from `offset` on. The first result is where to go on, -1 at the end.
fn unpack_some(lua: &Lua, bytes: &[u8], most: f64, offset: f64) -> Result<Results, Fault> {
    if offset < 0.0 || most < 0.0 {
        let length = bytes.len();
        return Err(format!(
            "Invalid request to unpack with offset of {offset} and limit of {length}."
        )
        .into());
    }
    let rest = bytes.get(offset as usize..).ok_or_else(|| {
        format!(
            "Start offset {offset} greater than input length {}.",
            bytes.len()
        )
    })?;
    let mut reader = Reader { rest };
    let mut values = vec![Value::Nil];
    while !reader.rest.is_empty() && values.len() <= most as usize {
        values.push(reader.value(lua, MOST_READ)?);
    }
    let place = bytes.len() - reader.rest.len();
    let next = if reader.rest.is_empty() {
        -1.0
    } else {
        place as f64
    };
    values[0] = Value::Number(next);
    Ok(Results::Several(values))
}

fn pack(value: &Value, out: &mut Vec<u8>, level: usize) -> Result<(), Fault> {
    match value {
        Value::Boolean(flag) => out.push(if *flag { 0xC3 } else { 0xC2 }),
        Value::Integer(number) => pack_integer(*number, out),
        Value::Number(number) => pack_number(*number, out),
        Value::String(text) => {
            let text = text.as_bytes();
            match text.len() {
                length @ 0..32 => out.push(0xA0 | length as u8),
                length @ 32..256 => out.extend([0xD9, length as u8]),
                length => head(length, out, 0xDA, 0xDB),
            }
            out.extend_from_slice(&text);
        }
        Value::Table(_) if level == MOST_LEVELS => out.push(0xC0),
        Value::Table(table) => pack_table(table, out, level)?,
        // What cannot be written is nil, as in the library.
        _ => out.push(0xC0),
    }
    Ok(())
}

/// A length of 16 or of 32 bits behind its code.
fn head(length: usize, out: &mut Vec<u8>, short: u8, long: u8) {
    if let Ok(length) = u16::try_from(length) {
        out.push(short);
        out.extend(length.to_be_bytes());
    } else {
        out.push(long);
        out.extend((length as u32).to_be_bytes());
    }
}

fn pack_integer(number: i64, out: &mut Vec<u8>) {
    match number {
        0..128 => out.push(number as u8),
        128..256 => out.extend([0xCC, number as u8]),
        256..65_536 => {
            out.push(0xCD);
            out.extend((number as u16).to_be_bytes());
        }
        65_536..4_294_967_296 => {
            out.push(0xCE);
            out.extend((number as u32).to_be_bytes());
        }
        4_294_967_296.. => {
            out.push(0xCF);
            out.extend(number.to_be_bytes());
        }
        -32..0 => out.push(number as i8 as u8),
        -128..-32 => out.extend([0xD0, number as i8 as u8]),
        -32_768..-128 => {
            out.push(0xD1);
            out.extend((number as i16).to_be_bytes());
        }
        -2_147_483_648..-32_768 => {
            out.push(0xD2);
            out.extend((number as i32).to_be_bytes());
        }
        ..-2_147_483_648 => {
            out.push(0xD3);
            out.extend(number.to_be_bytes());
        }
    }
}

fn pack_number(number: f64, out: &mut Vec<u8>) {
    let short = number as f32;
    if f64::from(short) == number {
        out.push(0xCA);
        out.extend(short.to_be_bytes());
    } else {
        out.push(0xCB);
        out.extend(number.to_be_bytes());
    }
}

fn pack_table(table: &Table, out: &mut Vec<u8>, level: usize) -> Result<(), Fault> {
    // Lua has room for some thousands of values that are held outside of it, so none of them is kept.
    let (mut count, mut largest) = (0, 0);
    let mut is_list = true;
    for pair in table.pairs::<Value, Value>() {
        match pair?.0 {
            Value::Integer(place) if place > 0 => largest = largest.max(place),
            _ => is_list = false,
        }
        count += 1;
    }
    if is_list && largest as usize == count {
        match count {
            length @ 0..16 => out.push(0x90 | length as u8),
            length => head(length, out, 0xDC, 0xDD),
        }
        for place in 1..=count {
            pack(&table.raw_get(place)?, out, level + 1)?;
        }
        return Ok(());
    }
    match count {
        length @ 0..16 => out.push(0x80 | length as u8),
        length => head(length, out, 0xDE, 0xDF),
    }
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        pack(&key, out, level + 1)?;
        pack(&value, out, level + 1)?;
    }
    Ok(())
}

struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(MISSING)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| MISSING.into())
    }

    fn value(&mut self, lua: &Lua, levels: usize) -> Result<Value, Fault> {
        let [code] = self.array()?;
        let number = |number: f64| Ok(Value::Number(number));
        match code {
            0x00..=0x7F => number(f64::from(code)),
            0x80..=0x8F => self.map(lua, usize::from(code & 0x0F), levels),
            0x90..=0x9F => self.list(lua, usize::from(code & 0x0F), levels),
            0xA0..=0xBF => self.text(lua, usize::from(code & 0x1F)),
            0xC0 => Ok(Value::Nil),
            0xC2 | 0xC3 => Ok(Value::Boolean(code == 0xC3)),
            0xC4 | 0xD9 => {
                let [length] = self.array()?;
                self.text(lua, usize::from(length))
            }
            0xC5 | 0xDA => {
                let length = u16::from_be_bytes(self.array()?);
                self.text(lua, usize::from(length))
            }
            0xC6 | 0xDB => {
                let length = u32::from_be_bytes(self.array()?);
                self.text(lua, length as usize)
            }
            0xCA => number(f64::from(f32::from_be_bytes(self.array()?))),
            0xCB => number(f64::from_be_bytes(self.array()?)),
            0xCC => number(f64::from(u8::from_be_bytes(self.array()?))),
            0xCD => number(f64::from(u16::from_be_bytes(self.array()?))),
            0xCE => number(f64::from(u32::from_be_bytes(self.array()?))),
            0xCF => number(u64::from_be_bytes(self.array()?) as f64),
            0xD0 => number(f64::from(i8::from_be_bytes(self.array()?))),
            0xD1 => number(f64::from(i16::from_be_bytes(self.array()?))),
            0xD2 => number(f64::from(i32::from_be_bytes(self.array()?))),
            0xD3 => number(i64::from_be_bytes(self.array()?) as f64),
            0xDC => {
                let length = u16::from_be_bytes(self.array()?);
                self.list(lua, usize::from(length), levels)
            }
            0xDD => {
                let length = u32::from_be_bytes(self.array()?);
                self.list(lua, length as usize, levels)
            }
            0xDE => {
                let length = u16::from_be_bytes(self.array()?);
                self.map(lua, usize::from(length), levels)
            }
            0xDF => {
                let length = u32::from_be_bytes(self.array()?);
                self.map(lua, length as usize, levels)
            }
            0xE0..=0xFF => number(f64::from(code as i8)),
            _ => Err(BAD.into()),
        }
    }

    fn text(&mut self, lua: &Lua, length: usize) -> Result<Value, Fault> {
        Ok(Value::String(lua.create_string(self.take(length)?)?))
    }

    fn list(&mut self, lua: &Lua, length: usize, levels: usize) -> Result<Value, Fault> {
        let levels = levels.checked_sub(1).ok_or(BAD)?;
        let list = lua.create_table()?;
        for place in 1..=length {
            list.raw_set(place, self.value(lua, levels)?)?;
        }
        Ok(Value::Table(list))
    }

    fn map(&mut self, lua: &Lua, pairs: usize, levels: usize) -> Result<Value, Fault> {
        let levels = levels.checked_sub(1).ok_or(BAD)?;
        let map = lua.create_table()?;
        for _ in 0..pairs {
            let key = self.value(lua, levels)?;
            let value = self.value(lua, levels)?;
            if key.is_nil() || matches!(key, Value::Number(number) if number.is_nan()) {
                return Err(BAD.into());
            }
            map.raw_set(key, value)?;
        }
        Ok(Value::Table(map))
    }
}
