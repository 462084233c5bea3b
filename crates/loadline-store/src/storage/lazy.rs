//! A file that is mapped when it is read for the first time, other than for its first bytes.
//!
//! A store that is opened reads the heads of its segments, and most segments only have a hint read in their place. Mapping a
//! file takes several system calls and a page fault, as much time as the rest of what opening it takes.

use std::fs::File;
use std::io;
use std::sync::{Arc, OnceLock};

use super::mapped::Mapping;
use super::{Access, Stored};

/// A file of the log that is written no more.
#[derive(Debug)]
pub(super) struct LazyMapping {
    file: Arc<File>,
    bytes: usize,
    /// `None` where the file cannot be mapped. It is read by system calls then.
    mapping: OnceLock<Option<Mapping>>,
}

impl LazyMapping {
    /// `bytes` is the length of the file, which must not be empty.
    pub(super) fn new(file: File, bytes: usize) -> Self {
        Self {
            file: Arc::new(file),
            bytes,
            mapping: OnceLock::new(),
        }
    }

    fn map(&self) -> Option<&Mapping> {
        let map = || Mapping::open(Arc::clone(&self.file), self.bytes).ok();
        self.mapping.get_or_init(map).as_ref()
    }

    /// The mapping, if there is one already.
    fn existing(&self) -> Option<&Mapping> {
        self.mapping.get()?.as_ref()
    }
}

impl Stored for LazyMapping {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self.existing() {
            Some(mapping) => mapping.read_at(offset, buffer),
            None => self.file.read_at(offset, buffer),
        }
    }

    fn read_cached(&self, offset: u64, buffer: &mut [u8]) -> Option<usize> {
        self.file.read_cached(offset, buffer)
    }

    #[inline]
    fn mapped(&self, offset: u64, bytes: usize) -> Option<&[u8]> {
        self.map()?.mapped(offset, bytes)
    }

    fn announce(&self, access: Access) {
        let mapping = match access {
            Access::Whole => self.map(),
            Access::Range { .. } => self.existing(),
        };
        match mapping {
            Some(mapping) => mapping.announce(access),
            None => Stored::announce(&*self.file, access),
        }
    }

    fn sync(&self) -> io::Result<()> {
        match self.existing() {
            Some(mapping) => mapping.sync(),
            None => Stored::sync(&*self.file),
        }
    }

    fn write_back(&self) {
        match self.existing() {
            Some(mapping) => mapping.write_back(),
            None => Stored::write_back(&*self.file),
        }
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        // The mapping shows all of the file.
        match bytes < self.bytes as u64 {
            true => Err(io::ErrorKind::InvalidInput.into()),
            false => self.file.truncate(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn reads_are_the_same_before_and_after_mapping() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"abcdefgh", 0).unwrap();
        let lazy = LazyMapping::new(file, 8);
        let read = |offset, bytes| {
            let mut buffer = vec![0; bytes];
            lazy.read_at(offset, &mut buffer).map(|()| buffer)
        };
        lazy.announce(Access::Range {
            offset: 0,
            bytes: 4,
        });
        assert_eq!(read(2, 3).unwrap(), b"cde");
        assert!(read(6, 3).is_err());
        // The file system can lack this way of reading.
        let mut cached = [0; 9];
        if let Some(bytes) = lazy.read_cached(2, &mut cached) {
            assert_eq!(&cached[..bytes], b"cdefgh");
        }
        lazy.sync().unwrap();
        assert!(lazy.existing().is_none());
        assert_eq!(lazy.mapped(2, 3), Some(&b"cde"[..]));
        assert_eq!(lazy.mapped(6, 3), None);
        assert!(lazy.existing().is_some());
        assert_eq!(read(2, 3).unwrap(), b"cde");
        assert!(read(6, 3).is_err());
        lazy.sync().unwrap();
        assert!(lazy.truncate(7).is_err());
        lazy.truncate(8).unwrap();
        assert_eq!(lazy.len().unwrap(), 8);
    }
}
