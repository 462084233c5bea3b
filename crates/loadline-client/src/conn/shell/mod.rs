//! Parts that all tasks with a socket use: connecting in time, a timer, and a receive buffer.

mod transport;

use std::future::{Future, poll_fn};
use std::io;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::time::{Sleep, sleep_until, timeout};

use crate::{Address, Config, Error};
pub(crate) use transport::Transport;

/// Room for what a quiet connection brings.
const QUIET_BYTES: usize = 4 << 10;
/// Room for what a busy one brings.
const BUSY_BYTES: usize = 64 << 10;
/// A time that does not come.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// The runtime in whose context this is called.
///
/// # Errors
/// `Usage` if there is none.
pub(crate) fn current_runtime() -> Result<runtime::Handle, Error> {
    runtime::Handle::try_current().map_err(|_| {
        Error::Usage(
            "this connection needs a runtime of tokio: open it in a task, in `Runtime::block_on`, or in a \
             function with `#[tokio::main]`; `Client::blocking` and `blocking::Cluster` need none",
        )
    })
}

/// Connects, with TLS, within the connect timeout.
///
/// # Errors
/// The reason why there is no connection.
pub(crate) async fn connect(config: &Config) -> Result<Transport, Error> {
    let limit = config.connect_timeout;
    // In a box, since it is large with TLS, and the task would have room for it as long as it lives.
    let attempt = Box::pin(timeout(
        limit,
        Transport::connect(config, Instant::now() + limit),
    ));
    attempt.await.unwrap_or_else(|_| {
        let late = io::Error::new(io::ErrorKind::TimedOut, "the connect timeout has passed");
        Err(Error::connection(late, false))
    })
}

/// Sleeps for a pause between two attempts to connect. If sentinels name the server, news of it end the pause.
pub(crate) async fn pause(config: &Config, pause: Duration) {
    match &config.address {
        Address::Sentinel(sentinel) => sentinel.watch(config).pause_async(pause).await,
        _ => tokio::time::sleep(pause).await,
    }
}

/// Waits for something without a connection. `turn` does what is due and says when it has to be called again;
/// `None` if it breaks off, since the connection is not wanted any more.
pub(crate) async fn meanwhile<F: Future>(
    alarm: &mut Alarm,
    mut turn: impl FnMut(&mut Context<'_>) -> ControlFlow<(), Option<Instant>>,
    done: F,
) -> Option<F::Output> {
    let mut done = pin!(done);
    poll_fn(|cx| {
        loop {
            let ControlFlow::Continue(next) = turn(cx) else {
                return Poll::Ready(None);
            };
            if !alarm.rings(next, cx) {
                return done.as_mut().poll(cx).map(Some);
            }
        }
    })
    .await
}

/// A timer that wakes the task when something is due.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: Pin<Box<Sleep>>,
    armed: Instant,
}

impl Alarm {
    pub(crate) fn new() -> Self {
        let armed = Instant::now() + NEVER;
        Self {
            timer: Box::pin(sleep_until(armed.into())),
            armed,
        }
    }

    /// Sets the timer to wake the task by `next`; true if that is now.
    pub(crate) fn rings(&mut self, next: Option<Instant>, cx: &mut Context<'_>) -> bool {
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
}

/// A receive buffer that grows with the traffic.
#[derive(Debug)]
pub(crate) struct Inlet {
    buf: Vec<u8>,
    /// Whether the last read filled the buffer.
    filled: bool,
}

impl Inlet {
    pub(crate) fn new() -> Self {
        Self {
            buf: vec![0; QUIET_BYTES],
            filled: false,
        }
    }

    /// Reads once.
    ///
    /// # Errors
    /// The end of the connection.
    pub(crate) fn poll_read(
        &mut self,
        transport: &mut Transport,
        cx: &mut Context<'_>,
    ) -> Poll<Result<&[u8], Error>> {
        if self.filled && self.buf.len() < BUSY_BYTES {
            self.buf = vec![0; 2 * self.buf.len()];
        }
        self.filled = false;
        let read = match transport.poll_read(cx, &mut self.buf) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(0)) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server closed the connection",
            )),
            Poll::Ready(read) => read,
        };
        let bytes = read.map_err(|error| Error::connection(error, true))?;
        self.filled = bytes == self.buf.len();
        Poll::Ready(Ok(&self.buf[..bytes]))
    }

    /// Gives memory back.
    pub(crate) fn shrink(&mut self) {
        if self.buf.len() > QUIET_BYTES {
            self.buf = vec![0; QUIET_BYTES];
        }
    }
}
