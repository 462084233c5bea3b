//! Reading the log again: which records are whole, where a torn tail begins, and whether something is damaged.
//!
//! Records are read from the oldest segment on until one is not whole. What lies behind it was being written when
//! the process or the machine stopped, and is cut off, unless it had reached the disk already. That is
//! known from the records behind it: each says up to which position everything had reached the disk when it
//! was written. If one of them says so of the place that is not whole, the log is damaged and is
//! not opened.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::hint::{self, FoundHint, Hints, Ignored, Looked, Sealed, StoredHint};
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
        let records = self.files[..sound].iter().map(|file| file.scan.records);
        let bytes = self.files.iter().map(|file| file.bytes);
        (self.files.len() as u64, records.sum(), bytes.sum())
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
    let Some(newest) = ids.last().copied() else {
        return Ok(Examined {
            hint_ids,
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
    let (mut broken, synced) = find_end(storage, &files)?;
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
    let kept = files.partition_point(|file| file.id < oldest);
    let broken = broken.map(|broken| Broken {
        index: broken.index - kept,
        ..broken
    });
    let obsolete = ids[..first].iter().copied().map(segment::name);
    let obsolete = obsolete.chain(files.drain(..kept).map(|file| file.name));
    Ok(Examined {
        obsolete: obsolete.collect(),
        hint_ids,
        files,
        broken,
        synced,
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
fn find_end(storage: &dyn Storage, files: &[Found]) -> Result<(Option<Broken>, u64), Error> {
    let mut synced = files.iter().map(|file| file.scan.synced).max().unwrap_or(0);
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
    Ok((None, synced))
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
    if let Some(broken) = &broken {
        obsolete.extend(cut_off(&mut files, broken));
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
        torn: broken
            .filter(|broken| broken.bytes > 0)
            .map(|broken| broken.torn()),
        ..open_segments(storage, files)?
    })
}

/// Takes the files behind the place where the log ends out of the list, and returns their names, the newest first, so that
/// no file is ever missing between others.
fn cut_off(files: &mut Vec<Found>, broken: &Broken) -> Vec<String> {
    let has_head = files[broken.index].head.is_some();
    let kept = broken.index + usize::from(has_head);
    let dropped = files.drain(kept..).rev();
    let dropped = dropped.map(|file| file.name).collect();
    // The segment that is cut off ends elsewhere than its hint says.
    for file in files.iter_mut().skip(broken.index) {
        file.hint = None;
    }
    dropped
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
