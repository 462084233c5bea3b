//! A client's connection and the matching connection to the server.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown, sockopt};

use crate::l4::Stats;
use crate::l4::arrival::{Reader, note_arrivals};
use crate::queue::{ByteLine, End, Schedule};

/// State shared by all pairs of a proxy.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) up: Schedule,
    pub(super) down: Schedule,
    /// The additional delay of a close, compared with data.
    pub(super) close_delay: Duration,
    pub(super) stats: Stats,
    pub(super) reader: Reader,
}

/// The state of a pair after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Open,
    /// More data can be read. Other pairs come first, so that one busy pair does not delay them.
    Busy,
    Closed,
    Reset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

pub(super) const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

/// A client's connection and the matching connection to the server.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) client: Side,
    pub(super) server: Side,
    up: ByteLine,
    down: ByteLine,
    /// Whether the connection attempt to the server is still in progress.
    connecting: bool,
    /// Whether forwarding has ended: data is discarded until both ends have closed.
    deaf: bool,
}

/// One end of a pair. Events are edge-triggered, so their content is kept.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) fd: OwnedFd,
    readable: bool,
    writable: bool,
    /// The peer has sent its last byte, which reads have yet to reach.
    hung_up: bool,
    failed: bool,
    read_ended: bool,
    write_ended: bool,
}

impl Side {
    fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            readable: false,
            writable: false,
            hung_up: false,
            failed: false,
            read_ended: false,
            write_ended: false,
        }
    }

    pub(super) fn note(&mut self, flags: EventFlags) {
        let ended = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        self.readable |= flags.intersects(EventFlags::IN | ended);
        self.writable |= flags.contains(EventFlags::OUT);
        self.hung_up |= flags.intersects(ended);
        self.failed |= flags.contains(EventFlags::ERR);
    }

    /// Reads at most `most` bytes once and returns them with their arrival time; `Ok(None)` if there is no
    /// data.
    fn read<'a>(
        &mut self,
        most: usize,
        reader: &'a mut Reader,
    ) -> Result<Option<(&'a [u8], Instant)>, Errno> {
        let most = most.min(reader.size());
        match reader.read(&self.fd, most) {
            Ok((bytes, arrived)) => {
                // A short read has emptied the stream, unless its end is still unread.
                if bytes.len() < most && !self.hung_up {
                    self.readable = false;
                }
                Ok(Some((bytes, arrived)))
            }
            Err(Errno::AGAIN) => {
                self.readable = false;
                Ok(None)
            }
            Err(Errno::INTR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    fn finish_writing(&mut self) {
        self.write_ended = true;
        // It fails if the peer is gone, in which case it needs no end.
        let _ = shutdown(&self.fd, Shutdown::Write);
    }
}

impl Pair {
    pub(super) fn new(client: OwnedFd, server: OwnedFd, limit_bytes: usize) -> Self {
        note_arrivals(&client);
        note_arrivals(&server);
        Self {
            client: Side::new(client),
            server: Side::new(server),
            up: ByteLine::new(limit_bytes),
            down: ByteLine::new(limit_bytes),
            connecting: true,
            deaf: false,
        }
    }

    /// Moves all data that can move.
    pub(super) fn turn(&mut self, path: &mut Path) -> Fate {
        if self.deaf {
            return self.swallow(path);
        }
        self.settle_connecting(path);
        let mut more = false;
        for direction in BOTH {
            self.take_in(direction, path);
            if self.let_out(direction, path) == Fate::Reset {
                return Fate::Reset;
            }
            let (source, sink, line) = self.ends(direction);
            let readable = source.readable && !source.read_ended && !sink.write_ended;
            more |= readable && line.room() > 0;
        }
        let over = |source: &Side, sink: &Side| source.read_ended && sink.write_ended;
        if over(&self.client, &self.server) && over(&self.server, &self.client) {
            Fate::Closed
        } else if more {
            Fate::Busy
        } else {
            Fate::Open
        }
    }

    /// The time of the next release in this direction. A peer that accepts no data causes an event when it
    /// does again, so there is no time to wait for.
    pub(super) fn next_release(&self, direction: Direction) -> Option<Instant> {
        let (sink, line) = match direction {
            Direction::Up => (&self.server, &self.up),
            Direction::Down => (&self.client, &self.down),
        };
        if sink.writable || line.is_empty() {
            line.next_release()
        } else {
            None
        }
    }

    /// The number of bytes in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.up.len() + self.down.len()
    }

    /// Ends both streams in order; bytes in flight are lost.
    pub(super) fn cut(&mut self, path: &mut Path) {
        self.go_deaf(path);
        self.client.finish_writing();
        self.server.finish_writing();
    }

    /// Like [`Pair::cut`], but the client's end stays open.
    pub(super) fn half_open(&mut self, path: &mut Path) {
        self.go_deaf(path);
        self.server.finish_writing();
    }

    /// Makes a close send a reset instead of an orderly end.
    pub(super) fn reset_on_close(&self) {
        reset_on_close(&self.client.fd);
        reset_on_close(&self.server.fd);
    }

    fn go_deaf(&mut self, path: &mut Path) {
        path.stats.bytes_in_flight -= self.in_flight() as u64;
        self.up.clear();
        self.down.clear();
        self.deaf = true;
    }

    fn swallow(&mut self, path: &mut Path) -> Fate {
        for side in [&mut self.client, &mut self.server] {
            while side.readable && !side.read_ended {
                match side.read(usize::MAX, &mut path.reader) {
                    Ok(Some(([], _))) => side.read_ended = true,
                    Ok(_) => {}
                    Err(_) => side.read_ended = true,
                }
            }
        }
        if self.client.read_ended && self.server.read_ended {
            Fate::Closed
        } else {
            Fate::Open
        }
    }

    fn settle_connecting(&mut self, path: &mut Path) {
        if !self.connecting || !(self.server.writable || self.server.failed) {
            return;
        }
        self.connecting = false;
        if !matches!(sockopt::socket_error(&self.server.fd), Ok(Ok(()))) {
            self.broken(Direction::Up, path);
        }
    }

    fn take_in(&mut self, direction: Direction, path: &mut Path) {
        if self.sink_is_gone(direction) {
            return;
        }
        self.look_for_late_failure(direction, path);
        let close_delay = path.close_delay;
        let (source, _, line) = self.ends(direction);
        let schedule = match direction {
            Direction::Up => &mut path.up,
            Direction::Down => &mut path.down,
        };
        while source.readable && !source.read_ended && line.room() > 0 {
            match source.read(line.room(), &mut path.reader) {
                Ok(None) => {}
                Ok(Some(([], arrived))) => {
                    source.read_ended = true;
                    line.end(schedule.due(arrived, 0) + close_delay, End::Finished);
                }
                Ok(Some((bytes, arrived))) => {
                    for piece in bytes.chunks(schedule.piece_bytes()) {
                        line.push(schedule.due(arrived, piece.len()), piece);
                    }
                    path.stats.took_in(direction, bytes.len());
                }
                Err(_) => {
                    source.read_ended = true;
                    line.end(schedule.due(Instant::now(), 0), End::Reset);
                }
            }
        }
    }

    fn let_out(&mut self, direction: Direction, path: &mut Path) -> Fate {
        let now = Instant::now();
        let (_, sink, line) = self.ends(direction);
        while sink.writable && !sink.write_ended {
            let (front, back) = line.due(now);
            let next = if front.is_empty() { back } else { front };
            if next.is_empty() {
                break;
            }
            match send(&sink.fd, next, SendFlags::NOSIGNAL) {
                Ok(bytes) => {
                    line.consume(bytes);
                    path.stats.bytes_in_flight -= bytes as u64;
                }
                Err(Errno::AGAIN) => sink.writable = false,
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.broken(direction, path);
                    return Fate::Open;
                }
            }
        }
        match line.take_end(now) {
            None => {}
            Some(End::Finished) => sink.finish_writing(),
            Some(End::Reset) => return Fate::Reset,
        }
        Fate::Open
    }

    /// Detects a reset from a sender whose stream has already ended and is no longer read.
    fn look_for_late_failure(&mut self, direction: Direction, path: &mut Path) {
        let (source, ..) = self.ends(direction);
        if !(source.failed && source.read_ended) {
            return;
        }
        source.failed = false;
        if !matches!(sockopt::socket_error(&source.fd), Ok(Ok(()))) {
            self.broken(opposite(direction), path);
        }
    }

    /// Handles the loss of the sink of `direction`: data in flight to it is lost, and the error travels back.
    fn broken(&mut self, direction: Direction, path: &mut Path) {
        let (_, sink, line) = self.ends(direction);
        sink.write_ended = true;
        sink.read_ended = true;
        path.stats.bytes_in_flight -= line.len() as u64;
        line.clear();
        let back = opposite(direction);
        let schedule = match back {
            Direction::Up => &mut path.up,
            Direction::Down => &mut path.down,
        };
        let due = schedule.due(Instant::now(), 0);
        self.ends(back).2.end(due, End::Reset);
    }

    fn sink_is_gone(&mut self, direction: Direction) -> bool {
        let (_, sink, _) = self.ends(direction);
        sink.write_ended
    }

    /// The source and the sink of this direction, and the line between them.
    fn ends(&mut self, direction: Direction) -> (&mut Side, &mut Side, &mut ByteLine) {
        match direction {
            Direction::Up => (&mut self.client, &mut self.server, &mut self.up),
            Direction::Down => (&mut self.server, &mut self.client, &mut self.down),
        }
    }
}

/// A unix socket has no reset: its peer sees a close.
pub(super) fn reset_on_close(fd: &OwnedFd) {
    // It fails only for a descriptor that is not a socket.
    let _ = sockopt::set_socket_linger(fd, Some(Duration::ZERO));
}

fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Up => Direction::Down,
        Direction::Down => Direction::Up,
    }
}

impl Stats {
    fn took_in(&mut self, direction: Direction, bytes: usize) {
        let bytes = bytes as u64;
        match direction {
            Direction::Up => self.bytes_up += bytes,
            Direction::Down => self.bytes_down += bytes,
        }
        self.bytes_in_flight += bytes;
        self.bytes_in_flight_peak = self.bytes_in_flight_peak.max(self.bytes_in_flight);
    }
}
