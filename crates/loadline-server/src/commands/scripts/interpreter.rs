//! The Lua state of the server: its environment, the scripts that it knows, and limits.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

use super::libraries::{self, random::Random};
use super::progress::{Flags, Progress};
use super::{convert, failure};
use crate::commands::{Refusal, Words};

/// Memory that all scripts share, in bytes.
const MEMORY_BYTES: usize = 256 << 20;
/// Instructions between two looks at the clock.
const HOOK_EVERY: u32 = 100_000;
/// The name of scripts in errors.
const NAME: &str = "@user_script";
const SHEBANG: &[u8] = b"#!";

/// The function that executes the commands of a script: the reply of each, or the text of its error.
pub(super) type Execute<'e> =
    dyn FnMut(&Lua, &MultiValue) -> mlua::Result<Result<Value, Vec<u8>>> + 'e;

/// A compiled script.
#[derive(Debug, Clone)]
pub(super) struct Script {
    /// The SHA-1 of the text, in hexadecimal digits.
    pub(super) digest: Arc<str>,
    pub(super) flags: Flags,
    function: Function,
}

/// Lua, with the environment of scripts.
#[derive(Debug)]
pub(crate) struct Interpreter {
    lua: Lua,
    environment: Table,
    /// The variables that scripts see, where KEYS and ARGV are set.
    visible: Table,
    /// The library with the functions that execute commands.
    redis: Table,
    run: Function,
    scripts: HashMap<Arc<str>, Script>,
    progress: Arc<Progress>,
    begun: Instant,
}

impl Interpreter {
    /// Starts Lua. `report` gets what scripts log, and `knows` returns whether there is a command with a name.
    ///
    /// # Errors
    /// If Lua cannot be started.
    pub(super) fn new(report: fn(&str), knows: fn(&[u8]) -> bool) -> mlua::Result<Self> {
        let standard = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(standard, LuaOptions::default())?;
        lua.set_memory_limit(MEMORY_BYTES)?;
        let server = lua.create_table()?;
        let progress = Arc::new(Progress::default());
        let all = libraries::all(&lua, report, knows, &progress)?;
        let redis = all.get("redis")?;
        server.set("libraries", all)?;
        Random::default().register(&lua, &server)?;
        failure::register(&lua, &server)?;
        let prelude = lua
            .load(include_str!("prelude.lua"))
            .set_name(failure::SERVER);
        let (environment, visible, run) = prelude.call(server)?;
        let begun = Instant::now();
        limit_time(&lua, Arc::clone(&progress), begun)?;
        Ok(Self {
            lua,
            environment,
            visible,
            redis,
            run,
            scripts: HashMap::new(),
            progress,
            begun,
        })
    }

    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The script with this digest, in any case.
    pub(super) fn known(&self, digest: &[u8]) -> Option<Script> {
        let digest = std::str::from_utf8(digest).ok()?.to_ascii_lowercase();
        self.scripts.get(digest.as_str()).cloned()
    }

    /// Compiles a script, or finds it among those that were compiled.
    ///
    /// # Errors
    /// The reply if the text is no script.
    pub(super) fn compile(&mut self, text: &[u8]) -> Result<Script, Refusal> {
        let digest = sha1_smol::Sha1::from(text).digest().to_string();
        if let Some(script) = self.scripts.get(digest.as_str()) {
            return Ok(script.clone());
        }
        let (flags, body) = declared(text)?;
        let chunk = self.lua.load(body).set_name(NAME);
        let chunk = chunk
            .set_mode(ChunkMode::Text)
            .set_environment(self.environment.clone());
        let function = chunk.into_function().map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => {
                format!("ERR Error compiling script (new function): {message}").into()
            }
            error => Refusal::from(format!("ERR Error compiling script: {error}")),
        })?;
        let digest: Arc<str> = digest.into();
        let script = Script {
            digest: Arc::clone(&digest),
            flags,
            function,
        };
        self.scripts.insert(digest, script.clone());
        Ok(script)
    }

    /// Runs a script, which executes commands by `execute`, for at most `limit_ms` milliseconds until its first write; 0 for no
    /// limit.
    ///
    /// # Errors
    /// The reply of a script that failed.
    pub(super) fn run(
        &self,
        script: &Script,
        keys: Words<'_>,
        arguments: Words<'_>,
        limit_ms: u64,
        execute: &mut Execute<'_>,
    ) -> Result<Value, Refusal> {
        let now = millis(self.begun.elapsed());
        let ends_at = match limit_ms {
            0 => u64::MAX,
            limit => now.saturating_add(limit),
        };
        self.progress.begin(ends_at);
        let outcome = self.call(&script.function, keys, arguments, execute);
        if self.progress.is_over() {
            self.lua.remove_global_hook();
            let again = limit_time(&self.lua, Arc::clone(&self.progress), self.begun);
            again.map_err(|error| failure::fatal(&script.digest, &error))?;
            return Err(format!(
                "ERR Error running script: it was ended after {limit_ms} ms without a write (busy-reply-threshold)"
            )
            .into());
        }
        match outcome.map_err(|error| failure::fatal(&script.digest, &error))? {
            (true, value) => Ok(value),
            (false, error) => Err(failure::refusal(&script.digest, &error)),
        }
    }

    fn call(
        &self,
        function: &Function,
        keys: Words<'_>,
        arguments: Words<'_>,
        execute: &mut Execute<'_>,
    ) -> mlua::Result<(bool, Value)> {
        self.visible.raw_set("KEYS", self.list(keys)?)?;
        self.visible.raw_set("ARGV", self.list(arguments)?)?;
        let execute = RefCell::new(execute);
        // A command cannot call a script, so the borrow never fails.
        let execute = |lua: &Lua, arguments: &MultiValue| {
            let execute = execute.try_borrow_mut();
            execute.map_err(|_| mlua::Error::RecursiveMutCallback)?(lua, arguments)
        };
        self.lua.scope(|scope| {
            let call = scope.create_function(|lua, arguments: MultiValue| {
                let reply = execute(lua, &arguments)?;
                reply.map_err(failure::reply)
            })?;
            self.redis.raw_set("call", call)?;
            let pcall = scope.create_function(|lua, arguments: MultiValue| {
                execute(lua, &arguments)?.or_else(|text| convert::error(lua, &text))
            })?;
            self.redis.raw_set("pcall", pcall)?;
            self.run.call(function)
        })
    }

    fn list(&self, words: Words<'_>) -> mlua::Result<Table> {
        let list = self.lua.create_table_with_capacity(words.len(), 0)?;
        for (place, word) in words.iter().enumerate() {
            list.raw_set(place + 1, self.lua.create_string(word)?)?;
        }
        Ok(list)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Ends scripts that run for too long before they write. One that has written goes on, because its effects must not be
/// incomplete.
fn limit_time(lua: &Lua, progress: Arc<Progress>, begun: Instant) -> mlua::Result<()> {
    let triggers = HookTriggers::new().every_nth_instruction(HOOK_EVERY);
    lua.set_global_hook(triggers, move |lua, _| {
        let now = millis(begun.elapsed());
        if !progress.ends(now) {
            return Ok(mlua::VmState::Continue);
        }
        if progress.end() {
            // From here on every instruction fails, since a script can catch errors.
            let every = HookTriggers::new().every_nth_instruction(1);
            lua.set_global_hook(every, |_, _| {
                Err(mlua::Error::runtime("the script is over"))
            })?;
        }
        Err(mlua::Error::runtime("the script is over"))
    })
}

/// The flags in the first line of a script, and the script without that line's text.
fn declared(text: &[u8]) -> Result<(Flags, Vec<u8>), Refusal> {
    let Some(rest) = text.strip_prefix(SHEBANG) else {
        return Ok((Flags::default(), text.to_vec()));
    };
    let end = rest.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or("ERR Invalid script shebang")?;
    let line = String::from_utf8_lossy(&rest[..end]).into_owned();
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or("");
    if engine != "lua" {
        return Err(format!("ERR Unexpected engine in script shebang: #!{engine}").into());
    }
    let mut flags = Flags {
        is_declared: true,
        ..Flags::default()
    };
    for word in words {
        let names = word
            .strip_prefix("flags=")
            .ok_or_else(|| format!("ERR Unknown lua shebang option: {word}"))?;
        for name in names.split(',').filter(|name| !name.is_empty()) {
            match name {
                "no-writes" => flags.no_writes = true,
                "allow-oom" => flags.allow_oom = true,
                "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                _ => return Err(format!("ERR Unexpected flag in script shebang: {name}").into()),
            }
        }
    }
    // The line stays, empty, so that errors name the right ones.
    Ok((flags, rest[end..].to_vec()))
}
