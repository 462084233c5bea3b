//! The task that owns the socket of one connection of a subscriber.

use std::future::{Future, poll_fn};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::sync::oneshot;

use super::core::ConnectionId;
use super::subscriber::Subscriber;
use crate::conn::shell::{self, Alarm, Inlet, Transport, connect, meanwhile};
use crate::{Error, meter};

/// Number of reads before other tasks get their turn.
const READS_AT_ONCE: usize = 16;

pub(super) struct Driver {
    shared: Arc<Subscriber>,
    id: ConnectionId,
    /// The caller that waits for the first connection, and how often that is tried.
    opened: Option<oneshot::Sender<Result<(), Error>>>,
    tries: usize,
    wake: Vec<Waker>,
    inlet: Inlet,
    out: Vec<u8>,
    written: usize,
    alarm: Alarm,
}

impl Driver {
    pub(super) fn new(
        shared: Arc<Subscriber>,
        id: ConnectionId,
        opened: Option<oneshot::Sender<Result<(), Error>>>,
    ) -> Self {
        let tries = shared.lock().candidates();
        Self {
            shared,
            id,
            opened,
            tries,
            wake: Vec::new(),
            inlet: Inlet::new(),
            out: Vec::new(),
            written: 0,
            alarm: Alarm::new(),
        }
    }

    /// Drives the connection, and makes it again when it breaks, until it is not wanted any more. If the
    /// first connection cannot be made, to any of the nodes, it ends.
    pub(super) async fn run(mut self) {
        loop {
            let error = match self.connect_once().await {
                Some(Ok(transport)) => self.serve(transport).await,
                Some(Err(error)) => Some(error),
                None => None,
            };
            let Some(error) = error else { return };
            let id = self.id;
            let error = self.shared.lock().explain(id, error);
            meter::lost(&self.shared.config, &error);
            self.shared.lock().broke(id, error.clone(), &mut self.wake);
            self.wake_all();
            self.tries = self.tries.saturating_sub(1);
            if self.opened.is_some() && self.tries > 0 {
                continue;
            }
            if let Some(opened) = self.opened.take() {
                // The caller may have given up. It has not asked for anything yet.
                let _ = opened.send(Err(error.with_executed(false)));
                return;
            }
            let pause = self.shared.lock().pause(self.id, Instant::now());
            let config = Arc::clone(&self.shared.config);
            if self.meanwhile(shell::pause(&config, pause)).await.is_none() {
                return;
            }
        }
    }

    /// Connects, or not; `None` if the connection is not wanted any more.
    async fn connect_once(&mut self) -> Option<Result<Transport, Error>> {
        let target = self.shared.lock().target(self.id);
        let config = self.shared.config_for(target.as_ref());
        self.meanwhile(connect(&config)).await
    }

    /// Waits for something without a connection, while callers get what they are due.
    async fn meanwhile<F: Future>(&mut self, done: F) -> Option<F::Output> {
        let (shared, id, wake) = (&self.shared, self.id, &mut self.wake);
        let turn = |cx: &mut Context<'_>| {
            // Nothing can be overdue without a connection.
            let _ = shared.turn(id, cx, wake);
            if shared.is_over(id) {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(shared.lock().next_turn(id))
        };
        meanwhile(&mut self.alarm, turn, done).await
    }

    /// Reads and writes until the connection breaks, which gives the reason, or is not wanted any more.
    async fn serve(&mut self, mut transport: Transport) -> Option<Error> {
        {
            let mut core = self.shared.lock();
            core.is_to(self.id, transport.named_address());
            core.connected(self.id, Instant::now());
        }
        self.out.clear();
        self.written = 0;
        poll_fn(|cx| match self.poll_serve(&mut transport, cx) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => Poll::Ready(None),
            Err(error) => Poll::Ready(Some(error)),
        })
        .await
    }

    /// Ready if the connection is not wanted any more.
    fn poll_serve(
        &mut self,
        transport: &mut Transport,
        cx: &mut Context<'_>,
    ) -> Result<Poll<()>, Error> {
        loop {
            self.read(transport, cx)?;
            self.shared.turn(self.id, cx, &mut self.wake)?;
            if self.shared.is_over(self.id) {
                return Ok(Poll::Ready(()));
            }
            let wrote = self.write(transport, cx);
            wrote.map_err(|error| Error::connection(error, true))?;
            let next = self.shared.lock().next_turn(self.id);
            if !self.alarm.rings(next, cx) {
                return Ok(Poll::Pending);
            }
            // It is time to ask a quiet connection with `PING`. The buffer of a busy one grows again.
            self.inlet.shrink();
        }
    }

    /// Reads what is there, but leaves other tasks their turn.
    fn read(&mut self, transport: &mut Transport, cx: &mut Context<'_>) -> Result<(), Error> {
        for _ in 0..READS_AT_ONCE {
            let Poll::Ready(read) = self.inlet.poll_read(transport, cx) else {
                return Ok(());
            };
            let bytes = read?;
            let mut core = self.shared.lock();
            let (id, now) = (self.id, Instant::now());
            let received = core.receive(id, bytes, now, &mut self.wake);
            let ready = core.is_ready(id);
            drop(core);
            self.wake_all();
            received?;
            if ready && let Some(opened) = self.opened.take() {
                meter::connected(&self.shared.config);
                // The caller may have given up, and has dropped the handle then.
                let _ = opened.send(Ok(()));
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    fn write(&mut self, transport: &mut Transport, cx: &mut Context<'_>) -> io::Result<()> {
        loop {
            if self.written == self.out.len() {
                self.out = self.shared.lock().take_out(self.id);
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

    fn wake_all(&mut self) {
        self.wake.drain(..).for_each(Waker::wake);
    }
}

impl Drop for Driver {
    /// Without its driver a subscriber is closed, also when the runtime ends.
    fn drop(&mut self) {
        let mut core = self.shared.lock();
        if core.has_ended(self.id) {
            core.remove(self.id);
        } else {
            core.finish(&mut self.wake);
        }
        drop(core);
        self.wake_all();
    }
}
