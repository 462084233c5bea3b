//! FUNCTION and FCALL: libraries of functions that stay in the server.

use std::sync::Arc;

use super::library::{Libraries, Loaded};
use super::runner::Given;
use super::{EVALUATED, Interpreter, Subject, long, run};
use crate::commands::glob::glob;
use crate::commands::numbers::integer;
use crate::commands::refusal::{Refusal, no_such_form};
use crate::commands::{Call, Keys, Listed, Words, dump, is, listed, sub};
use crate::state::OWN_DATABASE;

pub(in crate::commands) const TABLE: &[Listed] = &[
    listed("FCALL", -3, EVALUATED, |call, words| {
        fcall(call, words, false)
    }),
    listed("FCALL_RO", -3, EVALUATED, |call, words| {
        fcall(call, words, true)
    }),
    listed("FUNCTION", -2, Keys::None, function).with(&[
        sub(
            "LOAD",
            -3,
            "[REPLACE] <FUNCTION CODE>\nCreate a new library with the given library name and code.",
        ),
        sub("DELETE", 3, "<LIBRARY NAME>\nDelete the given library."),
        sub(
            "LIST",
            -2,
            "[LIBRARYNAME PATTERN] [WITHCODE]\nReturn general information on all the libraries:\n* Library name\n* The engine used to run the Library\n* Library description\n* Functions list\n* Library code (if WITHCODE is given)\nIt also possible to get only function that matches a pattern using LIBRARYNAME argument.",
        ),
        sub(
            "STATS",
            2,
            "\nReturn information about the current function running:\n* Function name\n* Command used to run the function\n* Duration in MS that the function is running\nIf no function is running, return nil\nIn addition, returns a list of available engines.",
        ),
        sub("KILL", 2, "\nKill the current running function."),
        sub(
            "FLUSH",
            -2,
            "[ASYNC|SYNC]\nDelete all the libraries.\nWhen called without the optional mode argument, the behavior is determined by the\nlazyfree-lazy-user-flush configuration directive. Valid modes are:\n* ASYNC: Asynchronously flush the libraries.\n* SYNC: Synchronously flush the libraries.",
        ),
        sub(
            "DUMP",
            2,
            "\nReturn a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
        ),
        sub(
            "RESTORE",
            -3,
            "<PAYLOAD> [FLUSH|APPEND|REPLACE]\nRestore the libraries represented by the given payload, it is possible to give a restore policy to\ncontrol how to handle existing libraries (default APPEND):\n* FLUSH: delete all existing libraries.\n* APPEND: appends the restored libraries to the existing libraries. On collision, abort.\n* REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old\n  libraries with the new libraries (notice that even on this option there is a chance of failure\n  in case of functions name collision with another library).",
        ),
    ]),
];

fn fcall(call: &mut Call<'_>, words: Words<'_>, is_read_only: bool) -> Result<(), Refusal> {
    let libraries = Arc::clone(libraries(call)?);
    let function = libraries.function(words[1]);
    let function = function.ok_or("ERR Function not found")?;
    let number = integer(words[2]).map_err(|_| "ERR Bad number of keys provided")?;
    if number > words.len() as i64 - 3 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let number = usize::try_from(number).map_err(|_| "ERR Number of keys can't be negative")?;
    let (keys, arguments) = words[3..].split_at(number);
    let subject = Subject {
        name: &function.name,
        flags: function.rights(),
        function: &function.function,
    };
    let given = Given {
        words,
        keys,
        arguments,
        is_function: true,
    };
    run(call, &libraries.interpreter, subject, is_read_only, given)
}

/// The libraries of the server, which are loaded when they are needed for the first time.
fn libraries<'c>(call: &'c mut Call<'_>) -> Result<&'c mut Arc<Libraries>, Refusal> {
    if call.shared.libraries.is_none() {
        call.shared.libraries = Some(Arc::new(loaded(call)?));
    }
    let libraries = call.shared.libraries.as_mut();
    Ok(libraries.expect("they were loaded"))
}

/// Loads the libraries that the log has kept, so that they can be counted.
pub(in crate::commands) fn load_kept(call: &mut Call<'_>) {
    let has_some = !call.shared.databases[OWN_DATABASE].is_empty();
    if has_some && let Err(Refusal(why)) = libraries(call) {
        (call.shared.warnings.report)(&String::from_utf8_lossy(&why));
    }
}

/// The libraries, to be changed: while a function runs, FUNCTION changes nothing.
fn changing<'c>(call: &'c mut Call<'_>) -> Result<&'c mut Libraries, Refusal> {
    Ok(Arc::get_mut(libraries(call)?).expect("no function runs"))
}

/// Loads the libraries of the server.
fn loaded(call: &Call<'_>) -> Result<Libraries, Refusal> {
    let report = call.shared.warnings.report;
    let interpreter = Interpreter::new(report)
        .and_then(Interpreter::for_functions)
        .map_err(|error| format!("ERR Lua cannot be started: {error}"))?;
    let mut libraries = Libraries::new(interpreter);
    for (name, text) in call.shared.own_strings() {
        match libraries.load(&text, false) {
            Ok(loaded) => libraries.add(loaded),
            Err(Refusal(why)) => report(&format!(
                "the library {} of functions cannot be loaded: {}",
                String::from_utf8_lossy(&name),
                String::from_utf8_lossy(&why)
            )),
        }
    }
    Ok(libraries)
}

fn function(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match *words {
        [_, word, ref options @ .., text] if is(word, "LOAD") => load(call, options, text),
        [_, word, name] if is(word, "DELETE") => delete(call, name),
        [_, word, ref options @ ..] if is(word, "LIST") => list(call, options),
        [_, word] if is(word, "STATS") => stats(call),
        [_, word] if is(word, "KILL") => long::kill(call, true),
        [_, word, ref mode @ ..] if is(word, "FLUSH") => match *mode {
            [] => flush(call),
            [mode] if is(mode, "SYNC") || is(mode, "ASYNC") => flush(call),
            [_] => Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".into()),
            _ => Err(no_such_form(words)),
        },
        [_, word] if is(word, "DUMP") => {
            let texts = call.shared.own_strings();
            let payload = dump::of_functions(texts.iter().map(|(_, text)| text.as_slice()));
            call.reply().bulk(&payload);
            Ok(())
        }
        [_, word, payload, ref policy @ ..] if is(word, "RESTORE") && policy.len() <= 1 => {
            restore(call, payload, policy.first().copied())
        }
        _ => Err(no_such_form(words)),
    }
}

fn load(call: &mut Call<'_>, options: &[&[u8]], text: &[u8]) -> Result<(), Refusal> {
    if let Some(option) = options.iter().find(|option| !is(option, "REPLACE")) {
        return Err([b"ERR Unknown option given: ", *option].into());
    }
    let loaded = changing(call)?.load(text, !options.is_empty())?;
    let name = add(call, loaded)?;
    call.shared.watched.changes += 1;
    call.reply().bulk(name.as_bytes());
    Ok(())
}

/// Adds a library, also to the log, and returns its name.
fn add(call: &mut Call<'_>, loaded: Loaded) -> Result<Arc<str>, Refusal> {
    let name = Arc::clone(&loaded.name);
    call.shared.put_own(name.as_bytes(), &loaded.text);
    changing(call)?.add(loaded);
    Ok(name)
}

fn delete(call: &mut Call<'_>, name: &[u8]) -> Result<(), Refusal> {
    let libraries = changing(call)?;
    let known = std::str::from_utf8(name).ok();
    if !known.is_some_and(|name| libraries.remove(name)) {
        return Err("ERR Library not found".into());
    }
    call.shared.remove_own(name);
    call.shared.watched.changes += 1;
    call.reply().ok();
    Ok(())
}

fn flush(call: &mut Call<'_>) -> Result<(), Refusal> {
    call.shared.clear_own();
    call.shared.libraries = None;
    call.shared.watched.changes += 1;
    call.reply().ok();
    Ok(())
}

fn restore(call: &mut Call<'_>, payload: &[u8], policy: Option<&[u8]>) -> Result<(), Refusal> {
    let has = |name| policy.is_some_and(|policy| is(policy, name));
    let (replaces, replaces_all) = (has("REPLACE"), has("FLUSH"));
    if policy.is_some() && !replaces && !replaces_all && !has("APPEND") {
        return Err(
            "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."
                .into(),
        );
    }
    let texts = dump::functions_in(payload)?;
    let all = changing(call)?.load_all(&texts, replaces, replaces_all)?;
    if replaces_all {
        call.shared.clear_own();
        changing(call)?.clear();
    }
    for loaded in all {
        add(call, loaded)?;
    }
    call.shared.watched.changes += 1;
    call.reply().ok();
    Ok(())
}

/// The options of FUNCTION LIST.
#[derive(Debug, Default)]
struct Listing<'w> {
    pattern: Option<&'w [u8]>,
    has_text: bool,
}

impl<'w> Listing<'w> {
    fn of(options: &[&'w [u8]]) -> Result<Self, Refusal> {
        let mut listing = Self::default();
        let mut rest = options.iter();
        while let Some(option) = rest.next() {
            if !listing.has_text && is(option, "WITHCODE") {
                listing.has_text = true;
            } else if listing.pattern.is_none() && is(option, "LIBRARYNAME") {
                let pattern = rest.next();
                listing.pattern = Some(pattern.ok_or("ERR library name argument was not given")?);
            } else {
                return Err([b"ERR Unknown argument ", *option].into());
            }
        }
        Ok(listing)
    }
}

fn list(call: &mut Call<'_>, options: &[&[u8]]) -> Result<(), Refusal> {
    let listing = Listing::of(options)?;
    let libraries = Arc::clone(libraries(call)?);
    let texts = call.shared.own_strings();
    let is_shown = |name: &str| {
        let pattern = listing.pattern;
        pattern.is_none_or(|pattern| {
            glob(
                &pattern.to_ascii_lowercase(),
                &name.to_ascii_lowercase().into_bytes(),
            )
        })
    };
    let shown: Vec<_> = libraries
        .iter()
        .filter(|(name, _)| is_shown(name))
        .collect();
    let mut reply = call.reply();
    reply.array(shown.len());
    for (name, functions) in shown {
        reply.map(if listing.has_text { 4 } else { 3 });
        for word in ["library_name", name, "engine", "LUA", "functions"] {
            reply.bulk(word.as_bytes());
        }
        reply.array(functions.len());
        for function in functions {
            reply.map(3);
            for word in ["name", &*function.name, "description"] {
                reply.bulk(word.as_bytes());
            }
            reply.maybe(function.description.as_deref());
            reply.bulk(b"flags");
            reply.set(function.flag_names().count());
            function.flag_names().for_each(|flag| reply.simple(flag));
        }
        if listing.has_text {
            reply.bulk(b"library_code");
            let text = texts.iter().find(|(known, _)| known == name.as_bytes());
            reply.bulk(text.map_or(&b""[..], |(_, text)| text));
        }
    }
    Ok(())
}

fn stats(call: &mut Call<'_>) -> Result<(), Refusal> {
    if let Some(script) = &call.shared.long_script
        && !script.is_function
    {
        return Err(script.refusal());
    }
    let (count, functions) = libraries(call)?.counts();
    let script = call.shared.long_script.take();
    let mut reply = call.reply();
    reply.map(2);
    reply.bulk(b"running_script");
    match &script {
        Some(script) => long::describe(script, &mut reply),
        None => reply.null(),
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    for (name, count) in [("libraries_count", count), ("functions_count", functions)] {
        reply.bulk(name.as_bytes());
        reply.count(count);
    }
    call.shared.long_script = script;
    Ok(())
}
