//! Reading the log again: which records are whole, where a torn tail begins, and whether something is damaged.
//!
//! Records are read from the oldest segment on until one is not whole. What lies behind it was being written when
//! the process or the machine stopped, and is cut off, unless it had reached the disk already. That is
//! known from the mark that the last sync has left, and from the records behind it: each says up to which position everything
//! had reached the disk when it was written. If one of them says so of the place that is not whole, or of what is
//! missing at the end, the log is damaged and is not opened.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::aside::{self, Kept, Piece};
use super::hint::{self, FoundHint, Hints, Ignored, Looked, Sealed, StoredHint};
use super::mark::{self, FoundMark, Mark};
use super::op::{DATABASES, Ops};
use super::record::{ALIGNMENT, HEADER_BYTES, Record};
use super::scan::{Scan, last_byte, oldest_in, scan};
use super::segment::{self, BadHead, HEAD_BYTES, Head, Segment};
use crate::error::Error;
use crate::storage::{Access, Storage, Stored, with_bytes};

/// What is left of a log.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// The segments that have a meaning, the oldest first.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// For each of them the hint that is read in its place, if there is one.
    pub(crate) hints: Vec<Option<Arc<dyn Stored>>>,
    /// Number of hints that were ignored.
    pub(crate) ignored_hints: u64,
    /// Position and number of the next record.
    pub(crate) position: u64,
    pub(crate) sequence: u64,
    pub(crate) next_segment: u32,
    /// Everything before this position is known to have reached the disk.
    pub(crate) synced: u64,
    /// Number of the next mark.
    pub(crate) next_mark: u64,
    /// What was cut off.
    pub(crate) torn: Option<Torn>,
    /// Number of operations for each database that can have added a key.
    pub(crate) puts: [u64; DATABASES as usize],
    /// Number of all operations.
    pub(crate) operations: u64,
}

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

/// What a walk over the files has found.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    /// The segments, the oldest first.
    files: Vec<Found>,
    /// Names of files without a meaning.
    obsolete: Vec<String>,
    /// The segments of all hints, also where there is no such segment.
    hint_ids: BTreeSet<u32>,
    /// Index of the segment where the log ends, if not at the end of the last one.
    pub(crate) broken: Option<Broken>,
    synced: u64,
    pub(crate) mark: FoundMark,
    /// Names of files that hold what was cut off before.
    pub(crate) kept: Vec<String>,
    /// Whether only the part behind the end of the log says why its first segment is not that of the store.
    lacks_start: bool,
}

/// Where the log ends before its last file does.
#[derive(Debug, Clone)]
pub(crate) struct Broken {
    index: usize,
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
    oldest: u32,
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

impl Examined {
    /// Number of files, of whole records before the end, and bytes of the files.
    pub(crate) fn totals(&self) -> (u64, u64, u64) {
        let sound = self
            .broken
            .as_ref()
            .map_or(self.files.len(), |broken| broken.index + 1);
        let sound = sound.min(self.files.len());
        let records = self.files[..sound].iter().map(|file| file.scan.records);
        let bytes = self.files.iter().map(|file| file.bytes);
        (self.files.len() as u64, records.sum(), bytes.sum())
    }

    /// Names of files that are not read, or not as a whole, the offset from which on they are not, and the reason.
    pub(crate) fn ignored(&self) -> Vec<(String, u64, &'static str)> {
        let obsolete = self.obsolete.iter().map(|name| {
            let reason = "it was reclaimed, and opening the store removes it";
            (name.clone(), 0, reason)
        });
        let last = self.broken.as_ref().map(|broken| broken.index);
        let last = last.unwrap_or(self.files.len().saturating_sub(1));
        let tails = self.files.iter().take(last);
        let tails = tails.filter(|file| !file.has_hint() && file.scan.last_byte > file.scan.end);
        let tails = tails.map(|file| {
            let reason = "the log goes on in the next file, and this part was cut off before";
            (file.name.clone(), file.scan.end, reason)
        });
        let mark = self.mark.ignored;
        let mark = mark.map(|reason| (mark::NAME.to_owned(), 0, reason));
        obsolete.chain(tails).chain(mark).collect()
    }

    /// Number of hints that agree with their segments, and the names of those that are ignored, each with the reason.
    pub(crate) fn hints(&self) -> (u64, Vec<(String, Ignored)>) {
        let sound = self.files.iter().filter(|file| file.has_hint()).count();
        let ignored = self.files.iter().filter_map(|file| match file.hint {
            Some(Err(ignored)) => Some((hint::name(file.id), ignored)),
            _ => None,
        });
        (sound as u64, ignored.collect())
    }
}

/// A segment's file.
#[derive(Debug)]
struct Found {
    id: u32,
    name: String,
    file: Arc<dyn Stored>,
    bytes: u64,
    head: Option<Head>,
    scan: Scan,
    hint: Option<Result<FoundHint, Ignored>>,
}

impl Found {
    /// The oldest segment that still has a meaning, as far as this one says.
    fn oldest(&self) -> u32 {
        let at_first = self.head.map_or(0, |head| head.oldest);
        at_first.max(self.scan.oldest)
    }

    /// What is cut off of it where the log ends in it or before it.
    fn rest(&self, is_first: bool) -> Piece {
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

    fn has_hint(&self) -> bool {
        matches!(self.hint, Some(Ok(_)))
    }
}

/// Finds out what is left of the log in `storage`, and changes nothing.
///
/// # Errors
/// [`Error::Io`], [`Error::Version`]; [`Error::Damaged`] for a missing file.
pub(crate) fn examine(storage: &dyn Storage, hints: Hints) -> Result<Examined, Error> {
    let io = |name: &str, error| Error::io(&storage.path(name), error);
    let names = storage.list().map_err(|error| io("", error))?;
    let mut ids: Vec<u32> = names
        .iter()
        .filter_map(|name| segment::parse_name(name))
        .collect();
    ids.sort_unstable();
    let hint_ids = names.iter().filter_map(|name| hint::parse_name(name));
    let hint_ids: BTreeSet<u32> = hint_ids.collect();
    let mark = match names.iter().any(|name| name == mark::NAME) {
        true => mark::read(storage).map_err(|error| io(mark::NAME, error))?,
        false => FoundMark::default(),
    };
    let kept = aside::existing(names);
    let kept = kept.into_iter().map(|(_, name)| name).collect();
    let Some(newest) = ids.last().copied() else {
        let mark_of_first = mark.mark.filter(|mark| mark.position > 0);
        return Ok(Examined {
            hint_ids,
            broken: mark_of_first.map(|mark| ends_early(storage, &[], &mark)),
            mark,
            kept,
            ..Examined::default()
        });
    };
    // Segments are removed from the oldest one on, so only those that nothing separates from the newest one
    // can have a meaning.
    let is_joined = |(index, id): (usize, &u32)| newest - id == (ids.len() - 1 - index) as u32;
    let first = ids.iter().enumerate().position(is_joined).unwrap_or(0);
    let mut files = vec![];
    for id in &ids[first..] {
        files.push(open(storage, *id)?);
    }
    // All heads and hints are announced before the first one is read, so that the disk has work.
    let stored: Vec<_> = files
        .iter()
        .map(|file| {
            let has_hint = hint_ids.contains(&file.id);
            has_hint.then(|| StoredHint::open(storage, file.id, file.bytes))
        })
        .collect();
    for file in &mut files {
        file.read_head(storage)?;
    }
    for (index, hint) in stored.into_iter().enumerate() {
        let next = files.get(index + 1).and_then(|next| next.head);
        files[index].look(storage, next.as_ref(), hints, hint)?;
    }
    let mark = about(mark, &files);
    let (mut broken, synced) = find_end(storage, &files, mark.mark.as_ref())?;
    // What a file behind the end says is not sure.
    let sure = broken
        .as_ref()
        .map_or(files.len(), |broken| broken.index + 1);
    let oldest = files[..sure].iter().map(Found::oldest).max().unwrap_or(0);
    let lacks_start = (1..ids[first]).contains(&oldest);
    if lacks_start {
        let path = storage.path(&segment::name(ids[first] - 1));
        // The record that says that files were reclaimed reaches the disk before they are removed. If the log ends before
        // that record, it is damaged there.
        let Some(broken) = &mut broken else {
            return Err(Error::Damaged {
                path,
                offset: 0,
                reason: "the file is missing",
            });
        };
        broken.is_damage = true;
        broken.missing = (broken.oldest < ids[first]).then_some(path);
    }
    let outdated = files.partition_point(|file| file.id < oldest);
    let broken = broken.map(|broken| Broken {
        index: broken.index - outdated,
        ..broken
    });
    let obsolete = ids[..first].iter().copied().map(segment::name);
    let obsolete = obsolete.chain(files.drain(..outdated).map(|file| file.name));
    Ok(Examined {
        obsolete: obsolete.collect(),
        hint_ids,
        files,
        broken,
        synced,
        mark,
        kept,
        lacks_start,
    })
}

/// Opens a segment, and announces that its head is read.
fn open(storage: &dyn Storage, id: u32) -> Result<Found, Error> {
    let name = segment::name(id);
    let path = storage.path(&name);
    let io = |error| Error::io(&path, error);
    let file = storage.open(&name).map_err(io)?;
    let bytes = file.len().map_err(io)?;
    if u32::try_from(bytes).is_err() {
        return Err(Error::Damaged {
            path,
            offset: 0,
            reason: "the file is longer than a segment can be",
        });
    }
    let head = HEAD_BYTES.min(bytes as usize);
    file.announce(Access::Range {
        offset: 0,
        bytes: head,
    });
    Ok(Found {
        id,
        name,
        file,
        bytes,
        head: None,
        scan: Scan::default(),
        hint: None,
    })
}

impl Found {
    /// Reads the head of the segment.
    fn read_head(&mut self, storage: &dyn Storage) -> Result<(), Error> {
        let path = || storage.path(&self.name);
        let mut head = [0; HEAD_BYTES];
        let head = &mut head[..HEAD_BYTES.min(self.bytes as usize)];
        let read = self.file.read_at(0, head);
        read.map_err(|error| Error::io(&path(), error))?;
        self.head = match Head::decode(head, self.id) {
            Ok(head) => Some(head),
            Err(BadHead::Damaged) => None,
            Err(BadHead::Version(version)) => {
                let path = path();
                return Err(Error::Version { path, version });
            }
        };
        Ok(())
    }

    /// Reads the records of the segment, or its hint in their place. `next` is the head of the next segment.
    fn look(
        &mut self,
        storage: &dyn Storage,
        next: Option<&Head>,
        hints: Hints,
        stored: Option<Result<StoredHint, Ignored>>,
    ) -> Result<(), Error> {
        let sealed = self.head.zip(next);
        let sealed = sealed.and_then(|(head, next)| Sealed::new(head, next));
        let (segment, sealed) = (&*self.file, sealed.as_ref());
        let looked = stored.map(|stored| match stored {
            Ok(stored) => stored.look(segment, self.bytes, sealed, hints),
            Err(ignored) => Looked::ignored(ignored),
        });
        let Looked { hint, scan, synced } = looked.unwrap_or_default();
        self.hint = hint;
        self.scan = match scan {
            Some(scan) => scan,
            None => self
                .scan()
                .map_err(|error| Error::io(&storage.path(&self.name), error))?,
        };
        self.scan.synced = self.scan.synced.max(synced);
        Ok(())
    }

    /// Reads all of the segment.
    fn scan(&self) -> std::io::Result<Scan> {
        self.file.announce(Access::Whole);
        with_bytes(&*self.file, 0, self.bytes as usize, |all| {
            match &self.head {
                Some(head) => scan(all, head),
                None => Scan {
                    reason: Some("the file's head is damaged"),
                    last_byte: last_byte(all, 0),
                    ..Scan::default()
                },
            }
        })
    }
}

/// Finds where the log ends, and the position up to which it has reached the disk.
fn find_end(
    storage: &dyn Storage,
    files: &[Found],
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
                .map(Found::oldest)
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
fn ends_early(storage: &dyn Storage, files: &[Found], mark: &Mark) -> Broken {
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
fn about(found: FoundMark, files: &[Found]) -> FoundMark {
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
fn end_of(files: &[Found]) -> u64 {
    files.last().map_or(0, |file| {
        let records = file.scan.end.saturating_sub(HEAD_BYTES as u64);
        file.head.map_or(0, |head| head.position) + records
    })
}

/// Number of the record behind the last of `files`.
fn sequence_behind(files: &[Found]) -> u64 {
    files.last().map_or(0, |file| {
        file.head.map_or(0, |head| head.sequence) + file.scan.records
    })
}

/// What whole records there are behind the place where a segment breaks off.
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
fn salvage(file: &Found) -> std::io::Result<Salvage> {
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

/// Makes the files agree with what is left of the log: cuts off what is torn and removes files without a
/// meaning. A log that is damaged is refused, unless `drops_damage`.
///
/// # Errors
/// [`Error::Damaged`], [`Error::Io`].
pub(crate) fn recover(
    storage: &dyn Storage,
    examined: Examined,
    drops_damage: bool,
) -> Result<Recovered, Error> {
    let Examined {
        mut files,
        mut obsolete,
        hint_ids,
        broken,
        synced,
        mark,
        kept: _,
        lacks_start,
    } = examined;
    if let Some(broken) = broken
        .as_ref()
        .filter(|broken| broken.is_damage && !drops_damage)
    {
        return Err(Error::Damaged {
            path: broken.path.clone(),
            offset: broken.offset,
            reason: broken.reason,
        });
    }
    let next_segment = files.last().map_or(1, |file| file.id + 1);
    let is_ignored = |file: &&Found| matches!(file.hint, Some(Err(_)));
    let ignored_hints = files.iter().filter(is_ignored).count() as u64;
    let mut torn = None;
    if let Some(broken) = &broken {
        let (dropped, kept) = cut_off(storage, &mut files, broken)?;
        obsolete.extend(dropped);
        torn = (broken.bytes > 0).then(|| Torn {
            kept: kept.paths,
            unkept_bytes: kept.unkept_bytes,
            ..broken.torn()
        });
        // Last, so that the log is refused until all of it has been dropped.
        if broken.is_damage && mark.is_present() {
            obsolete.push(mark::NAME.to_owned());
        }
    }
    // Before the segments, so that few are left behind.
    let hints = needless_hints(&files, &hint_ids);
    remove(storage, &hints.chain(obsolete).collect::<Vec<String>>())?;
    let next_segment = files.last().map_or(next_segment, |file| file.id + 1);
    let (position, sequence) = (end_of(&files), sequence_behind(&files));
    if lacks_start && let Some(first) = files.first() {
        let head = Head {
            id: next_segment,
            oldest: first.id,
            position,
            sequence,
            salt: segment::new_salt(next_segment),
        };
        files.push(begin_anew(storage, head)?);
    }
    let next_segment = files.last().map_or(next_segment, |file| file.id + 1);
    Ok(Recovered {
        ignored_hints,
        position,
        sequence,
        next_segment,
        synced,
        next_mark: mark.next,
        torn,
        ..open_segments(storage, files)?
    })
}

/// Takes the files behind the place where the log ends out of the list, and keeps what they hold beside the log. Returns the
/// names of those that are left to be removed, the newest first, so that no file is ever missing between others.
fn cut_off(
    storage: &dyn Storage,
    files: &mut Vec<Found>,
    broken: &Broken,
) -> Result<(Vec<String>, Kept), Error> {
    let behind = files.iter().enumerate().skip(broken.index);
    let pieces = behind.map(|(index, file)| file.rest(index == broken.index));
    let pieces: Vec<Piece> = pieces.collect();
    let has_head = files
        .get(broken.index)
        .is_some_and(|file| file.head.is_some());
    let first_dropped = broken.index + usize::from(has_head);
    let dropped = files.drain(first_dropped.min(files.len())..).rev();
    let mut dropped: Vec<String> = dropped.map(|file| file.name).collect();
    // The segment that is cut off ends elsewhere than its hint says.
    for file in files.iter_mut().skip(broken.index) {
        file.hint = None;
    }
    let kept = aside::keep(storage, &pieces)?;
    dropped.retain(|name| !kept.moved.contains(name));
    Ok((dropped, kept))
}

/// Names of the hints that are ignored, or that no segment has.
fn needless_hints<'h>(
    files: &'h [Found],
    hint_ids: &'h BTreeSet<u32>,
) -> impl Iterator<Item = String> + use<'h> {
    let has_hint = |id: &u32| {
        let found = files.binary_search_by_key(id, |file| file.id);
        found.is_ok_and(|index| files[index].has_hint())
    };
    let hints = hint_ids.iter().filter(move |id| !has_hint(id));
    hints.map(|id| hint::name(*id))
}

/// The files as segments of a log, and what their records say together.
fn open_segments(storage: &dyn Storage, files: Vec<Found>) -> Result<Recovered, Error> {
    let mut recovered = Recovered::default();
    for file in files {
        let Some(head) = file.head else { continue };
        for (total, more) in recovered.puts.iter_mut().zip(file.scan.puts) {
            *total += more;
        }
        recovered.operations += file.scan.operations;
        let end = file.scan.end;
        let stored = if file.bytes > end {
            // A file is shortened only while it is not open.
            drop(file.file);
            let shortened = storage
                .shorten(&file.name, end)
                .and_then(|()| storage.open(&file.name));
            shortened.map_err(|error| Error::io(&storage.path(&file.name), error))?
        } else {
            file.file
        };
        let segment = Segment::new(head, stored, end, end);
        let hint = file.hint.and_then(Result::ok);
        if let Some(hint) = &hint {
            segment.set_hint(hint.bytes);
        }
        recovered.hints.push(hint.and_then(|hint| hint.file));
        recovered.segments.push(Arc::new(segment));
    }
    Ok(recovered)
}

/// Removes files, and returns when their names have gone from the disk.
fn remove(storage: &dyn Storage, names: &[String]) -> Result<(), Error> {
    for name in names {
        let removed = storage.remove(name);
        removed.map_err(|error| Error::io(&storage.path(name), error))?;
    }
    if names.is_empty() {
        return Ok(());
    }
    let synced = storage.sync_names();
    synced.map_err(|error| Error::io(&storage.path(""), error))
}

/// Makes a segment without records behind a log that was cut off before the record that says which segments were
/// reclaimed: its head says so from now on. It also ends the segment before it, so that all the rest is cut off.
fn begin_anew(storage: &dyn Storage, head: Head) -> Result<Found, Error> {
    let name = segment::name(head.id);
    let bytes = HEAD_BYTES as u64;
    let made = storage.create(&name, bytes, &head.encode());
    let synced = made.and_then(|made| {
        made.stored.sync()?;
        storage.sync_names()?;
        Ok(made.stored)
    });
    let file = synced.map_err(|error| Error::io(&storage.path(&name), error))?;
    let scan = Scan {
        end: bytes,
        ..Scan::default()
    };
    Ok(Found {
        id: head.id,
        name,
        file,
        bytes,
        head: Some(head),
        scan,
        hint: None,
    })
}
