//! A segment's file as recovery finds it.

use std::sync::Arc;

use super::aside::Piece;
use super::hint::{FoundHint, Ignored};
use super::scan::Scan;
use super::segment::{HEAD_BYTES, Head};
use crate::storage::Stored;

/// A segment's file.
#[derive(Debug)]
pub(super) struct SegmentFile {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) file: Arc<dyn Stored>,
    pub(super) bytes: u64,
    pub(super) head: Option<Head>,
    pub(super) scan: Scan,
    pub(super) hint: Option<Result<FoundHint, Ignored>>,
}

impl SegmentFile {
    /// The oldest segment that still has a meaning, as far as this one says.
    pub(super) fn oldest(&self) -> u32 {
        let at_first = self.head.map_or(0, |head| head.oldest);
        at_first.max(self.scan.oldest)
    }

    /// The part that is cut off of it where the log ends in it or before it.
    pub(super) fn rest(&self, is_first: bool) -> Piece {
        let end = self.scan.last_byte.max(self.scan.end);
        let offset = match is_first && self.head.is_some() {
            true => self.scan.end,
            false => 0,
        };
        // A file without records holds nothing.
        let is_empty = self.head.is_some() && end == HEAD_BYTES as u64;
        Piece {
            segment: self.id,
            file: self.name.clone(),
            offset,
            end: if is_empty { offset } else { end },
        }
    }

    pub(super) fn has_hint(&self) -> bool {
        matches!(self.hint, Some(Ok(_)))
    }
}
