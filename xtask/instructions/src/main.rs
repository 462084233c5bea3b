//! Fixed operations of the codec, the store, the server and the client. `cargo xtask instructions` runs this program
//! under callgrind and divides what each measured function executes by its operations.
//!
//! A measured function is never inlined, so that it has a symbol of its own, and begins with a constant that no other
//! one has ([`distinct`]), so that the linker does not merge two functions with the same body. The program prints a
//! line for each: the name of the function and the operations of one call.

#[cfg(feature = "sockets")]
mod client;
mod codec;
#[cfg(feature = "sockets")]
mod server;
mod store;

use std::io::Write;

/// The bytes of a value.
const VALUE: &[u8] = &[b'v'; 64];
/// Different keys.
const KEYS: usize = 1_000;

/// A function whose instructions are counted.
#[derive(Clone, Copy, Debug)]
struct Measured {
    function: &'static str,
    /// Operations of one call.
    operations: u64,
}

impl Measured {
    /// The function `function`, which is passed for its name; it must not be a closure.
    fn new<F>(function: &F, operations: u64) -> Self {
        Self {
            function: std::any::type_name_of_val(function),
            operations,
        }
    }
}

/// Makes the body of a function differ from all others.
#[inline]
fn distinct(name: &'static str) {
    std::hint::black_box(name);
}

/// The names of [`KEYS`] keys.
fn keys() -> Vec<String> {
    (0..KEYS)
        .map(|number| format!("key:{number:012}"))
        .collect()
}

/// The functions of the server and the client; none without the feature.
fn of_sockets() -> anyhow::Result<Vec<Measured>> {
    #[cfg(feature = "sockets")]
    let all = [server::run()?, client::run()?].concat();
    #[cfg(not(feature = "sockets"))]
    let all = Vec::new();
    Ok(all)
}

fn main() -> anyhow::Result<()> {
    let all = [codec::run()?, store::run(), of_sockets()?];
    let mut out = std::io::stdout().lock();
    for measured in all.concat() {
        writeln!(out, "{} {}", measured.function, measured.operations)?;
    }
    Ok(())
}
