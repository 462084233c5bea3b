//! Moves packets between two devices.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustix::event::epoll::EventFlags;
use tun_rs::SyncDevice;

use crate::Error;
use crate::l4::Companion;
use crate::lateness::{Counts, Lateness};
use crate::queue::{PacketLine, Schedule};
use crate::shape::Shape;
use crate::wait::Waiter;

/// The most bytes in flight per direction: one gigabit per second for half a second.
const LIMIT_BYTES: usize = 64 << 20;

/// Larger than any packet of a device without segmentation offload.
const PACKET_BYTES: usize = 1 << 16;

/// The most packets to read before packets that are due are delivered.
const BATCH: usize = 64;

/// Packet counts of a link at the packet level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Packets delivered in both directions.
    pub packets: u64,
    /// Packets lost to the lane's loss rate, a black hole or a full queue.
    pub packets_lost: u64,
}

/// State shared between the emulator's thread and its handle.
#[derive(Debug, Default)]
pub(super) struct Controls {
    drops: AtomicBool,
    /// A new shape that the emulator has not yet applied.
    shape: Mutex<Option<Shape>>,
    packets: AtomicU64,
    packets_lost: AtomicU64,
    release_late: Counts,
}

impl Controls {
    pub(super) fn set_shape(&self, shape: Shape) {
        // The slot holds a whole shape or none, even if a thread panicked while it held the lock.
        *self.shape.lock().unwrap_or_else(PoisonError::into_inner) = Some(shape);
    }

    pub(super) fn set_drops(&self, on: bool) {
        self.drops.store(on, Ordering::Relaxed);
    }

    pub(super) fn lateness(&self) -> Lateness {
        self.release_late.read()
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            packets: self.packets.load(Ordering::Relaxed),
            packets_lost: self.packets_lost.load(Ordering::Relaxed),
        }
    }
}

/// Two devices and the packets in flight between them. It runs on the forwarder's thread: delivering a packet
/// makes a socket of the forwarder readable, which is then served without waking another thread.
pub(super) struct Emulator {
    /// The near device and the far one.
    devices: [SyncDevice; 2],
    /// The direction that starts at the device with the same index.
    directions: [Direction; 2],
    controls: Arc<Controls>,
    packet: Vec<u8>,
}

impl Emulator {
    pub(super) fn new(
        near: SyncDevice,
        far: SyncDevice,
        shape: Shape,
        controls: Arc<Controls>,
    ) -> Self {
        let direction = |lane, seed| Direction {
            schedule: Schedule::new(lane, seed),
            line: PacketLine::new(LIMIT_BYTES),
            readable: true,
        };
        Self {
            devices: [near, far],
            directions: [
                direction(shape.up, shape.seed),
                direction(shape.down, !shape.seed),
            ],
            controls,
            packet: vec![0; PACKET_BYTES],
        }
    }

    fn take_over_shape(&mut self) {
        let mut slot = self
            .controls
            .shape
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(shape) = slot.take() {
            self.directions[0].schedule.set_lane(shape.up);
            self.directions[1].schedule.set_lane(shape.down);
        }
    }
}

impl Companion for Emulator {
    fn watch(&self, waiter: &Waiter, first_token: u64) -> Result<(), Error> {
        let flags = EventFlags::IN | EventFlags::ET;
        waiter.add(&self.devices[0], first_token, flags)?;
        waiter.add(&self.devices[1], first_token + 1, flags)
    }

    fn next_time(&self) -> Option<Instant> {
        if self.directions.iter().any(|direction| direction.readable) {
            return Some(Instant::now());
        }
        let releases = self
            .directions
            .iter()
            .filter_map(|direction| direction.line.next_release());
        releases.min()
    }

    fn note(&mut self, index: usize) {
        self.directions[index].readable = true;
    }

    fn turn(&mut self) {
        self.take_over_shape();
        for (index, direction) in self.directions.iter_mut().enumerate() {
            direction.take_in(&self.devices[index], &mut self.packet, &self.controls);
            let now = Instant::now();
            if let Some(release) = direction
                .line
                .next_release()
                .filter(|release| *release <= now)
            {
                self.controls.release_late.note(now - release);
            }
            direction.let_out(&self.devices[1 - index], &self.controls, now);
        }
    }

    fn finish(&mut self) {
        // The last packets carry the ends of the connections, so they are sent without delay.
        for (index, direction) in self.directions.iter_mut().enumerate() {
            direction.readable = true;
            while direction.readable {
                direction.take_in(&self.devices[index], &mut self.packet, &self.controls);
            }
            let latest = direction.line.last_release().unwrap_or_else(Instant::now);
            direction.let_out(&self.devices[1 - index], &self.controls, latest);
        }
    }
}

/// One direction.
struct Direction {
    schedule: Schedule,
    line: PacketLine,
    /// Whether the source can have a packet (events are edge-triggered).
    readable: bool,
}

impl Direction {
    fn take_in(&mut self, source: &SyncDevice, packet: &mut [u8], controls: &Controls) {
        if !self.readable {
            return;
        }
        for _ in 0..BATCH {
            let bytes = match source.recv(packet) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => {
                    self.readable = false;
                    return;
                }
            };
            // The clock is read after the packet, so the time is never before its arrival.
            let now = Instant::now();
            let lost = controls.drops.load(Ordering::Relaxed)
                || self.schedule.loses()
                || self.schedule.queue_is_full(now);
            let kept = !lost && {
                let due = self.schedule.due(now, bytes);
                self.line.push(due, &packet[..bytes])
            };
            if !kept {
                controls.packets_lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn let_out(&mut self, sink: &SyncDevice, controls: &Controls, now: Instant) {
        while let Some(packet) = self.line.due(now) {
            let counter = match sink.send(packet) {
                Ok(_) => &controls.packets,
                // A device that is out of memory drops packets, as any device does.
                Err(_) => &controls.packets_lost,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            self.line.consume();
        }
    }
}
