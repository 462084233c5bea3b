//! `loadline store`: works on the directory of a store that is not open.

mod export;
mod import;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use loadline_store::{Checked, Error, Options, Store, Torn};

use crate::args::{StoreAction, StoreArgs};
use crate::exit::{Exit, Failure};
use crate::files;

pub(super) fn run(args: &StoreArgs) -> anyhow::Result<ExitCode> {
    match &args.action {
        StoreAction::Check(dir) => check(&dir.dir)?,
        StoreAction::Stat(dir) => stat(&dir.dir)?,
        StoreAction::Compact(dir) => compact(&dir.dir)?,
        StoreAction::Repair { dir, drop } => repair(&dir.dir, *drop)?,
        StoreAction::Export(dir) => export::export(&dir.dir)?,
        StoreAction::Import(dir) => import::import(&dir.dir)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn check(dir: &Path) -> Result<(), Failure> {
    let checked = Store::check(dir).map_err(|error| failure_in(dir, &error))?;
    if checked.damage.is_some() {
        return Err(Failure::bad_file(damage(dir, &checked)));
    }
    let outcome = match checked.torn {
        None => "sound",
        Some(_) => "the end is incomplete",
    };
    files::print(&format!(
        "files {}, records {}, bytes {}: {outcome}\n{}{}{}",
        checked.files,
        checked.records,
        checked.bytes,
        torn(checked.torn.as_ref()),
        hints(&checked),
        others(&checked)
    ))
}

/// Lines about files that are not a part of the store, if there are any.
fn others(checked: &Checked) -> String {
    let ignored = checked.ignored.iter().map(|ignored| {
        let path = ignored.path.display();
        match ignored.offset {
            0 => format!("{path} is ignored: {}.\n", ignored.reason),
            offset => format!(
                "{path} is ignored from byte {offset} on: {}.\n",
                ignored.reason
            ),
        }
    });
    let kept = checked.kept.iter().map(|path| {
        format!(
            "{} was cut off the log before and is not a part of the store. Remove it when you do not need it.\n",
            path.display()
        )
    });
    ignored.chain(kept).collect()
}

/// Lines about the hints, if there are any.
fn hints(checked: &Checked) -> String {
    let agreeing = match checked.hints {
        0 => String::new(),
        1 => "1 hint agrees with its file.\n".to_owned(),
        count => format!("{count} hints agree with their files.\n"),
    };
    let ignored = checked.ignored_hints.iter().map(|hint| {
        let path = hint.path.display();
        format!(
            "{path} is ignored and removed when the store is opened: {}.\n",
            hint.reason
        )
    });
    agreeing + &ignored.collect::<String>()
}

fn stat(dir: &Path) -> Result<(), Failure> {
    let stats = open_read_only(dir)?.stats();
    files::print(&format!(
        "keys           {}\nlive bytes     {}\ndisk bytes     {}\nfiles          {}\nread as hints  {}\nmemory bytes   {}\nmapped         {}\n{}",
        stats.keys,
        stats.live_bytes,
        stats.disk_bytes,
        stats.segments,
        stats.hints,
        stats.memory_bytes,
        if stats.is_mapped { "yes" } else { "no" },
        torn(stats.torn.as_ref())
    ))
}

fn compact(dir: &Path) -> Result<(), Failure> {
    let store = open_existing(dir)?;
    let before = store.stats().disk_bytes;
    let compacted = store.compact().and_then(|()| store.close());
    compacted.map_err(|error| failure_in(dir, &error))?;
    let checked = Store::check(dir).map_err(|error| failure_in(dir, &error))?;
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
    let checked = checked.map_err(|error| failure_in(dir, &error))?;
    let Some(damage) = &checked.damage else {
        return files::print(&format!(
            "Nothing is damaged.\n{}",
            torn(checked.torn.as_ref())
        ));
    };
    let path = damage.path.display();
    let what = if damage.bytes == 0 {
        let what = format!("{path}, byte {}: {}. ", damage.offset, damage.reason);
        match drops {
            true => format!("{what}The store goes on without them.\n"),
            false => format!(
                "{what}No repair brings them back. With --drop, the store goes on without them.\n"
            ),
        }
    } else {
        let what = format!(
            "{} bytes from byte {} of {path} on, with {} whole records, ",
            damage.bytes, damage.offset, damage.records
        );
        match drops {
            true => format!("{what}were dropped.{}\n", kept(&checked.kept)),
            false => format!("{what}would be dropped by --drop, and kept in *.torn files.\n"),
        }
    };
    let missing = damage.missing.as_ref().map_or_else(String::new, |missing| {
        format!(
            "{} and older files are missing. Unless the store reclaimed them, their entries are lost as well.\n",
            missing.display()
        )
    });
    files::print(&(what + &missing))
}

/// A sentence about the files with what was dropped, if there are any.
fn kept(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(
            " They are kept in {} until you remove them.",
            names.join(", ")
        ),
    }
}

/// Opens an existing store, whose files stay as they are.
fn open_read_only(dir: &Path) -> Result<Store, Failure> {
    let store = Store::open_read_only(dir, Options::new());
    store.map_err(|error| failure_in(dir, &error))
}

/// Opens an existing store.
fn open_existing(dir: &Path) -> Result<Store, Failure> {
    let store = Store::open_existing(dir, Options::new());
    store.map_err(|error| failure_in(dir, &error))
}

/// Reports on standard error how far long work has come.
struct Ticker {
    reported: Instant,
}

impl Ticker {
    const EVERY: Duration = Duration::from_secs(5);

    fn start() -> Self {
        Self {
            reported: Instant::now(),
        }
    }

    fn tick(&mut self, text: impl FnOnce() -> String) {
        if self.reported.elapsed() >= Self::EVERY {
            self.reported = Instant::now();
            files::complain(&text());
        }
    }
}

/// The failure of an operation on the store in `dir`, with what to do.
pub(super) fn failure_in(dir: &Path, error: &Error) -> Failure {
    let at = dir.display();
    let exit = match error {
        Error::Damaged { .. } | Error::Version { .. } => Exit::BadFile,
        _ => Exit::Unavailable,
    };
    let failure = |text: String| Failure::new(exit, text);
    let plain = failure(format!("{error}."));
    match error {
        Error::Damaged { .. } => plain.followed_by(&advice(dir)),
        Error::Version { .. } => {
            plain.followed_by("The store was written by a newer version of Loadline: use that one.")
        }
        Error::InUse { .. } => {
            plain.followed_by("Only one process at a time can use a store: stop that one first.")
        }
        Error::NoStore { .. } => plain.followed_by(
            "Name the directory of a store: that of `loadline serve --dir`, or of an application.",
        ),
        Error::Full { source } => failure(format!(
            "{at}: no room on the disk: {source}.\nFree space on this disk."
        )),
        Error::Io { path, source } => {
            let file = match path == dir {
                true => String::new(),
                false => format!("{}: ", path.display()),
            };
            let advice = cause(source);
            failure(format!(
                "The store in {at} cannot be used: {file}{source}.\n{advice}"
            ))
        }
        _ => plain,
    }
}

/// Advice about an error of the operating system.
fn cause(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "Name a directory, not a file."
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "The directory and its files must be readable and writable for this user, since a store is locked while it is read."
        }
        _ => "Check that the directory exists or can be created, and that its disk works.",
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

/// A line about an incomplete end, if there is one.
fn torn(torn: Option<&Torn>) -> String {
    torn.map_or_else(String::new, |torn| {
        let records = match torn.records {
            0 => String::new(),
            1 => " 1 whole record is among them.".to_owned(),
            count => format!(" {count} whole records are among them."),
        };
        let whereabouts = match torn.whereabouts() {
            text if text.is_empty() => "opening the store moves them to *.torn files".to_owned(),
            text => text,
        };
        format!(
            "The last {} bytes, from byte {} of {} on, are ignored: they begin with an incomplete record, and no sync had covered them; {whereabouts}.{records}\n",
            torn.bytes,
            torn.offset,
            torn.path.display()
        )
    })
}
