//! Operations with a clock between their parts.
//!
//! On one CPU, the server can run inside the client's write, so the wall time of a system call is no measure of the client's
//! work. Of writes and reads, the CPU time of the thread is taken. The rest of the wall time is a wait, which the same
//! operation on a server that does no work splits into the path and the server.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use loadline_cache::KeyValue;
use loadline_client::blocking::Socket;
use loadline_resp::{Decoder, Limits, encode};

use super::pool::Pool;
use crate::competition::cpu_ns;
use crate::exit::Failure;
use crate::object::Format;
use crate::systems::connect::Endpoint;
use crate::systems::engines::{Names, described};

/// Room for a read.
const READ_BYTES: usize = 64 << 10;
/// Readings that calibrate the clock.
const READINGS: u32 = 10_000;

/// The parts of some operations, in nanoseconds together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct PartSums {
    pub(crate) ops: u64,
    pub(crate) whole: f64,
    pub(crate) encode: f64,
    pub(crate) client: f64,
    pub(crate) write: f64,
    pub(crate) read: f64,
    pub(crate) parse: f64,
    pub(crate) decode: f64,
    /// Time of the clocks themselves.
    pub(crate) clocks: f64,
}

/// Parts that an arm adds to and its subject takes after each block.
pub(crate) type SharedSums = Arc<Mutex<PartSums>>;

/// The time of one reading of the thread's CPU clock, in nanoseconds.
pub(super) fn clock_ns() -> f64 {
    let begun = Instant::now();
    for _ in 0..READINGS {
        std::hint::black_box(cpu_ns());
    }
    begun.elapsed().as_nanos() as f64 / f64::from(READINGS)
}

/// A stream of bytes to a server.
trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// A connection whose every step is a function here.
pub(super) struct Probe {
    stream: Box<dyn Stream>,
    decoder: Decoder,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// CPU time of a reading of the clock.
    clock_ns: f64,
}

impl Probe {
    /// Connects and logs in.
    ///
    /// # Errors
    /// That there is no connection.
    pub(super) fn open(endpoint: &Endpoint) -> Result<Self, Failure> {
        let failed = |why: String| Failure::unavailable(format!("{}: {why}.", endpoint.name()));
        let stream: Box<dyn Stream> = match endpoint
            .socket()
            .map_err(|error| failed(error.to_string()))?
        {
            Socket::Tcp(stream) => Box::new(stream),
            Socket::Unix(stream) => Box::new(stream),
            Socket::Tls(stream) => Box::new(stream),
            _ => return Err(failed("this kind of connection cannot be split".into())),
        };
        Ok(Self {
            stream,
            decoder: Decoder::new(Limits::default()),
            incoming: Vec::new(),
            outgoing: Vec::new(),
            clock_ns: clock_ns(),
        })
    }

    /// Sends a command of `words` and waits for its reply, of which `use_reply` makes something.
    fn call<T>(
        &mut self,
        words: &[&[u8]],
        sums: &mut PartSums,
        use_reply: impl FnOnce(Option<&[u8]>, &mut PartSums) -> Result<T, String>,
    ) -> Result<T, String> {
        let begun = Instant::now();
        self.outgoing.clear();
        encode::command(&mut self.outgoing, words);
        sums.client += elapsed_ns(begun);
        self.cpu(
            sums,
            |sums| &mut sums.write,
            |probe| probe.stream.write_all(&probe.outgoing),
        )
        .map_err(|error| error.to_string())?;
        self.incoming.clear();
        loop {
            let at = self.incoming.len();
            let read = self.cpu(
                sums,
                |sums| &mut sums.read,
                |probe| {
                    probe.incoming.resize(at + READ_BYTES, 0);
                    let read = probe.stream.read(&mut probe.incoming[at..]);
                    probe.incoming.truncate(at + *read.as_ref().unwrap_or(&0));
                    read
                },
            );
            if read.map_err(|error| error.to_string())? == 0 {
                return Err("the server closed the connection".into());
            }
            let begun = Instant::now();
            let decoded = self.decoder.decode(&self.incoming);
            sums.parse += elapsed_ns(begun);
            let Some((reply, _)) = decoded.map_err(|error| error.to_string())? else {
                continue;
            };
            if let Some(text) = reply.error_text() {
                return Err(String::from_utf8_lossy(text).into_owned());
            }
            return use_reply(reply.as_bytes(), sums);
        }
    }

    /// Performs `step`, whose CPU time is a part.
    fn cpu<T>(
        &mut self,
        sums: &mut PartSums,
        part: impl FnOnce(&mut PartSums) -> &mut f64,
        step: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let before = cpu_ns();
        let result = step(self);
        let used = (cpu_ns() - before) as f64 - self.clock_ns;
        *part(sums) += used.max(0.0);
        sums.clocks += 2.0 * self.clock_ns;
        result
    }
}

/// The site of an operation with parts.
pub(super) enum Site {
    Server(Probe),
    Engine(Arc<dyn KeyValue>),
}

/// Reads or writes objects in parts.
pub(super) struct Parted {
    pub(super) site: Site,
    pub(super) pool: Arc<Pool>,
    pub(super) names: Names,
    pub(super) format: Format,
    pub(super) writes: bool,
    /// Whether what is read is decoded; what the null server sends is no object.
    pub(super) decodes: bool,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) sums: SharedSums,
}

impl Parted {
    pub(super) fn call(&mut self, number: usize) -> Result<bool, String> {
        let mut sums = PartSums::default();
        let begun = Instant::now();
        self.key.clear();
        self.names.append(number as u64, &mut self.key);
        let found = if self.writes {
            self.write(number, &mut sums)
        } else {
            self.read(&mut sums)
        }?;
        sums.whole = elapsed_ns(begun);
        sums.ops = 1;
        let mut all = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        all.add(&sums);
        Ok(found)
    }

    fn write(&mut self, number: usize, sums: &mut PartSums) -> Result<bool, String> {
        let begun = Instant::now();
        self.value.clear();
        self.format
            .encode(self.pool.object(number), &mut self.value)?;
        sums.encode += elapsed_ns(begun);
        match &mut self.site {
            Site::Server(probe) => {
                let words: [&[u8]; 3] = [b"SET", &self.key, &self.value];
                probe.call(&words, sums, |_, _| Ok(true))
            }
            Site::Engine(store) => {
                let begun = Instant::now();
                store
                    .put(&self.key, &self.value)
                    .map_err(|error| described(&error))?;
                sums.write += elapsed_ns(begun);
                Ok(true)
            }
        }
    }

    fn read(&mut self, sums: &mut PartSums) -> Result<bool, String> {
        let (format, decodes) = (self.format, self.decodes);
        let decode = |bytes: &[u8], sums: &mut PartSums| {
            let begun = Instant::now();
            if decodes {
                // The object goes away within the operation, as it does in one without clocks.
                drop(std::hint::black_box(format.decode(bytes)?));
                sums.decode += elapsed_ns(begun);
            }
            Ok::<_, String>(true)
        };
        match &mut self.site {
            Site::Server(probe) => {
                let words: [&[u8]; 2] = [b"GET", &self.key];
                probe.call(&words, sums, |bytes, sums| match bytes {
                    Some(bytes) => decode(bytes, sums),
                    None => Ok(false),
                })
            }
            Site::Engine(store) => {
                let begun = Instant::now();
                self.value.clear();
                let found = store
                    .get_into(&self.key, &mut self.value)
                    .map_err(|error| described(&error))?;
                sums.read += elapsed_ns(begun);
                if found {
                    decode(&self.value, sums)
                } else {
                    Ok(false)
                }
            }
        }
    }
}

impl PartSums {
    fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.whole += other.whole;
        self.encode += other.encode;
        self.client += other.client;
        self.write += other.write;
        self.read += other.read;
        self.parse += other.parse;
        self.decode += other.decode;
        self.clocks += other.clocks;
    }

    /// The time in which the thread had nothing to do, per operation.
    pub(crate) fn wait_ns(&self) -> f64 {
        let own = self.encode + self.client + self.write + self.read + self.parse + self.decode;
        (self.whole - own - self.clocks).max(0.0) / self.ops.max(1) as f64
    }

    /// The whole operation without the clocks in between.
    pub(crate) fn whole_ns(&self) -> f64 {
        self.each(self.whole - self.clocks)
    }

    /// A part per operation.
    pub(crate) fn each(&self, part: f64) -> f64 {
        part / self.ops.max(1) as f64
    }
}

fn elapsed_ns(begun: Instant) -> f64 {
    let elapsed: Duration = begun.elapsed();
    elapsed.as_nanos() as f64
}
