//! `cjson`: JSON as the library of this name writes and reads it, with its settings.

mod decode;
mod encode;

use std::sync::{Arc, Mutex, PoisonError};

use mlua::{Lua, Table, Value};

use super::{Arguments, Fault, Results, add};

/// The levels of tables within tables at most, whatever the settings say. The stack of Lua has room for 8,000 values, and Redis ends
/// there.
const MOST_LEVELS: usize = 4_000;

/// The settings of the library, which scripts can change, with their defaults.
#[derive(Debug, Clone, Copy)]
struct Settings {
    /// Whether sparse lists are written as objects.
    converts_sparse: bool,
    /// A list with more places than this many times its items is sparse; 0 for none.
    sparse_ratio: f64,
    /// Lists with at most this many places are never sparse.
    sparse_safe: f64,
    encode_depth: usize,
    decode_depth: usize,
    /// Significant digits of numbers.
    precision: usize,
    /// Whether infinite numbers and those that are none are written, and as nil.
    encodes_invalid: Invalid,
    /// Whether they are read.
    decodes_invalid: bool,
    keeps_buffer: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Invalid {
    No,
    Yes,
    AsNull,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            converts_sparse: false,
            sparse_ratio: 2.0,
            sparse_safe: 10.0,
            encode_depth: 1_000,
            decode_depth: 1_000,
            precision: 14,
            encodes_invalid: Invalid::No,
            decodes_invalid: true,
            keeps_buffer: true,
        }
    }
}

/// The settings of one instance of the library.
type SharedSettings = Arc<Mutex<Settings>>;

fn get(settings: &SharedSettings) -> Settings {
    *settings.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a function that changes a setting and returns it.
fn add_setting<R: Into<Results> + 'static>(
    lua: &Lua,
    library: &Table,
    settings: &SharedSettings,
    name: &'static str,
    change: impl Fn(&Lua, &Arguments, &mut Settings) -> Result<R, Fault> + Send + 'static,
) -> mlua::Result<()> {
    let settings = Arc::clone(settings);
    add(lua, library, name, move |lua, arguments| {
        let mut settings = settings.lock().unwrap_or_else(PoisonError::into_inner);
        change(lua, arguments, &mut settings)
    })
}

fn integer(number: usize) -> Value {
    Value::Number(number as f64)
}

/// An argument that is a number from `least` to `most`, if it is there.
fn bounded(
    lua: &Lua,
    arguments: &Arguments,
    place: usize,
    (least, most): (f64, f64),
) -> Result<Option<f64>, Fault> {
    let number = arguments.optional_number(lua, place)?;
    match number {
        Some(number) if !(least..=most).contains(&number) => Err(arguments.wrong(
            place,
            format_args!("expected integer between {least} and {most}"),
        )),
        number => Ok(number.map(f64::trunc)),
    }
}

fn flag(arguments: &Arguments, place: usize, before: bool) -> Result<bool, Fault> {
    match arguments.value(place) {
        Value::Nil => Ok(before),
        Value::Boolean(flag) => Ok(flag),
        _ => Err(arguments.wrong(place, "invalid option")),
    }
}

const INT_MAX: f64 = i32::MAX as f64;

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let settings = SharedSettings::default();
    library.set("_NAME", "cjson")?;
    library.set("_VERSION", "2.1.0")?;
    library.set("null", Value::NULL)?;
    let of_encode = Arc::clone(&settings);
    add(lua, &library, "encode", move |lua, arguments| {
        if arguments.len() != 1 {
            return Err(arguments.wrong(1, "expected 1 argument"));
        }
        let text = encode::encode(&arguments.value(1), &get(&of_encode))?;
        Ok(Value::String(lua.create_string(text)?))
    })?;
    let of_decode = Arc::clone(&settings);
    add(lua, &library, "decode", move |lua, arguments| {
        if arguments.len() != 1 {
            return Err(arguments.wrong(1, "expected 1 argument"));
        }
        decode::decode(lua, &arguments.text(lua, 1)?, &get(&of_decode))
    })?;
    add_plain(lua, &library, &settings)?;
    add_forms(lua, &library, &settings)?;
    Ok(library)
}

/// A number among the settings.
type Number = fn(&mut Settings) -> &mut usize;

/// A flag among the settings.
type Switch = fn(&mut Settings) -> &mut bool;

/// The functions that set a number from 1 up to a limit.
const NUMBERS: [(&str, f64, Number); 3] = [
    ("encode_max_depth", INT_MAX, |all| &mut all.encode_depth),
    ("decode_max_depth", INT_MAX, |all| &mut all.decode_depth),
    ("encode_number_precision", 14.0, |all| &mut all.precision),
];

/// The functions that set a flag.
const FLAGS: [(&str, Switch); 2] = [
    ("encode_keep_buffer", |all| &mut all.keeps_buffer),
    ("decode_invalid_numbers", |all| &mut all.decodes_invalid),
];

/// Adds the settings that are a number or a flag.
fn add_plain(lua: &Lua, library: &Table, settings: &SharedSettings) -> mlua::Result<()> {
    for (name, most, of) in NUMBERS {
        add_setting(lua, library, settings, name, move |lua, arguments, all| {
            let number = of(all);
            if let Some(new) = bounded(lua, arguments, 1, (1.0, most))? {
                *number = new as usize;
            }
            Ok(integer(*number))
        })?;
    }
    for (name, of) in FLAGS {
        add_setting(lua, library, settings, name, move |_, arguments, all| {
            let before = of(all);
            *before = flag(arguments, 1, *before)?;
            Ok(Value::Boolean(*before))
        })?;
    }
    Ok(())
}

/// Adds the settings of forms that JSON does not have, and `new`.
fn add_forms(lua: &Lua, library: &Table, settings: &SharedSettings) -> mlua::Result<()> {
    add_setting(
        lua,
        library,
        settings,
        "encode_invalid_numbers",
        |lua, arguments, settings| {
            settings.encodes_invalid = match arguments.value(1) {
                Value::Nil => settings.encodes_invalid,
                Value::Boolean(true) => Invalid::Yes,
                Value::Boolean(false) => Invalid::No,
                Value::String(text) if text == "null" => Invalid::AsNull,
                Value::String(text) if text == "on" => Invalid::Yes,
                Value::String(text) if text == "off" => Invalid::No,
                _ => return Err(arguments.wrong(1, "invalid option")),
            };
            Ok(match settings.encodes_invalid {
                Invalid::No => Value::Boolean(false),
                Invalid::Yes => Value::Boolean(true),
                Invalid::AsNull => Value::String(lua.create_string("null")?),
            })
        },
    )?;
    add_setting(
        lua,
        library,
        settings,
        "encode_sparse_array",
        |lua, arguments, settings| {
            settings.converts_sparse = flag(arguments, 1, settings.converts_sparse)?;
            let ratio = bounded(lua, arguments, 2, (0.0, INT_MAX))?;
            settings.sparse_ratio = ratio.unwrap_or(settings.sparse_ratio);
            let safe = bounded(lua, arguments, 3, (0.0, INT_MAX))?;
            settings.sparse_safe = safe.unwrap_or(settings.sparse_safe);
            Ok(Results::Several(vec![
                Value::Boolean(settings.converts_sparse),
                Value::Number(settings.sparse_ratio),
                Value::Number(settings.sparse_safe),
            ]))
        },
    )?;
    // A further instance would have settings of its own; scripts share this one.
    let instance = library.clone();
    add(lua, library, "new", move |_, _| {
        Ok(Value::Table(instance.clone()))
    })
}
