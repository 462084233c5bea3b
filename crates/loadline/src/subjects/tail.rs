//! The tail of single operations, and the share of it that was spent waiting for a CPU.
//!
//! In a block under load, operations overlap, so the wait of a single operation is unknown. Therefore, after each
//! block, one connection runs operations of the same case one by one. Before and after each operation, the
//! kernel's run-queue wait (`schedstat`) of this thread and of the server's main thread is read.
//! [`loadline_measure::corrected`] evaluates the samples. If the server is pinned to one CPU, this thread moves to
//! it meanwhile; see [`Colocated`].

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use loadline_load::{Control, Error};
use loadline_measure::corrected::{Corrected, Sample, correct};

use super::colocated::Colocated;
use super::lockstep::Lockstep;
use crate::plan::Case;
use crate::systems::connect::Endpoint;

/// A block ends with whichever comes first. This number of operations is enough for a 99th percentile that can be
/// compared; on an idle machine they take half of the time.
const MOST_OPERATIONS: usize = 2_500;
const BLOCK: Duration = Duration::from_millis(100);
/// The longest line of a schedstat file: three numbers of twenty digits.
const SCHEDSTAT_BYTES: usize = 64;

/// One connection that runs a case's operations one by one, on a server of this host.
pub(super) struct Tail {
    operations: Lockstep,
    /// The server's process.
    server: u64,
    samples: Vec<Sample>,
}

impl Tail {
    /// Connects to the server with the process id `server`. Returns `None` if single operations are not
    /// representative of the case, or the kernel does not count waits.
    ///
    /// # Errors
    /// If the connection cannot be opened.
    pub(super) fn open(
        endpoint: &Endpoint,
        server: u64,
        case: &Case,
        prefix: &str,
        seed: u64,
    ) -> Result<Option<Self>, Error> {
        if !case.has_tail()
            || Waits::open(server)
                .and_then(|waits| waits.read_ns())
                .is_err()
        {
            return Ok(None);
        }
        let compiled = case.workload.compile(prefix, case.keys, &case.value_size);
        let operations = Lockstep::open(endpoint, compiled.commands, case, &case.key_dist, seed)
            .map_err(|error| subject_error(&error))?;
        Ok(Some(Self {
            operations,
            server,
            samples: Vec::with_capacity(MOST_OPERATIONS),
        }))
    }

    /// Runs a block. Returns `None` if it was interrupted or the server refused operations: the times of refused
    /// operations are not a tail, and refusals are reported by the case itself.
    ///
    /// # Errors
    /// If the connection is lost or the server's process has ended.
    pub(super) fn block(&mut self, control: &Control) -> Result<Option<Corrected>, Error> {
        // Opened here, because the file refers to the thread that opens it.
        let waits = Waits::open(self.server).map_err(|error| subject_error(&error))?;
        let _colocated = Colocated::with_server(self.server);
        self.samples.clear();
        let begun = Instant::now();
        while self.samples.len() < MOST_OPERATIONS && begun.elapsed() < BLOCK {
            if control.interrupted() {
                return Ok(None);
            }
            match self
                .operation(&waits)
                .map_err(|error| subject_error(&error))?
            {
                Some(sample) => self.samples.push(sample),
                None => return Ok(None),
            }
        }
        Ok(Some(correct(&self.samples)))
    }

    /// Runs one operation; returns `None` if it was refused.
    fn operation(&mut self, waits: &Waits) -> io::Result<Option<Sample>> {
        self.operations.prepare(1);
        let waited_before_ns = waits.read_ns()?;
        let sent = Instant::now();
        let tally = self.operations.exchange()?;
        let response_ns = sent.elapsed().as_nanos() as u64;
        let wait_ns = waits.read_ns()?.saturating_sub(waited_before_ns);
        Ok((tally.errors.total() == 0).then_some(Sample {
            response_ns,
            wait_ns,
        }))
    }
}

fn subject_error(error: &dyn std::fmt::Display) -> Error {
    Error::Subject(format!("single operations for the tail: {error}").into())
}

/// The kernel's counts of the time that this thread and the main thread of a server were runnable without a CPU.
/// The files stay open, so that a reading is one system call each.
struct Waits {
    client: File,
    server: File,
}

impl Waits {
    fn open(server: u64) -> io::Result<Self> {
        Ok(Self {
            client: File::open("/proc/thread-self/schedstat")?,
            server: File::open(format!("/proc/{server}/schedstat"))?,
        })
    }

    /// The sum of both counts since the threads started.
    fn read_ns(&self) -> io::Result<u64> {
        Ok(waited_ns(&self.client)? + waited_ns(&self.server)?)
    }
}

/// The second figure of a schedstat file: `run_delay` (Linux, Documentation/scheduler/sched-stats).
fn waited_ns(schedstat: &File) -> io::Result<u64> {
    let mut text = [0; SCHEDSTAT_BYTES];
    let bytes = schedstat.read_at(&mut text, 0)?;
    second_number(&text[..bytes]).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the kernel's schedstat is not three numbers",
        )
    })
}

fn second_number(text: &[u8]) -> Option<u64> {
    let second = text.split(|byte| *byte == b' ').nth(1)?;
    std::str::from_utf8(second).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use loadline_load::keys::KeyDist;
    use loadline_load::pacing::Pacing;
    use loadline_load::values::{ValueData, ValueSize};
    use loadline_server::{Listen, Server, ServerConfig};

    use super::*;
    use crate::plan::Length;
    use crate::spelling::{self, Address, Login};
    use crate::systems::connect::command;
    use crate::workload::{Definition, Operation};

    /// A server in a thread of this process; it ends with the test.
    struct Served {
        endpoint: Endpoint,
        stop: Arc<AtomicBool>,
        thread: Option<thread::JoinHandle<()>>,
    }

    impl Served {
        fn start() -> Self {
            let mut server = Server::bind(ServerConfig {
                listen: vec![Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))],
                ..ServerConfig::default()
            })
            .unwrap();
            let place = server.local_addrs()[0];
            let stop = Arc::new(AtomicBool::new(false));
            let ended = Arc::clone(&stop);
            let thread = thread::spawn(move || server.run(&ended).unwrap());
            let place = spelling::Server {
                address: Address::Tcp {
                    host: place.ip().to_string(),
                    port: place.port(),
                },
                tls: false,
                database: 0,
                login: Login::default(),
            };
            Self {
                endpoint: Endpoint::local(place),
                stop,
                thread: Some(thread),
            }
        }

        fn tail(&self, case: &Case) -> Option<Tail> {
            Tail::open(&self.endpoint, own_process(), case, "p:", 7).unwrap()
        }
    }

    impl Drop for Served {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::Relaxed);
            if let Some(thread) = self.thread.take() {
                // A panic of the thread has been printed, and the test has seen a lost connection.
                drop(thread.join());
            }
        }
    }

    fn own_process() -> u64 {
        u64::from(std::process::id())
    }

    fn case(commands: &[&str]) -> Case {
        let commands: Vec<String> = commands.iter().map(ToString::to_string).collect();
        Case {
            name: "case".into(),
            workload: Definition::from_commands(&commands).unwrap(),
            connections: 1,
            threads: 1,
            pipeline: 1,
            batch: None,
            pacing: Pacing::Closed,
            length: Length::Time(BLOCK),
            keys: 10,
            key_dist: KeyDist::Uniform,
            value_size: ValueSize::Range(1, 90),
            value_data: ValueData::Random,
            verify: false,
            codec: None,
            durability: None,
        }
    }

    #[test]
    fn block_runs_the_operations_of_the_case_one_by_one() {
        let served = Served::start();
        let case = case(&["SET {key} {value}"]);
        let mut tail = served.tail(&case).unwrap();
        let block = tail.block(&Control::default()).unwrap().unwrap();
        assert!((1..=MOST_OPERATIONS as u64).contains(&block.count()));
        assert_eq!(block.corrected.count(), block.count());
        assert!(block.corrected.value_at(1.0) <= block.raw.value_at(1.0));
        let mut look = served.endpoint.open().unwrap();
        let stats = look.run(command(&["INFO", "commandstats"])).unwrap();
        let stats = String::from_utf8_lossy(stats.as_bytes().unwrap()).into_owned();
        let calls = format!("cmdstat_set:calls={},", block.count());
        assert!(stats.contains(&calls), "{calls} is not in {stats}");
    }

    #[test]
    fn every_reply_of_an_operation_is_waited_for() {
        let served = Served::start();
        let mut case = case(&["GET {key}"]);
        let both = Operation::parse(["SET {key} {value}", "GET {samekey}"]).unwrap();
        case.workload.operations = vec![both];
        let mut tail = served.tail(&case).unwrap();
        let block = tail.block(&Control::default()).unwrap().unwrap();
        assert!(block.count() > 0);
        // Unread bytes would be taken for the reply to the next request.
        assert_eq!(
            tail.operations.answer_to(b"*1\r\n$4\r\nPING\r\n"),
            *b"+PONG\r\n"
        );
    }

    #[test]
    fn refusals_and_interrupts_leave_no_tail() {
        let served = Served::start();
        let case = case(&["GET {key} {value}"]);
        let mut tail = served.tail(&case).unwrap();
        assert_eq!(tail.block(&Control::default()).unwrap(), None);
        let control = Control::default();
        control.interrupt.store(true, Ordering::Relaxed);
        assert_eq!(tail.block(&control).unwrap(), None);
    }

    #[test]
    fn cases_that_it_cannot_stand_for_and_unknown_processes_have_none() {
        let served = Served::start();
        let one = case(&["GET {key}"]);
        let pipelined = Case {
            pipeline: 2,
            ..one.clone()
        };
        assert!(served.tail(&pipelined).is_none());
        let counted = Case {
            length: Length::Ops(400),
            ..one.clone()
        };
        assert!(served.tail(&counted).is_none());
        let consuming = {
            let mut consuming = one.clone();
            consuming.workload.rules.consumes = true;
            consuming
        };
        assert!(served.tail(&consuming).is_none());
        let absent = Tail::open(&served.endpoint, u64::MAX, &one, "p:", 7).unwrap();
        assert!(absent.is_none());
    }

    #[test]
    fn kernels_count_is_read_and_anything_else_is_not() {
        assert_eq!(second_number(b"12 345 6\n"), Some(345));
        assert_eq!(second_number(b"12 x 6\n"), None);
        assert_eq!(second_number(b""), None);
        let waits = Waits::open(own_process()).unwrap();
        let before = waits.read_ns().unwrap();
        assert!(waits.read_ns().unwrap() >= before);
    }
}
