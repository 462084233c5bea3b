//! A client's connection and the matching connection to the server.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown, sockopt};

use crate::l4::Stats;
use crate::l4::arrival::{Reader, note_arrivals};
use crate::l4::exchange::Exchange;
use crate::queue::{ByteLine, End, Schedule};
use crate::script::Progress;

/// State shared by all pairs of a proxy.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) flow: Flow,
    pub(super) reader: Reader,
}

/// The way of bytes through a proxy.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) up: Schedule,
    pub(super) down: Schedule,
    /// The additional delay of data.
    pub(super) delay: Duration,
    /// The additional delay of a close, compared with data.
    pub(super) close_delay: Duration,
    pub(super) stats: Stats,
    pub(super) progress: Option<Progress>,
    /// Steps of the script that are due at the next message of the pair whose turn it is.
    pub(super) due: Vec<usize>,
}

impl Flow {
    /// The due time of bytes that arrive now.
    fn due(&mut self, direction: Direction, now: Instant, bytes: usize) -> Instant {
        let schedule = match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        };
        schedule.due(now, bytes) + self.delay
    }

    fn piece_bytes(&self, direction: Direction) -> usize {
        match direction {
            Direction::Up => self.up.piece_bytes(),
            Direction::Down => self.down.piece_bytes(),
        }
    }
}

/// The state of a pair after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Open,
    /// More data can be read. Other pairs come first, so that one busy pair does not delay them.
    Busy,
    /// Steps of the script are due before its next message.
    Stopped,
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
    /// The messages on the connection, if a script counts them.
    exchange: Option<Box<Exchange>>,
    /// Whether the connection is cut once the client has received everything in flight to it.
    breaks_off: bool,
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
    pub(super) fn new(
        client: OwnedFd,
        server: OwnedFd,
        limit_bytes: usize,
        exchange: Option<Box<Exchange>>,
    ) -> Self {
        note_arrivals(&client);
        note_arrivals(&server);
        Self {
            client: Side::new(client),
            server: Side::new(server),
            up: ByteLine::new(limit_bytes),
            down: ByteLine::new(limit_bytes),
            connecting: true,
            deaf: false,
            exchange,
            breaks_off: false,
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
            if self.let_out(direction, &mut path.flow) == Fate::Reset {
                return Fate::Reset;
            }
            if !path.flow.due.is_empty() {
                return Fate::Stopped;
            }
            let breaks_off = self.breaks_off;
            let (source, sink, line) = self.ends(direction);
            let readable = source.readable && !source.read_ended && !sink.write_ended;
            more |= readable && line.room() > 0 && !breaks_off;
        }
        if self.breaks_off && self.client.write_ended {
            self.cut(&mut path.flow);
            return Fate::Busy;
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
    pub(super) fn cut(&mut self, flow: &mut Flow) {
        self.vanish(flow);
        self.client.finish_writing();
        self.server.finish_writing();
    }

    /// Like [`Pair::cut`], but the client's end stays open.
    pub(super) fn half_open(&mut self, flow: &mut Flow) {
        self.vanish(flow);
        self.server.finish_writing();
    }

    /// Loses the bytes in flight and all later ones. Both ends stay open.
    pub(super) fn vanish(&mut self, flow: &mut Flow) {
        flow.stats.bytes_in_flight -= self.in_flight() as u64;
        self.up.clear();
        self.down.clear();
        self.deaf = true;
    }

    /// Makes a close send a reset instead of an orderly end.
    pub(super) fn reset_on_close(&self) {
        reset_on_close(&self.client.fd);
        reset_on_close(&self.server.fd);
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
            self.broken(Direction::Up, &mut path.flow);
        }
    }

    fn take_in(&mut self, direction: Direction, path: &mut Path) {
        if self.sink_is_gone(direction) || self.breaks_off {
            return;
        }
        self.look_for_late_failure(direction, path);
        let flow = &mut path.flow;
        if direction == Direction::Up && self.exchange.as_ref().is_some_and(|it| it.is_stopped()) {
            self.carry(direction, &[], Instant::now(), flow);
        }
        while flow.due.is_empty() && !self.breaks_off {
            let (source, _, line) = self.ends(direction);
            if !source.readable || source.read_ended || line.room() == 0 {
                break;
            }
            match source.read(line.room(), &mut path.reader) {
                Ok(None) => {}
                Ok(Some(([], arrived))) => {
                    source.read_ended = true;
                    self.carry_rest(direction, arrived, flow);
                }
                Ok(Some((bytes, arrived))) => {
                    flow.stats.received(direction, bytes.len());
                    self.carry(direction, bytes, arrived, flow);
                }
                Err(_) => {
                    source.read_ended = true;
                    line.end(flow.due(direction, Instant::now(), 0), End::Reset);
                }
            }
        }
    }

    /// Passes on bytes that have arrived, as far as the script lets them.
    fn carry(&mut self, direction: Direction, bytes: &[u8], arrived: Instant, flow: &mut Flow) {
        let (Some(exchange), Some(progress)) = (&mut self.exchange, &mut flow.progress) else {
            self.push(direction, bytes, arrived, flow);
            return;
        };
        if direction == Direction::Up {
            let asked = exchange.ask(bytes, progress);
            flow.due = asked.due;
            self.push(direction, &asked.forward, arrived, flow);
            // A reply in place of the server's can be next.
            self.carry(Direction::Down, &[], arrived, flow);
            return;
        }
        let answered = exchange.answer(bytes);
        self.push(direction, &answered.deliver, arrived, flow);
        if let Some(after) = answered.ends_after {
            let due = flow.due(direction, arrived, 0) + after;
            self.down.end(due, End::Finished);
            self.breaks_off = true;
        }
    }

    /// Passes on the end of a stream, after what is left of an incomplete message.
    fn carry_rest(&mut self, direction: Direction, arrived: Instant, flow: &mut Flow) {
        if let (Direction::Up, Some(exchange)) = (direction, &mut self.exchange) {
            let rest = exchange.rest();
            self.push(direction, &rest, arrived, flow);
        }
        let due = flow.due(direction, arrived, 0) + flow.close_delay;
        self.ends(direction).2.end(due, End::Finished);
    }

    fn push(&mut self, direction: Direction, bytes: &[u8], arrived: Instant, flow: &mut Flow) {
        let (.., line) = self.ends(direction);
        for piece in bytes.chunks(flow.piece_bytes(direction)) {
            line.push(flow.due(direction, arrived, piece.len()), piece);
        }
        flow.stats.took_in(bytes.len());
    }

    fn let_out(&mut self, direction: Direction, flow: &mut Flow) -> Fate {
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
                    flow.stats.bytes_in_flight -= bytes as u64;
                }
                Err(Errno::AGAIN) => sink.writable = false,
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.broken(direction, flow);
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
            self.broken(opposite(direction), &mut path.flow);
        }
    }

    /// Handles the loss of the sink of `direction`: data in flight to it is lost, and the error travels back.
    fn broken(&mut self, direction: Direction, flow: &mut Flow) {
        let (_, sink, line) = self.ends(direction);
        sink.write_ended = true;
        sink.read_ended = true;
        flow.stats.bytes_in_flight -= line.len() as u64;
        line.clear();
        let back = opposite(direction);
        let due = flow.due(back, Instant::now(), 0);
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
    fn received(&mut self, direction: Direction, bytes: usize) {
        match direction {
            Direction::Up => self.bytes_up += bytes as u64,
            Direction::Down => self.bytes_down += bytes as u64,
        }
    }

    fn took_in(&mut self, bytes: usize) {
        self.bytes_in_flight += bytes as u64;
        self.bytes_in_flight_peak = self.bytes_in_flight_peak.max(self.bytes_in_flight);
    }
}
