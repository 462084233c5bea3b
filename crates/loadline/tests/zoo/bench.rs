//! A small benchmark over a socket of its own, of the kind that people write in an afternoon. It sees
//! what `loadline run` sees: the server's counters, and the CPU of both sides.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use loadline_measure::doctor::{self, Evidence, Finding, Observed};
use loadline_measure::histogram::Histogram;
use loadline_measure::record::Case;

use crate::redis::Redis;
use crate::util::PATIENCE;

/// One connection, on which one request is answered after the other.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn open(redis: &Redis) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    /// Sends a request as a line and returns its reply: one line, and the payload behind it.
    pub(crate) fn call(&mut self, request: &str) -> String {
        write!(self.0.get_mut(), "{request}\r\n").unwrap();
        let mut head = String::new();
        self.0.read_line(&mut head).unwrap();
        let payload = head
            .strip_prefix('$')
            .and_then(|length| length.trim_end().parse::<usize>().ok());
        let Some(bytes) = payload else { return head };
        let mut body = vec![0; bytes + 2];
        self.0.read_exact(&mut body).unwrap();
        body.truncate(bytes);
        String::from_utf8(body).unwrap()
    }
}

/// The counts of a server and of the two sides' CPUs.
struct Counters {
    calls: BTreeMap<String, u64>,
    connections: u64,
    server: Used,
    generator: Used,
    at: Instant,
}

/// The kernel's counts of a thread: time on a CPU, and time it waited for one.
struct Used {
    cpu: Duration,
    waited: Duration,
}

impl Used {
    fn of(path: &str) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let mut fields = text.split(' ').map(|field| field.trim().parse().unwrap());
        let mut next = || Duration::from_nanos(fields.next().unwrap());
        Self {
            cpu: next(),
            waited: next(),
        }
    }
}

impl Counters {
    fn read(redis: &Redis) -> Self {
        let mut client = Client::open(redis);
        let info = format!(
            "{}{}",
            client.call("INFO commandstats"),
            client.call("INFO stats")
        );
        let calls = info.lines().filter_map(|line| {
            let (name, value) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((name.to_owned(), value.split(',').next()?.parse().ok()?))
        });
        let connections = info
            .lines()
            .find_map(|line| line.strip_prefix("total_connections_received:"));
        Self {
            calls: calls.collect(),
            connections: connections.unwrap().trim().parse().unwrap(),
            server: Used::of(&format!("/proc/{}/schedstat", redis.pid())),
            generator: Used::of("/proc/thread-self/schedstat"),
            at: Instant::now(),
        }
    }
}

/// A benchmark as the doctor sees it.
#[derive(Debug)]
pub(crate) struct Watched {
    case: Case,
    pub(crate) observed: Observed,
}

impl Watched {
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let evidence = Evidence::of_case(&self.case, self.observed.clone());
        loadline_report::findings(doctor::examine(&evidence))
    }
}

/// Runs `body`, which performs `ops` operations of `declared` commands and notes their times, and
/// gathers what can be seen of it.
pub(crate) fn watched(
    redis: &Redis,
    declared: &[&str],
    ops: u64,
    body: impl FnOnce(&mut Histogram),
) -> Watched {
    let before = Counters::read(redis);
    let mut times = Histogram::new();
    body(&mut times);
    let after = Counters::read(redis);
    let grown = |name: &str| {
        after.calls.get(name).copied().unwrap_or(0) - before.calls.get(name).copied().unwrap_or(0)
    };
    let took = (after.at - before.at).as_secs_f64();
    let share = |after: Duration, before: Duration| Some((after - before).as_secs_f64() / took);
    let undeclared = after.calls.keys().filter(|name| {
        !declared.contains(&name.as_str()) && !["info", "client|list"].contains(&name.as_str())
    });
    let mut case = Case {
        ops,
        client_cpu_busy: share(after.generator.cpu, before.generator.cpu),
        server_cpu_busy: share(after.server.cpu, before.server.cpu),
        response_time_ns: times.summary(),
        service_time_ns: times.summary(),
        steady: true,
        ..Case::default()
    };
    case.scenario.connections = 1;
    let observed = Observed {
        // The one that reads the counters is our own.
        connections_opened: Some(after.connections - before.connections - 1),
        server_ops: Some(declared.iter().map(|name| grown(name)).sum()),
        undeclared: undeclared
            .map(|name| (name.clone(), grown(name)))
            .filter(|(_, count)| *count > 0)
            .collect(),
        run_queue_wait: share(after.generator.waited, before.generator.waited),
        server_wait: share(after.server.waited, before.server.waited),
        ..Observed::default()
    };
    Watched { case, observed }
}

/// Calls `call` `ops` times and notes how long each took.
pub(crate) fn timed(times: &mut Histogram, ops: u64, mut call: impl FnMut(u64)) {
    for op in 0..ops {
        let begun = Instant::now();
        call(op);
        times.record_n(u64::try_from(begun.elapsed().as_nanos()).unwrap(), 1);
    }
}
