//! Reading the records of a segment until one is not whole.

use std::ops::ControlFlow;

use super::op::{DATABASES, Kind, Ops};
use super::record::{HEADER_BYTES, Record};
use super::segment::{HEAD_BYTES, Head};

/// Summary of the records of a segment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scan {
    /// Offset behind the last record that is whole.
    pub(crate) end: u64,
    pub(crate) records: u64,
    /// The largest position that a record knows to have reached the disk.
    pub(crate) synced: u64,
    /// The oldest segment that still has a meaning, as far as this one says.
    pub(crate) oldest: u32,
    /// The reason why it ends there, if not the end of the file or zeros.
    pub(crate) reason: Option<&'static str>,
    /// Whether it ends at a record that is whole but not understood.
    pub(crate) is_foreign: bool,
    /// Where the last byte lies that is not zero, behind the end.
    pub(crate) last_byte: u64,
    /// Number of operations for each database that can have added a key.
    pub(crate) puts: [u64; DATABASES as usize],
    /// Number of all operations.
    pub(crate) operations: u64,
}

/// Reads records until one is not whole.
pub(crate) fn scan(file: &[u8], head: &Head) -> Scan {
    let mut scan = Scan {
        end: HEAD_BYTES as u64,
        ..Scan::default()
    };
    let ended = records(file, head, |offset, record| {
        let mut ops = Ops::new(record.body);
        let oldest_before = scan.oldest;
        scan.add(offset, record.unsynced_bytes, &mut ops, head);
        if !ops.is_at_end() {
            scan.reason = Some("the record holds an operation that this build does not know");
            scan.is_foreign = true;
            // A repair drops the record, and with it what it says.
            scan.oldest = oldest_before;
            return ControlFlow::Break(());
        }
        scan.records += 1;
        scan.end = (offset + record.len) as u64;
        ControlFlow::Continue(())
    });
    if scan.reason.is_none() {
        scan.reason = ended;
    }
    let end = usize::try_from(scan.end).map_or(file.len(), |end| end.min(file.len()));
    scan.last_byte = last_byte(file, end);
    scan
}

impl Scan {
    /// Adds what the record at `offset` says.
    pub(crate) fn add(
        &mut self,
        offset: usize,
        unsynced_bytes: Option<u64>,
        ops: &mut Ops<'_>,
        head: &Head,
    ) {
        let position = head.position + (offset - HEAD_BYTES) as u64;
        let unsynced = unsynced_bytes.unwrap_or(u64::MAX);
        self.synced = self.synced.max(position.saturating_sub(unsynced));
        for (_, op) in ops {
            self.operations += 1;
            if let Kind::Put { .. } | Kind::PutLeftOut { .. } | Kind::PutCollection { .. } = op.kind
            {
                self.puts[usize::from(op.database)] += 1;
            }
            self.oldest = self.oldest.max(oldest_in(&op.kind, head));
        }
    }
}

/// The oldest segment that still has a meaning, if an operation in the segment with this head says so.
pub(crate) fn oldest_in(kind: &Kind<'_>, head: &Head) -> u32 {
    match kind {
        Kind::Oldest { segment } if *segment <= head.id => *segment,
        _ => 0,
    }
}

/// Shows `visit` the records of a segment with their offsets, until one is not whole or `visit` wants no more, and
/// returns what is wrong with the next one, if it is more than zeros.
pub(crate) fn records<'f>(
    file: &'f [u8],
    head: &Head,
    mut visit: impl FnMut(usize, &Record<'f>) -> ControlFlow<()>,
) -> Option<&'static str> {
    let mut offset = HEAD_BYTES;
    let mut sequence = head.sequence;
    while let Some(rest) = file.get(offset..)
        && !rest.is_empty()
    {
        let Some(record) = Record::read(rest, head.salt) else {
            let header = &rest[..rest.len().min(HEADER_BYTES)];
            let is_zero = header.iter().all(|byte| *byte == 0);
            return (!is_zero).then_some("the record's checksum is wrong");
        };
        if record.sequence != sequence as u32 {
            return Some("the record's sequence number does not follow");
        }
        if visit(offset, &record).is_break() {
            return None;
        }
        offset += record.len;
        sequence += 1;
    }
    None
}

/// Offset behind the last byte from `from` on that is not zero; `from` where all are.
pub(crate) fn last_byte(file: &[u8], from: usize) -> u64 {
    let rest = &file[from..];
    let last = rest.iter().rposition(|byte| *byte != 0);
    last.map_or(from, |last| from + last + 1) as u64
}
