//! Time to open a store whose files are in the page cache, and one whose files have to be read from the disk: `cargo run
//! --release -p loadline-store --example reopen -- DIRECTORY VALUE_BYTES KEYS`.
//!
//! An empty directory is filled first. Each line has the time until the store is open, and until its first value is read.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use loadline_store::{Error, Options, Store};
use rustix::fs::{Advice, fadvise};

const TIMES: usize = 5;

fn key(number: u64) -> String {
    format!("key:{number:012}")
}

/// Writes the keys, and closes the store.
#[expect(clippy::disallowed_methods, reason = "an example that measures")]
fn fill(dir: &str, value: &[u8], keys: u64) -> Result<(), Error> {
    let begun = Instant::now();
    let store = Store::open(dir, Options::new())?;
    (0..keys).try_for_each(|number| store.put(key(number).as_bytes(), value))?;
    let written = begun.elapsed();
    store.close()?;
    let closed = begun.elapsed();
    let _ = writeln!(
        std::io::stdout(),
        "written in {written:.2?}, closed after {closed:.2?}"
    );
    Ok(())
}

/// Drops the files from the page cache. They have to be on the disk.
fn forget(dir: &str) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let file = File::open(entry?.path())?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "an example that measures")]
fn open(dir: &str, name: &str) -> Result<(), Error> {
    let begun = Instant::now();
    let store = Store::open(dir, Options::new())?;
    let opened = begun.elapsed();
    let bytes = store.get_with(key(0).as_bytes(), |value| value.map(<[u8]>::len))?;
    let read = begun.elapsed();
    let _ = writeln!(
        std::io::stdout(),
        "{name}: open {opened:.2?}, first value {read:.2?} ({} bytes)",
        bytes.unwrap_or_default()
    );
    drop(black_box(store));
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, bytes, keys] = &args[..] else {
        return Err("reopen DIRECTORY VALUE_BYTES KEYS".into());
    };
    let (value, keys) = (vec![7; bytes.parse()?], keys.parse()?);
    let is_empty = std::fs::read_dir(dir).map_or(Ok(true), |mut files| {
        files.next().transpose().map(|file| file.is_none())
    })?;
    if is_empty {
        fill(dir, &value, keys)?;
    }
    (0..TIMES).try_for_each(|_| open(dir, "in the page cache"))?;
    for _ in 0..TIMES {
        forget(dir)?;
        open(dir, "from the disk")?;
    }
    Ok(())
}
