//! `loadline store export`: all entries as commands of Redis.

use std::io::{self, Write};
use std::path::Path;

use loadline_resp::encode;
use loadline_server::{FUNCTION_DATABASE, dumped};
use loadline_store::View;

use super::{Ticker, failure_in, open_read_only};
use crate::exit::Failure;
use crate::files;

pub(super) fn export(dir: &Path) -> Result<(), Failure> {
    let store = open_read_only(dir)?;
    let mut out = Exporter {
        out: io::BufWriter::new(io::stdout().lock()),
        written: Ok(()),
        database: 0,
        entries: 0,
    };
    let keys = store.stats().keys;
    let mut progress = Ticker::start();
    let mut cursor = 0;
    // The strings of the first database first: a store of the library takes them without more memory than it needs.
    loop {
        let next = store.scan_entries(cursor, 1, |key, value, expires_at| {
            out.put(0, key, View::String(value), expires_at);
        });
        cursor = next.map_err(|error| failure_in(dir, &error))?;
        progress.tick(|| format!("{} of {keys} keys exported", out.entries));
        if cursor == 0 || out.written.is_err() {
            break;
        }
    }
    let others = store.scan_others(|database, key, value, expires_at| {
        out.put(database, key, value, expires_at);
        progress.tick(|| format!("{} keys exported", out.entries));
    });
    others.map_err(|error| failure_in(dir, &error))?;
    let Exporter {
        mut out, written, ..
    } = out;
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(files::stdout_failed(&error))
        }
        _ => Ok(()),
    }
}

/// Writes entries, and keeps the first error.
struct Exporter<W> {
    out: W,
    written: io::Result<()>,
    /// The database of the last command.
    database: usize,
    entries: u64,
}

impl<W: Write> Exporter<W> {
    fn put(&mut self, database: usize, key: &[u8], value: View<'_>, expires_at: Option<u64>) {
        self.entries += 1;
        if database == FUNCTION_DATABASE {
            if let View::String(text) = value {
                self.command(&[b"FUNCTION", b"LOAD", b"REPLACE", text]);
            }
            return;
        }
        if database != self.database {
            self.database = database;
            self.command(&[b"SELECT", database.to_string().as_bytes()]);
        }
        let at = expires_at.unwrap_or(0).to_string();
        let at = at.as_bytes();
        match (value, expires_at) {
            (View::String(value), None) => self.command(&[b"SET", key, value]),
            (View::String(value), Some(_)) => self.command(&[b"SET", key, value, b"PXAT", at]),
            (value, None) => self.command(&[b"RESTORE", key, at, &dumped(value), b"REPLACE"]),
            (value, Some(_)) => {
                let payload = dumped(value);
                self.command(&[b"RESTORE", key, at, &payload, b"REPLACE", b"ABSTTL"]);
            }
        }
    }

    fn command(&mut self, words: &[&[u8]]) {
        if self.written.is_ok() {
            let mut command = Vec::new();
            encode::command(&mut command, words);
            self.written = self.out.write_all(&command);
        }
    }
}
