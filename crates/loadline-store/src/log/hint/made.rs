//! Writing and removing the hints of a log.

use std::io;
use std::sync::{Arc, PoisonError};

use super::super::segment::Segment;
use super::super::{Log, locked};
use super::{Sealed, build};
use crate::error::Error;
use crate::storage::with_bytes;

impl Log {
    /// Writes the hints of sealed segments that have reached the disk, without values of at least `left_out` bytes. It ends
    /// after the one at which `stops` says so. A hint that cannot be written is not needed.
    pub(crate) fn write_hints(&self, left_out: usize, mut stops: impl FnMut() -> bool) {
        if left_out == usize::MAX {
            return;
        }
        while !stops()
            && let Some((segment, sealed)) = self.next_without_hint()
        {
            let written = self.write_hint(&segment, &sealed, left_out);
            if !written.unwrap_or(false) {
                segment.go_without_hint();
            }
        }
    }

    /// The oldest segment that wants a hint and has reached the disk, unless it is the last one.
    fn next_without_hint(&self) -> Option<(Arc<Segment>, Sealed)> {
        let synced = self.synced();
        let segments = self.segments.read();
        let segments = segments.unwrap_or_else(PoisonError::into_inner);
        let mut pairs = segments.iter().zip(segments.iter().skip(1));
        let found =
            pairs.find(|(segment, _)| segment.wants_hint() && segment.end_position() <= synced);
        let (segment, next) = found?;
        let sealed = Sealed::new(segment.head, &next.head)?;
        Some((Arc::clone(segment), sealed))
    }

    /// Writes the hint of a segment, and returns whether it is worth it.
    fn write_hint(&self, segment: &Segment, sealed: &Sealed, left_out: usize) -> io::Result<bool> {
        if sealed.has_too_many_records() {
            return Ok(false);
        }
        let end = usize::try_from(sealed.end()).map_err(io::Error::other)?;
        let hint = with_bytes(&*segment.file, 0, end, |file| {
            build(file, sealed, left_out, sealed.most_bytes())
        })?;
        let Some(hint) = hint else {
            return Ok(false);
        };
        let id = segment.head.id;
        let name = super::name(id);
        let _making = locked(&self.hints);
        if self.segment(id).is_none() {
            return Ok(false);
        }
        let mut file = self.storage.create(&name, hint.len() as u64, &[])?;
        match file.appender.append(&hint) {
            Ok(()) => segment.set_hint(hint.len() as u64),
            Err(error) => {
                drop(file);
                // One that stays is incomplete, and ignored.
                let _ = self.storage.remove(&name);
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Removes the hint of a segment. It can have been deleted by someone else.
    pub(in crate::log) fn remove_hint(&self, id: u32) -> Result<(), Error> {
        let name = super::name(id);
        match self.storage.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(&self.storage.path(&name), error))
            }
            _ => Ok(()),
        }
    }
}
