//! The task that owns the socket of a multiplexed connection.

use std::future::{Future, poll_fn};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use super::Shared;
use crate::conn::core::Events;
use crate::conn::shell::{self, Alarm, Inlet, Transport, connect, meanwhile};
use crate::{Error, meter};

/// Least number of callers that are worth two writes in place of one.
const HALVED_CALLERS: usize = 128;
/// The state of the task.
#[derive(Debug)]
pub(super) struct Driver {
    shared: Arc<Shared>,
    events: Events,
    inlet: Inlet,
    /// Whether other tasks had a chance to add their requests to what is to be written.
    yielded: bool,
    alarm: Alarm,
}

/// The end of a connection.
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
        Self {
            shared,
            events: Events::default(),
            inlet: Inlet::new(),
            yielded: false,
            alarm: Alarm::new(),
        }
    }

    /// Drives the connection, and makes it again when it breaks, until no handle is left. If the
    /// first connection `must_open` and cannot be made, it ends at once.
    pub(super) async fn run(mut self, must_open: bool) {
        let mut first = must_open;
        loop {
            let error = match self.connect_once().await {
                Some(Ok(transport)) => match self.serve(transport).await {
                    End::Closed => break,
                    End::Broken(error) => error,
                },
                Some(Err(error)) => error,
                None => break,
            };
            let (error, was_ready) = self.shared.broke(error, Instant::now(), &mut self.events);
            meter::lost(&self.shared.config, &error);
            self.wake();
            if first && !was_ready {
                self.shared.finish(&error, Instant::now(), &mut self.events);
                return;
            }
            first = false;
            let pause = self.shared.lock().pause(Instant::now());
            let config = Arc::clone(&self.shared.config);
            let waited = self.meanwhile(shell::pause(&config, pause)).await;
            if waited.is_none() {
                break;
            }
        }
    }

    /// Connects, or not; `None` if the connection is not wanted any more.
    async fn connect_once(&mut self) -> Option<Result<Transport, Error>> {
        let config = Arc::clone(&self.shared.config);
        self.meanwhile(connect(&config)).await
    }

    /// Waits for something without a connection, and fails requests that wait too long for one.
    async fn meanwhile<F: Future>(&mut self, done: F) -> Option<F::Output> {
        let (shared, events) = (&self.shared, &mut self.events);
        let turn = |cx: &mut Context<'_>| {
            let turn = shared.turn(cx.waker(), Instant::now(), events);
            shared.act(events);
            if turn.closed {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(turn.next)
        };
        meanwhile(&mut self.alarm, turn, done).await
    }

    /// Writes, reads and wakes until the connection breaks or is not wanted any more.
    async fn serve(&mut self, mut transport: Transport) -> End {
        {
            let mut conn = self.shared.lock();
            conn.is_to(transport.named_address());
            conn.connected(Instant::now());
        }
        // The handshake does not wait for requests.
        self.yielded = true;
        poll_fn(|cx| self.poll_serve(&mut transport, cx)).await
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
            // The write may have set another time to be up at.
            let next = if turn.outgoing {
                self.shared.next_turn()
            } else {
                turn.next
            };
            if !self.alarm.rings(next, cx) {
                return Poll::Pending;
            }
            // The connection was quiet for long enough to be asked with `PING`.
            if self.shared.shrink() {
                self.inlet.shrink();
            }
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
            let Poll::Ready(read) = self.inlet.poll_read(transport, cx) else {
                return Ok(Woken::All);
            };
            let received = self.shared.receive(read?, now, &mut self.events);
            if received.is_ok() && self.wake_half(cx) {
                return Ok(Woken::Half);
            }
            self.wake();
            received?;
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

    fn wake(&mut self) {
        self.shared.act(&mut self.events);
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
