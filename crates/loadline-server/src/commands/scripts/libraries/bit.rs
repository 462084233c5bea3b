//! `bit`: operations on 32 bits, as Lua `BitOp` defines them.

use mlua::{Lua, Table, Value};

use super::{Arguments, Fault, add};

/// Added to a number, it moves the lowest 32 bits of its nearest integer to the end of the mantissa.
const TO_BITS: f64 = 6_755_399_441_055_744.0;

/// An operation and its name.
type OfOne = (&'static str, fn(u32) -> u32);
type OfTwo = (&'static str, fn(u32, u32) -> u32);

fn bits(lua: &Lua, arguments: &Arguments, place: usize) -> Result<u32, Fault> {
    let number = arguments.number(lua, place)?;
    Ok((number + TO_BITS).to_bits() as u32)
}

fn value(bits: u32) -> Value {
    Value::Number(f64::from(bits as i32))
}

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let of_one: [OfOne; 3] = [
        ("tobit", |bits| bits),
        ("bnot", |bits| !bits),
        ("bswap", u32::swap_bytes),
    ];
    for (name, operation) in of_one {
        add(lua, &library, name, move |lua, arguments| {
            Ok(value(operation(bits(lua, arguments, 1)?)))
        })?;
    }
    let of_all: [OfTwo; 3] = [
        ("band", |one, other| one & other),
        ("bor", |one, other| one | other),
        ("bxor", |one, other| one ^ other),
    ];
    for (name, operation) in of_all {
        add(lua, &library, name, move |lua, arguments| {
            let mut result = bits(lua, arguments, 1)?;
            for place in 2..=arguments.len() {
                result = operation(result, bits(lua, arguments, place)?);
            }
            Ok(value(result))
        })?;
    }
    // Only the lowest five bits of the distance count.
    let shifts: [OfTwo; 5] = [
        ("lshift", u32::wrapping_shl),
        ("rshift", u32::wrapping_shr),
        ("arshift", |bits, by| (bits as i32).wrapping_shr(by) as u32),
        ("rol", |bits, by| bits.rotate_left(by & 31)),
        ("ror", |bits, by| bits.rotate_right(by & 31)),
    ];
    for (name, operation) in shifts {
        add(lua, &library, name, move |lua, arguments| {
            let (bits, by) = (bits(lua, arguments, 1)?, bits(lua, arguments, 2)?);
            Ok(value(operation(bits, by)))
        })?;
    }
    add(lua, &library, "tohex", |lua, arguments| {
        let number = bits(lua, arguments, 1)?;
        let digits = match arguments.optional_number(lua, 2)? {
            None => 8,
            Some(_) => bits(lua, arguments, 2)? as i32,
        };
        let all = if digits < 0 {
            format!("{number:08X}")
        } else {
            format!("{number:08x}")
        };
        let kept = digits.unsigned_abs().min(8) as usize;
        Ok(Value::String(lua.create_string(&all[8 - kept..])?))
    })?;
    Ok(library)
}
