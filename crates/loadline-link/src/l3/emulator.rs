//! What moves packets between two devices.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustix::event::epoll::EventFlags;
use tun_rs::SyncDevice;

use crate::Error;
use crate::l4::Beside;
use crate::lateness::{Counts, Lateness};
use crate::queue::{PacketLine, Schedule};
use crate::shape::Shape;
use crate::wait::Waiter;

/// Bytes under way per direction: a gigabit per second for half a second.
const LIMIT_BYTES: usize = 64 << 20;

/// Larger than any packet of a device without segmentation offload.
const PACKET_BYTES: usize = 1 << 16;

/// Packets that are read before those that are due have their turn.
const BATCH: usize = 64;

/// What has passed a link at the packet level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Packets that were delivered, both directions together.
    pub packets: u64,
    /// Packets that were lost on purpose: by the loss of the lane, a black hole or a full queue.
    pub packets_lost: u64,
}

/// What other threads say to the emulator, and hear from it.
#[derive(Debug, Default)]
pub(super) struct Controls {
    black_hole: AtomicBool,
    /// A shape that the emulator has not taken over yet.
    shape: Mutex<Option<Shape>>,
    packets: AtomicU64,
    packets_lost: AtomicU64,
    release_late: Counts,
}

impl Controls {
    pub(super) fn set_shape(&self, shape: Shape) {
        // The slot holds a whole shape or none, whatever happened to a thread that held the lock.
        *self.shape.lock().unwrap_or_else(PoisonError::into_inner) = Some(shape);
    }

    pub(super) fn set_black_hole(&self, on: bool) {
        self.black_hole.store(on, Ordering::Relaxed);
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

/// Two devices and what is under way between them. It runs on the forwarder's thread: a packet that it
/// delivers makes a socket of the forwarder readable, which is then served without waking anyone.
pub(super) struct Emulator {
    /// The near one and the far one.
    devices: [SyncDevice; 2],
    /// From the device of the same place to the other one.
    ways: [Way; 2],
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
        let way = |lane, seed| Way {
            schedule: Schedule::new(lane, seed),
            line: PacketLine::new(LIMIT_BYTES),
            readable: true,
        };
        Self {
            devices: [near, far],
            ways: [way(shape.up, shape.seed), way(shape.down, !shape.seed)],
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
            self.ways[0].schedule.set_lane(shape.up);
            self.ways[1].schedule.set_lane(shape.down);
        }
    }
}

impl Beside for Emulator {
    fn watch(&self, waiter: &Waiter, first_token: u64) -> Result<(), Error> {
        let flags = EventFlags::IN | EventFlags::ET;
        waiter.add(&self.devices[0], first_token, flags)?;
        waiter.add(&self.devices[1], first_token + 1, flags)
    }

    fn next_time(&self) -> Option<Instant> {
        if self.ways.iter().any(|way| way.readable) {
            return Some(Instant::now());
        }
        let releases = self.ways.iter().filter_map(|way| way.line.next_release());
        releases.min()
    }

    fn note(&mut self, index: usize) {
        self.ways[index].readable = true;
    }

    fn turn(&mut self) {
        self.take_over_shape();
        for (index, way) in self.ways.iter_mut().enumerate() {
            way.take_in(&self.devices[index], &mut self.packet, &self.controls);
            let now = Instant::now();
            if let Some(release) = way.line.next_release().filter(|release| *release <= now) {
                self.controls.release_late.note(now - release);
            }
            way.let_out(&self.devices[1 - index], &self.controls, now);
        }
    }

    fn finish(&mut self) {
        // The last packets say that the connections have ended: they are not kept waiting.
        for (index, way) in self.ways.iter_mut().enumerate() {
            way.readable = true;
            while way.readable {
                way.take_in(&self.devices[index], &mut self.packet, &self.controls);
            }
            let latest = way.line.last_release().unwrap_or_else(Instant::now);
            way.let_out(&self.devices[1 - index], &self.controls, latest);
        }
    }
}

/// One direction.
struct Way {
    schedule: Schedule,
    line: PacketLine,
    /// Its source may have a packet (the events are edge-triggered).
    readable: bool,
}

impl Way {
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
            // Taken after the read: the packet cannot have arrived later.
            let now = Instant::now();
            let lost = controls.black_hole.load(Ordering::Relaxed)
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
                // A device that is short of memory drops packets, as any device does.
                Err(_) => &controls.packets_lost,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            self.line.consume();
        }
    }
}
