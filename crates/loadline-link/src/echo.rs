//! Round trips of a small message to an echo server, directly and through a link.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use crate::address::Address;

/// Bytes in each message: about the size of a small command.
pub const MESSAGE_BYTES: usize = 64;

/// A socket that returns what it receives while [`Echo::round_trips`] runs.
#[derive(Debug)]
pub struct Echo {
    listener: Listener,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The durations of a series of round trips.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundTrips {
    sorted: Vec<Duration>,
    congestion_control: Option<String>,
}

impl Echo {
    /// An echo on a free port of the loopback interface.
    ///
    /// # Errors
    /// If no port is free.
    pub fn tcp() -> io::Result<Self> {
        let listener = Listener::Tcp(TcpListener::bind("127.0.0.1:0")?);
        Ok(Self { listener })
    }

    /// An echo on a unix socket. The caller removes its file.
    ///
    /// # Errors
    /// When the path cannot be bound to.
    pub fn unix(path: &Path) -> io::Result<Self> {
        let listener = Listener::Unix(UnixListener::bind(path)?);
        Ok(Self { listener })
    }

    /// The address to connect to.
    ///
    /// # Errors
    /// If the operating system does not report the address.
    pub fn address(&self) -> io::Result<Address> {
        Ok(match &self.listener {
            Listener::Tcp(listener) => listener.local_addr()?.into(),
            Listener::Unix(listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().ok_or(io::ErrorKind::InvalidInput)?;
                Address::Unix(path.to_owned())
            }
        })
    }

    /// Makes `count` sequential round trips on one new connection to `through`, which leads to this echo. The
    /// first round trip includes the connection's setup and is not counted.
    ///
    /// # Errors
    /// If the connection fails, or takes ten seconds longer than twice `expected` to answer.
    pub fn round_trips(
        &self,
        through: &Address,
        count: usize,
        expected: Duration,
    ) -> io::Result<RoundTrips> {
        let patience = 2 * expected + Duration::from_secs(10);
        let mut client = Stream::connect(through, patience)?;
        let congestion_control = client.congestion_control();
        std::thread::scope(|scope| {
            // The connection can still be in flight inside the link, so a separate thread accepts it; the
            // client's timeout bounds both.
            let server = scope.spawn(|| self.serve_one(patience));
            let durations = timed(&mut client, count);
            drop(client);
            let served = server.join().expect("the echo does not panic");
            let mut trips = RoundTrips::of(durations?);
            served?;
            trips.congestion_control = congestion_control;
            Ok(trips)
        })
    }

    fn serve_one(&self, patience: Duration) -> io::Result<()> {
        let mut stream = self.accept(patience)?;
        let mut message = [0; MESSAGE_BYTES];
        loop {
            match stream.read(&mut message) {
                Ok(0) => return Ok(()),
                Ok(bytes) => stream.write_all(&message[..bytes])?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Accepts a connection, with a timeout.
    fn accept(&self, patience: Duration) -> io::Result<Stream> {
        let fd = match &self.listener {
            Listener::Tcp(listener) => rustix::event::PollFd::new(listener, POLL_IN),
            Listener::Unix(listener) => rustix::event::PollFd::new(listener, POLL_IN),
        };
        let timeout = rustix::time::Timespec::try_from(patience)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        if rustix::event::poll(&mut [fd], Some(&timeout))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let stream = match &self.listener {
            Listener::Tcp(listener) => Stream::Tcp(listener.accept()?.0),
            Listener::Unix(listener) => Stream::Unix(listener.accept()?.0),
        };
        stream.prepare(patience)?;
        Ok(stream)
    }
}

const POLL_IN: rustix::event::PollFlags = rustix::event::PollFlags::IN;

impl RoundTrips {
    pub(crate) fn of(mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        Self {
            sorted: durations,
            congestion_control: None,
        }
    }

    /// The duration at `quantile` (0 to 1, nearest rank); zero if there are no round trips.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Duration {
        let count = self.sorted.len();
        let rank = (quantile.clamp(0.0, 1.0) * count as f64).ceil() as usize;
        self.sorted
            .get(rank.saturating_sub(1))
            .copied()
            .unwrap_or_default()
    }

    /// The number of round trips.
    #[must_use]
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The congestion control of the client's end; `None` for a unix socket.
    #[must_use]
    pub fn congestion_control(&self) -> Option<&str> {
        self.congestion_control.as_deref()
    }
}

fn timed(client: &mut Stream, count: usize) -> io::Result<Vec<Duration>> {
    let mut message = [0x2e; MESSAGE_BYTES];
    let mut durations = Vec::with_capacity(count);
    for index in 0..=count {
        let sent = Instant::now();
        client.write_all(&message)?;
        client.read_exact(&mut message)?;
        if index > 0 {
            durations.push(sent.elapsed());
        }
    }
    Ok(durations)
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn connect(address: &Address, patience: Duration) -> io::Result<Self> {
        let stream = match address {
            Address::Tcp(tcp) => Self::Tcp(TcpStream::connect_timeout(tcp, patience)?),
            Address::Unix(path) => Self::Unix(UnixStream::connect(path)?),
        };
        stream.prepare(patience)?;
        Ok(stream)
    }

    fn prepare(&self, patience: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(patience))
            }
            Self::Unix(stream) => stream.set_read_timeout(Some(patience)),
        }
    }

    fn congestion_control(&self) -> Option<String> {
        match self {
            Self::Tcp(stream) => sockopt::tcp_congestion(stream).ok(),
            Self::Unix(_) => None,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let trips = RoundTrips::of((1..=200).rev().map(Duration::from_micros).collect());
        assert_eq!(trips.quantile(0.0), Duration::from_micros(1));
        assert_eq!(trips.quantile(0.5), Duration::from_micros(100));
        assert_eq!(trips.quantile(0.99), Duration::from_micros(198));
        assert_eq!(trips.quantile(1.0), Duration::from_micros(200));
    }

    #[test]
    fn echo_answers_over_both_kinds_of_socket() {
        let tcp = Echo::tcp().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let unix = Echo::unix(&directory.path().join("echo")).unwrap();
        for echo in [tcp, unix] {
            let address = echo.address().unwrap();
            let trips = echo.round_trips(&address, 10, Duration::ZERO).unwrap();
            assert_eq!(trips.count(), 10);
            assert!(trips.quantile(0.0) > Duration::ZERO);
            let is_tcp = matches!(address, Address::Tcp(_));
            assert_eq!(trips.congestion_control().is_some(), is_tcp);
        }
    }
}
