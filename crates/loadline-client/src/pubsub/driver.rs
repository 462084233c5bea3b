//! The task that owns the socket of one connection of a subscriber.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep, sleep_until, timeout};

use super::core::LaneId;
use super::handle::Shared;
use crate::conn::backoff::Backoff;
use crate::multiplexed::transport::Transport;
use crate::{Error, meter};

/// Room for what a quiet connection brings.
const QUIET_BYTES: usize = 4 << 10;
/// Room for what a busy one brings.
const BUSY_BYTES: usize = 64 << 10;
/// How many reads are made before other tasks get their turn.
const READS_AT_ONCE: usize = 16;
/// A time that does not come.
const NEVER: Duration = Duration::from_secs(1 << 30);

pub(super) struct Driver {
    shared: Arc<Shared>,
    lane: LaneId,
    /// Whoever waits for the first connection, and how often it is tried for them.
    opened: Option<oneshot::Sender<Result<(), Error>>>,
    tries: usize,
    backoff: Backoff,
    wake: Vec<Waker>,
    buf: Vec<u8>,
    out: Vec<u8>,
    written: usize,
    timer: Pin<Box<Sleep>>,
    armed: Instant,
}

impl Driver {
    pub(super) fn new(
        shared: Arc<Shared>,
        lane: LaneId,
        opened: Option<oneshot::Sender<Result<(), Error>>>,
    ) -> Self {
        let armed = Instant::now() + NEVER;
        let tries = shared.lock().candidates();
        Self {
            shared,
            lane,
            opened,
            tries,
            backoff: Backoff::new(),
            wake: Vec::new(),
            buf: vec![0; QUIET_BYTES],
            out: Vec::new(),
            written: 0,
            timer: Box::pin(sleep_until(armed.into())),
            armed,
        }
    }

    /// Drives the connection, and makes it again when it breaks, until nobody wants it any more. Where the
    /// first connection cannot be made, to any node that there is, it ends.
    pub(super) async fn run(mut self) {
        loop {
            let error = match self.connect_once().await {
                Some(Ok(transport)) => self.serve(transport).await,
                Some(Err(error)) => Some(error),
                None => None,
            };
            let Some(error) = error else { return };
            meter::lost(&self.shared.config, &error);
            let lane = self.lane;
            self.shared
                .lock()
                .broke(lane, error.clone(), &mut self.wake);
            self.wake_all();
            self.tries = self.tries.saturating_sub(1);
            if self.opened.is_some() && self.tries > 0 {
                continue;
            }
            if let Some(opened) = self.opened.take() {
                // Whoever opened the connection may have given up.
                let _ = opened.send(Err(error));
                return;
            }
            let pause = self.backoff.failed(Instant::now());
            if self.meanwhile(sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    /// Connects, or not; `None` where nobody wants a connection any more.
    async fn connect_once(&mut self) -> Option<Result<Transport, Error>> {
        let target = self.shared.lock().target(self.lane);
        let config = self.shared.config_for(target.as_ref());
        let attempt = Box::pin(timeout(config.connect_timeout, Transport::connect(&config)));
        let attempted = self.meanwhile(attempt).await?;
        Some(attempted.unwrap_or_else(|_| {
            let late = io::Error::new(io::ErrorKind::TimedOut, "the connect timeout has passed");
            Err(Error::connection(late, false))
        }))
    }

    /// Waits for something without a connection, while callers get what they are due.
    async fn meanwhile<F: Future>(&mut self, done: F) -> Option<F::Output> {
        let mut done = pin!(done);
        poll_fn(|cx| {
            loop {
                // Nothing can be overdue without a connection.
                let _ = self.turn(cx);
                if self.is_over() {
                    return Poll::Ready(None);
                }
                if !self.arm(cx) {
                    return done.as_mut().poll(cx).map(Some);
                }
            }
        })
        .await
    }

    /// Reads and writes until the connection breaks, with why, or until nobody wants it any more.
    async fn serve(&mut self, mut transport: Transport) -> Option<Error> {
        self.shared.lock().connected(self.lane, Instant::now());
        self.out.clear();
        self.written = 0;
        let ended = poll_fn(|cx| match self.poll_serve(&mut transport, cx) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => Poll::Ready(None),
            Err(error) => Poll::Ready(Some(error)),
        })
        .await;
        // A server that hangs up on everyone goes on with the pauses of the outage, and is not stormed.
        if self.shared.lock().was_useful(self.lane) {
            self.backoff.connected();
        }
        ended
    }

    /// Ready where nobody wants the connection any more.
    fn poll_serve(
        &mut self,
        transport: &mut Transport,
        cx: &mut Context<'_>,
    ) -> Result<Poll<()>, Error> {
        loop {
            self.read(transport, cx)?;
            self.turn(cx)?;
            if self.is_over() {
                return Ok(Poll::Ready(()));
            }
            let wrote = self.write(transport, cx);
            wrote.map_err(|error| Error::connection(error, true))?;
            if !self.arm(cx) {
                return Ok(Poll::Pending);
            }
            // It is about time to ask a quiet connection whether it stands. A busy one grows again.
            self.buf.truncate(QUIET_BYTES);
            self.buf.shrink_to_fit();
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        let mut core = self.shared.lock();
        core.register_driver(self.lane, cx.waker());
        let turned = core.turn(self.lane, Instant::now(), &mut self.wake);
        drop(core);
        self.wake_all();
        turned
    }

    /// Reads what is there, but leaves other tasks their turn.
    fn read(&mut self, transport: &mut Transport, cx: &mut Context<'_>) -> Result<(), Error> {
        for _ in 0..READS_AT_ONCE {
            let read = match transport.poll_read(cx, &mut self.buf) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the server closed the connection",
                )),
                Poll::Ready(read) => read,
            };
            let bytes = read.map_err(|error| Error::connection(error, true))?;
            let mut core = self.shared.lock();
            let (lane, now) = (self.lane, Instant::now());
            let received = core.receive(lane, &self.buf[..bytes], now, &mut self.wake);
            let ready = core.is_ready(lane);
            drop(core);
            self.wake_all();
            received?;
            if ready && let Some(opened) = self.opened.take() {
                meter::connected(&self.shared.config);
                // Whoever opened the connection may have given up, and dropped the handle then.
                let _ = opened.send(Ok(()));
            }
            if bytes == self.buf.len() && bytes < BUSY_BYTES {
                self.buf = vec![0; 2 * bytes];
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    fn write(&mut self, transport: &mut Transport, cx: &mut Context<'_>) -> io::Result<()> {
        loop {
            if self.written == self.out.len() {
                self.out = self.shared.lock().take_out(self.lane);
                self.written = 0;
            }
            if self.out.is_empty() {
                return match transport.poll_flush(cx) {
                    Poll::Ready(flushed) => flushed,
                    Poll::Pending => Ok(()),
                };
            }
            match transport.poll_write(cx, &self.out[self.written..]) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(bytes)) => self.written += bytes,
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
    }

    /// Sees to it that the task runs again in time; true where that is now.
    fn arm(&mut self, cx: &mut Context<'_>) -> bool {
        let next = self.shared.lock().next_turn(self.lane);
        // A timer that is early does no harm, so that it need not be set for each message.
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
        true
    }

    /// Whether nobody wants the connection any more.
    fn is_over(&self) -> bool {
        let core = self.shared.lock();
        core.is_closed() || core.has_ended(self.lane)
    }

    fn wake_all(&mut self) {
        self.wake.drain(..).for_each(Waker::wake);
    }
}

impl Drop for Driver {
    /// Nobody has to wait for a connection that will not be made, be it that the runtime ends.
    fn drop(&mut self) {
        let mut core = self.shared.lock();
        if core.has_ended(self.lane) {
            core.remove(self.lane);
        } else {
            core.finish(&mut self.wake);
        }
        drop(core);
        self.wake_all();
    }
}
