//! Files beside the log with the parts that recovery cuts off, until the operator removes them.
//!
//! `0000000002-4096-7.torn` holds what segment 2 held from byte 4,096 on. The last number grows with each file.

use std::path::PathBuf;

use super::segment::parse_id;
use crate::error::Error;
use crate::storage::{Storage, with_bytes};

/// Bytes of all these files at most. If there are more, the oldest ones go.
pub(crate) const MOST_BYTES: u64 = 256 << 20;

/// A part of a segment that is cut off.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) segment: u32,
    /// The name of its file.
    pub(crate) file: String,
    /// Offset of the first byte. From 0 on, the file as a whole goes.
    pub(crate) offset: u64,
    /// Offset behind the last byte that is not zero.
    pub(crate) end: u64,
}

impl Piece {
    fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.offset)
    }
}

/// The fate of the parts that were cut off.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) paths: Vec<PathBuf>,
    /// The former names of files that were kept as a whole.
    pub(crate) moved: Vec<String>,
    /// Bytes that were not kept.
    pub(crate) unkept_bytes: u64,
}

/// The numbers of the files among `names`, in ascending order, with the names.
pub(crate) fn existing(names: Vec<String>) -> Vec<(u64, String)> {
    let parse = |name: String| Some((parse_name(&name)?, name));
    let mut found: Vec<(u64, String)> = names.into_iter().filter_map(parse).collect();
    found.sort_unstable();
    found
}

/// The last number of a name.
fn parse_name(name: &str) -> Option<u64> {
    let mut parts = name.strip_suffix(".torn")?.split('-');
    let segment = parts.next()?;
    let offset: u64 = parts.next()?.parse().ok()?;
    let number: u64 = parts.next()?.parse().ok()?;
    let is_ours = format!("{segment}-{offset}-{number}.torn") == name;
    (is_ours && parse_id(segment).is_some()).then_some(number)
}

/// Keeps `pieces`, which are in the order of the log, as far as there is room, and returns when they are on the disk. The
/// files of whole segments have other names then; of others, the part is copied.
///
/// # Errors
/// [`Error::Io`], except where the disk is full.
pub(crate) fn keep(storage: &dyn Storage, pieces: &[Piece]) -> Result<Kept, Error> {
    let mut kept = Kept::default();
    // Without a right to write, what is cut off stays where it is.
    if storage.is_read_only() || pieces.iter().all(|piece| piece.bytes() == 0) {
        return Ok(kept);
    }
    let names = storage.list();
    let older = existing(names.map_err(|error| Error::io(&storage.path(""), error))?);
    let next = older
        .last()
        .map_or(1, |(number, _)| number.saturating_add(1));
    let mut room = MOST_BYTES;
    let mut kept_pieces = vec![];
    for piece in pieces.iter().filter(|piece| piece.bytes() > 0) {
        match room.checked_sub(piece.bytes()) {
            Some(left) => {
                room = left;
                let number = next.saturating_add(kept_pieces.len() as u64);
                let name = format!("{:010}-{}-{number}.torn", piece.segment, piece.offset);
                kept_pieces.push((piece, name));
            }
            None => kept.unkept_bytes += piece.bytes(),
        }
    }
    make_room(storage, &older, room)?;
    // The newest one first, so that no file is ever missing between others.
    for (piece, name) in kept_pieces.iter().rev() {
        let io = |error| Error::io(&storage.path(&piece.file), error);
        match keep_piece(storage, piece, name) {
            Ok(()) => {
                kept.paths.insert(0, storage.path(name));
                if piece.offset == 0 {
                    kept.moved.push(piece.file.clone());
                }
            }
            Err(error) if super::is_full(&error) => kept.unkept_bytes += piece.bytes(),
            Err(error) => return Err(io(error)),
        }
    }
    let synced = storage.sync_names();
    synced.map_err(|error| Error::io(&storage.path(""), error))?;
    Ok(kept)
}

fn keep_piece(storage: &dyn Storage, piece: &Piece, name: &str) -> std::io::Result<()> {
    if piece.offset == 0 {
        storage.rename(&piece.file, name)?;
        return storage.shorten(name, piece.end);
    }
    // The room that was reserved can be what the copy needs.
    storage.shorten(&piece.file, piece.end)?;
    let file = storage.open(&piece.file)?;
    let bytes = piece.bytes() as usize;
    with_bytes(&*file, piece.offset, bytes, |part| {
        storage.create(name, part.len() as u64, part)?.stored.sync()
    })?
}

/// Removes the oldest of the files, until the others fit in `room` bytes.
fn make_room(storage: &dyn Storage, older: &[(u64, String)], room: u64) -> Result<(), Error> {
    let mut total = 0_u64;
    for (_, name) in older.iter().rev() {
        let io = |error| Error::io(&storage.path(name), error);
        let file = storage.open_to_copy(name).map_err(io)?;
        total = total.saturating_add(file.len().map_err(io)?);
        if total > room {
            storage.remove(name).map_err(io)?;
        }
    }
    Ok(())
}
