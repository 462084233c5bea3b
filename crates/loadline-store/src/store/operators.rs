//! Operators' work on the files of a store that is not open.

use std::path::{Path, PathBuf};

use super::Store;
use super::options::Options;
use super::writer::show;
use crate::clock::now_ms;
use crate::error::Error;
use crate::log::end::Broken;
use crate::log::hint::Hints;
use crate::log::recovery::{self, Examined, Torn};
use crate::storage::{Directory, DirectoryContents, Storage};
use crate::value::View;

/// The content of a store's files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Checked {
    /// Number of files.
    pub files: u64,
    /// Number of records that are whole.
    pub records: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Number of hints that agree with their files.
    pub hints: u64,
    /// Hints that opening the store ignores and removes. The store holds the same without them.
    pub ignored_hints: Vec<IgnoredHint>,
    /// The part that opening the store cuts off, since it was being written when the process or the machine stopped.
    pub torn: Option<Torn>,
    /// Files with what was cut off before, or by this repair. They are not a part of the store.
    pub kept: Vec<PathBuf>,
    /// Other bytes that are ignored, of files that are a part of the store or were one. The store holds the same without them.
    pub ignored: Vec<IgnoredBytes>,
    /// The damage that keeps the store from being opened.
    pub damage: Option<Damage>,
}

/// A hint that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IgnoredHint {
    /// The file.
    pub path: PathBuf,
    /// The reason why it is not used.
    pub reason: &'static str,
}

/// Bytes of a file that are not read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IgnoredBytes {
    /// The file.
    pub path: PathBuf,
    /// Offset of the first byte. The others follow up to the end of the file.
    pub offset: u64,
    /// The reason why they are not read.
    pub reason: &'static str,
}

/// Data that had reached the disk and is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Offset of the first byte that is wrong.
    pub offset: u64,
    /// The reason.
    pub reason: &'static str,
    /// Bytes from there on, in all files: what [`Store::repair`] drops.
    pub bytes: u64,
    /// Whole records among them.
    pub records: u64,
    /// A file that is missing, unless the store had reclaimed it, which only the damaged part can say. Older files are
    /// missing as well.
    pub missing: Option<PathBuf>,
}

impl Store {
    /// Verifies every record of the store in the directory `dir`, also where opening it would read a hint, and compares the
    /// hints with the files. Changes nothing.
    ///
    /// # Errors
    /// [`Error::NoStore`], [`Error::InUse`] where it is open, [`Error::Damaged`] for a missing file, [`Error::Version`],
    /// [`Error::Io`].
    pub fn check(dir: impl AsRef<Path>) -> Result<Checked, Error> {
        let dir = dir.as_ref();
        require_store(dir)?;
        let directory = Directory::open_read_only(dir, true)?;
        let examined = recovery::examine(&directory, Hints::Compare)?;
        Ok(checked(&examined, &directory))
    }

    /// Drops what [`check`](Self::check) finds damaged, and everything behind it, so that the store can be opened. Returns
    /// what it dropped, which is kept in other files ([`Checked::kept`]). A missing file in front of others without other damage
    /// cannot be repaired.
    ///
    /// # Errors
    /// Those of [`check`](Self::check).
    pub fn repair(dir: impl AsRef<Path>) -> Result<Checked, Error> {
        let (directory, examined) = existing(dir.as_ref())?;
        let mut checked = checked(&examined, &directory);
        let recovered = recovery::recover(&directory, examined, true)?;
        checked.kept = recovered.torn.map_or_else(Vec::new, |torn| torn.kept);
        Ok(checked)
    }
}

impl Store {
    /// Opens a store as [`open`](Self::open) does, and makes none where there is none.
    ///
    /// # Errors
    /// [`Error::NoStore`], and those of [`open`](Self::open).
    pub fn open_existing(dir: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        require_store(dir.as_ref())?;
        Self::open(dir, options)
    }

    /// Opens an existing store for reading only: its directory stays as it is to the byte, also where an opening for writing
    /// would cut off what was being written when the machine stopped ([`Stats::torn`](super::Stats::torn)). Several
    /// processes can read a store at the same time, while none has it open for writing. Writes return [`Error::ReadOnly`],
    /// limits of the options have no effect, and [`sync`](Self::sync) and [`close`](Self::close) do nothing.
    ///
    /// ```
    /// use loadline_store::{Error, Options, Store};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let store = Store::open(dir.path(), Options::new())?;
    /// store.put(b"greeting", b"hello")?;
    /// store.close()?;
    /// let store = Store::open_read_only(dir.path(), Options::new())?;
    /// assert_eq!(store.get(b"greeting")?.as_deref(), Some(&b"hello"[..]));
    /// assert!(matches!(store.delete(b"greeting"), Err(Error::ReadOnly)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoStore`]; [`Error::InUse`] where it is open for writing; [`Error::Damaged`], [`Error::Version`],
    /// [`Error::Io`].
    pub fn open_read_only(dir: impl AsRef<Path>, mut options: Options) -> Result<Self, Error> {
        let dir = dir.as_ref();
        require_store(dir)?;
        let directory = Directory::open_read_only(dir, options.mapped)?;
        let is_mapped = directory.is_mapped();
        options.max_keys = None;
        options.max_memory_bytes = None;
        let store = Self::open_on(Box::new(directory), options)?;
        Ok(Self { is_mapped, ..store })
    }

    /// Shows the entries that [`scan_entries`](Self::scan_entries) does not show: those that hold no string, and those in
    /// other databases of a server. `visit` gets the number of the database, the key, the value and the expiry. The database
    /// behind those of users has the server's own entries.
    ///
    /// # Errors
    /// Those of [`get`](Self::get); the first one ends the walk.
    pub fn scan_others(
        &self,
        mut visit: impl FnMut(usize, &[u8], View<'_>, Option<u64>),
    ) -> Result<(), Error> {
        let mut result = Ok(());
        for (number, database) in self.inner.databases.iter().enumerate() {
            database.scan_slots(0, usize::MAX, now_ms(), |slot| {
                let (key, expires_at) = (slot.key(), slot.expires_at());
                if !slot.is_string() {
                    visit(number, key, slot.view(), expires_at);
                } else if number > 0 && result.is_ok() {
                    result = show(&self.inner, Some(slot), |value| {
                        let value = View::String(value.unwrap_or_default());
                        visit(number, key, value, expires_at);
                    });
                }
            });
        }
        result
    }
}

/// Refuses a directory without log files.
fn require_store(dir: &Path) -> Result<(), Error> {
    let missing = |reason| Error::NoStore {
        path: dir.to_owned(),
        reason,
    };
    match Directory::found(dir).map_err(|error| Error::io(dir, error))? {
        DirectoryContents::Segments => Ok(()),
        DirectoryContents::LockOnly => {
            // One to which nothing was written can be open.
            Directory::open(dir, false)?;
            Err(missing(
                "there is no store here: LOCK was left by one, but there are no log files",
            ))
        }
        DirectoryContents::Nothing => Err(missing("there is no store here")),
    }
}

/// The directory of a store that exists, and what its files hold.
fn existing(dir: &Path) -> Result<(Directory, Examined), Error> {
    require_store(dir)?;
    let directory = Directory::open(dir, true)?;
    let examined = recovery::examine(&directory, Hints::Compare)?;
    Ok((directory, examined))
}

fn checked(examined: &Examined, directory: &Directory) -> Checked {
    let (files, records, bytes) = examined.totals();
    let (hints, ignored) = examined.hints();
    let ignored_hints = ignored.into_iter().map(|(name, ignored)| IgnoredHint {
        path: directory.path(&name),
        reason: ignored.reason(),
    });
    let ignored = examined.ignored();
    let ignored = ignored
        .into_iter()
        .map(|(name, offset, reason)| IgnoredBytes {
            path: directory.path(&name),
            offset,
            reason,
        });
    let broken = examined.broken.as_ref();
    let damage = broken.filter(|broken| broken.is_damage);
    let damage = damage.map(|broken| Damage {
        path: broken.path.clone(),
        offset: broken.offset,
        reason: broken.reason,
        bytes: broken.bytes,
        records: broken.whole_records,
        missing: broken.missing.clone(),
    });
    let torn = broken.filter(|broken| !broken.is_damage && broken.bytes > 0);
    Checked {
        files,
        records,
        bytes,
        hints,
        ignored_hints: ignored_hints.collect(),
        torn: torn.map(Broken::torn),
        kept: (examined.kept.iter())
            .map(|name| directory.path(name))
            .collect(),
        ignored: ignored.collect(),
        damage,
    }
}
