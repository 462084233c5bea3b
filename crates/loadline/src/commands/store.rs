//! `loadline store`: works on the directory of a store that is not open.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use loadline_resp::{Limits, Request, RequestParser, encode};
use loadline_store::{Batch, Checked, Error, Options, Store, Torn};

use crate::args::{StoreAction, StoreArgs};
use crate::exit::{Exit, Failure};
use crate::files;

/// Buffer size for reading.
const READ_BYTES: usize = 64 << 10;

/// Writes that an import applies in one batch.
const BATCH_WRITES: usize = 100;

pub(super) fn run(args: &StoreArgs) -> anyhow::Result<ExitCode> {
    match &args.action {
        StoreAction::Check(dir) => check(&dir.dir)?,
        StoreAction::Stat(dir) => stat(&dir.dir)?,
        StoreAction::Compact(dir) => compact(&dir.dir)?,
        StoreAction::Repair { dir, drop } => repair(&dir.dir, *drop)?,
        StoreAction::Export(dir) => export(&dir.dir)?,
        StoreAction::Import(dir) => import(&dir.dir)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn check(dir: &Path) -> Result<(), Failure> {
    let checked = Store::check(dir).map_err(|error| failure(&error))?;
    if checked.damage.is_some() {
        return Err(Failure::bad_file(damage(dir, &checked)));
    }
    files::print(&format!(
        "files {}, records {}, bytes {}: sound\n{}",
        checked.files,
        checked.records,
        checked.bytes,
        torn(checked.torn.as_ref())
    ))
}

fn stat(dir: &Path) -> Result<(), Failure> {
    let stats = open_existing(dir)?.stats();
    files::print(&format!(
        "keys           {}\nlive bytes     {}\ndisk bytes     {}\nfiles          {}\nmemory bytes   {}\nmapped         {}\n{}",
        stats.keys,
        stats.live_bytes,
        stats.disk_bytes,
        stats.segments,
        stats.memory_bytes,
        if stats.is_mapped { "yes" } else { "no" },
        torn(stats.torn.as_ref())
    ))
}

fn compact(dir: &Path) -> Result<(), Failure> {
    let store = open_existing(dir)?;
    let before = store.stats().disk_bytes;
    store.compact().map_err(|error| failure(&error))?;
    store.close().map_err(|error| failure(&error))?;
    let checked = Store::check(dir).map_err(|error| failure(&error))?;
    files::print(&format!(
        "{before} bytes before, {} bytes now.\n",
        checked.bytes
    ))
}

fn repair(dir: &Path, drops: bool) -> Result<(), Failure> {
    let checked = match drops {
        true => Store::repair(dir),
        false => Store::check(dir),
    };
    let checked = checked.map_err(|error| failure(&error))?;
    let Some(damage) = &checked.damage else {
        return files::print(&format!(
            "Nothing is damaged.\n{}",
            torn(checked.torn.as_ref())
        ));
    };
    let what = format!(
        "{} bytes from byte {} of {} on, with {} whole records, ",
        damage.bytes,
        damage.offset,
        damage.path.display(),
        damage.records
    );
    files::print(&if drops {
        format!("{what}were dropped.\n")
    } else {
        format!("{what}would be dropped by --drop.\n")
    })
}

fn export(dir: &Path) -> Result<(), Failure> {
    let store = open_existing(dir)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    let mut command = Vec::new();
    let mut cursor = 0;
    loop {
        let next = store.scan_entries(cursor, 1, |key, value, expires_at| {
            command.clear();
            match expires_at {
                None => encode::command(&mut command, &[b"SET", key, value]),
                Some(at) => {
                    let at = at.to_string();
                    let words = [b"SET", key, value, b"PXAT", at.as_bytes()];
                    encode::command(&mut command, &words);
                }
            }
            if written.is_ok() {
                written = out.write_all(&command);
            }
        });
        cursor = next.map_err(|error| failure(&error))?;
        if cursor == 0 || written.is_err() {
            break;
        }
    }
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(
            Exit::BadFile,
            format!("standard output could not be written: {error}."),
        )),
        _ => {
            let unshown = store.unshown_keys();
            if unshown > 0 {
                files::warn(&format!(
                    "{unshown} keys are not in the export: it has the strings of database 0 only"
                ));
            }
            Ok(())
        }
    }
}

fn import(dir: &Path) -> Result<(), Failure> {
    let store = open(dir)?;
    let mut parser = RequestParser::new(Limits::default());
    let mut input = io::stdin().lock();
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; READ_BYTES]);
    let (mut batch, mut entries) = (Batch::new(), 0_u64);
    loop {
        let read = input.read(&mut chunk);
        let read = read.map_err(|error| {
            Failure::bad_file(format!("standard input cannot be read: {error}."))
        })?;
        bytes.extend_from_slice(&chunk[..read]);
        let mut at = 0;
        loop {
            let parsed = parser.parse(&bytes[at..]);
            let (used, request) =
                parsed.map_err(|error| not_an_export(entries, &error.to_string()))?;
            let Some(request) = request else {
                at += used;
                break;
            };
            add(&mut batch, &request).map_err(|reason| not_an_export(entries, reason))?;
            at += used;
            entries += 1;
            if batch.len() == BATCH_WRITES {
                store.apply(&batch).map_err(|error| failure(&error))?;
                batch.clear();
            }
        }
        bytes.drain(..at);
        if read == 0 {
            break;
        }
    }
    store.apply(&batch).map_err(|error| failure(&error))?;
    if !bytes.is_empty() {
        return Err(not_an_export(entries, "the last command is not complete"));
    }
    store.close().map_err(|error| failure(&error))?;
    files::print(&format!("{entries} entries.\n"))
}

/// Adds the write of a SET command to a batch.
fn add(batch: &mut Batch, request: &Request<'_>) -> Result<(), &'static str> {
    const EXPECTED: &str = "expected SET KEY VALUE [PXAT MILLISECONDS]";
    let is = |place: usize, word: &str| {
        let found = request.get(place);
        found.is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
    };
    let expires_at = match request.len() {
        3 => None,
        5 if is(3, "PXAT") => {
            let text = std::str::from_utf8(&request[4]).map_err(|_| EXPECTED)?;
            Some(text.parse().map_err(|_| EXPECTED)?)
        }
        _ => return Err(EXPECTED),
    };
    if !is(0, "SET") {
        return Err(EXPECTED);
    }
    batch.put_until(&request[1], &request[2], expires_at);
    Ok(())
}

fn not_an_export(entries: u64, reason: &str) -> Failure {
    Failure::bad_file(format!(
        "standard input is not an export: {reason}, after {entries} commands."
    ))
}

/// Opens an existing store.
fn open_existing(dir: &Path) -> Result<Store, Failure> {
    Store::check(dir).map_err(|error| failure(&error))?;
    open(dir)
}

fn open(dir: &Path) -> Result<Store, Failure> {
    Store::open(dir, Options::new()).map_err(|error| failure_in(dir, &error))
}

/// The failure to open the store in `dir`.
pub(super) fn failure_in(dir: &Path, error: &Error) -> Failure {
    match error {
        Error::Damaged { .. } => failure(error).followed_by(&advice(dir)),
        _ => failure(error),
    }
}

fn damage(dir: &Path, checked: &Checked) -> String {
    let damage = checked.damage.as_ref().map_or_else(String::new, |damage| {
        format!(
            "{} is damaged at byte {}: {}.",
            damage.path.display(),
            damage.offset,
            damage.reason
        )
    });
    format!("{damage}\n{}", advice(dir))
}

fn advice(dir: &Path) -> String {
    format!(
        "`loadline store repair {}` shows what a repair would drop.",
        dir.display()
    )
}

/// A line about an incomplete record at the end, if there is one.
fn torn(torn: Option<&Torn>) -> String {
    torn.map_or_else(String::new, |torn| {
        format!(
            "The last {} bytes, from byte {} of {} on, are an incomplete record and are ignored.\n",
            torn.bytes,
            torn.offset,
            torn.path.display()
        )
    })
}

fn failure(error: &Error) -> Failure {
    let exit = match error {
        Error::Damaged { .. } | Error::Version { .. } => Exit::BadFile,
        _ => Exit::Unavailable,
    };
    Failure::new(exit, format!("{error}."))
}
