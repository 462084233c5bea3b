//! A directory of the file system.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, IoSliceMut, Read};
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, fstatfs, fstatvfs};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::lazy::LazyMapping;
use super::mapped::{Mapping, write_back};
use super::{Access, Appender, InPlace, NewFile, Storage, Stored};
use crate::error::Error;
use crate::log::{mark, segment};

/// The file that is locked while a store is open. It holds the number of the process.
const LOCK: &str = "LOCK";

/// The file that keeps room on the disk for reclaiming.
const RESERVE: &str = "RESERVE";

/// File systems whose `fallocate` reserves blocks for good, so that writing to a mapping cannot fail for want
/// of room: ext2 to ext4, XFS, tmpfs. On others (copy on write, network), files are written by system
/// calls.
const RESERVING: [i64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

/// A directory that belongs to one open store.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    is_mapped: bool,
    is_read_only: bool,
    /// Open, and with it locked, as long as the store is.
    lock: File,
}

/// The files of a store that are found in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DirectoryContents {
    Nothing,
    /// A lock file without segments.
    LockOnly,
    Segments,
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A child process that is being started shares the lock until it becomes another program.
        let _ = self.lock.unlock();
    }
}

impl Directory {
    /// Makes the directory where it does not exist, and locks it. `mapped` allows files to be mapped.
    ///
    /// # Errors
    /// [`Error::InUse`] where a store in it is open, [`Error::Io`].
    pub(crate) fn open(path: &Path, mapped: bool) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::io(path, Errno::NOTDIR.into()),
            _ => Error::io(path, error),
        })?;
        Self::of(path, lock(&path.join(LOCK)), mapped, false)
    }

    /// Opens the directory for reading only. Several processes can do that at the same time, while no store in it is open
    /// for writing.
    ///
    /// # Errors
    /// [`Error::InUse`] where a store in it is open for writing, [`Error::Io`].
    pub(crate) fn open_read_only(path: &Path, mapped: bool) -> Result<Self, Error> {
        Self::of(path, lock_shared(path), mapped, true)
    }

    fn of(
        path: &Path,
        lock: Result<File, Refused>,
        mapped: bool,
        is_read_only: bool,
    ) -> Result<Self, Error> {
        let lock = lock.map_err(|error| match error {
            Refused::Held(pid) => Error::InUse {
                path: path.to_owned(),
                pid,
            },
            Refused::Failed(error) => Error::io(&path.join(LOCK), error),
        })?;
        let kind = fstatfs(&lock).map(|of| of.f_type);
        Ok(Self {
            path: path.to_owned(),
            is_mapped: mapped && kind.is_ok_and(|kind| RESERVING.contains(&kind)),
            is_read_only,
            lock,
        })
    }

    /// Looks for the files of a store in the directory: segments or their mark, or only a lock file with a process id.
    /// Other programs have empty files of this name.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn found(path: &Path) -> io::Result<DirectoryContents> {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(DirectoryContents::Nothing);
            }
            Err(error) => return Err(error),
        };
        for entry in entries {
            let name = entry?.file_name();
            let is_of_log = |name: &str| segment::parse_name(name).is_some() || name == mark::NAME;
            if name.to_str().is_some_and(is_of_log) {
                return Ok(DirectoryContents::Segments);
            }
        }
        match File::open(path.join(LOCK)) {
            Ok(lock) if holder(&lock).is_some() => Ok(DirectoryContents::LockOnly),
            Ok(_) => Ok(DirectoryContents::Nothing),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(DirectoryContents::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Whether files are mapped.
    pub(crate) fn is_mapped(&self) -> bool {
        self.is_mapped
    }

    fn new_file(&self, file: File, bytes: u64, head: &[u8]) -> io::Result<NewFile> {
        let is_reserved = match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => true,
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                file.set_len(bytes)?;
                false
            }
            Err(errno) => return Err(errno.into()),
        };
        file.write_all_at(head, 0)?;
        if self.is_mapped && is_reserved {
            let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
            let (appender, stored) = Mapping::create(file, bytes, head.len())?;
            return Ok(NewFile {
                appender: Box::new(appender),
                stored,
            });
        }
        let file = Arc::new(file);
        Ok(NewFile {
            appender: Box::new(FileAppender {
                file: Arc::clone(&file),
                at: head.len() as u64,
            }),
            stored: file,
        })
    }
}

impl Storage for Directory {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = vec![];
        for entry in fs::read_dir(&self.path)? {
            // Names of the store's own files are UTF-8; others are not its business.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create(&self, name: &str, bytes: u64, head: &[u8]) -> io::Result<NewFile> {
        if self.is_read_only {
            return Err(Errno::ROFS.into());
        }
        let path = self.path.join(name);
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        let made = self.new_file(file, bytes, head);
        if made.is_err() {
            // The error of the first step is the one that is reported.
            let _ = fs::remove_file(&path);
        }
        made
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn Stored>> {
        let file = OpenOptions::new()
            .read(true)
            .write(!self.is_read_only)
            .open(self.path.join(name))?;
        let bytes = if self.is_mapped {
            file.metadata()?.len()
        } else {
            0
        };
        // An empty file cannot be mapped.
        if bytes > 0 {
            let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
            return Ok(Arc::new(LazyMapping::new(file, bytes)));
        }
        Ok(Arc::new(file))
    }

    /// The file is not mapped: that takes more system calls, and a page fault, than a copy of its few kilobytes.
    fn open_to_copy(&self, name: &str) -> io::Result<Arc<dyn Stored>> {
        Ok(Arc::new(File::open(self.path.join(name))?))
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn open_in_place(&self, name: &str, bytes: usize) -> io::Result<Box<dyn InPlace>> {
        if self.is_read_only {
            return Err(Errno::ROFS.into());
        }
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false);
        let file = options.open(self.path.join(name))?;
        let present = file.metadata()?.len();
        if let Some(missing) = bytes.checked_sub(usize::try_from(present).unwrap_or(bytes)) {
            // Written, so that overwriting it needs no room, and changes nothing but its bytes.
            file.write_all_at(&vec![0; missing], present)?;
        }
        Ok(Box::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn shorten(&self, name: &str, bytes: u64) -> io::Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        let mut options = OpenOptions::new();
        let file = options.write(true).open(self.path.join(name))?;
        file.set_len(bytes)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        fs::remove_file(self.path.join(name))
    }

    fn free_bytes(&self) -> Option<u64> {
        let disk = fstatvfs(&self.lock).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        if self.is_read_only {
            return Err(Errno::ROFS.into());
        }
        let path = self.path.join(RESERVE);
        if bytes == 0 {
            return match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false);
        let file = options.open(&path)?;
        let before = Stored::len(&file)?.min(bytes);
        file.set_len(before)?;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            // Such a file system keeps nothing back.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(errno) => {
                // Some file systems keep the part that they had room for.
                file.set_len(before)?;
                Err(errno.into())
            }
        }
    }

    fn reserved_bytes(&self) -> u64 {
        let kept = fs::metadata(self.path.join(RESERVE));
        kept.map_or(0, |kept| kept.len())
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Writes to a file by system calls.
#[derive(Debug)]
struct FileAppender {
    file: Arc<File>,
    at: u64,
}

impl Appender for FileAppender {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

impl InPlace for File {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

impl Stored for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn read_cached(&self, offset: u64, buffer: &mut [u8]) -> Option<usize> {
        let buffers = &mut [IoSliceMut::new(buffer)];
        preadv2(self, buffers, offset, ReadWriteFlags::NOWAIT).ok()
    }

    fn mapped(&self, _: u64, _: usize) -> Option<&[u8]> {
        None
    }

    fn announce(&self, access: Access) {
        if let Access::Range { offset, bytes } = access {
            let bytes = NonZero::new(bytes as u64);
            // Without it, the first read waits longer.
            let _ = fadvise(self, offset, bytes, Advice::WillNeed);
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn write_back(&self) {
        write_back(self);
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}

enum Refused {
    /// By the process with this number, where the file says which.
    Held(Option<u32>),
    Failed(io::Error),
}

/// The process that has written its number to a lock file.
fn holder(lock: &File) -> Option<u32> {
    let mut text = String::new();
    lock.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Locks the directory at `path` together with others that read only, and writes nothing to it.
fn lock_shared(path: &Path) -> Result<File, Refused> {
    let file = match File::open(path.join(LOCK)) {
        // No store in it has been opened for writing since the file was removed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => File::open(path),
        opened => opened,
    };
    let file = file.map_err(Refused::Failed)?;
    match file.try_lock_shared() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Refused::Held(holder(&file))),
        Err(TryLockError::Error(error)) => Err(Refused::Failed(error)),
    }
}

/// Locks the file at `path` and writes the number of this process to it.
fn lock(path: &Path) -> Result<File, Refused> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let file = options.open(path).map_err(Refused::Failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            // Those that read only have not written their number.
            let is_written = file.try_lock_shared().is_err();
            return Err(Refused::Held(holder(&file).filter(|_| is_written)));
        }
        Err(TryLockError::Error(error)) => return Err(Refused::Failed(error)),
    }
    // The number is for messages only, so a full disk is no reason not to open the store.
    let text = format!("{}\n", std::process::id());
    // Most numbers are as long as the one before, and cutting a file off takes longer than to look.
    let _ = file
        .write_all_at(text.as_bytes(), 0)
        .and_then(|()| file.metadata())
        .and_then(|now| match now.len() == text.len() as u64 {
            true => Ok(()),
            false => file.set_len(text.len() as u64),
        });
    Ok(file)
}
