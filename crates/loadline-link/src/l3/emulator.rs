//! The thread that moves packets between two devices.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::event::epoll::EventFlags;
use tun_rs::SyncDevice;

use crate::Error;
use crate::queue::{PacketLine, Schedule};
use crate::shape::Shape;
use crate::wait::{Events, Waiter, Waker};

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

/// A handle to the thread, which ends with it.
#[derive(Debug)]
pub(super) struct Emulator {
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    black_hole: AtomicBool,
    /// A shape that the thread has not taken over yet.
    shape: Mutex<Option<Shape>>,
    packets: AtomicU64,
    packets_lost: AtomicU64,
}

impl Emulator {
    pub(super) fn start(near: SyncDevice, far: SyncDevice, shape: Shape) -> Result<Self, Error> {
        let waiter = Waiter::new()?;
        let waker = waiter.waker()?;
        let flags = EventFlags::IN | EventFlags::ET;
        waiter.add(&near, 0, flags)?;
        waiter.add(&far, 1, flags)?;
        let shared = Arc::new(Shared::default());
        let way = |lane, seed| Way {
            schedule: Schedule::new(lane, seed),
            line: PacketLine::new(LIMIT_BYTES),
            readable: true,
        };
        let up = way(shape.up, shape.seed);
        let down = way(shape.down, !shape.seed);
        let thread_shared = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("link-l3".into())
            .spawn(move || run(waiter, &thread_shared, [up, down], [&near, &far]))
            .map_err(Error::system("a thread for the link"))?;
        Ok(Self {
            shared,
            waker,
            thread: Some(thread),
        })
    }

    pub(super) fn set_shape(&self, shape: Shape) -> Result<(), Error> {
        let mut slot = self.shared.shape.lock().map_err(|_| Error::Stopped)?;
        *slot = Some(shape);
        drop(slot);
        self.tell()
    }

    pub(super) fn set_black_hole(&self, on: bool) -> Result<(), Error> {
        self.shared.black_hole.store(on, Ordering::Relaxed);
        self.tell()
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            packets: self.shared.packets.load(Ordering::Relaxed),
            packets_lost: self.shared.packets_lost.load(Ordering::Relaxed),
        }
    }

    fn tell(&self) -> Result<(), Error> {
        self.waker.wake();
        match &self.thread {
            Some(thread) if !thread.is_finished() => Ok(()),
            _ => Err(Error::Stopped),
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed by it; a second one would hide its place.
            let _ = thread.join();
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

/// Until it is told to stop, or waiting fails for want of kernel memory; the handle then says that the
/// link has stopped.
fn run(mut waiter: Waiter, shared: &Shared, mut ways: [Way; 2], devices: [&SyncDevice; 2]) {
    let mut events = Events::new();
    let mut packet = vec![0; PACKET_BYTES];
    while !shared.stop.load(Ordering::Relaxed) {
        let until = if ways.iter().any(|way| way.readable) {
            Some(Instant::now())
        } else {
            ways.iter().filter_map(|way| way.line.next_release()).min()
        };
        if waiter.wait(until, &mut events).is_err() {
            return;
        }
        for (token, _) in events.iter() {
            ways[token as usize].readable = true;
        }
        take_over_shape(shared, &mut ways);
        for (index, way) in ways.iter_mut().enumerate() {
            way.take_in(devices[index], &mut packet, shared);
            way.let_out(devices[1 - index], shared, Instant::now());
        }
    }
    // The last packets say that the connections have ended: they are not kept waiting.
    for (index, way) in ways.iter_mut().enumerate() {
        way.take_in(devices[index], &mut packet, shared);
        let latest = way.line.last_release().unwrap_or_else(Instant::now);
        way.let_out(devices[1 - index], shared, latest);
    }
}

fn take_over_shape(shared: &Shared, ways: &mut [Way; 2]) {
    // A handle that panicked while it held the lock leaves no half-written shape behind.
    let mut slot = shared
        .shape
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(shape) = slot.take() {
        ways[0].schedule.set_lane(shape.up);
        ways[1].schedule.set_lane(shape.down);
    }
}

impl Way {
    fn take_in(&mut self, source: &SyncDevice, packet: &mut [u8], shared: &Shared) {
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
            let lost = shared.black_hole.load(Ordering::Relaxed)
                || self.schedule.loses()
                || self.schedule.queue_is_full(now);
            let kept = !lost && {
                let due = self.schedule.due(now, bytes);
                self.line.push(due, &packet[..bytes])
            };
            if !kept {
                shared.packets_lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn let_out(&mut self, sink: &SyncDevice, shared: &Shared, now: Instant) {
        while let Some(packet) = self.line.due(now) {
            let counter = match sink.send(packet) {
                Ok(_) => &shared.packets,
                // A device that is short of memory drops packets, as any device does.
                Err(_) => &shared.packets_lost,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            self.line.consume();
        }
    }
}
