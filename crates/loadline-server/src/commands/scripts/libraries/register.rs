//! `redis.register_function`, by which a library of functions says what it has.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlua::{Function, Lua, Table, Value};

use super::super::progress::Flags;
use super::{Arguments, Fault, add};

/// A function that a library has registered.
#[derive(Debug, Clone)]
pub(in crate::commands::scripts) struct Registered {
    pub(in crate::commands::scripts) name: Arc<str>,
    pub(in crate::commands::scripts) description: Option<Vec<u8>>,
    /// Its flags, in the order of [`FLAGS`].
    pub(in crate::commands::scripts) flags: [bool; FLAGS.len()],
    pub(in crate::commands::scripts) function: Function,
}

/// The flags of functions.
pub(in crate::commands::scripts) const FLAGS: [&str; 5] = [
    "no-writes",
    "allow-oom",
    "allow-stale",
    "no-cluster",
    "allow-cross-slot-keys",
];

impl Registered {
    /// The rights of the function.
    pub(in crate::commands::scripts) fn rights(&self) -> Flags {
        Flags {
            is_declared: true,
            no_writes: self.flags[0],
            allow_oom: self.flags[1],
        }
    }

    /// The names of its flags.
    pub(in crate::commands::scripts) fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        let flags = FLAGS.into_iter().zip(self.flags);
        flags.filter_map(|(name, is_set)| is_set.then_some(name))
    }
}

/// The functions of the library that is being loaded; `None` while there is none.
#[derive(Debug, Clone, Default)]
pub(in crate::commands::scripts) struct Registry(Arc<Mutex<Option<Vec<Registered>>>>);

impl Registry {
    fn functions(&self) -> MutexGuard<'_, Option<Vec<Registered>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to load a library.
    pub(in crate::commands::scripts) fn begin(&self) {
        *self.functions() = Some(Vec::new());
    }

    /// The functions of the library, which is loaded.
    pub(in crate::commands::scripts) fn end(&self) -> Vec<Registered> {
        self.functions().take().unwrap_or_default()
    }
}

const NAMES: &str = "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// The error for the name of a library or a function with other characters than letters, digits and underscores.
pub(in crate::commands::scripts) fn verified(name: &[u8]) -> Result<&str, &'static str> {
    let is_fit = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let name = std::str::from_utf8(name).map_err(|_| NAMES)?;
    if name.is_empty() || !name.as_bytes().iter().all(is_fit) {
        return Err(NAMES);
    }
    Ok(name)
}

/// Adds the function to a library.
pub(super) fn add_to(lua: &Lua, library: &Table, registry: &Registry) -> mlua::Result<()> {
    let registry = registry.clone();
    add(lua, library, "register_function", move |lua, arguments| {
        let mut functions = registry.functions();
        let Some(functions) = &mut *functions else {
            return Err(Fault::Reply(
                "ERR redis.register_function can only be called on FUNCTION LOAD command",
            ));
        };
        let registered = match arguments.len() {
            1 => named(lua, arguments)?,
            2 => positional(lua, arguments)?,
            _ => {
                return Err(Fault::Reply(
                    "ERR wrong number of arguments to redis.register_function",
                ));
            }
        };
        if functions.iter().any(|known| known.name == registered.name) {
            return Err(Fault::Reply("ERR Function already exists in the library"));
        }
        functions.push(registered);
        Ok(Value::Nil)
    })
}

/// The bytes of a string or a number.
fn text(lua: &Lua, value: Value) -> mlua::Result<Option<Vec<u8>>> {
    let text = match value {
        Value::Integer(_) | Value::Number(_) | Value::String(_) => lua.coerce_string(value)?,
        _ => None,
    };
    Ok(text.map(|text| text.as_bytes().to_vec()))
}

fn positional(lua: &Lua, arguments: &Arguments) -> Result<Registered, Fault> {
    let name = text(lua, arguments.value(1))?.ok_or(Fault::Reply(
        "ERR first argument to redis.register_function must be a string",
    ))?;
    let Value::Function(function) = arguments.value(2) else {
        return Err(Fault::Reply(
            "ERR second argument to redis.register_function must be a function",
        ));
    };
    Ok(Registered {
        name: verified(&name).map_err(Fault::Reply)?.into(),
        description: None,
        flags: Default::default(),
        function,
    })
}

fn named(lua: &Lua, arguments: &Arguments) -> Result<Registered, Fault> {
    let Value::Table(table) = arguments.value(1) else {
        return Err(Fault::Reply(
            "ERR calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
        ));
    };
    let (mut name, mut description, mut callback) = (None, None, None);
    let mut flags = [false; FLAGS.len()];
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let key = text(lua, key)?.ok_or(Fault::Reply(
            "ERR named argument key given to redis.register_function is not a string",
        ))?;
        match key.to_ascii_lowercase().as_slice() {
            b"function_name" => {
                name = Some(text(lua, value)?.ok_or(Fault::Reply(
                    "ERR function_name argument given to redis.register_function must be a string",
                ))?);
            }
            b"description" => {
                description = Some(text(lua, value)?.ok_or(Fault::Reply(
                    "ERR description argument given to redis.register_function must be a string",
                ))?);
            }
            b"callback" => {
                let Value::Function(function) = value else {
                    return Err(Fault::Reply(
                        "ERR callback argument given to redis.register_function must be a function",
                    ));
                };
                callback = Some(function);
            }
            b"flags" => {
                let Value::Table(list) = value else {
                    return Err(Fault::Reply(
                        "ERR flags argument to redis.register_function must be a table representing function flags",
                    ));
                };
                flags = listed(lua, &list)?;
            }
            _ => {
                return Err(Fault::Reply(
                    "ERR unknown argument given to redis.register_function",
                ));
            }
        }
    }
    let name = name.ok_or(Fault::Reply(
        "ERR redis.register_function must get a function name argument",
    ))?;
    let function = callback.ok_or(Fault::Reply(
        "ERR redis.register_function must get a callback argument",
    ))?;
    Ok(Registered {
        name: verified(&name).map_err(Fault::Reply)?.into(),
        description,
        flags,
        function,
    })
}

/// The flags in a table, up to the first nil.
fn listed(lua: &Lua, list: &Table) -> Result<[bool; FLAGS.len()], Fault> {
    let mut flags = [false; FLAGS.len()];
    for place in 1.. {
        let value: Value = list.get(place)?;
        if value.is_nil() {
            break;
        }
        let name = text(lua, value)?.unwrap_or_default();
        let known = FLAGS.iter();
        let mut known = known.map(|flag| name.eq_ignore_ascii_case(flag.as_bytes()));
        let at = known.position(|is_it| is_it);
        flags[at.ok_or(Fault::Reply("ERR unknown flag given"))?] = true;
    }
    Ok(flags)
}
