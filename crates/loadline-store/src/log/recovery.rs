//! Reading the log again: which records are whole, where a torn tail begins, and whether something is damaged.
//!
//! Records are read from the oldest segment on until one is not whole. What lies behind it was being written when
//! the process or the machine stopped, and is cut off, unless it had reached the disk already. That is
//! known from the mark that the last sync has left, and from the records behind it: each says up to which position everything
//! had reached the disk when it was written. If one of them says so of the place that is not whole, or of what is
//! missing at the end, the log is damaged and is not opened.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::aside::{self, Kept, Piece};
pub use super::end::Torn;
use super::end::{Broken, about, end_of, ends_early, find_end, sequence_behind};
use super::file::SegmentFile;
use super::hint::{self, Content, Hints, Ignored, Looked, Sealed, StoredHint};
use super::mark::{self, FoundMark};
use super::op::DATABASES;
use super::scan::{Scan, last_byte, scan};
use super::segment::{self, BadHead, HEAD_BYTES, Head, Segment};
use crate::error::Error;
use crate::storage::{Access, Storage, with_bytes};

/// The remainder of a log.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// The segments that have a meaning, the oldest first.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// For each of them the hint that is read in its place, if there is one.
    pub(crate) hints: Vec<Option<Content>>,
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
    /// The part that was cut off.
    pub(crate) torn: Option<Torn>,
    /// Number of operations for each database that can have added a key.
    pub(crate) puts: [u64; DATABASES as usize],
    /// Number of all operations.
    pub(crate) operations: u64,
}

/// A hint, or the reason why it is not used.
type OpenedHint = Result<StoredHint, Ignored>;

/// The result of a walk over the files.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    /// The segments, the oldest first.
    files: Vec<SegmentFile>,
    /// Names of files without a meaning.
    obsolete: Vec<String>,
    /// The segments of all hints, also where there is no such segment.
    hint_ids: BTreeSet<u32>,
    /// Index of the segment where the log ends, if not at the end of the last one.
    pub(crate) broken: Option<Broken>,
    synced: u64,
    pub(crate) mark: FoundMark,
    /// Names of files with the bytes that were cut off before.
    pub(crate) kept: Vec<String>,
    /// Whether only the part behind the end of the log says why its first segment is not that of the store.
    lacks_start: bool,
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

/// The facts in the names of the files, and the mark.
struct Names {
    /// The segments, in ascending order.
    ids: Vec<u32>,
    hint_ids: BTreeSet<u32>,
    /// The content of the mark, if there is one.
    mark: FoundMark,
    kept: Vec<String>,
}

impl Names {
    fn read(storage: &dyn Storage) -> Result<Self, Error> {
        let io = |name: &str, error| Error::io(&storage.path(name), error);
        let names = storage.list().map_err(|error| io("", error))?;
        let ids = names.iter().filter_map(|name| segment::parse_name(name));
        let ids: BTreeSet<u32> = ids.collect();
        let hint_ids = names.iter().filter_map(|name| hint::parse_name(name));
        let hint_ids = hint_ids.collect();
        let mark = match names.iter().any(|name| name == mark::NAME) {
            true => mark::read(storage).map_err(|error| io(mark::NAME, error))?,
            false => FoundMark::default(),
        };
        let kept = aside::existing(names).into_iter().map(|(_, name)| name);
        Ok(Self {
            ids: ids.into_iter().collect(),
            hint_ids,
            mark,
            kept: kept.collect(),
        })
    }

    /// The log, where there are no segments. If a mark states records, all of them are missing.
    fn without_files(self, storage: &dyn Storage) -> Examined {
        let stated = self.mark.mark.filter(|mark| mark.position > 0);
        Examined {
            hint_ids: self.hint_ids,
            broken: stated.map(|mark| ends_early(storage, &[], &mark)),
            mark: self.mark,
            kept: self.kept,
            ..Examined::default()
        }
    }
}

/// Examines the log in `storage`, and changes nothing.
///
/// # Errors
/// [`Error::Io`], [`Error::Version`]; [`Error::Damaged`] for a missing file.
pub(crate) fn examine(storage: &dyn Storage, hints: Hints) -> Result<Examined, Error> {
    let names = Names::read(storage)?;
    let Some(newest) = names.ids.last().copied() else {
        return Ok(names.without_files(storage));
    };
    let Names {
        ids,
        hint_ids,
        mark,
        kept,
    } = names;
    // Segments are removed from the oldest one on, so only those that nothing separates from the newest one
    // can have a meaning.
    let is_joined = |(index, id): (usize, &u32)| newest - id == (ids.len() - 1 - index) as u32;
    let first = ids.iter().enumerate().position(is_joined).unwrap_or(0);
    let (mut files, stored) = open_all(storage, &ids[first..], &hint_ids)?;
    for (index, hint) in stored.into_iter().enumerate() {
        let next = files.get(index + 1).and_then(|next| next.head);
        files[index].look(storage, next.as_ref(), hints, hint)?;
    }
    let mark = about(mark, &files);
    let (mut broken, synced) = find_end(storage, &files, mark.mark.as_ref())?;
    // The content of a file behind the end is not sure.
    let sure = broken
        .as_ref()
        .map_or(files.len(), |broken| broken.index + 1);
    let oldest = files[..sure]
        .iter()
        .map(SegmentFile::oldest)
        .max()
        .unwrap_or(0);
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

/// Opens segments and their hints, and reads the heads of the segments.
fn open_all(
    storage: &dyn Storage,
    ids: &[u32],
    hint_ids: &BTreeSet<u32>,
) -> Result<(Vec<SegmentFile>, Vec<Option<OpenedHint>>), Error> {
    let (mut files, mut announced) = (vec![], vec![]);
    for id in ids {
        let mut file = open(storage, *id)?;
        if !file.read_cached_head(storage)? {
            announced.push(files.len());
        }
        files.push(file);
    }
    // All heads and hints that are not in memory are announced before the first one is read, so that the disk has work.
    let stored = files.iter().map(|file| {
        let has_hint = hint_ids.contains(&file.id);
        has_hint.then(|| StoredHint::open(storage, file.id, file.bytes))
    });
    let stored = stored.collect();
    for index in announced {
        files[index].read_head(storage)?;
    }
    Ok((files, stored))
}

/// Opens a segment.
fn open(storage: &dyn Storage, id: u32) -> Result<SegmentFile, Error> {
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
    Ok(SegmentFile {
        id,
        name,
        file,
        bytes,
        head: None,
        scan: Scan::default(),
        hint: None,
    })
}

impl SegmentFile {
    /// Reads the head of the segment if it is in memory. Otherwise, announces that it is read, and returns false.
    fn read_cached_head(&mut self, storage: &dyn Storage) -> Result<bool, Error> {
        let mut head = [0; HEAD_BYTES];
        let head = &mut head[..HEAD_BYTES.min(self.bytes as usize)];
        let is_cached = self.file.read_cached(0, head) == Some(head.len());
        if is_cached {
            self.take_head(storage, head)?;
        } else {
            let bytes = head.len();
            self.file.announce(Access::Range { offset: 0, bytes });
        }
        Ok(is_cached)
    }

    /// Reads the head of the segment.
    fn read_head(&mut self, storage: &dyn Storage) -> Result<(), Error> {
        let mut head = [0; HEAD_BYTES];
        let head = &mut head[..HEAD_BYTES.min(self.bytes as usize)];
        let read = self.file.read_at(0, head);
        read.map_err(|error| Error::io(&storage.path(&self.name), error))?;
        self.take_head(storage, head)
    }

    fn take_head(&mut self, storage: &dyn Storage, head: &[u8]) -> Result<(), Error> {
        self.head = match Head::decode(head, self.id) {
            Ok(head) => Some(head),
            Err(BadHead::Damaged) => None,
            Err(BadHead::Version(version)) => {
                let path = storage.path(&self.name);
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
        stored: Option<OpenedHint>,
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
    let is_ignored = |file: &&SegmentFile| matches!(file.hint, Some(Err(_)));
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
    files: &mut Vec<SegmentFile>,
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
    files: &'h [SegmentFile],
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
fn open_segments(storage: &dyn Storage, files: Vec<SegmentFile>) -> Result<Recovered, Error> {
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
        recovered.hints.push(hint.and_then(|hint| hint.content));
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
fn begin_anew(storage: &dyn Storage, head: Head) -> Result<SegmentFile, Error> {
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
    Ok(SegmentFile {
        id: head.id,
        name,
        file,
        bytes,
        head: Some(head),
        scan,
        hint: None,
    })
}
