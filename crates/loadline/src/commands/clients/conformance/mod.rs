//! `loadline clients --conformance DRIVER`: what every driver must do, also one that is not ours.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use loadline_client::cmd;
use loadline_load::Control;
use loadline_load::pacing::Stop;

mod process;
mod rate;

use super::way::{LOAD_SIZE, Server, config, way_to};
use crate::args::ClientsArgs;
use crate::commands::surroundings;
use crate::exit::{Exit, Failure};
use crate::files;
use crate::plan::{self, Case, ClientsPlan, Driver, DriverMode, Op, run_prefix};
use crate::printer::printable;
use crate::session::Shell;
use crate::subjects::Admins;
use crate::systems::client::Blocking;
use crate::systems::drivers::{Config, OpOutcome};
use crate::systems::{Opened, SECTIONS};
use process::Process;

/// Commands of a pipeline, and callers.
const SIZE: u32 = 10;
/// Operations of a counted block.
const OPS: u64 = 200;
/// Time of a timed block.
const TIME: Duration = Duration::from_millis(200);
/// Timed blocks of which one has to be right.
const TIMED_BLOCKS: u32 = 8;
/// Longest delay after that.
const LATE: Duration = Duration::from_secs(2);
/// Operations with lines of their own.
const LINES: u64 = 20;
const MANY_LINES: Duration = Duration::from_secs(10);
/// Step in which the kernel counts a process's CPU time: 10 ms.
const TICK: Duration = Duration::from_millis(10);
/// Further connections.
const CONNECTIONS: u64 = 3;
/// Operations on keys without a proper value.
const FEW_OPS: u64 = 100;
/// The keys that are read.
const READ: &str = "read";

/// Tests drivers, and prints a line for each check.
pub(super) fn run(args: &ClientsArgs, drivers: Vec<Driver>) -> anyhow::Result<ExitCode> {
    let shell = Shell::start(&args.results.display)?;
    if let Some(missing) = drivers.iter().find(|driver| !driver.is_installed()) {
        return Err(missing.not_installed().into());
    }
    let plan = plan::resolve_clients(args, drivers, &surroundings())?;
    let mut target = Opened::open(&plan.base.targets[0], &plan.base, &shell.control)?;
    let run_id = plan::new_run_id();
    let tested = Test::open(&plan, &target, &shell.control, &run_id).and_then(|mut test| {
        plan.drivers
            .iter()
            .try_for_each(|driver| test.driver(driver))?;
        Ok(test.failed)
    });
    let failed = target.clean_up_after(&run_id, tested)?;
    let (words, code) = if failed == 0 {
        ("passed".to_owned(), 0)
    } else {
        (format!("{failed} checks failed"), 2)
    };
    files::print(&format!("loadline: conformance: {words} ({code})\n"))?;
    Ok(ExitCode::from(code))
}

/// The checks of all drivers.
struct Test<'t> {
    case: &'t Case,
    control: &'t Control,
    server: Server,
    direct: Blocking,
    admins: Admins,
    prefix: String,
    failed: u32,
}

/// The content of the keys of a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holding {
    /// A value of the size that is asked for.
    Value,
    Nothing,
    List,
    /// A value of two bytes.
    ShortValue,
}

/// The result of a check: the difference that was found.
type Checked = Result<(), String>;

fn check(is_met: bool, found: impl FnOnce() -> String) -> Checked {
    if is_met { Ok(()) } else { Err(found()) }
}

impl<'t> Test<'t> {
    fn open(
        plan: &'t ClientsPlan,
        target: &Opened,
        control: &'t Control,
        run_id: &str,
    ) -> Result<Self, Failure> {
        let (admins, server) = way_to(target)?;
        let direct = target.connector(None)?.blocking();
        Ok(Self {
            case: &plan.base.cases[0],
            control,
            server,
            direct: direct.map_err(|error| unreachable(&error))?,
            admins,
            prefix: run_prefix(run_id),
            failed: 0,
        })
    }

    /// Runs a command that returns a number.
    fn run(&mut self, name: &str, words: &[&[u8]]) -> Result<i64, Failure> {
        let mut command = cmd::<i64>(name);
        for word in words {
            command = command.arg(*word);
        }
        self.direct
            .run(command)
            .map_err(|error| unreachable(&error))
    }

    fn space(&self, name: &str) -> String {
        format!("{}conformance-{name}:", self.prefix)
    }

    /// Makes every key that is read hold this, and nothing else.
    fn fill(&mut self, holding: Holding) -> Checked {
        let value = vec![b'y'; self.case.value_size.max() as usize];
        let (name, value) = match holding {
            Holding::Value => ("APPEND", value),
            Holding::Nothing => ("EXISTS", Vec::new()),
            Holding::List => ("RPUSH", b"x".to_vec()),
            Holding::ShortValue => ("APPEND", b"yy".to_vec()),
        };
        let mut numbers = (0..self.case.keys).peekable();
        while numbers.peek().is_some() {
            let mut writes = Vec::new();
            for number in numbers.by_ref().take(LOAD_SIZE) {
                let key = format!("{}{number:08}", self.space(READ));
                writes.push(cmd::<i64>("DEL").arg(&key));
                let write = cmd::<i64>(name).arg(&key);
                writes.push(match holding {
                    Holding::Nothing => write,
                    _ => write.arg(&value),
                });
            }
            for written in self.direct.run(&writes) {
                written.map_err(|error| format!("the keys could not be written: {error}"))?;
            }
        }
        Ok(())
    }

    fn driver(&mut self, driver: &Driver) -> Result<(), Failure> {
        for &resp in &driver.resp {
            for &mode in &driver.modes {
                let size = if mode == DriverMode::Sync || mode == DriverMode::Faults {
                    1
                } else {
                    SIZE
                };
                let case = Subject {
                    driver,
                    resp,
                    op: Op {
                        is_set: false,
                        mode,
                        size,
                    },
                };
                // Faults are those of a single server.
                if mode == DriverMode::Faults && self.server.is_cluster {
                    continue;
                }
                if mode == DriverMode::Faults {
                    let checked = self.lines(case);
                    self.say(
                        case,
                        "says one line for each operation, and writes what it says",
                        checked,
                    )?;
                } else {
                    self.mode(case)?;
                }
            }
        }
        Ok(())
    }

    /// The checks of a call mode.
    fn mode(&mut self, case: Subject<'_>) -> Result<(), Failure> {
        let writes = Subject {
            op: Op {
                is_set: true,
                ..case.op
            },
            ..case
        };
        // One process makes all reads: to start it takes longer than any of them.
        let mut reader = self.process(case, READ);
        let filled = self.fill(Holding::Value);
        let checked = filled.and_then(|()| self.counted(&mut reader));
        self.say(case, "reads as often as the server counts", checked)?;
        let checked = self.timed(&mut reader);
        self.say(
            case,
            "ends a block in time, and tells its CPU time",
            checked,
        )?;
        let checked = self.misses(&mut reader);
        self.say(case, "counts keys that are absent as misses", checked)?;
        let checked = self.errors(&mut reader);
        self.say(case, "counts error replies as errors", checked)?;
        let checked = self.values(&mut reader);
        self.say(case, "looks at what it reads", checked)?;
        let opens = case.driver.connections && case.op.mode == DriverMode::Sync;
        if opens && !self.server.is_cluster {
            let checked = self.connections(&mut reader);
            self.say(case, "opens the connections that it is asked for", checked)?;
        }
        self.say(case, "ends when its input ends", reader.end())?;
        let checked = self.written(writes);
        let what = "writes as often as the server counts, and what it should";
        self.say(case, what, checked)?;
        if case.driver.rate {
            let filled = self.fill(Holding::Value);
            let checked = filled.and_then(|()| self.paced(case));
            let what = "keeps a rate, and counts the time since calls were due";
            self.say(case, what, checked)?;
        }
        Ok(())
    }

    fn say(&mut self, case: Subject<'_>, what: &str, checked: Checked) -> Result<(), Failure> {
        if self.control.interrupted() {
            return Err(Failure::new(
                Exit::Interrupted,
                "Interrupted; the remaining checks were not made.",
            ));
        }
        let name = format!("{} RESP{} {}", case.driver.name, case.resp, case.op.mode);
        match checked {
            Ok(()) => files::print(&format!("ok      {name}: {what}\n")),
            Err(found) => {
                self.failed += 1;
                let found = printable(&found).replace('\n', " ");
                files::print(&format!("FAILED  {name}: {what}: {found}\n"))
            }
        }
    }

    fn config(&self, case: Subject<'_>, space: &str) -> Config {
        let prefix = self.space(space);
        config(
            &self.server,
            case.driver,
            case.resp,
            case.op,
            self.case,
            prefix,
        )
    }

    /// A process that works on the keys of a space.
    fn process(&self, case: Subject<'t>, space: &str) -> Process<'t> {
        Process::new(case.driver, self.config(case, space), self.control)
    }

    /// Commands of a name that the server has counted.
    fn commands(&self, name: &str) -> Result<u64, String> {
        let mut all = 0;
        for admin in self.admins.borrow_mut().iter_mut() {
            let info = admin.info(&SECTIONS);
            let info = info.map_err(|failure| failure.to_string())?;
            if info.commands().next().is_none() {
                return Err("the server does not count commands".into());
            }
            let mut counts = info.commands();
            let own = counts.find(|(known, _)| *known == name);
            all += own.map_or(0, |(_, stat)| stat.calls);
        }
        Ok(all)
    }

    fn counted(&self, reader: &mut Process<'_>) -> Checked {
        reader.start()?;
        let before = self.commands("get")?;
        let (outcome, _) = reader.block(Stop::after_ops(OPS))?;
        let counted = self.commands("get")?.saturating_sub(before);
        let most = OPS + reader.size();
        check((OPS..=most).contains(&outcome.ops), || {
            format!("{} operations instead of {OPS}", outcome.ops)
        })?;
        check(outcome.ops == counted, || {
            format!(
                "it reported {} operations and the server counted {counted}",
                outcome.ops
            )
        })?;
        check(outcome.errors.total() == 0 && outcome.nils == 0, || {
            format!(
                "{} errors and {} misses without a reason",
                outcome.errors.total(),
                outcome.nils
            )
        })
    }

    fn written(&mut self, case: Subject<'_>) -> Checked {
        let space = format!(
            "written-{}-{}-{}",
            case.driver.name, case.resp, case.op.mode
        );
        let before = self.commands("set")?;
        let mut writer = self.process(case, &space);
        let (outcome, _) = writer.block(Stop::after_ops(OPS))?;
        let counted = self.commands("set")?.saturating_sub(before);
        check(outcome.ops == counted, || {
            format!(
                "it reported {} writes and the server counted {counted}",
                outcome.ops
            )
        })?;
        let mut written = 0;
        for number in 0..self.case.keys {
            let key = format!("{}{number:08}", self.space(&space));
            let length = self
                .run("STRLEN", &[key.as_bytes()])
                .map_err(|failure| failure.to_string())?;
            check(
                length == 0 || length as u64 == self.case.value_size.max(),
                || format!("a value of {length} bytes"),
            )?;
            written += u64::from(length > 0);
        }
        // Random choices leave some keys out, and do not repeat a few.
        check(written > self.case.keys.min(OPS) / 4, || {
            format!("it wrote {written} of {} keys", self.case.keys)
        })
    }

    /// One block of several, since the threads of a runtime also work before and after a block.
    fn timed(&self, reader: &mut Process<'_>) -> Checked {
        let mut checked = self.timed_once(reader);
        for _ in 1..TIMED_BLOCKS {
            if checked.is_err() {
                checked = self.timed_once(reader);
            }
        }
        checked
    }

    fn timed_once(&self, reader: &mut Process<'_>) -> Checked {
        let pid = reader.start()?.pid();
        let before = cpu_of(pid);
        let (outcome, said) = reader.block(Stop::after(TIME))?;
        let counted = cpu_of(pid)
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        let elapsed = outcome.duration;
        check(elapsed >= TIME * 9 / 10 && elapsed <= TIME + LATE, || {
            format!("it took {elapsed:?} instead of {TIME:?}")
        })?;
        let cpu = Duration::from_nanos(said.user_cpu_ns.saturating_add(said.system_cpu_ns));
        let Some(counted) = counted else {
            return Err("its CPU time cannot be read".into());
        };
        let slack = 4 * TICK + counted / 4;
        check(cpu <= counted + slack && counted <= cpu + slack, || {
            format!("it reported {cpu:?} of CPU time and the kernel counted {counted:?}")
        })
    }

    fn misses(&mut self, reader: &mut Process<'_>) -> Checked {
        self.fill(Holding::Nothing)?;
        let (outcome, _) = reader.block(Stop::after_ops(FEW_OPS))?;
        check(
            outcome.nils == outcome.ops && outcome.errors.total() == 0,
            || format!("{} misses of {} reads", outcome.nils, outcome.ops),
        )
    }

    fn errors(&mut self, reader: &mut Process<'_>) -> Checked {
        self.fill(Holding::List)?;
        let (outcome, _) = reader.block(Stop::after_ops(FEW_OPS))?;
        check(outcome.errors.total() == outcome.ops, || {
            format!(
                "{} errors of {} reads of lists",
                outcome.errors.total(),
                outcome.ops
            )
        })
    }

    fn values(&mut self, reader: &mut Process<'_>) -> Checked {
        self.fill(Holding::ShortValue)?;
        let (outcome, _) = reader.block(Stop::after_ops(FEW_OPS))?;
        let wrong = outcome
            .errors
            .iter()
            .filter(|(kind, _)| *kind == "WRONGVALUE");
        let wrong: u64 = wrong.map(|(_, count)| count).sum();
        check(wrong == outcome.ops, || {
            format!(
                "{wrong} WRONGVALUE of {} reads of values of 2 bytes",
                outcome.ops
            )
        })
    }

    fn lines(&mut self, case: Subject<'_>) -> Checked {
        let space = format!("lines-{}-{}", case.driver.name, case.resp);
        let mut process = self.process(case, &space);
        let running = process.start()?;
        running.go(Stop::after_ops(LINES), process::SEED);
        for sequence in 0..LINES {
            let op = running.op(MANY_LINES, self.control);
            let op = op.map_err(|broken| running.failure(broken).to_string())?;
            let op = op.ok_or_else(|| format!("{sequence} lines instead of {LINES}"))?;
            check(
                op.sequence == sequence && op.outcome == OpOutcome::Acknowledged,
                || format!("{op:?} instead of the acknowledged operation {sequence}"),
            )?;
            let key = format!("{}{sequence}", self.space(&space));
            let value = self
                .run("INCRBY", &[key.as_bytes(), b"0"])
                .map_err(|failure| failure.to_string())?;
            check(value == 1, || {
                format!("the key of operation {sequence} is {value}")
            })?;
        }
        let end = running.op(MANY_LINES, self.control);
        let end = end.map_err(|broken| running.failure(broken).to_string())?;
        check(end.is_none(), || format!("more than {LINES} lines"))
    }

    fn connections(&self, reader: &mut Process<'_>) -> Checked {
        let connected = || {
            let mut admins = self.admins.borrow_mut();
            let first = admins.first_mut().ok_or("there is no server")?;
            let info = first
                .info(&["clients"])
                .map_err(|failure| failure.to_string())?;
            info.number("connected_clients")
                .ok_or_else(|| "the server does not count clients".to_owned())
        };
        reader.start()?;
        let before = connected()?;
        reader.open(CONNECTIONS)?;
        let after = connected()?;
        check(after >= before + CONNECTIONS, || {
            format!("the server has {after} clients after {before}")
        })
    }
}

/// A driver in one way of calling.
#[derive(Clone, Copy)]
struct Subject<'d> {
    driver: &'d Driver,
    resp: u8,
    op: Op,
}

fn unreachable(error: &loadline_client::Error) -> Failure {
    Failure::unavailable(format!("{error}."))
}

/// The CPU time of a process as the kernel counts it.
fn cpu_of(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it is in brackets and may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |place: usize| fields.get(place)?.parse::<u32>().ok();
    Some(TICK * (ticks(11)? + ticks(12)?))
}
