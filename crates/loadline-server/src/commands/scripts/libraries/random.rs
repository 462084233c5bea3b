//! Random numbers of scripts: those of `lrand48`, from the same start in each interpreter, as in Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mlua::{Lua, Table, Value};

use super::{Arguments, Fault, add};

/// One more than the largest number, as scripts of Redis scale it.
const SCALE: f64 = i32::MAX as f64;

/// The state of the generator: 48 bits.
#[derive(Debug, Clone)]
pub(in crate::commands::scripts) struct Random(Arc<AtomicU64>);

impl Default for Random {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(0x1234_ABCD_330E)))
    }
}

impl Random {
    fn seed(&self, seed: u32) {
        let state = u64::from(seed) << 16 | 0x330E;
        self.0.store(state, Ordering::Relaxed);
    }

    fn next(&self) -> u64 {
        let state = self.0.load(Ordering::Relaxed);
        let state = state.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
        self.0.store(state, Ordering::Relaxed);
        state >> 17
    }

    /// Adds `random` and `random_seed`, which the prelude makes functions of `math`.
    ///
    /// # Errors
    /// If Lua has no memory.
    pub(in crate::commands::scripts) fn register(
        &self,
        lua: &Lua,
        server: &Table,
    ) -> mlua::Result<()> {
        let random = self.clone();
        let draw = move |lua: &Lua, arguments: &Arguments| {
            let drawn = (random.next() % i32::MAX as u64) as f64 / SCALE;
            let bounds = match arguments.len() {
                0 => return Ok(Value::Number(drawn)),
                1 => (1.0, arguments.number(lua, 1)?.trunc()),
                2 => (
                    arguments.number(lua, 1)?.trunc(),
                    arguments.number(lua, 2)?.trunc(),
                ),
                _ => return Err(Fault::from("wrong number of arguments")),
            };
            let (low, high) = bounds;
            if low > high {
                return Err(arguments.wrong(arguments.len(), "interval is empty"));
            }
            Ok(Value::Number((drawn * (high - low + 1.0)).floor() + low))
        };
        add(lua, server, "random", draw)?;
        let random = self.clone();
        add(lua, server, "random_seed", move |lua, arguments| {
            random.seed(arguments.number(lua, 1)? as i64 as u32);
            Ok(Value::Nil)
        })
    }
}
