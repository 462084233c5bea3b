//! The bytes of one connection that are in flight in one direction.

use std::collections::VecDeque;
use std::time::Instant;

/// The end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// An orderly end.
    Finished,
    /// A reset.
    Reset,
}

/// The bytes of one connection that are in flight in one direction: a FIFO of pieces, each with its release
/// time.
#[derive(Debug)]
pub struct ByteLine {
    bytes: VecDeque<u8>,
    pieces: VecDeque<Piece>,
    /// The number of bytes at the front that were already due.
    due_bytes: usize,
    last_release: Option<Instant>,
    end: Option<(End, Instant)>,
    limit_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    release: Instant,
    bytes: usize,
}

/// The buffer size that is kept when the queue is empty; a larger buffer is freed.
const KEPT_BYTES: usize = 64 << 10;

impl ByteLine {
    /// Creates an empty line with room for `limit_bytes`, which includes the overhead of each piece.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            pieces: VecDeque::new(),
            due_bytes: 0,
            last_release: None,
            end: None,
            limit_bytes,
        }
    }

    /// The number of bytes that can be pushed. At 0 the source is not read, and TCP flow control stops its
    /// sender.
    #[must_use]
    pub fn room(&self) -> usize {
        let kept = self.bytes.len() + self.pieces.len() * size_of::<Piece>();
        self.limit_bytes.saturating_sub(kept)
    }

    /// The number of bytes in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no bytes are in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends bytes that are released at `due`, after those in front of them.
    pub fn push(&mut self, due: Instant, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let release = self.in_order(due);
        self.bytes.extend(bytes);
        match self.pieces.back_mut() {
            Some(piece) if piece.release == release => piece.bytes += bytes.len(),
            _ => self.pieces.push_back(Piece {
                release,
                bytes: bytes.len(),
            }),
        }
    }

    /// Appends the end of the stream. A reset replaces an orderly end; nothing replaces a reset.
    pub fn end(&mut self, due: Instant, end: End) {
        if matches!(self.end, Some((End::Reset, _))) {
            return;
        }
        self.end = Some((end, self.in_order(due)));
    }

    /// The time of the next release after those that were already due; `None` if nothing is in flight.
    #[must_use]
    pub fn next_release(&self) -> Option<Instant> {
        match (self.pieces.front(), self.end) {
            (Some(piece), _) => Some(piece.release),
            (None, Some((_, release))) => Some(release),
            (None, None) => None,
        }
    }

    /// The bytes that are due, in order, as two slices.
    pub fn due(&mut self, now: Instant) -> (&[u8], &[u8]) {
        while let Some(piece) = self.pieces.front() {
            if piece.release > now {
                break;
            }
            self.due_bytes += piece.bytes;
            self.pieces.pop_front();
        }
        let (front, back) = self.bytes.as_slices();
        let of_front = front.len().min(self.due_bytes);
        let of_back = self.due_bytes - of_front;
        (&front[..of_front], &back[..of_back])
    }

    /// Removes the first `bytes`, which were due and have been delivered.
    ///
    /// # Panics
    /// If fewer bytes were due.
    pub fn consume(&mut self, bytes: usize) {
        self.due_bytes = self
            .due_bytes
            .checked_sub(bytes)
            .expect("no more bytes are delivered than were due");
        self.bytes.drain(..bytes);
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT_BYTES {
            self.bytes = VecDeque::new();
        }
    }

    /// The end of the stream, once, when it is due and all bytes before it are delivered.
    pub fn take_end(&mut self, now: Instant) -> Option<End> {
        let (end, release) = self.end?;
        if release > now || !self.bytes.is_empty() {
            return None;
        }
        self.end = None;
        Some(end)
    }

    /// Discards everything in flight, including the end.
    pub fn clear(&mut self) {
        self.bytes = VecDeque::new();
        self.pieces = VecDeque::new();
        self.due_bytes = 0;
        self.end = None;
    }

    fn in_order(&mut self, due: Instant) -> Instant {
        let release = self.last_release.map_or(due, |last| last.max(due));
        self.last_release = Some(release);
        release
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn taken(line: &mut ByteLine, now: Instant, most: usize) -> Vec<u8> {
        let (front, back) = line.due(now);
        let mut out = [front, back].concat();
        out.truncate(most);
        line.consume(out.len());
        out
    }

    #[test]
    fn bytes_leave_in_order_and_never_early() {
        let now = Instant::now();
        let mut line = ByteLine::new(1 << 20);
        line.push(now + 5 * MS, b"slow");
        line.push(now + 2 * MS, b"fast");
        assert_eq!(line.next_release(), Some(now + 5 * MS));
        assert_eq!(taken(&mut line, now + 4 * MS, 100), b"");
        assert_eq!(taken(&mut line, now + 5 * MS, 100), b"slowfast");
        assert_eq!(line.next_release(), None);
    }

    #[test]
    fn end_comes_after_the_last_byte_and_once() {
        let now = Instant::now();
        let mut line = ByteLine::new(1 << 20);
        line.push(now + 5 * MS, b"bye");
        line.end(now + 3 * MS, End::Finished);
        assert_eq!(line.take_end(now + 9 * MS), None);
        assert_eq!(taken(&mut line, now + 9 * MS, 2), b"by");
        assert_eq!(line.take_end(now + 9 * MS), None);
        assert_eq!(taken(&mut line, now + 9 * MS, 2), b"e");
        assert_eq!(line.next_release(), Some(now + 5 * MS));
        assert_eq!(line.take_end(now + 4 * MS), None);
        assert_eq!(line.take_end(now + 5 * MS), Some(End::Finished));
        assert_eq!(line.take_end(now + 5 * MS), None);
    }

    #[test]
    fn reset_replaces_an_end_in_order_and_not_the_other_way() {
        let now = Instant::now();
        let mut line = ByteLine::new(1 << 20);
        line.end(now, End::Finished);
        line.end(now + MS, End::Reset);
        line.end(now + 2 * MS, End::Finished);
        assert_eq!(line.take_end(now), None);
        assert_eq!(line.take_end(now + MS), Some(End::Reset));
    }

    #[test]
    fn many_small_pieces_fill_the_line_too() {
        let now = Instant::now();
        let mut line = ByteLine::new(1_000);
        let mut pushed = 0;
        while line.room() > 0 {
            pushed += 1;
            line.push(now + pushed * MS, b"x");
        }
        assert!(
            pushed < 50,
            "{pushed} pieces of one byte in a line of 1,000 bytes"
        );
    }

    #[test]
    fn large_buffer_is_given_back() {
        let now = Instant::now();
        let mut line = ByteLine::new(1 << 20);
        line.push(now, &vec![0; 1 << 20]);
        assert_eq!(taken(&mut line, now, 1 << 20).len(), 1 << 20);
        assert!(line.bytes.capacity() <= KEPT_BYTES);
    }

    #[derive(Debug, Clone)]
    enum Action {
        Push { delay_us: u64, bytes: Vec<u8> },
        Take { most: usize },
        Wait { us: u64 },
    }

    fn steps() -> impl Strategy<Value = Vec<Action>> {
        let step = prop_oneof![
            (0..2_000u64, prop::collection::vec(any::<u8>(), 0..300))
                .prop_map(|(delay_us, bytes)| Action::Push { delay_us, bytes }),
            (0..500usize).prop_map(|most| Action::Take { most }),
            (0..1_000u64).prop_map(|us| Action::Wait { us }),
        ];
        prop::collection::vec(step, 1..120)
    }

    proptest! {
        /// Compares with the naive line: a vector of single bytes with their release times.
        #[test]
        fn is_the_naive_line(steps in steps()) {
            const LIMIT: usize = 4_096;
            let mut now = Instant::now();
            let mut line = ByteLine::new(LIMIT);
            let mut naive: Vec<(Instant, u8)> = Vec::new();
            let mut latest = now;
            for step in steps {
                match step {
                    Action::Push { delay_us, mut bytes } => {
                        bytes.truncate(line.room());
                        let due = now + Duration::from_micros(delay_us);
                        line.push(due, &bytes);
                        if !bytes.is_empty() {
                            latest = latest.max(due);
                        }
                        naive.extend(bytes.iter().map(|byte| (latest, *byte)));
                        // A piece is charged when the next one arrives, so the limit can be exceeded by one.
                        prop_assert!(line.len() <= LIMIT);
                    }
                    Action::Take { most } => {
                        let due = naive.iter().take_while(|(release, _)| *release <= now).count();
                        let expected: Vec<u8> =
                            naive.drain(..due.min(most)).map(|(_, byte)| byte).collect();
                        prop_assert_eq!(taken(&mut line, now, most), expected);
                    }
                    Action::Wait { us } => now += Duration::from_micros(us),
                }
                prop_assert_eq!(line.len(), naive.len());
                let next = naive.iter().map(|(release, _)| *release).find(|release| *release > now);
                if let Some(next) = next {
                    prop_assert!(line.next_release() <= Some(next));
                }
            }
            let rest: Vec<u8> = naive.iter().map(|(_, byte)| *byte).collect();
            prop_assert_eq!(taken(&mut line, latest, usize::MAX), rest);
        }
    }
}
