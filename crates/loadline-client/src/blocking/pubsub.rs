//! Subscriptions of one thread.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use super::stream::Stream;
use super::timed_out;
use crate::conn::backoff::Backoff;
use crate::pubsub::core::Core;
use crate::pubsub::{Event, Kind, names_of};
use crate::{Config, Error, ToArgs, meter};

/// Room for what one read brings.
const READ_BYTES: usize = 8 << 10;

/// A connection that receives what is published on channels; see [`pubsub`](crate::pubsub).
///
/// It reads, answers for itself and connects again only while one of its methods runs. What the server sends
/// meanwhile waits in the buffers of the systems; where the server gives up on that (see
/// `client-output-buffer-limit`), the gap is announced.
///
/// ```no_run
/// use std::time::Duration;
///
/// use loadline_client::Client;
/// use loadline_client::pubsub::Event;
///
/// let mut pubsub = Client::open("redis://localhost")?.blocking_pubsub()?;
/// pubsub.subscribe("news")?;
/// loop {
///     match pubsub.next(Duration::from_secs(1)) {
///         Some(Event::Message(message)) => println!("{:?}", message.payload),
///         Some(gap) => println!("something is missing: {gap:?}"),
///         None => println!("nothing new"),
///     }
/// }
/// # Ok::<(), loadline_client::Error>(())
/// ```
#[derive(Debug)]
pub struct PubSub {
    config: Arc<Config>,
    core: Core,
    stream: Option<Stream>,
    backoff: Backoff,
    /// When to connect again.
    again_at: Instant,
    buf: Vec<u8>,
    wake: Vec<Waker>,
}

impl PubSub {
    /// Connects once.
    pub(crate) fn open(config: Arc<Config>) -> Result<Self, Error> {
        let now = Instant::now();
        let mut pubsub = Self {
            core: Core::new((*config).clone(), now),
            config,
            stream: None,
            backoff: Backoff::new(),
            again_at: now,
            buf: vec![0; READ_BYTES],
            wake: Vec::new(),
        };
        while !pubsub.core.is_ready() {
            pubsub.step(None);
            if let Some(error) = pubsub.core.outage() {
                return Err(error);
            }
        }
        Ok(pubsub)
    }

    /// Subscribes to one or more channels. Once this returns, whatever is published on them is received.
    ///
    /// # Errors
    /// [`Error::Server`] where the server refuses one of them, [`Error::Timeout`] where no confirmation
    /// came in time; those that the server did not confirm are given up then.
    pub fn subscribe(&mut self, channels: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Channel, &channels, true)
    }

    /// Subscribes to all channels that match one of these patterns; see [`PubSub::subscribe`].
    ///
    /// # Errors
    /// As [`PubSub::subscribe`].
    pub fn psubscribe(&mut self, patterns: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Pattern, &patterns, true)
    }

    /// Subscribes to channels of a shard; see [`PubSub::subscribe`].
    ///
    /// # Errors
    /// As [`PubSub::subscribe`].
    pub fn ssubscribe(&mut self, channels: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Shard, &channels, true)
    }

    /// Ends subscriptions to channels. Messages that came before are still handed out.
    ///
    /// # Errors
    /// [`Error::Timeout`] where no confirmation came in time. The subscription is given up all the same.
    pub fn unsubscribe(&mut self, channels: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Channel, &channels, false)
    }

    /// Ends subscriptions to patterns; see [`PubSub::unsubscribe`].
    ///
    /// # Errors
    /// As [`PubSub::unsubscribe`].
    pub fn punsubscribe(&mut self, patterns: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Pattern, &patterns, false)
    }

    /// Ends subscriptions to channels of a shard; see [`PubSub::unsubscribe`].
    ///
    /// # Errors
    /// As [`PubSub::unsubscribe`].
    pub fn sunsubscribe(&mut self, channels: impl ToArgs) -> Result<(), Error> {
        self.change(Kind::Shard, &channels, false)
    }

    /// The next event, if there is one within this time.
    pub fn next(&mut self, timeout: Duration) -> Option<Event> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if let Poll::Ready(event) = self.core.poll_next(Waker::noop()) {
                return event;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return None;
            }
            self.step(deadline);
        }
    }

    /// Why there is no connection; `None` while there is one, as far as is known.
    #[must_use]
    pub fn outage(&self) -> Option<Error> {
        self.core.outage()
    }

    fn change(&mut self, kind: Kind, names: &impl ToArgs, wanted: bool) -> Result<(), Error> {
        let (names, now) = (names_of(names)?, Instant::now());
        let ticket = if wanted {
            self.core.subscribe(kind, names, now)
        } else {
            self.core.unsubscribe(kind, names, now, &mut self.wake)
        };
        loop {
            if let Poll::Ready(settled) = self.core.poll_ticket(ticket, Waker::noop()) {
                return settled;
            }
            self.step(None);
        }
    }

    /// One attempt to connect, or one read at most, until `deadline`.
    fn step(&mut self, deadline: Option<Instant>) {
        let stepped = match &mut self.stream {
            None => self.connect(deadline),
            Some(_) => self.exchange(deadline),
        };
        // Nobody waits: whoever is to be told asks after each step.
        self.wake.clear();
        if let Err(error) = stepped {
            meter::lost(&self.config, &error);
            if self.stream.take().is_some() && self.core.was_useful() {
                self.backoff.connected();
            }
            self.core.broke(error, &mut self.wake);
            let now = Instant::now();
            self.again_at = now + self.backoff.failed(now);
        }
    }

    fn connect(&mut self, deadline: Option<Instant>) -> Result<(), Error> {
        let now = Instant::now();
        // Nothing is asked of a server without a connection, so no answer can be overdue.
        self.core.turn(now, &mut self.wake)?;
        let until = [Some(self.again_at), deadline, self.core.next_turn()];
        let until = until.into_iter().flatten().min().unwrap_or(now);
        std::thread::sleep(until.saturating_duration_since(now));
        if until < self.again_at {
            return Ok(());
        }
        let limit = Instant::now() + self.config.connect_timeout;
        self.stream = Some(Stream::connect(&self.config, limit)?);
        self.core.connected(Instant::now());
        Ok(())
    }

    fn exchange(&mut self, deadline: Option<Instant>) -> Result<(), Error> {
        let lost = |error| Error::connection(error, true);
        let now = Instant::now();
        self.core.turn(now, &mut self.wake)?;
        let until = [deadline, self.core.next_turn()];
        let until = until.into_iter().flatten().min();
        let wait = until.map(|until| until.saturating_duration_since(now));
        let stream = self
            .stream
            .as_mut()
            .expect("there is a stream to step with");
        let out = self.core.take_out();
        if !out.is_empty() {
            stream
                .set_timeout(self.config.response_timeout)
                .map_err(lost)?;
            stream.write_all(&out).map_err(lost)?;
        }
        stream.set_timeout(wait).map_err(lost)?;
        match stream.read(&mut self.buf) {
            Ok(0) => Err(lost(io::ErrorKind::UnexpectedEof.into())),
            Ok(bytes) => {
                let bytes = &self.buf[..bytes];
                self.core.receive(bytes, Instant::now(), &mut self.wake)
            }
            Err(error) if timed_out(&error) || error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(lost(error)),
        }
    }
}
