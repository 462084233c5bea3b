//! The file of a hint, and the records that it covers.

use std::io;
use std::sync::Arc;

use super::{Hint, Ignored, Sealed, build, name};
use crate::log::scan::Scan;
use crate::storage::{Access, Storage, Stored, with_bytes};

/// The use that is made of hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hints {
    /// Not at all, since all values are needed.
    Leave,
    /// To be read in the place of their segments, where they leave out values of at least this length.
    Use(usize),
    /// To be compared with their segments, which are read as a whole.
    Compare,
}

/// Bytes of a hint that stays in memory between its two readings.
const MOST_COPIED: u64 = 4 << 10;

/// The least size of a page of any machine.
const LEAST_PAGE_BYTES: usize = 4 << 10;

/// A hint that stays.
#[derive(Debug)]
pub(crate) struct FoundHint {
    pub(crate) bytes: u64,
    /// Its content, if it is read in the place of the segment.
    pub(crate) content: Option<Content>,
}

/// The content of a hint.
#[derive(Debug)]
pub(crate) enum Content {
    Copy(Box<[u8]>),
    File(Arc<dyn Stored>, u64),
}

impl Content {
    /// Shows `look` the bytes.
    pub(crate) fn show<R>(&self, look: impl FnOnce(&[u8]) -> R) -> io::Result<R> {
        match self {
            Self::Copy(bytes) => Ok(look(bytes)),
            Self::File(file, bytes) => with_bytes(&**file, 0, *bytes as usize, look),
        }
    }
}

/// The result of a look at a hint.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(crate) hint: Option<Result<FoundHint, Ignored>>,
    /// The content of the segment, if the hint is read in its place.
    pub(crate) scan: Option<Scan>,
    /// The log had reached the disk up to this position.
    pub(crate) synced: u64,
}

impl Looked {
    pub(crate) fn ignored(ignored: Ignored) -> Self {
        Self {
            hint: Some(Err(ignored)),
            ..Self::default()
        }
    }
}

/// The file of a hint.
#[derive(Debug)]
pub(crate) struct StoredHint {
    file: Arc<dyn Stored>,
    bytes: u64,
    /// Its content, if that was in memory already.
    cached: Option<Vec<u8>>,
}

impl StoredHint {
    /// Opens the hint of the segment `id`, whose file has `segment_bytes` bytes, and announces that it is read.
    pub(crate) fn open(
        storage: &dyn Storage,
        id: u32,
        segment_bytes: u64,
    ) -> Result<Self, Ignored> {
        let file = storage.open_to_copy(&name(id));
        let file = file.map_err(|_| Ignored::Unreadable)?;
        let cached = read_cached(&*file);
        let bytes = match &cached {
            Some(all) => all.len() as u64,
            None => file.len().map_err(|_| Ignored::Unreadable)?,
        };
        // The memory that it takes is limited by that of the segment.
        if bytes == 0 || bytes > segment_bytes {
            return Err(Ignored::Damaged);
        }
        if cached.is_none() {
            file.announce(Access::Range {
                offset: 0,
                bytes: bytes as usize,
            });
        }
        Ok(Self {
            file,
            bytes,
            cached,
        })
    }

    /// Looks at the hint of the segment in the file `segment` of `bytes` bytes.
    pub(crate) fn look(
        self,
        segment: &dyn Stored,
        bytes: u64,
        sealed: Option<&Sealed>,
        hints: Hints,
    ) -> Looked {
        let Some(sealed) = sealed.filter(|_| hints != Hints::Leave) else {
            return match hints {
                Hints::Leave => Looked {
                    hint: Some(Ok(self.kept(None))),
                    ..Looked::default()
                },
                _ => Looked::ignored(Ignored::OtherSegment),
            };
        };
        let looked = self.read(sealed, |all, hint| {
            // It was written when its segment had reached the disk.
            let synced = sealed.position;
            let looked = match hints {
                Hints::Use(left_out) if sealed.end() <= bytes => {
                    scan_hint(hint, sealed, left_out).map(Some)
                }
                Hints::Compare => compare(all, hint, sealed, segment).map(|()| None),
                _ => Err(Ignored::Disagrees),
            };
            let copy = (self.bytes <= MOST_COPIED).then(|| Content::Copy(all.into()));
            Ok((looked.map(|scan| (scan, copy)), synced))
        });
        match looked {
            Ok((Ok((scan, copy)), synced)) => {
                let whole = || Content::File(Arc::clone(&self.file), self.bytes);
                let content = scan.is_some().then(|| copy.unwrap_or_else(whole));
                Looked {
                    hint: Some(Ok(self.kept(content))),
                    scan,
                    synced,
                }
            }
            Ok((Err(ignored), synced)) => Looked {
                synced,
                ..Looked::ignored(ignored)
            },
            Err(ignored) => Looked::ignored(ignored),
        }
    }

    fn kept(self, content: Option<Content>) -> FoundHint {
        FoundHint {
            bytes: self.bytes,
            content,
        }
    }

    /// Shows `look` the hint, if it is that of this segment.
    fn read<R>(
        &self,
        sealed: &Sealed,
        look: impl FnOnce(&[u8], &Hint<'_>) -> Result<R, Ignored>,
    ) -> Result<R, Ignored> {
        if self.bytes > sealed.most_bytes() {
            return Err(Ignored::Damaged);
        }
        let look = |all: &[u8]| look(all, &Hint::read(all, sealed)?);
        if let Some(all) = &self.cached {
            return look(all);
        }
        let read = with_bytes(&*self.file, 0, self.bytes as usize, look);
        read.unwrap_or(Err(Ignored::Unreadable))
    }
}

/// The content of a file shorter than a page, if it is in memory: its length and its content in one call of the system.
fn read_cached(file: &dyn Stored) -> Option<Vec<u8>> {
    let mut first = vec![0; LEAST_PAGE_BYTES];
    // Fewer bytes than a page were not cut short by one that is not in memory.
    let bytes = file.read_cached(0, &mut first);
    first.truncate(bytes.filter(|&bytes| bytes < LEAST_PAGE_BYTES)?);
    Some(first)
}

/// The content of a segment according to its hint, which must leave out values of at least `left_out` bytes.
fn scan_hint(hint: &Hint<'_>, sealed: &Sealed, left_out: usize) -> Result<Scan, Ignored> {
    if hint.left_out() != left_out {
        return Err(Ignored::OtherLimit);
    }
    let end = sealed.end();
    let mut scan = Scan {
        end,
        last_byte: end,
        ..Scan::default()
    };
    let is_whole = hint.records(|record, ops| {
        scan.add(record.offset, record.unsynced_bytes, ops, &sealed.head);
        scan.records += 1;
        Ok::<(), Ignored>(())
    })?;
    is_whole.then_some(scan).ok_or(Ignored::Damaged)
}

/// Checks that a hint, whose file holds `all`, is the one that is made of its segment.
fn compare(
    all: &[u8],
    hint: &Hint<'_>,
    sealed: &Sealed,
    segment: &dyn Stored,
) -> Result<(), Ignored> {
    let end = usize::try_from(sealed.end()).unwrap_or(usize::MAX);
    let bytes = segment.len().unwrap_or(0);
    if end as u64 > bytes {
        return Err(Ignored::Disagrees);
    }
    let built = with_bytes(segment, 0, end, |file| {
        build(file, sealed, hint.left_out(), sealed.most_bytes())
    });
    match built {
        Ok(Some(built)) if built == all => Ok(()),
        Ok(_) => Err(Ignored::Disagrees),
        Err(_) => Err(Ignored::Unreadable),
    }
}
