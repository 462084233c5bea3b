//! The packets that are in flight in one direction.

use std::collections::VecDeque;
use std::time::Instant;

/// The packets that are in flight in one direction: a FIFO with the capacity of a router's queue. Buffers are
/// reused.
#[derive(Debug)]
pub struct PacketLine {
    packets: VecDeque<(Instant, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    bytes: usize,
    limit_bytes: usize,
    last_release: Option<Instant>,
}

/// The number of buffers that are kept for later packets.
const SPARE_PACKETS: usize = 1_024;

impl PacketLine {
    /// Creates an empty line with room for `limit_bytes`.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            packets: VecDeque::new(),
            spare: Vec::new(),
            bytes: 0,
            limit_bytes,
            last_release: None,
        }
    }

    /// Appends a packet that is released at `due`, after those in front of it. Returns false if the line is
    /// full and the packet was dropped, as a full router drops it.
    #[must_use]
    pub fn push(&mut self, due: Instant, packet: &[u8]) -> bool {
        if self.bytes + packet.len() > self.limit_bytes {
            return false;
        }
        let release = self.last_release.map_or(due, |last| last.max(due));
        self.last_release = Some(release);
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.extend_from_slice(packet);
        self.bytes += packet.len();
        self.packets.push_back((release, buffer));
        true
    }

    /// The release time of the next packet.
    #[must_use]
    pub fn next_release(&self) -> Option<Instant> {
        self.packets.front().map(|(release, _)| *release)
    }

    /// The release time of the last packet.
    #[must_use]
    pub fn last_release(&self) -> Option<Instant> {
        self.packets.back().map(|(release, _)| *release)
    }

    /// The next packet, if it is due.
    #[must_use]
    pub fn due(&self, now: Instant) -> Option<&[u8]> {
        let (release, packet) = self.packets.front()?;
        (*release <= now).then_some(packet)
    }

    /// Removes the next packet.
    pub fn consume(&mut self) {
        if let Some((_, mut packet)) = self.packets.pop_front() {
            self.bytes -= packet.len();
            if self.spare.len() < SPARE_PACKETS {
                packet.clear();
                self.spare.push(packet);
            }
        }
    }

    /// The number of bytes in flight.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packets_stay_whole_in_order_never_early_and_bounded(
            pushes in prop::collection::vec((0..2_000u64, 0..500u64, 1..200usize), 1..200)
        ) {
            const LIMIT: usize = 4_000;
            let mut now = Instant::now();
            let mut line = PacketLine::new(LIMIT);
            let mut naive: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
            for (index, (delay_us, wait_us, size)) in pushes.into_iter().enumerate() {
                let packet = vec![index as u8; size];
                let due = now + Duration::from_micros(delay_us);
                let kept: usize = naive.iter().map(|(_, packet)| packet.len()).sum();
                prop_assert_eq!(line.bytes(), kept);
                prop_assert_eq!(line.push(due, &packet), kept + size <= LIMIT);
                if kept + size <= LIMIT {
                    naive.push_back((due, packet));
                }
                now += Duration::from_micros(wait_us);
                while let Some(packet) = line.due(now) {
                    let (due, expected) = naive.pop_front().unwrap();
                    prop_assert!(due <= now);
                    prop_assert_eq!(packet, &expected[..]);
                    line.consume();
                }
                prop_assert!(line.next_release() > Some(now) || line.next_release().is_none());
            }
        }
    }
}
