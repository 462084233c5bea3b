//! The reference: an echo over loopback, independent of Redis. It shows how fast the machine was during a round,
//! so that runs of different days can be compared.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;
use loadline_load::runner::Subject;
use loadline_load::{Control, Error};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::exit::Failure;
use crate::pinning::Pinning;
use crate::plan::Case;

/// The largest message. With larger ones, copying dominates the round trip.
const MOST_BYTES: u64 = 16 << 10;
/// Length of a block: some thousands of round trips.
const BLOCK: Duration = Duration::from_millis(30);
/// Round trips that a median needs. If other processes use the CPU, a block is extended until it has them ...
const LEAST_TRIPS: u64 = 300;
/// ... but to this length at most.
const LONGEST_BLOCK: Duration = Duration::from_millis(300);
/// Time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// An echo, and a connection to it. The echo ends when the connection is closed.
pub(crate) struct Reference {
    stream: TcpStream,
    message: Vec<u8>,
    reply: Vec<u8>,
}

impl Reference {
    /// Starts an echo for messages of the size of `case`'s values, on the servers' CPU if one is reserved for
    /// them.
    ///
    /// # Errors
    /// If loopback has no free port or refuses the connection.
    pub(crate) fn open(case: &Case, pinning: Option<&Pinning>) -> Result<Self, Failure> {
        let bytes = case.value_size.max().clamp(1, MOST_BYTES) as usize;
        let servers = pinning.map(Pinning::servers);
        let stream = connect(bytes, servers).map_err(|error| {
            Failure::unavailable(format!(
                "The reference, an echo over loopback, cannot be started: {error}."
            ))
        })?;
        Ok(Self {
            stream,
            message: vec![b'x'; bytes],
            reply: vec![0; bytes],
        })
    }

    fn round_trip(&mut self) -> io::Result<Duration> {
        let sent = Instant::now();
        self.stream.write_all(&self.message)?;
        self.stream.read_exact(&mut self.reply)?;
        Ok(sent.elapsed())
    }
}

impl Subject for Reference {
    /// Makes round trips for its own block length, or for the time limit of `stop` if that is shorter.
    fn block(&mut self, stop: Stop, _: u64, control: &Control) -> Result<Outcome, Error> {
        let mut outcome = Outcome::empty();
        let begun = Instant::now();
        let block = stop.duration.map_or(BLOCK, |longest| longest.min(BLOCK));
        let goes_on = |trips: u64| {
            let elapsed = begun.elapsed();
            elapsed < block || (trips < LEAST_TRIPS && elapsed < LONGEST_BLOCK)
        };
        while goes_on(outcome.ops) && !control.interrupted() {
            let took = self
                .round_trip()
                .map_err(|error| Error::Subject(Box::new(error)))?;
            outcome.response.record_n(took.as_nanos() as u64, 1);
            outcome.ops += 1;
        }
        outcome.duration = begun.elapsed();
        Ok(outcome)
    }
}

fn connect(bytes: usize, cpus: Option<CpuSet>) -> io::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    let (mut accepted, peer) = listener.accept()?;
    if peer != stream.local_addr()? {
        return Err(io::Error::other("another process connected first"));
    }
    for end in [&stream, &accepted] {
        end.set_nodelay(true)?;
        end.set_read_timeout(Some(PATIENCE))?;
    }
    accepted.set_read_timeout(None)?;
    thread::Builder::new().name("echo".into()).spawn(move || {
        if let Some(cpus) = cpus {
            // If pinning is not possible, it runs on any CPU.
            let _ = sched_setaffinity(None, &cpus);
        }
        let mut buffer = vec![0; bytes];
        // Ends when the other end closes the connection or an error occurs.
        while let Ok(read @ 1..) = accepted.read(&mut buffer) {
            if accepted.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
    })?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echo_sends_back_what_it_gets() {
        let mut reference = Reference {
            stream: connect(5, None).unwrap(),
            message: b"hello".to_vec(),
            reply: vec![0; 5],
        };
        reference.round_trip().unwrap();
        assert_eq!(reference.reply, b"hello");
        let outcome = reference
            .block(Stop::after_ops(1), 0, &Control::default())
            .unwrap();
        // It has its own stop rule: enough round trips for a median, or the longest time.
        let is_whole = outcome.duration >= BLOCK && outcome.ops >= LEAST_TRIPS;
        assert!(is_whole || outcome.duration >= LONGEST_BLOCK, "{outcome:?}");
        assert_eq!(outcome.response.summary().count, outcome.ops);
    }
}
