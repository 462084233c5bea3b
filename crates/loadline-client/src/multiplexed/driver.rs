//! The task that owns the socket of a multiplexed connection.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::{Sleep, sleep_until, timeout};

use super::{Shared, transport::Transport};
use crate::config::Peer;
use crate::conn::backoff::Backoff;
use crate::conn::core::Events;
use crate::{Error, meter};

/// Room for the replies of a quiet connection.
const QUIET_BYTES: usize = 4 << 10;
/// Room for those of a busy one.
const BUSY_BYTES: usize = 64 << 10;
/// How many callers are worth two writes instead of one.
const HALVED_CALLERS: usize = 128;
/// A time that does not come.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// What the task holds.
#[derive(Debug)]
pub(super) struct Driver {
    shared: Arc<Shared>,
    backoff: Backoff,
    events: Events,
    buf: Vec<u8>,
    /// Whether other tasks had a chance to add their requests to what is to be written.
    yielded: bool,
    timer: Pin<Box<Sleep>>,
    armed: Instant,
}

/// Why a connection is no more.
enum End {
    Broken(Error),
    Closed,
}

/// Which of the callers whose replies are there were woken.
enum Woken {
    All,
    /// The others are woken in the next turn, which is sure to come.
    Half,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let armed = Instant::now() + NEVER;
        Self {
            shared,
            backoff: Backoff::new(),
            events: Events::default(),
            buf: vec![0; QUIET_BYTES],
            yielded: false,
            timer: Box::pin(sleep_until(armed.into())),
            armed,
        }
    }

    /// Drives the connection, and makes it again when it breaks, until nobody can use it any more. Where
    /// the first connection cannot be made, it ends at once, unless it is to a node of a cluster.
    pub(super) async fn run(mut self) {
        let mut first = self.shared.config.peer == Peer::Server;
        loop {
            let error = match self.connect_once().await {
                Some(Ok(transport)) => match self.serve(transport).await {
                    End::Closed => break,
                    End::Broken(error) => error,
                },
                Some(Err(error)) => error,
                None => break,
            };
            meter::lost(&self.shared.config, &error);
            let was_ready = self.shared.broke(&error, Instant::now(), &mut self.events);
            self.wake();
            if first && !was_ready {
                self.shared.finish(&error, Instant::now(), &mut self.events);
                return;
            }
            first = false;
            let pause = self.backoff.failed(Instant::now());
            let waited = self.meanwhile(tokio::time::sleep(pause)).await;
            if waited.is_none() {
                break;
            }
        }
    }

    /// Connects, or not; `None` where nobody wants a connection any more.
    async fn connect_once(&mut self) -> Option<Result<Transport, Error>> {
        let config = Arc::clone(&self.shared.config);
        let limit = config.connect_timeout;
        // In a box, since it is large with TLS, and the task would have room for it as long as it lives.
        let attempt = Box::pin(timeout(limit, Transport::connect(&config)));
        let attempted = self.meanwhile(attempt).await?;
        Some(attempted.unwrap_or_else(|_| {
            let late = io::Error::new(io::ErrorKind::TimedOut, "the connect timeout has passed");
            Err(Error::connection(late, false))
        }))
    }

    /// Waits for something without a connection, and fails requests that wait too long for one.
    async fn meanwhile<F: Future>(&mut self, done: F) -> Option<F::Output> {
        let mut done = pin!(done);
        poll_fn(|cx| {
            let turn = self
                .shared
                .turn(cx.waker(), Instant::now(), &mut self.events);
            self.wake();
            if turn.closed {
                return Poll::Ready(None);
            }
            self.arm(turn.next, cx);
            done.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// Writes, reads and wakes until the connection breaks or is not wanted any more.
    async fn serve(&mut self, mut transport: Transport) -> End {
        self.shared.lock().connected(Instant::now());
        // The handshake waits for nobody.
        self.yielded = true;
        let end = poll_fn(|cx| self.poll_serve(&mut transport, cx)).await;
        // The next connection is tried at once after one that was of use. A server that hangs up on
        // everyone goes on with the pauses of the outage, and is not stormed.
        if self.shared.lock().was_useful() {
            self.backoff.connected();
        }
        end
    }

    fn poll_serve(&mut self, transport: &mut Transport, cx: &mut Context<'_>) -> Poll<End> {
        loop {
            let now = Instant::now();
            match self.read_all(transport, now, cx) {
                Ok(Woken::All) => {}
                Ok(Woken::Half) => return Poll::Pending,
                Err(error) => return Poll::Ready(End::Broken(error)),
            }
            let turn = self.shared.turn(cx.waker(), now, &mut self.events);
            self.wake();
            if turn.closed {
                return Poll::Ready(End::Closed);
            }
            if let Some(error) = turn.overdue {
                return Poll::Ready(End::Broken(error));
            }
            if turn.outgoing && !self.yielded {
                // Tasks that are ready to run get their chance to add to the same write. Without it a
                // runtime of one processor runs this task after each request, and writes each alone.
                self.yielded = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if turn.outgoing
                && let Err(error) = self.write_all(transport, cx)
            {
                // Replies that came before the end are good; what this read says adds nothing.
                let _ = self.read_all(transport, now, cx);
                return Poll::Ready(End::Broken(Error::connection(error, true)));
            }
            if let Poll::Ready(Err(error)) = transport.poll_flush(cx) {
                return Poll::Ready(End::Broken(Error::connection(error, true)));
            }
            // What was written may have set another time to be up at.
            let next = if turn.outgoing {
                self.shared.next_turn()
            } else {
                turn.next
            };
            if !self.arm(next, cx) {
                return Poll::Pending;
            }
            self.rest();
        }
    }

    /// Reads what is there. A short read is the last: the next one registers for news, without a call.
    fn read_all(
        &mut self,
        transport: &mut Transport,
        now: Instant,
        cx: &mut Context<'_>,
    ) -> Result<Woken, Error> {
        loop {
            let read = match transport.poll_read(cx, &mut self.buf) {
                Poll::Pending => return Ok(Woken::All),
                Poll::Ready(Ok(0)) => Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the server closed the connection",
                )),
                Poll::Ready(read) => read,
            };
            let bytes = read.map_err(|error| Error::connection(error, true))?;
            let received = self
                .shared
                .receive(&self.buf[..bytes], now, &mut self.events);
            if received.is_ok() && self.wake_half(cx) {
                return Ok(Woken::Half);
            }
            self.wake();
            received?;
            if bytes == self.buf.len() && bytes < BUSY_BYTES {
                self.buf = vec![0; 2 * bytes];
            }
        }
    }

    /// Wakes only the first half of many callers, where the server has answered everything and would be
    /// idle until the last of them has asked again: what the first half asks is written while the second
    /// is woken. From then on two batches are under way, and neither side waits for the other.
    fn wake_half(&mut self, cx: &mut Context<'_>) -> bool {
        let callers = self.events.wake.len();
        if callers < HALVED_CALLERS || !self.shared.is_idle() {
            return false;
        }
        for waker in self.events.wake.drain(..callers / 2) {
            waker.wake();
        }
        // The next turn comes after theirs, and need not give way again before it writes.
        self.yielded = true;
        cx.waker().wake_by_ref();
        true
    }

    fn write_all(&mut self, transport: &mut Transport, cx: &mut Context<'_>) -> io::Result<()> {
        loop {
            let Some(outgoing) = self.shared.lock().outgoing() else {
                self.yielded = false;
                return Ok(());
            };
            let written = transport.poll_write(cx, outgoing.bytes());
            let bytes = match &written {
                Poll::Ready(Ok(bytes)) => *bytes,
                _ => 0,
            };
            self.shared.lock().wrote(outgoing, bytes);
            match written {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
    }

    /// Sees to it that the task runs again by `next`; true where that is now.
    fn arm(&mut self, next: Option<Instant>, cx: &mut Context<'_>) -> bool {
        // A timer that is early does no harm, so that it need not be set for each request.
        if let Some(next) = next
            && next < self.armed
        {
            self.armed = next;
            self.timer.as_mut().reset(next.into());
        }
        if self.timer.as_mut().poll(cx).is_pending() {
            return false;
        }
        self.armed = Instant::now() + NEVER;
        self.timer.as_mut().reset(self.armed.into());
        // It has to be polled to be set, and is not due for years.
        let _ = self.timer.as_mut().poll(cx);
        true
    }

    /// Gives memory back when the connection was quiet for long enough to ask whether it stands.
    fn rest(&mut self) {
        if self.shared.shrink() {
            self.buf = vec![0; QUIET_BYTES];
        }
    }

    fn wake(&mut self) {
        for waker in self.events.wake.drain(..) {
            waker.wake();
        }
        for push in self.events.pushes.drain(..) {
            self.shared.push(push);
        }
    }
}

impl Drop for Driver {
    /// Without its driver a connection is closed, whether no handle is left or the runtime has ended.
    fn drop(&mut self) {
        let closed = Error::Closed {
            maybe_executed: false,
        };
        self.shared
            .finish(&closed, Instant::now(), &mut self.events);
        self.wake();
    }
}
