//! `struct`: numbers and strings in binary formats, as the library of this name of Roberto Ierusalimschy writes and reads them.

use mlua::{Lua, Table, Value};

use super::{Arguments, Fault, Results, add};

/// The largest number of bytes of an integer, and the alignment of `!` without a number.
const MOST_BYTES: usize = 32;
const NATIVE_ALIGNMENT: usize = 8;

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    add(lua, &library, "pack", pack)?;
    add(lua, &library, "unpack", unpack)?;
    add(lua, &library, "size", |lua, arguments| {
        let format = arguments.text(lua, 1)?;
        let mut items = Items::new(&format);
        let mut size = 0;
        while let Some(item) = items.next(arguments)? {
            if matches!(item.kind, Kind::Text | Kind::Counted(0)) {
                let letter = if item.kind == Kind::Text { 's' } else { 'c' };
                let why = format!("option '{letter}' has no fixed size");
                return Err(arguments.wrong(1, why));
            }
            size += items.padding(size, &item) + item.size();
        }
        Ok(Value::Number(size as f64))
    })?;
    Ok(library)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Padding,
    Signed(usize),
    Unsigned(usize),
    Float,
    Double,
    /// A string that ends with a zero byte.
    Text,
    /// Bytes; with 0, as many as the number before says, or all of the string.
    Counted(usize),
}

#[derive(Debug, Clone, Copy)]
struct Item {
    kind: Kind,
}

impl Item {
    fn size(&self) -> usize {
        match self.kind {
            Kind::Padding => 1,
            Kind::Signed(bytes) | Kind::Unsigned(bytes) | Kind::Counted(bytes) => bytes,
            Kind::Float => 4,
            Kind::Double => 8,
            Kind::Text => 0,
        }
    }

    /// Whether the item begins at a multiple of its size.
    fn is_aligned(&self) -> bool {
        !matches!(self.kind, Kind::Padding | Kind::Text | Kind::Counted(_))
    }
}

/// The items of a format, and the byte order and alignment in force.
struct Items<'f> {
    rest: &'f [u8],
    is_little: bool,
    alignment: usize,
}

impl<'f> Items<'f> {
    fn new(format: &'f [u8]) -> Self {
        Self {
            rest: format,
            is_little: true,
            alignment: 1,
        }
    }

    /// A number in the format, if there is one.
    fn number(&mut self) -> Result<Option<usize>, Fault> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit());
        let (digits, rest) = self.rest.split_at(digits.count());
        self.rest = rest;
        if digits.is_empty() {
            return Ok(None);
        }
        let number = std::str::from_utf8(digits).ok();
        let number = number.and_then(|digits| digits.parse::<i32>().ok());
        let number = number.ok_or("integral size overflow")?;
        Ok(usize::try_from(number).ok())
    }

    fn integer_bytes(&mut self) -> Result<usize, Fault> {
        let bytes = self.number()?.unwrap_or(4);
        if bytes > MOST_BYTES {
            return Err(
                format!("integral size {bytes} is larger than limit of {MOST_BYTES}").into(),
            );
        }
        Ok(bytes)
    }

    fn next(&mut self, arguments: &Arguments) -> Result<Option<Item>, Fault> {
        while let Some((letter, rest)) = self.rest.split_first() {
            self.rest = rest;
            let kind = match letter {
                b' ' => continue,
                b'>' | b'<' => {
                    self.is_little = *letter == b'<';
                    continue;
                }
                b'!' => {
                    let alignment = self.number()?.unwrap_or(NATIVE_ALIGNMENT);
                    if !alignment.is_power_of_two() {
                        return Err(format!("alignment {alignment} is not a power of 2").into());
                    }
                    self.alignment = alignment;
                    continue;
                }
                b'x' => Kind::Padding,
                b'b' => Kind::Signed(1),
                b'B' => Kind::Unsigned(1),
                b'h' => Kind::Signed(2),
                b'H' => Kind::Unsigned(2),
                b'l' => Kind::Signed(8),
                b'L' | b'T' => Kind::Unsigned(8),
                b'i' => Kind::Signed(self.integer_bytes()?),
                b'I' => Kind::Unsigned(self.integer_bytes()?),
                b'f' => Kind::Float,
                b'd' => Kind::Double,
                b's' => Kind::Text,
                b'c' => Kind::Counted(self.number()?.unwrap_or(1)),
                letter => {
                    let letter = char::from(*letter);
                    return Err(
                        arguments.wrong(1, format_args!("invalid format option '{letter}'"))
                    );
                }
            };
            return Ok(Some(Item { kind }));
        }
        Ok(None)
    }

    /// Bytes in front of an item at `place`.
    fn padding(&self, place: usize, item: &Item) -> usize {
        let alignment = item.size().min(self.alignment);
        if !item.is_aligned() || alignment <= 1 {
            return 0;
        }
        alignment.wrapping_sub(place & (alignment - 1)) & (alignment - 1)
    }

    /// The bytes of a number in the order in force; the input is little-endian.
    fn ordered(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if !self.is_little {
            bytes.reverse();
        }
        bytes
    }
}

fn pack(lua: &Lua, arguments: &Arguments) -> Result<Value, Fault> {
    let format = arguments.text(lua, 1)?;
    let mut items = Items::new(&format);
    let mut out: Vec<u8> = Vec::new();
    let mut place = 2;
    while let Some(item) = items.next(arguments)? {
        out.resize(out.len() + items.padding(out.len(), &item), 0);
        if item.kind == Kind::Padding {
            out.push(0);
            continue;
        }
        match item.kind {
            Kind::Signed(size) | Kind::Unsigned(size) => {
                let number = arguments.number(lua, place)?;
                // Negative numbers wrap, and larger ones than fit are cut, as in C.
                let number = if number < 0.0 {
                    number as i64
                } else {
                    number as u64 as i64
                };
                let fill = if number < 0 { 0xFF } else { 0 };
                let mut bytes = number.to_le_bytes().to_vec();
                bytes.resize(size, fill);
                out.extend(items.ordered(bytes));
            }
            Kind::Float => {
                let number = arguments.number(lua, place)? as f32;
                out.extend(items.ordered(number.to_le_bytes().to_vec()));
            }
            Kind::Double => {
                let number = arguments.number(lua, place)?;
                out.extend(items.ordered(number.to_le_bytes().to_vec()));
            }
            Kind::Text => {
                out.extend(arguments.text(lua, place)?);
                out.push(0);
            }
            Kind::Counted(count) => {
                // The library names the argument behind it.
                let text = arguments.text(lua, place)?;
                let count = if count == 0 { text.len() } else { count };
                let part = text.get(..count);
                out.extend_from_slice(
                    part.ok_or_else(|| arguments.wrong(place + 1, "string too short"))?,
                );
            }
            Kind::Padding => {}
        }
        place += 1;
    }
    Ok(Value::String(lua.create_string(out)?))
}

fn unpack(lua: &Lua, arguments: &Arguments) -> Result<Results, Fault> {
    let (format, data) = (arguments.text(lua, 1)?, arguments.text(lua, 2)?);
    let first = arguments.optional_number(lua, 3)?.unwrap_or(1.0);
    // An offset below 0 is one far behind the data, as in the library, whose offsets have no sign.
    let Some(mut at) = (first as i64 as usize).checked_sub(1) else {
        return Err(arguments.wrong(3, "offset must be 1 or greater"));
    };
    let mut items = Items::new(&format);
    let mut values = Vec::new();
    while let Some(item) = items.next(arguments)? {
        at = at.saturating_add(items.padding(at, &item));
        let short = || arguments.wrong(2, "data string too short");
        let rest = data.get(at..).ok_or_else(short)?;
        let take = |size: usize| rest.get(..size).ok_or_else(short);
        match item.kind {
            Kind::Padding => {
                take(1)?;
                at += 1;
            }
            Kind::Signed(size) | Kind::Unsigned(size) => {
                let bytes = items.ordered(take(size)?.to_vec());
                let is_signed = matches!(item.kind, Kind::Signed(_));
                values.push(Value::Number(number(&bytes, is_signed)));
                at += size;
            }
            Kind::Float => {
                let bytes = items.ordered(take(4)?.to_vec());
                let bytes = bytes.try_into().map_err(|_| short())?;
                values.push(Value::Number(f64::from(f32::from_le_bytes(bytes))));
                at += 4;
            }
            Kind::Double => {
                let bytes = items.ordered(take(8)?.to_vec());
                let bytes = bytes.try_into().map_err(|_| short())?;
                values.push(Value::Number(f64::from_le_bytes(bytes)));
                at += 8;
            }
            Kind::Text => {
                let end = rest.iter().position(|byte| *byte == 0);
                let end = end.ok_or("unfinished string in data")?;
                values.push(Value::String(lua.create_string(&rest[..end])?));
                at += end + 1;
            }
            Kind::Counted(count) => {
                let count = if count == 0 {
                    previous(&mut values)?
                } else {
                    count
                };
                values.push(Value::String(lua.create_string(take(count)?)?));
                at += count;
            }
        }
    }
    values.push(Value::Number((at + 1) as f64));
    Ok(Results::Several(values))
}

/// The size that the last value states, which is taken out.
fn previous(values: &mut Vec<Value>) -> Result<usize, Fault> {
    match values.pop() {
        Some(Value::Number(number)) if number >= 0.0 => Ok(number as usize),
        _ => Err("format 'c0' needs a previous size".into()),
    }
}

/// An integer of any size, of which the lowest eight bytes count.
fn number(little_endian: &[u8], is_signed: bool) -> f64 {
    let mut bytes = [0; 8];
    let size = little_endian.len().min(8);
    bytes[..size].copy_from_slice(&little_endian[..size]);
    let number = u64::from_le_bytes(bytes);
    if !is_signed {
        return number as f64;
    }
    let unused = 64 - 8 * size as u32;
    (((number << (unused % 64)) as i64) >> (unused % 64)) as f64
}
