//! `loadline capacity`: searches for the highest load within a limit.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use loadline_load::Control;
use loadline_load::pacing::Stop;
use loadline_load::runner::Measured;
use loadline_measure::capacity::{
    AgentsStep, Attempt, Capacity, Closed, Machine, NextTrial, Role, Search, Trial, grows,
};
use loadline_measure::doctor::{Class, Finding, Observed};
use loadline_measure::histogram::Histogram;
use loadline_measure::record::{self, Answer, CpuPauses, Environment, Record};
use loadline_measure::words;

use super::joint::{self, Entered, Leader, Series};
use super::surroundings;
use crate::args::CapacityArgs;
use crate::exit::{Exit, Failure};
use crate::fingerprint;
use crate::plan::{self, CapacityPlan, Case, Description, Estimate, SharedPlan};
use crate::progress::Progress;
use crate::recording;
use crate::session::{self, Ending, Recorded, Shell, note_steal};
use crate::subjects::{self, failure};
use crate::systems::Opened;

pub(super) fn run(args: &CapacityArgs) -> anyhow::Result<ExitCode> {
    let display = &args.results.display;
    let leader = match joint::enter_if_asked(&args.agents, &args.connection, display)? {
        Some(Entered::Agent(code)) => return Ok(code),
        Some(Entered::Leader(leader)) => Some(*leader),
        None => None,
    };
    let plan = plan::resolve_capacity(args, &surroundings())?;
    let mut description = plan.describe();
    let team = leader
        .map(|leader| Team::of(leader, &plan, args, &mut description))
        .transpose()?;
    session::execute(
        "capacity",
        &args.results,
        &description,
        |shell| match team {
            None => measure(&plan, shell),
            Some(team) => measure_together(&plan, shell, team),
        },
        |record, _, results| {
            if !record.lost_agents.is_empty() {
                // The report names them.
                (results.broken, results.ending) = (None, Ending::incomplete());
            }
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
                control: &shell.control,
                progress: &progress,
                name: target.name.clone(),
                load: Load::Own {
                    target,
                    run_id: &session.run_id,
                },
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

/// The agents of a search, before they meet.
struct Team {
    leader: Leader,
    shared: SharedPlan,
    shell: Shell,
}

impl Team {
    fn of(
        mut leader: Leader,
        plan: &CapacityPlan,
        args: &CapacityArgs,
        description: &mut Description,
    ) -> anyhow::Result<Self> {
        leader.refuse_degraded("the trials of a search need the same load")?;
        let words = plan.joint_words(&args.agents.words);
        let shared = leader.share(std::slice::from_ref(&args.target), &words, &plan.base)?;
        let numbers = CapacityPlan::numbers_of_agents(leader.agents());
        leader.describe(description);
        let listed: Vec<String> = numbers.iter().map(u32::to_string).collect();
        description.line(format!(
            "searches with {} of them, as long as the answer grows",
            listed.join(", ")
        ));
        let searches = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        description.takes(Some(Estimate::up_to(plan.max_time * searches)));
        Ok(Self {
            leader,
            shared,
            shell: Shell::start_in_group(&args.results.display)?.quietly(),
        })
    }
}

/// Searches with more and more agents, and adds the answer of those that carry the most to the record. If a search fails,
/// the answers of those before it are kept.
fn measure_together(plan: &CapacityPlan, shell: &Shell, team: Team) -> Result<Recorded, Failure> {
    session::record(shell, &plan.base, plan.to_json(), |session| {
        let Team {
            leader,
            shared,
            shell: own,
        } = team;
        let numbers = CapacityPlan::numbers_of_agents(leader.agents());
        let progress = session.progress(plan.max_time.as_secs() * numbers.len() as u64);
        let mut series = leader.open(&plan.base, own)?;
        let mut found = Found::default();
        for agents in numbers {
            let mut record = Record::new(session.record.run.clone(), Environment::default());
            let searched = Searching {
                plan,
                control: &shell.control,
                progress: &progress,
                name: plan.base.targets[0].to_string(),
                load: Load::Agents {
                    series: &mut series,
                    shared: &shared,
                    agents,
                },
                record: &mut record,
                findings: Vec::new(),
            }
            .run();
            match searched {
                Ok(answer) => found.add(agents, answer, record),
                Err(failure) => {
                    session.record = found.cut_short(record);
                    session.record.lost_agents = series.lost().to_vec();
                    return Err(failure);
                }
            }
            if shell.interrupted() || !grows(&found.steps) {
                break;
            }
        }
        if let Some(record) = found.whole() {
            session.record = record;
        }
        Ok(())
    })
}

/// The searches of a team that are complete.
#[derive(Default)]
struct Found {
    steps: Vec<AgentsStep>,
    /// The answer of those that carry the most, and the record of their search.
    best: Option<(Capacity, Record)>,
}

impl Found {
    fn add(&mut self, agents: u32, answer: Capacity, record: Record) {
        let step = AgentsStep::new(agents.into(), &answer);
        if self.steps.iter().all(|earlier| step.rate >= earlier.rate) {
            self.best = Some((answer, record));
        }
        self.steps.push(step);
    }

    /// The record with the best answer, whose sentences are returned.
    fn answered(self) -> Option<(Record, Vec<String>)> {
        let (mut answer, mut record) = self.best?;
        answer.agents = self.steps;
        let name = record.cases[0].subject.name.clone();
        let sentences = loadline_report::capacity_findings(&name, &mut answer);
        record.answer = Answer::Capacity(Box::new(answer));
        Some((record, sentences))
    }

    /// The record of all searches; `None` without any.
    fn whole(self) -> Option<Record> {
        let (mut record, sentences) = self.answered()?;
        record.findings.extend(sentences);
        Some(record)
    }

    /// The record of the searches before one that was cut short with the record `last`, which is returned if there are
    /// none. More agents were not tried, so no sentence says what limits the load.
    fn cut_short(self, last: Record) -> Record {
        let searches = loadline_report::capacity_of_agents(&self.steps);
        let answered = self.answered().map(|(record, _)| record);
        let mut record = answered.unwrap_or(last);
        record.run.cut_short = true;
        record.findings.extend(searches);
        record
    }
}

/// The load generators of a search.
enum Load<'s> {
    /// That of this process.
    Own {
        target: &'s mut Opened,
        run_id: &'s str,
    },
    /// The first `agents` agents of the series.
    Agents {
        series: &'s mut Series,
        shared: &'s SharedPlan,
        agents: u32,
    },
}

/// A search in progress.
struct Searching<'s> {
    plan: &'s CapacityPlan,
    control: &'s Control,
    progress: &'s Progress,
    /// The name of the target.
    name: String,
    load: Load<'s>,
    record: &'s mut Record,
    /// Findings of the doctor in each trial, with the rate of the trial and its index among the cases.
    findings: Vec<(f64, usize, Vec<Finding>)>,
}

impl Searching<'_> {
    fn run(mut self) -> Result<Capacity, Failure> {
        let plan = self.plan;
        let closed = plan.closed();
        if let Load::Own { target, run_id } = &mut self.load {
            self.progress
                .say(&format!("{}: loading {}", closed.name, self.name));
            subjects::load(target, closed, run_id, plan.base.seed, self.control)?;
        }
        let begun = Instant::now();
        self.progress
            .say(&format!("a closed loop on {}", self.name));
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
                self.name,
                kinds.join(", ")
            )));
        }
        let (start, bounds) = (closed.throughput_ops_per_s, self.plan.bounds());
        if start < bounds.lowest && !self.control.interrupted() {
            return Err(Failure::usage(format!(
                "{}: a closed loop carries {start:.0} operations per second, and {} takes {} of them for one trial.\nIncrease --max-time or --connections, or use a lower percentile.",
                self.name,
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
        match &mut self.load {
            Load::Own { target, run_id } => {
                let seed = self.plan.base.seed ^ self.record.cases.len() as u64;
                let block = OwnBlock {
                    case,
                    duration,
                    lead_in,
                    seed,
                    run_id,
                };
                block.measure(self.plan, target, self.control, self.record)
            }
            Load::Agents {
                series,
                shared,
                agents,
            } => {
                let words = self.plan.trial_words(case, duration, lead_in);
                let part = series.measure(&shared.of_fewer(*agents, &words), true)?;
                add_trial(self.record, part)
            }
        }
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

/// A trial of the load generator of this process.
struct OwnBlock<'b> {
    case: &'b Case,
    duration: Duration,
    lead_in: Duration,
    seed: u64,
    run_id: &'b str,
}

impl OwnBlock<'_> {
    fn measure(
        &self,
        plan: &CapacityPlan,
        target: &mut Opened,
        control: &Control,
        record: &mut Record,
    ) -> Result<(Vec<Finding>, Seen), Failure> {
        let Self { case, seed, .. } = *self;
        let watch = target.watch();
        let machine = fingerprint::Counters::read();
        let mut subject = subjects::of(target, case, self.run_id, seed)?;
        let mut block = |stop: Stop, seed: u64| {
            subject
                .block(stop, seed, control)
                .map_err(|error| failure(&case.name, &error))
        };
        block(Stop::after(self.lead_in), !seed)?;
        let mut outcome = block(Stop::after(self.duration), seed)?;
        let calm = outcome.calm.take();
        let measured = Measured {
            blocks: vec![outcome],
            warmup: self.lead_in,
            steady: None,
        };
        drop(subject);
        let machine = machine.since();
        note_steal(record, &machine);
        let around = Observed {
            cpu_pressure: machine.cpu_pressure,
            steal: machine.steal,
            ..target.seen_since(&watch, &case.workload.sends())
        };
        let entry = recording::case(case, &plan.base, target, &measured, &around);
        let found = recording::examine(&entry, case, &measured, around);
        let pauses = entry.cpu_pauses.map(|pauses| (pauses, entry.duration_ns));
        let seen = Seen {
            calm,
            ..Seen::of(&entry, pauses.into_iter())
        };
        record.cases.push(entry);
        Ok((found, seen))
    }
}

/// Adds the trial of several agents, whose common record is `part`, to that of the search.
///
/// # Errors
/// [`Exit::Incomplete`] if an agent was lost.
fn add_trial(record: &mut Record, part: Record) -> Result<(Vec<Finding>, Seen), Failure> {
    if part.run.cut_short {
        record.run.cut_short = true;
        joint::refuse_incomplete(&part)?;
    }
    let parts = part.agents.iter().filter_map(|agent| agent.cases.first());
    let pauses = parts.filter_map(|case| Some((case.cpu_pauses?, case.duration_ns)));
    let seen = part.cases.first().map(|case| Seen::of(case, pauses));
    let seen = seen.unwrap_or_default();
    if record.cases.is_empty() {
        record.environment = part.environment;
        record.agents = part.agents;
    } else {
        for (agent, of_trial) in record.agents.iter_mut().zip(part.agents) {
            agent.cases.extend(of_trial.cases);
        }
    }
    record.cases.extend(part.cases);
    Ok((part.doctor, seen))
}

/// The state of the machines during a trial.
#[derive(Default)]
struct Seen {
    /// Share of the time that the generators' threads waited for a CPU.
    waited: Option<f64>,
    machine: Machine,
    /// Response times in the undisturbed parts of the trial.
    calm: Option<Histogram>,
}

impl Seen {
    /// Evaluates the trial `case`, and the pauses of each load generator's machine, with the time in nanoseconds that they are
    /// of. Of several machines, the most disturbed one counts: a common percentile has the operations of all.
    fn of(case: &record::Case, pauses: impl Iterator<Item = (CpuPauses, u64)>) -> Self {
        let round = case.rounds.first();
        let mut machine = Machine {
            duration: Duration::from_nanos(case.duration_ns),
            server_waited: round.and_then(|round| round.server_cpu_wait),
            ..Machine::default()
        };
        for (pauses, duration_ns) in pauses {
            let share = |ns: u64| ns as f64 / duration_ns.max(1) as f64;
            machine.pauses += pauses.count;
            machine.paused = machine.paused.max(Duration::from_nanos(pauses.total_ns));
            let longest = Duration::from_nanos(pauses.longest_ns);
            machine.longest_pause = machine.longest_pause.max(longest);
            let others = pauses.others_ns.map(share);
            machine.others = machine.others.into_iter().chain(others).reduce(f64::max);
            // Where pauses were seen, they are the same time.
            let stolen = pauses.stolen_ns.filter(|_| !pauses.real_time).map(share);
            machine.stolen = machine.stolen.into_iter().chain(stolen).reduce(f64::max);
        }
        Self {
            waited: round.and_then(|round| round.client_cpu_wait),
            machine,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_disturbed_machine_of_several_counts() {
        let round = record::RoundSummary {
            client_cpu_wait: Some(0.02),
            ..record::RoundSummary::default()
        };
        let case = record::Case {
            duration_ns: 300_000_000,
            rounds: vec![round],
            ..record::Case::default()
        };
        let pauses = |count, total_ns, others_ns, real_time| CpuPauses {
            real_time,
            count,
            total_ns,
            longest_ns: total_ns,
            others_ns,
            stolen_ns: Some(6_000_000),
            ..CpuPauses::default()
        };
        let calm = (pauses(0, 0, Some(3_000_000), true), 300_000_000);
        let alone = Seen::of(&case, [calm].into_iter());
        assert_eq!(
            (alone.waited, alone.machine.others),
            (Some(0.02), Some(0.01))
        );
        // With pauses, the host's time would be counted twice.
        assert_eq!((alone.machine.pauses, alone.machine.stolen), (0, None));
        let others = [
            (pauses(2, 4_000_000, None, true), 300_000_000),
            (pauses(1, 1_000_000, Some(60_000_000), false), 200_000_000),
        ];
        let all = Seen::of(&case, [calm].into_iter().chain(others)).machine;
        let expected = Machine {
            duration: Duration::from_millis(300),
            pauses: 3,
            paused: Duration::from_millis(4),
            longest_pause: Duration::from_millis(4),
            stolen: Some(0.03),
            others: Some(0.3),
            server_waited: None,
        };
        assert_eq!(all, expected);
    }
}
