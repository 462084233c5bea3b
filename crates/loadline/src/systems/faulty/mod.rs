//! A proxy in front of a server that fails in one chosen way: for the behaviour of clients.
//!
//! Clients send INCR one at a time, so the proxy decides by the number of the INCR that arrives. Everything else, such
//! as the handshake of a client, passes.

mod connection;

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use loadline_measure::clients::Fault;

/// INCRs that pass before the fault begins.
const FIRST: u64 = 5;
/// A reply is cut off at every `CUT_EVERY`th INCR.
const CUT_EVERY: u64 = 5;
/// Error replies in a row.
const REFUSALS: u64 = 5;
/// Time for which the server is away.
const AWAY: Duration = Duration::from_secs(1);
/// Interval at which the end is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The most connections at a time. A client at fault does not take all descriptors.
const MOST_CONNECTIONS: usize = 256;

/// The proxy's action on a command.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Forward,
    /// Forward it, and close the connection instead of its reply.
    Cut,
    /// Answer it with these bytes.
    Answer(&'static [u8]),
    /// Answer with nested arrays.
    Nested,
    /// Answer with the head of a huge string, and close the connection later.
    HugeBulk,
    /// Close all connections, and refuse others for a while.
    GoAway,
    /// Nothing passes on this connection any more.
    Silence,
    /// Nothing passes on any connection any more.
    Freeze,
}

/// A proxy with one fault. Dropping it closes its connections.
#[derive(Debug)]
pub(crate) struct Faulty {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    fault: Fault,
    upstream: SocketAddr,
    stopped: AtomicBool,
    frozen: AtomicBool,
    /// INCRs that have arrived.
    seen: AtomicU64,
    /// Times that the fault has occurred.
    faults: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When the fault began and ended.
    begun: Option<Instant>,
    ended: Option<Instant>,
    away_until: Option<Instant>,
    open: Vec<TcpStream>,
}

impl Faulty {
    /// A proxy to `upstream` on a free port of the loopback interface.
    ///
    /// # Errors
    /// If the operating system refuses a socket or a thread.
    pub(crate) fn start(fault: Fault, upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            fault,
            upstream,
            stopped: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
            seen: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            state: Mutex::default(),
        });
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("faulty".into())
            .spawn(move || own.accept(listener, address))?;
        Ok(Self {
            address,
            shared,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Times that the fault has occurred.
    pub(crate) fn faults(&self) -> u64 {
        self.shared.faults.load(Ordering::Relaxed)
    }

    /// When the fault ended, or when it began if it does not end; `None` before it began. Of replies that are cut, the first
    /// one counts.
    pub(crate) fn ended(&self) -> Option<Instant> {
        let state = self.shared.state();
        state.ended.or(state.begun)
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.shared.close_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by itself.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close_all(&self) {
        for stream in self.state().open.drain(..) {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Accepts connections until the proxy is dropped.
    fn accept(self: Arc<Self>, listener: TcpListener, address: SocketAddr) {
        let mut listener = Some(listener);
        while !self.stopped.load(Ordering::Relaxed) {
            let away_until = self.state().away_until;
            match (&listener, away_until) {
                (Some(_), Some(until)) if Instant::now() < until => listener = None,
                (None, Some(until)) if Instant::now() >= until => {
                    let bound = TcpListener::bind(address)
                        .and_then(|made| made.set_nonblocking(true).map(|()| made));
                    if let Ok(made) = bound {
                        listener = Some(made);
                        let mut state = self.state();
                        state.away_until = None;
                        state.ended = Some(Instant::now());
                    }
                }
                _ => {}
            }
            match listener.as_ref().map(TcpListener::accept) {
                Some(Ok((client, _))) => self.serve(client),
                _ => thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// Serves a connection on threads of its own.
    fn serve(self: &Arc<Self>, client: TcpStream) {
        let Ok(kept) = client.try_clone() else {
            return;
        };
        {
            let mut state = self.state();
            state.open.retain(|stream| stream.peer_addr().is_ok());
            if state.open.len() >= MOST_CONNECTIONS {
                return;
            }
            state.open.push(kept);
        }
        let shared = Arc::clone(self);
        // Without a thread, the connection is closed, which the client sees.
        let _ = thread::Builder::new()
            .name("faulty".into())
            .spawn(move || connection::run(&shared, client));
    }

    /// The action on the next INCR.
    fn next_step(&self) -> Step {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed);
        let refused = |answer| {
            if (FIRST..FIRST + REFUSALS).contains(&seen) {
                Step::Answer(answer)
            } else {
                Step::Forward
            }
        };
        let once = |step| if seen == FIRST { step } else { Step::Forward };
        let step = match self.fault {
            Fault::ReplyCut if seen >= FIRST && seen.is_multiple_of(CUT_EVERY) => Step::Cut,
            Fault::Loading => refused(b"-LOADING Redis is loading the dataset in memory\r\n"),
            Fault::ReadOnly => {
                refused(b"-READONLY You can't write against a read only replica.\r\n")
            }
            Fault::Nested => once(Step::Nested),
            Fault::HugeBulk => once(Step::HugeBulk),
            Fault::Away => once(Step::GoAway),
            Fault::Silent => once(Step::Silence),
            Fault::Frozen => once(Step::Freeze),
            _ => Step::Forward,
        };
        if step != Step::Forward {
            self.note(&step);
        }
        step
    }

    fn note(&self, step: &Step) {
        self.faults.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let mut state = self.state();
        state.begun.get_or_insert(now);
        match step {
            Step::GoAway => state.away_until = Some(now + AWAY),
            // It goes on until the end of the run, which would leave no time to recover from the last one.
            Step::Cut => {
                state.ended.get_or_insert(now);
            }
            _ => state.ended = Some(now),
        }
    }
}

#[cfg(test)]
mod tests;
