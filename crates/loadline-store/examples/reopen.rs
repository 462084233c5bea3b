//! Time to open a store whose files are in the page cache, and one whose files have to be read from the disk: `cargo run
//! --release -p loadline-store --example reopen -- DIRECTORY VALUE_BYTES KEYS [OPENINGS]`.
//!
//! An empty directory is filled first. Each line has the time until the store is open, and until its first value is read.
//! With `OPENINGS`, the files stay in the page cache, and the median and the least of so many openings are shown. On a busy
//! machine, run it on one CPU (`taskset -c 1`), and two builds that are to be compared in turn.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use loadline_measure::quantile::median;
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
    // Hints that were left out are written now.
    Store::open(dir, Options::new())?.close()?;
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

/// Opens the store and reads a value. Returns the times until it is open, and until the value is read.
#[expect(clippy::disallowed_methods, reason = "an example that measures")]
fn open(dir: &str) -> Result<(Duration, Duration), Error> {
    let begun = Instant::now();
    let store = Store::open(dir, Options::new())?;
    let opened = begun.elapsed();
    let bytes = store.get_with(key(0).as_bytes(), |value| value.map(<[u8]>::len))?;
    let read = begun.elapsed();
    assert!(bytes.is_some(), "the store has another content");
    drop(black_box(store));
    Ok((opened, read))
}

fn show(name: &str, opened: Duration, read: Duration) {
    let _ = writeln!(
        std::io::stdout(),
        "{name}: open {opened:.2?}, first value {read:.2?}"
    );
}

/// Shows the median and the least of many openings.
fn open_often(dir: &str, openings: usize) -> Result<(), Error> {
    let times: Result<Vec<_>, Error> = (0..openings).map(|_| open(dir)).collect();
    let (opened, read): (Vec<Duration>, Vec<Duration>) = times?.into_iter().unzip();
    let middle = |times: &[Duration]| {
        let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
        Duration::from_secs_f64(median(&seconds).unwrap_or_default())
    };
    let least = |times: &[Duration]| times.iter().min().copied().unwrap_or_default();
    show("median", middle(&opened), middle(&read));
    show("least", least(&opened), least(&read));
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (dir, bytes, keys, openings) = match &args[..] {
        [dir, bytes, keys] => (dir, bytes, keys, None),
        [dir, bytes, keys, openings] => (dir, bytes, keys, Some(openings.parse()?)),
        _ => return Err("reopen DIRECTORY VALUE_BYTES KEYS [OPENINGS]".into()),
    };
    let (value, keys) = (vec![7; bytes.parse()?], keys.parse()?);
    let is_empty = std::fs::read_dir(dir).map_or(Ok(true), |mut files| {
        files.next().transpose().map(|file| file.is_none())
    })?;
    if is_empty {
        fill(dir, &value, keys)?;
    }
    if let Some(openings) = openings {
        open_often(dir, openings)?;
        return Ok(());
    }
    for _ in 0..TIMES {
        let (opened, read) = open(dir)?;
        show("in the page cache", opened, read);
    }
    for _ in 0..TIMES {
        forget(dir)?;
        let (opened, read) = open(dir)?;
        show("from the disk", opened, read);
    }
    Ok(())
}
