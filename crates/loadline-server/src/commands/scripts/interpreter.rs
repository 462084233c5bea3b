//! The Lua state of the server: its environment, the scripts that it knows, and limits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value};

use super::calls::{self, Commands};
use super::failure;
use super::failure::Failed;
use super::libraries::{
    self,
    random::Random,
    register::{Registered, Registry},
};
use super::progress::{Flags, Progress};
use super::runner::{Ended, Given, Runner};
use crate::commands::Refusal;

/// Memory that all scripts share, in bytes.
const MEMORY_BYTES: usize = 256 << 20;
/// The most bytes of memory for a byte of a request or a reply: an empty map of 4 bytes becomes two tables.
const BYTES_FOR_BYTE: usize = 64;
/// Bytes of a request that would need more memory than the names of the fields of a reply.
const NAMES_BYTES: usize = 256;
/// Instructions between two looks at the clock.
const HOOK_EVERY: u32 = 100_000;
/// The name of scripts in errors.
const NAME: &str = "@user_script";
/// The name of libraries of functions in errors.
const LIBRARY_NAME: &str = "@user_function";
/// The most milliseconds that a library runs to register its functions.
const LOAD_MS: u64 = 500;
/// Digits of a SHA-1.
pub(super) const DIGEST_DIGITS: usize = 40;
const SHEBANG: &[u8] = b"#!";

/// A compiled script.
#[derive(Debug)]
pub(super) struct Script {
    /// The SHA-1 of the text, in hexadecimal digits.
    pub(super) digest: Arc<str>,
    pub(super) flags: Flags,
    pub(super) function: Function,
}

/// Lua, with the environment of scripts.
#[derive(Debug)]
pub(crate) struct Interpreter {
    lua: Lua,
    environment: Table,
    /// The library with the functions that execute commands.
    redis: Table,
    runner: Runner,
    run_library: Function,
    /// The environment of libraries of functions, and what switches it: while a library is loaded, it has only what registers
    /// functions.
    of_functions: Table,
    set_loading: Function,
    registry: Registry,
    scripts: HashMap<Arc<str>, Arc<Script>>,
    progress: Arc<Progress>,
    begun: Instant,
}

impl Interpreter {
    /// Starts Lua. `report` gets what scripts log.
    ///
    /// # Errors
    /// If Lua cannot be started.
    pub(super) fn new(report: fn(&str)) -> mlua::Result<Self> {
        let standard = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(standard, LuaOptions::default())?;
        lua.set_memory_limit(MEMORY_BYTES)?;
        let server = lua.create_table()?;
        let progress = Arc::new(Progress::default());
        let all = libraries::all(&lua, report, &progress)?;
        let redis = all.get("redis")?;
        calls::add_to(&lua, &redis)?;
        server.set("libraries", all)?;
        let registry = Registry::default();
        server.set("loading", libraries::loading(&lua, report, &registry)?)?;
        Random::default().register(&lua, &server)?;
        failure::register(&lua, &server)?;
        let prelude = lua
            .load(include_str!("prelude.lua"))
            .set_name(failure::SERVER);
        let (environment, globals, handler, run_library, of_functions, set_loading): (
            _,
            Table,
            _,
            _,
            _,
            _,
        ) = prelude.call(server)?;
        let runner = Runner::new(&lua, &globals, handler)?;
        let begun = Instant::now();
        limit_time(&lua, Arc::clone(&progress), begun)?;
        Ok(Self {
            lua,
            environment,
            redis,
            runner,
            run_library,
            of_functions,
            set_loading,
            registry,
            scripts: HashMap::new(),
            progress,
            begun,
        })
    }

    /// Removes what only scripts have, and functions have not.
    ///
    /// # Errors
    /// If Lua has no memory.
    pub(super) fn for_functions(self) -> mlua::Result<Self> {
        for name in ["breakpoint", "debug", "replicate_commands"] {
            self.redis.raw_set(name, Value::Nil)?;
        }
        Ok(self)
    }

    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The script with this digest, in any case.
    pub(super) fn known(&self, digest: &[u8]) -> Option<Arc<Script>> {
        let mut lower = <[u8; DIGEST_DIGITS]>::try_from(digest).ok()?;
        lower.make_ascii_lowercase();
        self.scripts.get(str::from_utf8(&lower).ok()?).cloned()
    }

    /// The number of compiled scripts.
    pub(super) fn scripts(&self) -> usize {
        self.scripts.len()
    }

    /// Bytes of memory that Lua uses.
    pub(super) fn memory_bytes(&self) -> usize {
        self.lua.used_memory()
    }

    /// Compiles a script, or finds it among those that were compiled.
    ///
    /// # Errors
    /// The reply if the text is no script.
    pub(super) fn compile(&mut self, text: &[u8]) -> Result<Arc<Script>, Refusal> {
        let digest = sha1_smol::Sha1::from(text).digest().to_string();
        if let Some(script) = self.scripts.get(digest.as_str()) {
            return Ok(Arc::clone(script));
        }
        let (flags, body) = declared(text)?;
        let function = self
            .chunk(&body, NAME, &self.environment)
            .map_err(|error| match error {
                mlua::Error::SyntaxError { message, .. } => {
                    format!("ERR Error compiling script (new function): {message}").into()
                }
                error => Refusal::from(format!("ERR Error compiling script: {error}")),
            })?;
        let digest: Arc<str> = digest.into();
        let script = Arc::new(Script {
            digest: Arc::clone(&digest),
            flags,
            function,
        });
        self.scripts.insert(digest, Arc::clone(&script));
        Ok(script)
    }

    fn chunk(&self, text: &[u8], name: &str, environment: &Table) -> mlua::Result<Function> {
        let chunk = self.lua.load(text).set_name(name);
        let chunk = chunk
            .set_mode(ChunkMode::Text)
            .set_environment(environment.clone());
        chunk.into_function()
    }

    /// Loads a library of functions, and returns those that it registers.
    ///
    /// # Errors
    /// The reply if the text is no library, or fails.
    pub(super) fn load(&self, text: &[u8]) -> Result<Vec<Registered>, Refusal> {
        let chunk = self.chunk(text, LIBRARY_NAME, &self.of_functions);
        let chunk = chunk.map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => {
                Refusal::from(format!("ERR Error compiling function: {message}"))
            }
            error => format!("ERR Error compiling function: {error}").into(),
        })?;
        let failed = |error: mlua::Error| failed_to_register(&Value::Error(Box::new(error)));
        self.registry.begin();
        self.progress
            .begin(self.now().saturating_add(LOAD_MS), false);
        let switched = self.set_loading.call::<()>(true);
        let outcome = switched.and_then(|()| self.run_library.call::<(bool, Value)>(chunk));
        let registered = self.registry.end();
        let is_over = self.progress.is_over();
        if is_over {
            self.renew_limit().map_err(failed)?;
        }
        self.set_loading.call::<()>(false).map_err(failed)?;
        if is_over {
            return Err("ERR Error registering functions: ERR FUNCTION LOAD timeout".into());
        }
        match outcome.map_err(failed)? {
            (true, _) => Ok(registered),
            (false, error) => Err(failed_to_register(&error)),
        }
    }

    fn now(&self) -> u64 {
        millis(self.begun.elapsed())
    }

    /// Sets the usual hook again after a script was ended.
    fn renew_limit(&self) -> mlua::Result<()> {
        self.lua.remove_global_hook();
        limit_time(&self.lua, Arc::clone(&self.progress), self.begun)
    }

    /// Runs a script or a function, which calls `commands`. After `long_ms` milliseconds, others are served meanwhile; 0 for
    /// never. Returns the result unless `commands` have written it.
    ///
    /// # Errors
    /// The reply of a script that failed.
    pub(super) fn run(
        &self,
        (name, function): (&str, &Function),
        given: Given<'_>,
        long_ms: u64,
        commands: &mut dyn Commands,
    ) -> Result<Option<Value>, Failed> {
        let long_at = match long_ms {
            0 => u64::MAX,
            limit => self.now().saturating_add(limit),
        };
        self.progress.begin(long_at, true);
        let outcome = self.runner.run(&self.lua, function, given, commands);
        if self.progress.is_over() {
            let renewed = self.renew_limit();
            renewed.map_err(|error| failure::fatal(name, &error))?;
            return Err(failure::ended(name, self.progress.ended_at()).into());
        }
        let has_failed = matches!(outcome, Ok(Ended::Failed(_)) | Err(_));
        if has_failed && self.lua.used_memory() > MEMORY_BYTES / 2 {
            // Lua 5.1 does not collect its garbage when it has no memory left, so the next script would fail too.
            self.lua
                .gc_collect()
                .map_err(|error| failure::fatal(name, &error))?;
        }
        match outcome.map_err(|error| failure::fatal(name, &error))? {
            Ended::Replied => Ok(None),
            Ended::Returned(value) => Ok(Some(value)),
            Ended::Failed(error) => Err(failure::failed(name, &error)),
        }
    }

    /// Reads a value of a script. Lua makes the names of the fields of a table for that.
    ///
    /// # Errors
    /// If Lua cannot be used.
    pub(super) fn read<R>(&self, value: Value, read: impl FnOnce(Value) -> R) -> mlua::Result<R> {
        if !value.is_table() {
            return Ok(read(value));
        }
        make(&self.lua, NAMES_BYTES, || Ok(read(value)))
    }
}

/// Makes values of Lua of a request or a reply of this many bytes. Where these fit into the memory of scripts for certain, its limit
/// is suspended: otherwise, each step is a call of Lua of its own that can fail, which takes longer than the step.
///
/// # Errors
/// Those of `make`.
pub(super) fn make<R>(
    lua: &Lua,
    bytes: usize,
    make: impl FnOnce() -> mlua::Result<R>,
) -> mlua::Result<R> {
    let most = bytes.saturating_mul(BYTES_FOR_BYTE);
    if lua.used_memory().saturating_add(most) > MEMORY_BYTES {
        return make();
    }
    lua.set_memory_limit(0)?;
    let made = make();
    lua.set_memory_limit(MEMORY_BYTES)?;
    made
}

fn failed_to_register(error: &Value) -> Refusal {
    let text = failure::caught_text(error);
    [b"ERR Error registering functions: ", &text[..]].into()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Serves other clients while a script runs for long, until it is ended.
fn limit_time(lua: &Lua, progress: Arc<Progress>, begun: Instant) -> mlua::Result<()> {
    let triggers = HookTriggers::new().every_nth_instruction(HOOK_EVERY);
    lua.set_global_hook(triggers, move |lua, _| {
        if !progress.is_long(millis(begun.elapsed())) {
            return Ok(mlua::VmState::Continue);
        }
        if progress.goes_on() && calls::with_commands(|commands| commands.serve_others())? {
            return Ok(mlua::VmState::Continue);
        }
        progress.end(failure::whereabouts(lua, 0));
        // From here on every instruction fails, since a script can catch errors.
        let every = HookTriggers::new().every_nth_instruction(1);
        lua.set_global_hook(every, |_, _| {
            Err(mlua::Error::runtime("the script is over"))
        })?;
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
