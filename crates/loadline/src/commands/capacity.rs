//! `loadline capacity`: searches for the highest load within a limit.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use loadline_load::Control;
use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;
use loadline_load::runner::Measured;
use loadline_measure::capacity::{
    Attempt, Capacity, Closed, Machine, NextTrial, Role, Search, Trial,
};
use loadline_measure::doctor::{Class, Finding, Observed};
use loadline_measure::histogram::Histogram;
use loadline_measure::record::{self, Answer, Record};
use loadline_measure::words;

use super::surroundings;
use crate::args::CapacityArgs;
use crate::exit::{Exit, Failure};
use crate::fingerprint;
use crate::plan::{self, CapacityPlan, Case};
use crate::progress::Progress;
use crate::recording;
use crate::session::{self, Ending, Recorded, Shell, note_steal};
use crate::subjects::{self, failure};
use crate::systems::Opened;

pub(super) fn run(args: &CapacityArgs) -> anyhow::Result<ExitCode> {
    let plan = plan::resolve_capacity(args, &surroundings())?;
    session::execute(
        "capacity",
        &args.results,
        &plan.describe(),
        |shell| measure(&plan, shell),
        |record, _, results| {
            let is_decided =
                matches!(&record.answer, Answer::Capacity(found) if found.outcome.is_decided());
            if !is_decided && !record.run.cut_short {
                let code = if args.strict {
                    Exit::Incomparable.code()
                } else {
                    0
                };
                results.ending = Ending::answer("inconclusive", code);
            }
        },
    )
}

/// Searches, and adds the answer to the record.
fn measure(plan: &CapacityPlan, shell: &Shell) -> Result<Recorded, Failure> {
    session::record(shell, &plan.base, plan.to_json(), |session| {
        session.with_targets(|session, opened| {
            let progress = session.progress(plan.max_time.as_secs());
            let target = &mut opened[0];
            let mut answer = Searching {
                plan,
                run_id: &session.run_id,
                control: &shell.control,
                progress: &progress,
                target,
                record: &mut session.record,
                findings: Vec::new(),
            }
            .run()?;
            let sentences = loadline_report::capacity_findings(&target.name, &mut answer);
            session.record.findings.extend(sentences);
            session.record.answer = Answer::Capacity(Box::new(answer));
            Ok(())
        })
    })
}

/// A search in progress.
struct Searching<'s> {
    plan: &'s CapacityPlan,
    run_id: &'s str,
    control: &'s Control,
    progress: &'s Progress,
    target: &'s mut Opened,
    record: &'s mut Record,
    /// Findings of the doctor in each trial, with the rate of the trial and its index among the cases.
    findings: Vec<(f64, usize, Vec<Finding>)>,
}

impl Searching<'_> {
    fn run(mut self) -> Result<Capacity, Failure> {
        let plan = self.plan;
        let closed = plan.closed();
        self.progress
            .say(&format!("{}: loading {}", closed.name, self.target.name));
        subjects::load(
            self.target,
            closed,
            self.run_id,
            plan.base.seed,
            self.control,
        )?;
        let begun = Instant::now();
        self.progress
            .say(&format!("a closed loop on {}", self.target.name));
        self.measure(closed, plan.trial, plan.base.warmup)?;
        let start = self.start()?;
        let mut search = Search::new(plan.slo, start, plan.bounds());
        let answer = loop {
            if self.control.interrupted() {
                break search.stop();
            }
            match search.next(plan.max_time.saturating_sub(begun.elapsed())) {
                NextTrial::Done(answer) => break answer,
                NextTrial::Try(attempt) => {
                    self.progress.begin(&wording(&attempt));
                    let trial = self.attempt(&attempt)?;
                    // An interrupted trial says nothing about its rate.
                    if !self.control.interrupted() {
                        search.told(trial);
                    }
                    self.progress.reach(begun.elapsed().as_secs());
                }
            }
        };
        self.keep_findings(&answer);
        Ok(answer)
    }

    /// The throughput of the closed loop, where the search starts.
    fn start(&self) -> Result<Closed, Failure> {
        let closed = &self.record.cases[0];
        if closed.error_count() > 0 && !self.control.interrupted() {
            let kinds: Vec<String> = closed
                .errors
                .iter()
                .map(|(kind, count)| format!("{count} {kind}"))
                .collect();
            return Err(Failure::unavailable(format!(
                "{}: operations failed in the closed loop: {}.\nFix the cause, or choose another workload.",
                self.target.name,
                kinds.join(", ")
            )));
        }
        let (start, bounds) = (closed.throughput_ops_per_s, self.plan.bounds());
        if start < bounds.lowest && !self.control.interrupted() {
            return Err(Failure::usage(format!(
                "{}: a closed loop carries {start:.0} operations per second, and {} takes {} of them for one trial.\nIncrease --max-time or --connections, or use a lower percentile.",
                self.target.name,
                self.plan.slo,
                self.plan.slo.least_ops()
            )));
        }
        Ok(Closed {
            rate: start,
            value_ns: self.plan.slo.metric.of_case(closed),
        })
    }

    fn attempt(&mut self, attempt: &Attempt) -> Result<Trial, Failure> {
        let is_closed = attempt.role == Role::Closed;
        let case = if is_closed {
            self.plan.closed().clone()
        } else {
            self.plan.case(attempt.rate, attempt.duration)
        };
        let lead_in = CapacityPlan::lead_in(attempt.duration);
        let (found, seen) = self.measure(&case, attempt.duration, lead_in)?;
        let place = self.record.cases.len() - 1;
        if !is_closed {
            self.findings.push((attempt.rate, place, found));
        }
        Ok(Trial {
            waited: seen.waited,
            machine: seen.machine,
            calm: seen.calm,
            case: place,
            ..trial(&self.record.cases[place], self.plan)
        })
    }

    /// Runs a case for `duration`, after an unmeasured `lead_in`, and adds it to the record. The doctor's findings
    /// are returned and not recorded, because most of them are normal in a search; so is what the machine did
    /// meanwhile.
    fn measure(
        &mut self,
        case: &Case,
        duration: Duration,
        lead_in: Duration,
    ) -> Result<(Vec<Finding>, Seen), Failure> {
        let seed = self.plan.base.seed ^ self.record.cases.len() as u64;
        let watch = self.target.watch();
        let machine = fingerprint::Counters::read();
        let mut subject = subjects::of(self.target, case, self.run_id, seed)?;
        let mut block = |stop: Stop, seed: u64| {
            subject
                .block(stop, seed, self.control)
                .map_err(|error| failure(&case.name, &error))
        };
        block(Stop::after(lead_in), !seed)?;
        let mut outcome = block(Stop::after(duration), seed)?;
        let seen = Seen {
            calm: outcome.calm.take(),
            ..Seen::of(&outcome, self.target.threads(case))
        };
        let measured = Measured {
            blocks: vec![outcome],
            warmup: lead_in,
            steady: None,
        };
        drop(subject);
        let machine = machine.since();
        note_steal(self.record, &machine);
        let around = Observed {
            cpu_pressure: machine.cpu_pressure,
            steal: machine.steal,
            ..self.target.seen_since(&watch, &case.workload.sends())
        };
        let entry = recording::case(case, &self.plan.base, self.target, &measured, &around);
        let found = recording::examine(&entry, case, &measured, around);
        self.record.cases.push(entry);
        Ok((found, seen))
    }

    /// Keeps the findings at the rate of the answer, each rule once, preferably from the trial shown in the curve.
    /// At higher rates the target is overloaded by design, so their findings are dropped.
    fn keep_findings(&mut self, answer: &Capacity) {
        let Some(shown) = answer.point().or(answer.curve.first()) else {
            return;
        };
        self.findings
            .sort_by_key(|(_, place, _)| *place != shown.case);
        let at_rate = self
            .findings
            .iter()
            .filter(|(rate, ..)| *rate == shown.rate);
        for finding in at_rate.flat_map(|(.., findings)| findings) {
            let doctor = &mut self.record.doctor;
            let is_known = doctor.iter().any(|known| known.rule == finding.rule);
            if !is_known && finding.rule.class() != Class::Length {
                doctor.push(finding.clone());
            }
        }
    }
}

/// The state of the machine during a trial.
struct Seen {
    /// Share of the time that the generator's threads waited for a CPU.
    waited: Option<f64>,
    machine: Machine,
    /// Response times in the undisturbed parts of the trial.
    calm: Option<Histogram>,
}

impl Seen {
    /// Evaluates a block of `threads` threads.
    fn of(outcome: &Outcome, threads: u64) -> Self {
        let seconds = outcome.duration.as_secs_f64().max(1e-9);
        let share = |time: Duration| time.as_secs_f64() / seconds;
        let (generator, target) = (&outcome.generator, &outcome.target);
        let pauses = outcome.pauses.as_ref();
        let list = pauses.map_or(&[][..], |pauses| &pauses.list);
        // Waits and CPU time are known only for a server on this machine.
        let server = target.run_wait.and(target.cpu).unwrap_or_default();
        let busy = pauses.and_then(|pauses| pauses.busy);
        let others = busy.map(|busy| busy.saturating_sub(generator.cpu + server));
        let unwatched = pauses.filter(|pauses| !pauses.real_time);
        let stolen = unwatched.and_then(|pauses| pauses.stolen);
        Self {
            waited: generator
                .run_wait
                .map(|waited| share(waited) / threads.max(1) as f64),
            machine: Machine {
                duration: outcome.duration,
                pauses: list.len() as u64,
                paused: pauses.map(|pauses| pauses.total).unwrap_or_default(),
                longest_pause: list
                    .iter()
                    .map(|pause| pause.length)
                    .max()
                    .unwrap_or_default(),
                stolen: stolen.map(share),
                others: others.map(share),
                server_waited: target.run_wait.map(share),
            },
            calm: None,
        }
    }
}

/// A case in the form that the search needs.
fn trial(case: &record::Case, plan: &CapacityPlan) -> Trial {
    let times = &case.response_time_ns;
    Trial {
        achieved: case.throughput_ops_per_s,
        ops: case.ops,
        value_ns: plan.slo.metric.of_case(case),
        p50_ns: times.p50,
        p99_ns: times.p99,
        p999_ns: times.p999,
        lag_p99_ns: case.lag_ns.and_then(|lag| lag.p99),
        lag_max_ns: case.lag_ns.and_then(|lag| lag.max),
        not_sent: case.not_sent.unwrap_or(0),
        errors: case.error_count(),
        server_busy: case.server_cpu_busy,
        client_busy: case.client_cpu_busy,
        ..Trial::default()
    }
}

fn wording(attempt: &Attempt) -> String {
    let rate = words::count(attempt.rate);
    match attempt.role {
        Role::Search => format!("trying {rate} operations per second"),
        Role::Confirm => format!("confirming {rate} operations per second"),
        Role::Above => format!("confirming that {rate} operations per second fail"),
        Role::Closed => "a closed loop, as at the beginning".to_owned(),
    }
}
