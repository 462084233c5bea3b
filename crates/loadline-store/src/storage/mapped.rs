//! A file mapped into memory: writing to it is a copy and no system call. Also, huge pages and prefetches for the memory of
//! entries.
//!
//! This is the only module of the crate with `unsafe` code. What it relies on:
//!
//! 1. **One writer.** A mapping is written through its [`MappedAppender`] alone, of which there is one, and
//!    which needs `&mut self` for it.
//! 2. **Written once.** The appender writes at `published` and above it, and then raises it (`Release`). Readers
//!    get slices below it only (`Acquire`). So no byte changes while a slice to it exists.
//!    Some records, and zeros above them (8), are written by a system call, which shares the page cache with the mapping.
//! 3. **The room is there.** The file is as long as the mapping, and its blocks are allocated (`fallocate`, on
//!    file systems that keep that promise) before it is mapped. A full disk is noticed there, and writing
//!    to the mapping cannot raise SIGBUS for it.
//! 4. **It does not shrink below what is written.** [`Stored::truncate`] works only when the appender is gone,
//!    and never below `published`.
//! 5. **Other processes leave the file alone.** The directory's lock keeps other stores out. A program
//!    that truncates the file by force can end this process with SIGBUS, as can a disk that cannot read back
//!    a page; both are like `kill -9` for the store.
//! 6. **Advice changes no bytes.** [`use_huge_page`] moves memory to other physical pages. What a program reads and
//!    writes there stays the same, under any owner.
//!    The same holds for [`write_back`], which only tells the kernel when to write.
//! 7. **A prefetch is a hint.** [`prefetch`] gets a reference, so the memory is there, and it neither reads nor writes it as
//!    far as a program can see.
//! 8. **Zeros go where no one writes.** Pages are prepared by writing zeros to them, also by another thread than the writer.
//!    A thread that does it, or writes a record that ends above `prepared`, holds `preparing`, and zeros are written from the larger
//!    one of `prepared` and `published` on, or behind the record. A record that is being written without the lock lies below `prepared`.
#![expect(
    unsafe_code,
    reason = "a write to a mapped file takes less than half the time of a system call"
)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};

use super::{Access, Appender, Stored};

/// Bytes of a record from which on a system call writes it in less time than a copy into pages that are not prepared: the
/// copy enters the kernel at every page that is written for the first time. In a virtual machine, 89 KB take 35
/// microseconds by a call and 124 by a copy, 4 KB 3.6 and 5.1, and 1 KB 2.0 and 1.5.
const CALL_BYTES: usize = 4 << 10;

/// Bytes that are prepared at a time: one system call writes zeros to them. Since it writes many pages at once, they are
/// large ones in the page cache, and one page fault maps each of them. Per page of 4 KiB, in a virtual machine with ext4 and
/// Linux 6.18, this takes 0.8 microseconds of CPU time including the faults, 11 without it, and 3 with
/// `MADV_POPULATE_WRITE`, which makes small pages.
const PREPARED_BYTES: usize = 64 << 10;

/// Bytes that are prepared at a time while nothing is synced, so that fewer than one in a hundred puts of 1 KB waits for that.
const PREPARED_IN_A_ROW_BYTES: usize = 256 << 10;

/// The bytes that are written to prepare pages.
static ZEROS: [u8; PREPARED_BYTES] = [0; PREPARED_BYTES];

/// Bytes that have to be written after a sync before pages are prepared. A sync writes a large page as a whole, so small
/// ones are better for a log that is synced after every few records.
const UNSYNCED_BYTES: usize = 16 << 10;

/// Bytes that have to be written after a sync before more pages are prepared at a time, and before they are needed: a log that
/// is synced often would write their zeros to the disk.
const LONG_UNSYNCED_BYTES: usize = 256 << 10;

/// Zeros that are written ahead at a time to a log that is synced often. A sync has to write where blocks lie that hold data for
/// the first time; those that hold zeros do already. With Linux 6.18, ext4 without a journal and a virtual disk, 1 MiB ahead
/// and system calls take a sync of 100 bytes from 172 microseconds to 139, one of 8 KB from 205 to 140, and one of 80 KB from 410 to 235.
const ZEROED_BYTES: usize = 1 << 20;

/// Bytes of a huge page, with the usual pages of 4 KiB.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// `MADV_COLLAPSE` of madvise(2), which libc defines for glibc only.
#[cfg(target_os = "linux")]
const MADV_COLLAPSE: libc::c_int = 25;

/// Moves the memory around `address` to a huge page, if the kernel can: the [`HUGE_BYTES`] bytes from the last multiple
/// of this size on. Random accesses to many small pages wait for the page tables as well.
///
/// # Errors
/// The error of the kernel, such as that the range is not mapped completely.
#[cfg(target_os = "linux")]
pub(crate) fn use_huge_page(address: usize) -> io::Result<()> {
    let begin = address / HUGE_BYTES * HUGE_BYTES;
    let begin = std::ptr::without_provenance_mut(begin);
    // SAFETY: this advice neither changes nor unmaps memory (6), and the kernel checks the range.
    let result = unsafe { libc::madvise(begin, HUGE_BYTES, MADV_COLLAPSE) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Brings the line of memory in which `place` begins into the cache of the processor, and does not wait for it.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
pub(crate) fn prefetch<T: Copy>(place: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: this instruction changes nothing that a program can see, and it cannot fail (7).
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) }
}

/// Reads `place`, so that it lies in the cache of the processor.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
pub(crate) fn prefetch<T: Copy>(place: &T) {
    std::hint::black_box(*place);
}

/// Starts to write the pages of `file` to the disk, and does not wait for them.
#[cfg(target_os = "linux")]
pub(super) fn write_back(file: &File) {
    use std::os::fd::AsRawFd;
    // SAFETY: the call changes no memory and no bytes of the file (6), and the descriptor is open as long as `file` is.
    // An error shows in the sync that follows, which waits for the same pages.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Does nothing where there is no such call.
#[cfg(not(target_os = "linux"))]
pub(super) fn write_back(_: &File) {}

/// Does nothing where there is no such advice.
#[cfg(not(target_os = "linux"))]
pub(crate) fn use_huge_page(_: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A mapped file.
#[derive(Debug)]
pub(super) struct Mapping {
    map: MmapRaw,
    file: Arc<File>,
    /// Bytes from the beginning of the file that are written and do not change any more.
    published: AtomicUsize,
    /// Whether its appender is gone, or there never was one.
    is_complete: AtomicBool,
    /// Bytes from the beginning whose pages were taken out of the mapping before a sync.
    released: AtomicUsize,
    /// Bytes from the beginning that were written when the last sync began.
    synced: AtomicUsize,
    /// Bytes from the beginning up to which pages were prepared.
    prepared: AtomicUsize,
    /// Whether few bytes were written between the last two syncs.
    was_synced_soon: AtomicBool,
    /// Bytes from the beginning up to which zeros were written ahead while it was synced often.
    zeroed: AtomicUsize,
    /// Held while pages are prepared or bytes are written above `prepared` (8).
    preparing: Mutex<()>,
}

impl Mapping {
    /// Maps a new file of `bytes` bytes, the first `written` of which are written. Its blocks have to be
    /// allocated.
    pub(super) fn create(
        file: File,
        bytes: usize,
        written: usize,
    ) -> io::Result<(MappedAppender, Arc<Self>)> {
        let map = MmapOptions::new().len(bytes).map_raw(&file)?;
        // A page fault that reads ahead would put small pages where large ones are prepared later. Without the advice,
        // writes take longer.
        let _ = map.advise(Advice::Random);
        let mapping = Arc::new(Self {
            map,
            file: Arc::new(file),
            published: AtomicUsize::new(written.min(bytes)),
            is_complete: AtomicBool::new(false),
            released: AtomicUsize::new(0),
            synced: AtomicUsize::new(0),
            prepared: AtomicUsize::new(0),
            was_synced_soon: AtomicBool::new(false),
            zeroed: AtomicUsize::new(0),
            preparing: Mutex::default(),
        });
        let appender = MappedAppender {
            mapping: Arc::clone(&mapping),
        };
        Ok((appender, mapping))
    }

    /// Maps a whole file for reading, of which `bytes` is the length. It must not be empty.
    pub(super) fn open(file: Arc<File>, bytes: usize) -> io::Result<Self> {
        let map = MmapOptions::new().len(bytes).map_raw_read_only(&*file)?;
        // A page fault would read megabytes around it.
        let _ = map.advise(Advice::Random);
        let bytes = map.len();
        Ok(Self {
            map,
            file,
            published: AtomicUsize::new(bytes),
            is_complete: AtomicBool::new(true),
            released: AtomicUsize::new(bytes),
            synced: AtomicUsize::new(bytes),
            prepared: AtomicUsize::new(bytes),
            was_synced_soon: AtomicBool::new(false),
            zeroed: AtomicUsize::new(bytes),
            preparing: Mutex::default(),
        })
    }

    /// Bytes that were written since the last sync.
    fn unsynced(&self) -> usize {
        let published = self.published.load(Ordering::Relaxed);
        published.saturating_sub(self.synced.load(Ordering::Relaxed))
    }

    /// Whether so few bytes are written between syncs that the time of a sync matters more than that of a write.
    fn is_synced_often(&self) -> bool {
        self.was_synced_soon.load(Ordering::Relaxed) && self.unsynced() < LONG_UNSYNCED_BYTES
    }

    /// Whether fewer than `ahead` bytes are prepared, and there are more that can be.
    #[inline]
    fn wants_pages(&self, ahead: usize) -> bool {
        let published = self.published.load(Ordering::Relaxed);
        let wanted = (published + ahead).min(self.map.len());
        self.prepared.load(Ordering::Relaxed) < wanted && self.unsynced() >= LONG_UNSYNCED_BYTES
    }

    /// Locks what is above `prepared`.
    fn lock_unprepared(&self) -> MutexGuard<'_, ()> {
        self.preparing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares the pages from `at`, above which nothing is published, to `end` and beyond. Returns whether it did.
    ///
    /// The pages hold zeros already, so this changes no bytes. If it fails, the copy enters the kernel at each page, as it
    /// does without this.
    fn prepare_to(&self, at: usize, end: usize, _: &MutexGuard<'_, ()>) -> bool {
        let step = match self.unsynced() < LONG_UNSYNCED_BYTES {
            true => PREPARED_BYTES,
            false => PREPARED_IN_A_ROW_BYTES,
        };
        let begin = self.prepared.load(Ordering::Relaxed).max(at);
        let until = end.next_multiple_of(step).min(self.map.len());
        let is_prepared = self.write_zeros(begin, until);
        if is_prepared {
            self.prepared.fetch_max(until, Ordering::Release);
        }
        is_prepared
    }

    /// Writes zeros to the range from `begin` to `until`, and returns whether it could. The range is not published, so no slice to
    /// it exists, and no one else writes there (2, 8).
    fn write_zeros(&self, begin: usize, until: usize) -> bool {
        let mut parts = (begin..until).step_by(PREPARED_BYTES);
        parts.all(|from| {
            let zeros = &ZEROS[..PREPARED_BYTES.min(until - from)];
            self.file.write_all_at(zeros, from as u64).is_ok()
        })
    }

    /// Writes `bytes` to the range from `at` to `end` by a system call, and publishes it. A page that is written through the
    /// mapping is taken out of it by the next sync, which interrupts the other processors, and a large one is written as a whole.
    fn call(&self, bytes: &[u8], at: usize, end: usize, _: &MutexGuard<'_, ()>) -> io::Result<()> {
        self.file.write_all_at(bytes, at as u64)?;
        self.published.store(end, Ordering::Release);
        Ok(())
    }

    /// Writes zeros behind `end`, above which nothing is published, if there are none. Without them, the sync takes longer.
    fn zero_behind(&self, end: usize, _: &MutexGuard<'_, ()>) {
        if end <= self.zeroed.load(Ordering::Relaxed) {
            return;
        }
        let until = (end + ZEROED_BYTES).min(self.map.len());
        if self.write_zeros(end, until) {
            self.zeroed.store(until, Ordering::Relaxed);
        }
    }

    /// Takes the pages that are written out of the mapping, all at once. A sync takes them out one by one otherwise, and
    /// interrupts the other processors at each of them. They are read again from the page cache.
    fn release(&self) {
        const LEAST_BYTES: usize = 64 << 10;
        let begin = self.released.load(Ordering::Relaxed);
        let end = self.published.load(Ordering::Acquire) / LEAST_BYTES * LEAST_BYTES;
        if end <= begin {
            return;
        }
        // SAFETY: the mapping is a shared one of a file, so its pages stay in the page cache with what was written to
        // them, and a read or a write that follows finds the same bytes there.
        let released = unsafe {
            self.map
                .unchecked_advise_range(UncheckedAdvice::DontNeed, begin, end - begin)
        };
        // Without it, the sync takes longer.
        if released.is_ok() {
            self.released.store(end, Ordering::Relaxed);
        }
    }
}

impl Stored for Mapping {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let range = self.mapped(offset, buffer.len());
        buffer.copy_from_slice(range.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    #[inline]
    fn mapped(&self, offset: u64, bytes: usize) -> Option<&[u8]> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(bytes)?;
        if end > self.published.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: `published` never exceeds the length of the mapping, so the range is inside of it. Its
        // bytes are initialised, since they belong to a file, and no one writes to them any more (2).
        // The slice borrows `self` and with it the mapping.
        Some(unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(offset), bytes) })
    }

    fn announce(&self, access: Access) {
        // Advice that the kernel does not take costs time only.
        let _ = match access {
            Access::Whole => self.map.advise(Advice::Normal),
            Access::Range { offset, bytes } => match usize::try_from(offset) {
                Ok(offset) if self.mapped(offset as u64, bytes).is_some() => {
                    self.map.advise_range(Advice::WillNeed, offset, bytes)
                }
                _ => Ok(()),
            },
        };
    }

    fn prepare(&self, ahead: usize) {
        if !self.wants_pages(ahead) {
            return;
        }
        // Otherwise, another thread is at work.
        let Ok(unprepared) = self.preparing.try_lock() else {
            return;
        };
        if self.is_complete.load(Ordering::Acquire) {
            return;
        }
        // The bytes that the appender writes at the same time lie below `prepared` (8).
        let at = self.published.load(Ordering::Acquire);
        self.prepare_to(at, (at + ahead).min(self.map.len()), &unprepared);
    }

    fn sync(&self) -> io::Result<()> {
        let published = self.published.load(Ordering::Acquire);
        let before = self.synced.swap(published, Ordering::Relaxed);
        let is_soon = published.saturating_sub(before) < LONG_UNSYNCED_BYTES;
        self.was_synced_soon.store(is_soon, Ordering::Relaxed);
        self.release();
        // On Linux, this covers the pages that were written through a mapping.
        self.file.sync_data()
    }

    fn write_back(&self) {
        self.release();
        write_back(&self.file);
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        // Zeros that are written behind the new end would make the file longer again.
        let _unprepared = self.lock_unprepared();
        let published = self.published.load(Ordering::Acquire) as u64;
        if !self.is_complete.load(Ordering::Acquire) || bytes < published {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.file.set_len(bytes)
    }
}

/// The writer of a [`Mapping`].
#[derive(Debug)]
pub(super) struct MappedAppender {
    mapping: Arc<Mapping>,
}

impl MappedAppender {
    /// Writes `bytes` to the range from `at` to `end`, which begins where the last one ended, and publishes it.
    #[inline]
    fn copy(&mut self, bytes: &[u8], at: usize, end: usize) {
        let mapping = &*self.mapping;
        debug_assert!(at + bytes.len() == end && end <= mapping.map.len());
        // SAFETY: the range [at, end) is inside the mapping, as `append` has checked, which is writable, and as long as the
        // file, since nothing truncates it while this appender exists (3, 4). No slice to it exists, because
        // `mapped` hands out bytes below `published` only (2), and this is the only writer (1, 8). `bytes`
        // cannot overlap it for the same reasons.
        unsafe {
            let target = mapping.map.as_mut_ptr().add(at);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
        mapping.published.store(end, Ordering::Release);
    }

    /// Writes `bytes` to a range of which not all pages are prepared.
    #[cold]
    fn append_unprepared(&mut self, bytes: &[u8], at: usize, end: usize) -> io::Result<()> {
        let mapping = Arc::clone(&self.mapping);
        // While another thread prepares them, this one waits.
        let unprepared = mapping.lock_unprepared();
        if mapping.is_synced_often() {
            mapping.zero_behind(end, &unprepared);
            return mapping.call(bytes, at, end, &unprepared);
        }
        let is_prepared = end <= mapping.prepared.load(Ordering::Acquire)
            || mapping.unsynced() >= UNSYNCED_BYTES
                && end - at <= PREPARED_BYTES
                && mapping.prepare_to(at, end, &unprepared);
        if bytes.len() >= CALL_BYTES && !is_prepared {
            return mapping.call(bytes, at, end, &unprepared);
        }
        self.copy(bytes, at, end);
        Ok(())
    }
}

impl Appender for MappedAppender {
    #[inline]
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mapping = &*self.mapping;
        // No one else changes it (1).
        let at = mapping.published.load(Ordering::Relaxed);
        let end = at.checked_add(bytes.len());
        let end = end.filter(|end| *end <= mapping.map.len());
        let end = end.ok_or(io::ErrorKind::WriteZero)?;
        if end > mapping.prepared.load(Ordering::Acquire) {
            return self.append_unprepared(bytes, at, end);
        }
        self.copy(bytes, at, end);
        Ok(())
    }

    #[inline]
    fn wants_pages(&self, ahead: usize) -> bool {
        self.mapping.wants_pages(ahead)
    }
}

impl Drop for MappedAppender {
    fn drop(&mut self) {
        // From now on, it is only read.
        let _ = self.mapping.map.advise(Advice::Normal);
        self.mapping.is_complete.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_file(bytes: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        file
    }

    #[test]
    fn readers_see_what_was_written_and_no_more() {
        let (mut appender, mapping) = Mapping::create(new_file(16), 16, 0).unwrap();
        assert_eq!(mapping.mapped(0, 0), Some(&[][..]));
        assert_eq!(mapping.mapped(0, 1), None);
        appender.append(b"abc").unwrap();
        let first = mapping.mapped(0, 3).unwrap();
        appender.append(b"def").unwrap();
        assert_eq!(first, b"abc");
        assert_eq!(mapping.mapped(1, 4), Some(&b"bcde"[..]));
        for (offset, bytes) in [(0, 7), (6, 1), (7, 0), (u64::MAX, 1), (1, usize::MAX)] {
            assert_eq!(mapping.mapped(offset, bytes), None, "{offset} {bytes}");
        }
        let mut buffer = [0; 2];
        mapping.read_at(4, &mut buffer).unwrap();
        assert_eq!(&buffer, b"ef");
        assert!(mapping.read_at(5, &mut buffer).is_err());
    }

    #[test]
    fn write_behind_the_end_is_refused() {
        let (mut appender, mapping) = Mapping::create(new_file(8), 8, 3).unwrap();
        assert!(appender.append(b"123456").is_err());
        appender.append(b"12345").unwrap();
        assert!(appender.append(b"1").is_err());
        assert_eq!(mapping.mapped(3, 5), Some(&b"12345"[..]));
    }

    #[test]
    fn file_shrinks_only_when_no_one_writes_to_it_any_more() {
        let (mut appender, mapping) = Mapping::create(new_file(8192), 8192, 0).unwrap();
        appender.append(b"abc").unwrap();
        assert!(mapping.truncate(4096).is_err());
        drop(appender);
        assert!(mapping.truncate(2).is_err());
        mapping.truncate(3).unwrap();
        assert_eq!(mapping.len().unwrap(), 3);
        assert_eq!(mapping.mapped(0, 3), Some(&b"abc"[..]));
    }

    #[test]
    fn sync_in_between_changes_nothing() {
        const BYTES: usize = 300_000;
        let (mut appender, mapping) = Mapping::create(new_file(1 << 20), 1 << 20, 0).unwrap();
        let expected: Vec<u8> = (0..BYTES).map(|byte| (byte / 7) as u8).collect();
        for (number, part) in expected.chunks(1_001).enumerate() {
            appender.append(part).unwrap();
            let early = mapping.mapped(0, 1_001).unwrap();
            if number % 40 == 0 {
                mapping.sync().unwrap();
            }
            assert_eq!(early, &expected[..1_001]);
        }
        assert_eq!(mapping.released.load(Ordering::Relaxed), 4 << 16);
        assert_eq!(mapping.mapped(0, BYTES), Some(&expected[..]));
    }

    #[test]
    fn long_and_short_parts_follow_each_other() {
        use std::os::unix::fs::FileExt;
        const BYTES: usize = 400_000;
        let file = new_file(BYTES as u64);
        let other = file.try_clone().unwrap();
        let (mut appender, mapping) = Mapping::create(file, BYTES, 0).unwrap();
        let expected: Vec<u8> = (0..BYTES).map(|byte| (byte / 11) as u8).collect();
        let lengths = [1, CALL_BYTES, 77, 3 * CALL_BYTES + 5, CALL_BYTES - 1];
        let mut at = 0;
        for (number, length) in lengths.into_iter().cycle().enumerate() {
            let Some(part) = expected.get(at..at + length) else {
                break;
            };
            appender.append(part).unwrap();
            assert_eq!(mapping.mapped(at as u64, length), Some(part));
            assert_eq!(mapping.mapped(at as u64, length + 1), None);
            at += length;
            if number % 16 == 7 {
                mapping.sync().unwrap();
            }
        }
        let mut buffer = vec![0; at];
        other.read_exact_at(&mut buffer, 0).unwrap();
        assert!(buffer == expected[..at] && mapping.mapped(0, at) == Some(&buffer[..]));
        // As short ones do, a long one that does not fit changes nothing.
        assert!(appender.append(&vec![1; BYTES]).is_err());
        appender.append(&expected[at..at + 1]).unwrap();
        assert_eq!(mapping.mapped(at as u64, 1), Some(&expected[at..=at]));
    }

    #[test]
    fn pages_are_prepared_while_nothing_is_synced() {
        const BYTES: usize = 900_000;
        let file = new_file(BYTES as u64);
        let other = file.try_clone().unwrap();
        let (mut appender, mapping) = Mapping::create(file, BYTES, 0).unwrap();
        let expected: Vec<u8> = (0..BYTES).map(|byte| 1 + (byte % 250) as u8).collect();
        let mut at = 0;
        let mut append = |appender: &mut MappedAppender, bytes| {
            appender.append(&expected[at..at + bytes]).unwrap();
            at += bytes;
            let mut file = vec![9; BYTES];
            other.read_exact_at(&mut file, 0).unwrap();
            assert!(file[..at] == expected[..at], "{at}");
            assert!(file[at..].iter().all(|byte| *byte == 0), "{at}");
            mapping.prepared.load(Ordering::Relaxed)
        };
        assert_eq!(append(&mut appender, UNSYNCED_BYTES - 1), 0);
        assert_eq!(append(&mut appender, 1), 0);
        assert_eq!(append(&mut appender, 1), PREPARED_BYTES);
        // A record that ends behind them prepares more, a very large one does not.
        assert_eq!(append(&mut appender, PREPARED_BYTES), 2 * PREPARED_BYTES);
        assert_eq!(
            append(&mut appender, 2 * PREPARED_BYTES),
            2 * PREPARED_BYTES
        );
        assert_eq!(append(&mut appender, 100), 4 * PREPARED_BYTES);
        assert_eq!(append(&mut appender, PREPARED_BYTES), 5 * PREPARED_BYTES);
        mapping.sync().unwrap();
        assert_eq!(append(&mut appender, PREPARED_BYTES), 5 * PREPARED_BYTES);
        // All of the rest, without the bytes behind the end.
        for _ in 0..7 {
            append(&mut appender, PREPARED_BYTES);
        }
        assert_eq!(mapping.prepared.load(Ordering::Relaxed), BYTES);
        assert!(appender.append(&expected).is_err());
        drop(appender);
        assert_eq!(mapping.mapped(0, at), Some(&expected[..at]));
    }

    #[test]
    fn log_that_is_synced_often_has_zeros_ahead_and_no_pages_in_the_mapping() {
        use std::os::unix::fs::MetadataExt;
        const BYTES: usize = 4 << 20;
        let file = new_file(BYTES as u64);
        let other = file.try_clone().unwrap();
        let (mut appender, mapping) = Mapping::create(file, BYTES, 0).unwrap();
        let expected: Vec<u8> = (0..BYTES).map(|byte| 1 + (byte % 250) as u8).collect();
        let mut at = 0;
        let mut zeroed = vec![];
        for bytes in [77, 5_000, 1, 200_000].into_iter().cycle().take(40) {
            appender.append(&expected[at..at + bytes]).unwrap();
            at += bytes;
            assert_eq!(mapping.mapped(0, at), Some(&expected[..at]));
            zeroed.push(mapping.zeroed.load(Ordering::Relaxed));
            mapping.sync().unwrap();
        }
        zeroed.dedup();
        // The first record was written before a sync.
        let begin = 77 + 5_000 + ZEROED_BYTES;
        assert_eq!(zeroed[..2], [0, begin]);
        assert!(zeroed.len() == 3 && zeroed.is_sorted(), "{zeroed:?}");
        let room = other.metadata().unwrap().blocks() * 512;
        assert!(room >= zeroed[2] as u64, "{room} {zeroed:?}");
        assert_eq!(mapping.prepared.load(Ordering::Relaxed), 0);
        let mut file = vec![9; BYTES];
        other.read_exact_at(&mut file, 0).unwrap();
        assert!(file[..at] == expected[..at] && file[at..].iter().all(|byte| *byte == 0));
        // Once it is not synced for long, pages are prepared again.
        for part in expected[at..at + 300_000].chunks(1_000) {
            appender.append(part).unwrap();
        }
        at += 300_000;
        assert!(mapping.prepared.load(Ordering::Relaxed) >= at);
        assert_eq!(mapping.mapped(0, at), Some(&expected[..at]));
    }

    #[test]
    fn more_pages_are_prepared_at_a_time_when_nothing_is_synced_for_long() {
        const BYTES: usize = 1_000_000;
        let (mut appender, mapping) = Mapping::create(new_file(BYTES as u64), BYTES, 0).unwrap();
        let mut steps = vec![];
        let mut append = |bytes| {
            for part in vec![3; bytes].chunks(1_000) {
                let before = mapping.prepared.load(Ordering::Relaxed);
                appender.append(part).unwrap();
                let prepared = mapping.prepared.load(Ordering::Relaxed);
                if prepared != before {
                    steps.push(prepared);
                }
            }
            std::mem::take(&mut steps)
        };
        let kib = |numbers: &[usize]| numbers.iter().map(|it| it << 10).collect::<Vec<_>>();
        assert_eq!(append(600_000), kib(&[64, 128, 192, 256, 320, 512, 768]));
        mapping.sync().unwrap();
        // Those are in use, and few bytes were written since.
        assert_eq!(append(300_000), kib(&[832, 896]));
        assert_eq!(mapping.mapped(0, 900_000), Some(&vec![3; 900_000][..]));
    }

    #[test]
    fn pages_are_prepared_while_another_thread_writes() {
        const BYTES: usize = 4 << 20;
        let file = new_file(BYTES as u64);
        let other = file.try_clone().unwrap();
        let (mut appender, mapping) = Mapping::create(file, BYTES, 0).unwrap();
        let expected: Vec<u8> = (0..BYTES - 5_000).map(|at| 1 + (at % 250) as u8).collect();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for ahead in [1, PREPARED_BYTES, PREPARED_IN_A_ROW_BYTES] {
                let (mapping, is_done) = (&mapping, &is_done);
                scope.spawn(move || {
                    while !is_done.load(Ordering::Relaxed) {
                        mapping.prepare(ahead);
                    }
                });
            }
            for part in expected.chunks(1_001) {
                appender.append(part).unwrap();
            }
            assert!(mapping.prepared.load(Ordering::Relaxed) >= expected.len());
            drop(appender);
            mapping.truncate(expected.len() as u64).unwrap();
            is_done.store(true, Ordering::Relaxed);
        });
        assert_eq!(mapping.len().unwrap(), expected.len() as u64);
        let mut file = vec![0; expected.len()];
        other.read_exact_at(&mut file, 0).unwrap();
        assert!(file == expected && mapping.mapped(0, file.len()) == Some(&expected[..]));
    }

    #[test]
    fn mapped_write_is_in_the_file() {
        use std::os::unix::fs::FileExt;
        let file = new_file(8);
        let other = file.try_clone().unwrap();
        let (mut appender, mapping) = Mapping::create(file, 8, 0).unwrap();
        appender.append(b"12345678").unwrap();
        let mut buffer = [0; 8];
        other.read_exact_at(&mut buffer, 0).unwrap();
        assert_eq!(&buffer, b"12345678");
        mapping.sync().unwrap();
        let opened = Mapping::open(Arc::new(other), 8).unwrap();
        assert_eq!(opened.mapped(0, 8), Some(&b"12345678"[..]));
        assert!(opened.mapped(0, 9).is_none());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_in_huge_pages_has_the_same_bytes() {
        let mut memory: Vec<u8> = (0..4 * HUGE_BYTES).map(|byte| (byte / 13) as u8).collect();
        let expected = memory.clone();
        // The first multiple of the size that lies in it whole.
        let address = memory.as_ptr().addr() + HUGE_BYTES;
        let moved = use_huge_page(address);
        println!("{moved:?}");
        assert!(memory == expected);
        memory[2 * HUGE_BYTES] ^= 1;
        assert!(memory != expected);
        assert!(use_huge_page(0).is_err(), "nothing is mapped there");
    }
}
