//! Where the log keeps its files. The log sees these traits only, so that tests put failing and forgetful
//! ones below it.

mod directory;
#[cfg(test)]
pub(crate) mod journal;
mod lazy;
mod mapped;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

pub(crate) use directory::{Directory, DirectoryContents};
pub(crate) use mapped::{HUGE_BYTES, prefetch, use_huge_page};

/// A directory of files.
pub(crate) trait Storage: Debug + Send + Sync {
    /// Names of all files.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes a file of `bytes` zeros whose room is reserved: a later write into it does not fail because the disk
    /// is full, where the file system can promise that. It begins with `head`.
    fn create(&self, name: &str, bytes: u64, head: &[u8]) -> io::Result<NewFile>;

    /// Opens a file for reading, in single places at first.
    fn open(&self, name: &str) -> io::Result<Arc<dyn Stored>>;

    /// Opens a short file that is read as a whole.
    fn open_to_copy(&self, name: &str) -> io::Result<Arc<dyn Stored>> {
        self.open(name)
    }

    /// Opens a short file that is overwritten in place, and makes it with `bytes` zeros where there is none.
    fn open_in_place(&self, name: &str, bytes: usize) -> io::Result<Box<dyn InPlace>>;

    /// Cuts off a file that is not open, from `bytes` on.
    fn shorten(&self, name: &str, bytes: u64) -> io::Result<()>;

    /// Gives a file another name, which no file has.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Bytes that more files can take, as far as that is known.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// Keeps `bytes` bytes of the disk for later, in the place of those of the last call, which stay kept where that fails. With
    /// 0, they can be used.
    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let _ = bytes;
        Ok(())
    }

    /// Bytes that are kept for later, also by an earlier process.
    fn reserved_bytes(&self) -> u64 {
        0
    }

    /// Whether nothing is written. Files then stay as they are, also where they are cut off or removed.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Returns when all names of files that were made or removed have reached the disk.
    fn sync_names(&self) -> io::Result<()>;

    /// The name of a file in an error message.
    fn path(&self, name: &str) -> std::path::PathBuf;
}

/// A file that was just made.
#[derive(Debug)]
pub(crate) struct NewFile {
    /// Writes to it, behind its head.
    pub(crate) appender: Box<dyn Appender>,
    /// Reads what was written.
    pub(crate) stored: Arc<dyn Stored>,
}

/// The one place that writes to a file.
pub(crate) trait Appender: Debug + Send {
    /// Writes `bytes` behind what was written last. When it fails, the next call writes to the same place.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Whether [`Stored::prepare`] with `ahead` has work to do.
    fn wants_pages(&self, _ahead: usize) -> bool {
        false
    }
}

/// A short file that is overwritten.
pub(crate) trait InPlace: Debug + Send {
    /// Writes `bytes` at `offset`. When it fails or is interrupted, a part can have been written.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns when everything that was written before the call has reached the disk.
    fn sync(&self) -> io::Result<()>;
}

/// A file that can be read while it is written.
pub(crate) trait Stored: Debug + Send + Sync {
    /// Bytes of the file, reserved room included.
    fn len(&self) -> io::Result<u64>;

    /// Reads `buffer.len()` bytes at `offset`.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Reads up to `buffer.len()` bytes at `offset`, if that takes no wait for the disk, and returns their number. It is
    /// smaller where the file ends or where the next bytes, from the start of a page on, are not in memory. `None` where no
    /// bytes can be read this way.
    fn read_cached(&self, _offset: u64, _buffer: &mut [u8]) -> Option<usize> {
        None
    }

    /// Bytes that were written, where they lie in memory; `None` where the file is not mapped or the range was
    /// not written yet.
    fn mapped(&self, offset: u64, bytes: usize) -> Option<&[u8]>;

    /// Announces how the file is read from now on, which changes only the time that it takes.
    fn announce(&self, _: Access) {}

    /// Prepares the file for `ahead` more bytes, if they are to be written to memory: writing them takes less time then. Does
    /// not keep the appender from writing.
    fn prepare(&self, _ahead: usize) {}

    /// Returns when everything that was written before the call has reached the disk.
    fn sync(&self) -> io::Result<()>;

    /// Starts to write what was written before the call to the disk, and does not wait for it, so that a sync that follows
    /// takes less time. Guarantees nothing.
    fn write_back(&self) {}

    /// Gives the room from `bytes` on back. Nothing was written there.
    fn truncate(&self, bytes: u64) -> io::Result<()>;
}

/// The way in which a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// From the beginning to the end.
    Whole,
    /// This range soon. What is not in memory is read in the background.
    Range { offset: u64, bytes: usize },
}

/// Shows `look` a range of a file: where it lies, or a copy of it.
pub(crate) fn with_bytes<R>(
    file: &dyn Stored,
    offset: u64,
    bytes: usize,
    look: impl FnOnce(&[u8]) -> R,
) -> io::Result<R> {
    if let Some(range) = file.mapped(offset, bytes) {
        return Ok(look(range));
    }
    let mut copy = vec![0; bytes];
    file.read_at(offset, &mut copy)?;
    Ok(look(&copy))
}
