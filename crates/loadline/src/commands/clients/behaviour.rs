//! The behaviour of clients when something fails: a short run of each client with each fault.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use loadline_client::cmd;
use loadline_load::Control;
use loadline_load::pacing::Stop;
use loadline_measure::clients::{Behaviour, Ending, Fault, Operations};

use super::way::{Server, way_to};
use crate::exit::Failure;
use crate::plan::{ClientsPlan, Driver, DriverMode, FAULTS, run_prefix};
use crate::progress::Progress;
use crate::session::{Session, Shell};
use crate::systems::Opened;
use crate::systems::client::Blocking;
use crate::systems::drivers::{Broken, Config, Op, OpOutcome, Running};
use crate::systems::faulty::Faulty;
use crate::units::nanoseconds;

/// Address space of a driver: a declared 10 GiB is more.
const MEMORY_BYTES: u64 = 8 << 30;
/// The most operations of a run: at one every 5 ms, more than the longest run has.
const MOST_OPS: u64 = 4_000;
/// Drivers that run at the same time: calls that wait for an answer need no CPU, and others need little, with their pauses.
const WAITING_TOGETHER: usize = 16;
const TOGETHER: usize = 8;
/// Least time that a call may take beyond the end of its run before it is given up.
const GRACE: Duration = Duration::from_secs(2);

/// A client with a fault, ready to begin.
struct Run<'p> {
    driver: &'p Driver,
    fault: Fault,
    time: Duration,
    /// Time that a waiting call may take.
    patience: Duration,
    prefix: String,
    proxy: Faulty,
    running: Running,
}

/// The outcome of a run.
struct Seen {
    behaviour: Behaviour,
    /// The outcomes of its operations, by their numbers.
    outcomes: Vec<(u64, OpOutcome)>,
    prefix: String,
}

/// Runs every client that can with every fault.
///
/// # Errors
/// If the server cannot be reached. A driver that fails is a finding.
pub(super) fn observe(
    plan: &ClientsPlan,
    session: &mut Session<'_>,
    target: &Opened,
    progress: &Progress,
) -> Result<Vec<Behaviour>, Failure> {
    let able = plan
        .drivers
        .iter()
        .filter(|driver| driver.modes.contains(&DriverMode::Faults));
    let able: Vec<&Driver> = able.collect();
    if !plan.with_faults || able.is_empty() || session.shell.interrupted() {
        return Ok(Vec::new());
    }
    let (_, server) = way_to(target)?;
    let unreachable = |error: loadline_client::Error| Failure::unavailable(format!("{error}."));
    let mut direct = target.connector(None)?.blocking().map_err(unreachable)?;
    let upstream = address(&server)?;
    let mut pairs: Vec<(Fault, Duration, &Driver)> = FAULTS
        .into_iter()
        .flat_map(|(fault, time)| {
            able.iter()
                .map(move |driver| (fault.clone(), time, *driver))
        })
        .collect();
    // Runs that mostly wait come first, and run together.
    pairs.sort_by_key(|(_, time, _)| std::cmp::Reverse(*time));
    let (shell, run_id) = (session.shell, session.run_id.clone());
    let mut all: Vec<Behaviour> = Vec::new();
    let prepare = |number: usize| {
        let (fault, time, driver) = &pairs[number];
        let prefix = format!("{}faults:{number}:", run_prefix(&run_id));
        let prepared = prepare(plan, driver, fault, *time, prefix, &server, upstream);
        let note = |failure: Failure| session.record.findings.push(failure.to_string());
        prepared.map_err(note).ok()
    };
    run_all(&pairs, shell, prepare, |seen| {
        all.push(seen.judged(&mut direct)?);
        progress.say(&format!(
            "with faults: {} of {} runs",
            all.len(),
            pairs.len()
        ));
        Ok(())
    })?;
    let place = |one: &Behaviour| {
        let fault = FAULTS.iter().position(|(fault, _)| *fault == one.fault);
        let driver = able.iter().position(|driver| driver.name == one.driver);
        (fault, driver)
    };
    all.sort_by_key(place);
    Ok(all)
}

/// Prepares runs one by one and lets several go on at the same time, until all have ended or the user interrupts.
fn run_all<'p>(
    pairs: &[(Fault, Duration, &'p Driver)],
    shell: &Shell,
    mut prepare: impl FnMut(usize) -> Option<Run<'p>>,
    mut ended: impl FnMut(Seen) -> Result<(), Failure>,
) -> Result<(), Failure> {
    thread::scope(|scope| {
        let (sender, seen) = mpsc::channel();
        let (mut next, mut running) = (0, 0);
        loop {
            let more = pairs.get(next).filter(|_| !shell.interrupted());
            if let Some((fault, ..)) = more
                && running < together(fault)
            {
                if let Some(run) = prepare(next) {
                    run.begin(scope, &shell.control, sender.clone());
                    running += 1;
                }
                next += 1;
                continue;
            }
            if running == 0 {
                return Ok(());
            }
            let one: thread::Result<Option<Seen>> = seen.recv().expect("a run ends and says so");
            running -= 1;
            if let Some(seen) = one.unwrap_or_else(|panicked| resume_unwind(panicked)) {
                ended(seen)?;
            }
        }
    })
}

fn address(server: &Server) -> Result<SocketAddr, Failure> {
    let found = (server.host.as_str(), server.port).to_socket_addrs();
    let first = found.ok().and_then(|mut found| found.next());
    first.ok_or_else(|| Failure::unavailable(format!("{}: no address.", server.host)))
}

/// Starts a driver behind a proxy. Must be called on the main thread.
fn prepare<'p>(
    plan: &'p ClientsPlan,
    driver: &'p Driver,
    fault: &Fault,
    time: Duration,
    prefix: String,
    server: &Server,
    upstream: SocketAddr,
) -> Result<Run<'p>, Failure> {
    let proxy = Faulty::start(fault.clone(), upstream)
        .map_err(|error| Failure::unavailable(format!("A proxy could not be started: {error}.")))?;
    let config = Config {
        user: server.user.clone(),
        password: server.password.clone(),
        database: server.database,
        ..Config::with_faults(driver, proxy.address(), prefix.clone())
    };
    let running = Running::launch(driver, &config, Some(MEMORY_BYTES))?;
    Ok(Run {
        driver,
        fault: fault.clone(),
        time,
        patience: plan.patience,
        prefix,
        proxy,
        running,
    })
}

/// The number of runs that are made at the same time for this fault and those after it.
fn together(fault: &Fault) -> usize {
    match fault {
        Fault::Silent | Fault::Frozen => WAITING_TOGETHER,
        _ => TOGETHER,
    }
}

impl<'p> Run<'p> {
    /// Observes it on a thread of its own, which sends what was seen.
    fn begin<'scope, 'env>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        control: &'env Control,
        sender: Sender<thread::Result<Option<Seen>>>,
    ) where
        'p: 'scope,
    {
        scope.spawn(move || {
            // The receiver waits for every run.
            let observed = catch_unwind(AssertUnwindSafe(|| self.observe(control)));
            let _ = sender.send(observed);
        });
    }

    /// Lets the driver run and notes what it says; nothing if the user interrupts, because that is no failure of the client.
    fn observe(mut self, control: &Control) -> Option<Seen> {
        let mut behaviour = Behaviour {
            subject: self.driver.name.clone(),
            driver: self.driver.name.clone(),
            fault: self.fault.clone(),
            ending: Ending::Well,
            ..Behaviour::default()
        };
        let mut outcomes = Vec::new();
        let mut arrived: Vec<(Instant, Op)> = Vec::new();
        let mut last = Instant::now();
        let mut run = || -> Result<(), Broken> {
            self.running.connected(control)?;
            behaviour.subject = self.running.about.name();
            let stop = Stop {
                ops: Some(MOST_OPS),
                duration: Some(self.time),
            };
            let deadline = Instant::now() + self.patience.max(self.time + GRACE);
            self.running.go(stop, 1);
            loop {
                last = Instant::now();
                let left = deadline.saturating_duration_since(last);
                match self.running.op(left, control)? {
                    Some(op) if (arrived.len() as u64) < MOST_OPS => {
                        arrived.push((Instant::now(), op));
                    }
                    Some(_) => {
                        return Err(Broken::Nonsense("more operations than asked for".into()));
                    }
                    None => return Ok(()),
                }
            }
        };
        let ended = run();
        let waited = nanoseconds(last.elapsed());
        behaviour.max_rss_bytes = self.running.peak_memory();
        match ended {
            Ok(()) => {}
            // A signal to the whole group of processes ends the driver as well.
            Err(_) if control.interrupted() => return None,
            Err(Broken::Silent(_)) => {
                behaviour.ending = Ending::Waiting;
                behaviour.longest_call_ns = Some(waited);
            }
            Err(broken) => {
                let failure = self.running.failure(broken).to_string();
                behaviour.ending = Ending::Crashed;
                behaviour.cause = Some(failure.replace('\n', " "));
            }
        }
        behaviour.faults = self.proxy.faults();
        behaviour.operations = count(&arrived);
        count_errors(&arrived, &mut behaviour.errors);
        let longest = arrived.iter().map(|(_, op)| op.ns).max();
        behaviour.longest_call_ns = behaviour.longest_call_ns.max(longest);
        behaviour.recovery_ns = self
            .proxy
            .ended()
            .and_then(|ended| recovery(&arrived, ended));
        outcomes.extend(arrived.iter().map(|(_, op)| (op.sequence, op.outcome)));
        Some(Seen {
            behaviour,
            outcomes,
            prefix: self.prefix,
        })
    }
}

fn count(arrived: &[(Instant, Op)]) -> Operations {
    let mut operations = Operations::default();
    for (_, op) in arrived {
        let count = match op.outcome {
            OpOutcome::Acknowledged => &mut operations.acknowledged,
            OpOutcome::Failed => &mut operations.failed,
            OpOutcome::Unknown => &mut operations.unknown,
        };
        *count += 1;
    }
    operations
}

fn count_errors(arrived: &[(Instant, Op)], errors: &mut BTreeMap<String, u64>) {
    const MOST_KINDS: usize = 16;
    for (_, op) in arrived {
        let Some(kind) = op.kind() else {
            continue;
        };
        if errors.len() < MOST_KINDS || errors.contains_key(kind) {
            *errors.entry(kind.to_owned()).or_default() += 1;
        }
    }
}

/// From the end of the fault to the end of the first acknowledged operation that began after it.
fn recovery(arrived: &[(Instant, Op)], ended: Instant) -> Option<u64> {
    let acknowledged = arrived
        .iter()
        .filter(|(at, op)| op.outcome == OpOutcome::Acknowledged && *at > ended);
    acknowledged
        .map(|(at, _)| nanoseconds(at.duration_since(ended)))
        .next()
}

impl Seen {
    /// Adds what the server has executed.
    fn judged(self, direct: &mut Blocking) -> Result<Behaviour, Failure> {
        let Self {
            mut behaviour,
            outcomes,
            prefix,
        } = self;
        let (mut twice, mut lost) = (0, 0);
        for (sequence, outcome) in outcomes {
            let value: Option<u64> = direct
                .run(cmd("GET").arg(format!("{prefix}{sequence}")))
                .map_err(|error: loadline_client::Error| {
                    Failure::unavailable(format!("{error}."))
                })?;
            twice += u64::from(value > Some(1));
            lost += u64::from(value.is_none() && outcome == OpOutcome::Acknowledged);
        }
        let is_simulated = matches!(behaviour.fault, Fault::Nested | Fault::HugeBulk);
        // There, the proxy itself answers.
        (behaviour.executed_twice, behaviour.lost) = if is_simulated {
            (None, None)
        } else {
            (Some(twice), Some(lost))
        };
        Ok(behaviour)
    }
}
