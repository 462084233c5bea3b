//! The end of a log: where records stop being whole, and whether what lies behind had reached the disk.

use std::path::PathBuf;

use super::file::SegmentFile;
use super::mark::{FoundMark, Mark};
use super::op::Ops;
use super::record::{ALIGNMENT, HEADER_BYTES, Record};
use super::scan::oldest_in;
use super::segment::{self, HEAD_BYTES, Head};
use crate::error::Error;
use crate::storage::{Storage, with_bytes};

/// The end of a log that was being written when the process or the machine stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// The file.
    pub path: PathBuf,
    /// Offset of the first byte that was cut off.
    pub offset: u64,
    /// Bytes that were cut off, in this file and in those behind it. Zeros at the end do not count.
    pub bytes: u64,
    /// Whole records among them, which cannot be used since one before them is missing.
    pub records: u64,
    /// Files in which they are kept. They are not a part of the store, and stay until someone removes them, or until newer ones
    /// need their room of 256 MiB. Empty before the store was opened.
    pub kept: Vec<PathBuf>,
    /// Bytes that were not kept, since there was no room for them.
    pub unkept_bytes: u64,
}

impl Torn {
    /// Where the bytes are kept, for a message: `they are kept in FILE`.
    #[must_use]
    pub fn whereabouts(&self) -> String {
        let names: Vec<String> = self
            .kept
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let kept = match names.is_empty() {
            true => String::new(),
            false => format!(
                "they are kept in {} until you remove them",
                names.join(", ")
            ),
        };
        let unkept = match self.unkept_bytes {
            0 => String::new(),
            bytes => format!("{bytes} of them are not kept, for lack of room"),
        };
        let parts = [kept, unkept];
        let parts = parts.iter().filter(|part| !part.is_empty());
        parts.map(String::as_str).collect::<Vec<_>>().join("; ")
    }
}

/// Where the log ends before its last file does.
#[derive(Debug, Clone)]
pub(crate) struct Broken {
    pub(super) index: usize,
    /// The file and the offset in it.
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
    pub(crate) reason: &'static str,
    /// Bytes from there on, without zeros at the end, in all files.
    pub(crate) bytes: u64,
    /// Records that are whole behind it.
    pub(crate) whole_records: u64,
    /// Whether it had reached the disk.
    pub(crate) is_damage: bool,
    /// The oldest segment that still has a meaning, as far as the whole records behind it say.
    pub(super) oldest: u32,
    /// A file that is missing, if no whole record says that it was reclaimed. Older ones are missing as well.
    pub(crate) missing: Option<PathBuf>,
}

impl Broken {
    pub(crate) fn torn(&self) -> Torn {
        Torn {
            path: self.path.clone(),
            offset: self.offset,
            bytes: self.bytes,
            records: self.whole_records,
            kept: vec![],
            unkept_bytes: 0,
        }
    }
}

/// Finds where the log ends, and the position up to which it has reached the disk.
pub(super) fn find_end(
    storage: &dyn Storage,
    files: &[SegmentFile],
    mark: Option<&Mark>,
) -> Result<(Option<Broken>, u64), Error> {
    let marked = mark.map_or(0, |mark| mark.position);
    let stated = files.iter().map(|file| file.scan.synced).max();
    let mut synced = stated.unwrap_or(0).max(marked);
    for (index, file) in files.iter().enumerate() {
        let next = files.get(index + 1);
        let is_last = next.is_none();
        let follows = |head: &Head| {
            let end = file.scan.end.saturating_sub(HEAD_BYTES as u64);
            file.head.is_some_and(|own| {
                own.position + end == head.position
                    && own.sequence + file.scan.records == head.sequence
            })
        };
        let is_zero_behind = file.head.is_some() && file.scan.last_byte <= file.scan.end;
        let is_complete = match next {
            Some(next) => next.head.as_ref().is_some_and(follows),
            None => is_zero_behind && file.scan.reason.is_none(),
        };
        // A head that is missing is the concern of its own file.
        let is_complete = is_complete
            || next.is_some_and(|next| next.head.is_none())
                && is_zero_behind
                && file.scan.reason.is_none();
        if is_complete {
            continue;
        }
        let behind = salvage(file).map_err(|error| Error::io(&storage.path(&file.name), error))?;
        synced = synced.max(behind.synced);
        let position = file.head.map_or_else(
            || end_of(&files[..index]),
            |head| head.position + file.scan.end.saturating_sub(HEAD_BYTES as u64),
        );
        let later = &files[index + 1..];
        let reason = file.scan.reason.unwrap_or(if is_last {
            "a record is missing"
        } else {
            "records are missing at the end of the file"
        });
        let has_lost_head = file.head.is_none() && file.scan.last_byte > HEAD_BYTES as u64;
        let broken = Broken {
            index,
            path: storage.path(&file.name),
            offset: file.scan.end,
            reason,
            bytes: (file.scan.last_byte - file.scan.end)
                + later
                    .iter()
                    .map(|file| file.scan.last_byte.max(file.scan.end))
                    .sum::<u64>(),
            whole_records: behind.records + later.iter().map(|file| file.scan.records).sum::<u64>(),
            is_damage: synced > position
                || has_lost_head
                || file.scan.is_foreign
                || behind.is_undecided,
            oldest: later
                .iter()
                .map(SegmentFile::oldest)
                .fold(behind.oldest, u32::max),
            missing: None,
        };
        return Ok((Some(broken), synced.min(position)));
    }
    let end = end_of(files);
    let early = mark.filter(|mark| mark.position > end);
    let broken = early.map(|mark| ends_early(storage, files, mark));
    Ok((broken, synced.min(end)))
}

/// The end of `files`, where nothing is wrong but that a mark states more.
pub(super) fn ends_early(storage: &dyn Storage, files: &[SegmentFile], mark: &Mark) -> Broken {
    let last = files.last();
    let is_in_last = last.is_some_and(|last| last.id >= mark.segment);
    let (id, offset, reason) = match last {
        Some(last) if is_in_last => (
            last.id,
            last.scan.end,
            "records are missing at the end of the file",
        ),
        Some(last) => (last.id + 1, 0, "the file is missing"),
        None => (mark.segment, 0, "the file is missing"),
    };
    Broken {
        index: files.len().saturating_sub(1),
        path: storage.path(&segment::name(id)),
        offset,
        reason,
        bytes: 0,
        whole_records: 0,
        is_damage: true,
        oldest: 0,
        missing: None,
    }
}

/// The mark, unless it is about another log than `files`: those of one were put in the place of another one.
pub(super) fn about(found: FoundMark, files: &[SegmentFile]) -> FoundMark {
    // Damage to a head is the concern of its file.
    let head = |id| files.iter().find(|file| file.id == id)?.head.as_ref();
    let ignored = found.mark.and_then(|mark| {
        let first = files.first().filter(|first| mark.segment < first.id);
        let reclaimed = first.and_then(|first| first.head.as_ref());
        let is_other = head(mark.segment).is_some_and(|head| !mark.is_of(head))
            || reclaimed.is_some_and(|first| mark.position > first.position);
        // Versions without marks cut off what no record stated.
        let next = head(mark.segment.saturating_add(1));
        let is_past = next.is_some_and(|next| mark.position > next.position);
        match (is_other, is_past) {
            (true, _) => Some("it belongs to another log; the next sync writes one for this log"),
            (_, true) => Some("the log was shortened after it was written"),
            _ => None,
        }
    });
    FoundMark {
        mark: found.mark.filter(|_| ignored.is_none()),
        ignored: ignored.or(found.ignored),
        ..found
    }
}

/// Position behind the last of `files`.
pub(super) fn end_of(files: &[SegmentFile]) -> u64 {
    files.last().map_or(0, |file| {
        let records = file.scan.end.saturating_sub(HEAD_BYTES as u64);
        file.head.map_or(0, |head| head.position) + records
    })
}

/// Number of the record behind the last of `files`.
pub(super) fn sequence_behind(files: &[SegmentFile]) -> u64 {
    files.last().map_or(0, |file| {
        file.head.map_or(0, |head| head.sequence) + file.scan.records
    })
}

/// Whole records behind the place where a segment breaks off.
#[derive(Debug, Default)]
struct Salvage {
    records: u64,
    /// The largest position that one of them knows to have reached the disk.
    synced: u64,
    /// The oldest segment that still has a meaning, as far as they say.
    oldest: u32,
    /// Whether the search was given up, since it took too long.
    is_undecided: bool,
}

/// Looks for whole records behind the place where a segment breaks off. They can begin at every multiple of
/// the alignment. No honest file makes the search read more than a few times its length.
fn salvage(file: &SegmentFile) -> std::io::Result<Salvage> {
    const MOST_READ: usize = 16;
    let Some(head) = file.head else {
        return Ok(Salvage::default());
    };
    let bytes = file.bytes as usize;
    with_bytes(&*file.file, 0, bytes, |all| {
        let mut salvage = Salvage::default();
        let first = head.sequence + file.scan.records;
        let (mut offset, last) = (file.scan.end as usize, file.scan.last_byte as usize);
        let mut budget = MOST_READ * all.len();
        let most_records = (all.len() / (HEADER_BYTES + ALIGNMENT)) as u64;
        while offset + HEADER_BYTES < last {
            let rest = &all[offset..];
            let claimed = u32::from_le_bytes([rest[4], rest[5], rest[6], rest[7]]) as usize;
            let sequence = u32::from_le_bytes([rest[12], rest[13], rest[14], rest[15]]);
            let ahead = u64::from(sequence.wrapping_sub(first as u32));
            let is_plausible =
                claimed > 0 && claimed <= rest.len() - HEADER_BYTES && ahead <= most_records;
            if !is_plausible {
                offset += ALIGNMENT;
                continue;
            }
            let Some(left) = budget.checked_sub(claimed) else {
                salvage.is_undecided = true;
                return salvage;
            };
            budget = left;
            let Some(record) = Record::read(rest, head.salt) else {
                offset += ALIGNMENT;
                continue;
            };
            let position = head.position + (offset - HEAD_BYTES) as u64;
            let unsynced = record.unsynced_bytes.unwrap_or(u64::MAX);
            salvage.synced = salvage.synced.max(position.saturating_sub(unsynced));
            let oldest = Ops::new(record.body).map(|(_, op)| oldest_in(&op.kind, &head));
            salvage.oldest = oldest.fold(salvage.oldest, u32::max);
            salvage.records += 1;
            offset += record.len;
        }
        salvage
    })
}
