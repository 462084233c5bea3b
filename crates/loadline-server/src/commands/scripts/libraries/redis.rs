//! `redis.*`, except for what executes commands and checks rights.

use std::sync::Arc;

use mlua::{Lua, Table, Value};

use super::super::progress::Progress;
use super::{Arguments, Fault, add, convert};

/// The version of Redis whose scripting this is.
const VERSION: (u32, u32, u32) = (7, 0, 15);
const LEVELS: [&str; 4] = ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"];

pub(super) fn library(
    lua: &Lua,
    report: fn(&str),
    progress: &Arc<Progress>,
) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    add_replies(lua, &library)?;
    add_protocol(lua, &library, Arc::clone(progress))?;
    add_constants(&library)?;
    add_version(&library)?;
    add_log(lua, &library, report)?;
    add(lua, &library, "sha1hex", |lua, arguments| {
        if arguments.len() != 1 {
            return Err(Fault::Reply("ERR wrong number of arguments"));
        }
        let digest = sha1_smol::Sha1::from(arguments.text(lua, 1)?).digest();
        Ok(Value::String(lua.create_string(digest.to_string())?))
    })?;
    // Effects are always in the log, as a whole.
    add(lua, &library, "replicate_commands", |_, _| {
        Ok(Value::Boolean(true))
    })?;
    add(lua, &library, "set_repl", |lua, arguments| {
        if arguments.len() != 1 {
            return Err(Fault::Reply("ERR redis.set_repl() requires two arguments."));
        }
        let flags = arguments.number(lua, 1)?;
        if !(0.0..=3.0).contains(&flags) {
            return Err(Fault::Reply(
                "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
            ));
        }
        Ok(Value::Nil)
    })?;
    add(lua, &library, "breakpoint", |_, _| {
        Ok(Value::Boolean(false))
    })?;
    add(lua, &library, "debug", |_, _| Ok(Value::Nil))?;
    Ok(library)
}

/// The part of the library that is there while a library of functions is loaded.
pub(super) fn loading(lua: &Lua, report: fn(&str)) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    add_log(lua, &library, report)?;
    add_version(&library)?;
    Ok(library)
}

fn add_version(library: &Table) -> mlua::Result<()> {
    let (major, minor, patch) = VERSION;
    library.set("REDIS_VERSION", format!("{major}.{minor}.{patch}"))?;
    library.set("REDIS_VERSION_NUM", major << 16 | minor << 8 | patch)
}

fn add_constants(library: &Table) -> mlua::Result<()> {
    for (name, value) in [
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
    ] {
        library.set(name, value)?;
    }
    Ok(())
}

fn add_log(lua: &Lua, library: &Table, report: fn(&str)) -> mlua::Result<()> {
    for (level, name) in LEVELS.into_iter().enumerate() {
        library.set(name, level)?;
    }
    add(lua, library, "log", move |lua, arguments| {
        if arguments.len() < 2 {
            return Err(Fault::Reply(
                "ERR redis.log() requires two arguments or more.",
            ));
        }
        let level = arguments
            .number(lua, 1)
            .map_err(|_| Fault::Reply("ERR First argument must be a number (log level)."))?;
        let warning = LEVELS.len() - 1;
        if level < 0.0 || level > warning as f64 {
            return Err(Fault::Reply("ERR Invalid debug level."));
        }
        let mut words = Vec::new();
        for place in 2..=arguments.len() {
            words.push(String::from_utf8_lossy(&arguments.text(lua, place)?).into_owned());
        }
        // The server reports warnings only.
        if level as usize == warning {
            report(&words.join(" "));
        }
        Ok(Value::Nil)
    })
}

/// Adds `error_reply` and `status_reply`.
fn add_replies(lua: &Lua, library: &Table) -> mlua::Result<()> {
    const WRONG: &[u8] = b"ERR wrong number or type of arguments";
    let only_text = |arguments: &Arguments| match (arguments.len(), arguments.value(1)) {
        (1, Value::String(text)) => Some(text.as_bytes().to_vec()),
        _ => None,
    };
    add(lua, library, "status_reply", move |lua, arguments| {
        Ok(match only_text(arguments) {
            Some(text) => convert::named(lua, "ok", &text)?,
            None => convert::error(lua, WRONG)?,
        })
    })?;
    add(lua, library, "error_reply", move |lua, arguments| {
        let text = only_text(arguments).unwrap_or_else(|| WRONG.to_vec());
        Ok(match text.strip_prefix(b"-") {
            Some(text) => convert::error(lua, text)?,
            // Without a code, the text gets the one of all errors.
            None if !text.contains(&b' ') => convert::error(lua, &[b"ERR ", &text[..]].concat())?,
            None => convert::error(lua, &text)?,
        })
    })
}

/// Adds `setresp`.
fn add_protocol(lua: &Lua, library: &Table, progress: Arc<Progress>) -> mlua::Result<()> {
    add(lua, library, "setresp", move |lua, arguments| {
        if arguments.len() != 1 {
            return Err(Fault::Reply("ERR redis.setresp() requires one argument."));
        }
        let version = arguments.number(lua, 1).unwrap_or(0.0);
        if version != 2.0 && version != 3.0 {
            return Err(Fault::Reply("ERR RESP version must be 2 or 3."));
        }
        progress.set_resp3(version == 3.0);
        Ok(Value::Nil)
    })
}
