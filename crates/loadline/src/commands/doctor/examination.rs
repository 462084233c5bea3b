//! The examination: reads the setup of a server, runs probes of a few seconds, and records as findings what would
//! make a measurement misleading.

use std::collections::BTreeSet;
use std::time::Duration;

use loadline_load::pacing::Stop;
use loadline_load::runner::{self, Measured, Rounds, Subject};
use loadline_load::{Control, Error};
use loadline_measure::doctor::{self, Class, Evidence, Finding, Observed, Setup, Work};
use loadline_measure::quantile::median;
use loadline_measure::record::{self, Record};
use loadline_report::findings;

use crate::diagnosis;
use crate::exit::Failure;
use crate::fingerprint;
use crate::plan::{self, Case, DoctorPlan};
use crate::progress::Progress;
use crate::recording;
use crate::session::{self, Recorded, Shell, note_steal};
use crate::subjects::{self, NullPings, failure};
use crate::systems::{Asked, Opened};
use crate::units::{count_text, nanoseconds};

/// Ratio of the larger to the smaller work, large enough that disturbances cannot hide it.
const MORE_WORK: u64 = 16;
/// Number of blocks of the larger work, and of the smaller one for each of them.
const WORK_ROUNDS: u32 = 5;
const SMALL_BLOCKS: u32 = 4;
/// Approximate time of the smaller work.
const WORK: Duration = Duration::from_millis(10);
const LEAST_WORK: u64 = 2_000;
/// Steps of the progress bar.
const STEPS: u64 = 5;

/// Examines the target of `plan` and returns the record. Its findings are sorted by severity, one per rule. Must
/// be called on the main thread, because servers are started.
///
/// # Errors
/// Those of [`session::record`].
pub(crate) fn examine(plan: &DoctorPlan, shell: &Shell) -> Result<Recorded, Failure> {
    // Whether the target holds other keys is checked below; without permission, only settings are read and pings
    // sent.
    let open = plan::Plan {
        allow_non_empty: true,
        ..plan.base.clone()
    };
    let mut nodes = Vec::new();
    let mut recorded = session::record(shell, &open, plan.base.to_json(), |session| {
        session.with_unexamined_targets(|session, opened| {
            let target = &mut opened[0];
            let masters = u32::try_from(target.masters()).unwrap_or(u32::MAX);
            nodes = target.node_names();
            let mut examination = Examination {
                plan: &plan.for_masters(masters),
                control: &shell.control,
                run_id: &session.run_id,
                progress: session.progress(STEPS),
                record: &mut session.record,
            };
            let result = examination.run(target);
            examination.progress.finish();
            result
        })
    })?;
    let record = &mut recorded.record;
    record.doctor = worst_first(std::mem::take(&mut record.doctor), &nodes);
    Ok(recorded)
}

/// An examination in progress.
struct Examination<'e> {
    plan: &'e DoctorPlan,
    control: &'e Control,
    run_id: &'e str,
    progress: Progress,
    record: &'e mut Record,
}

impl Examination<'_> {
    fn run(&mut self, target: &mut Opened) -> Result<(), Failure> {
        let probes = &self.plan.probes;
        let mut nodes = target.nodes_asked()?;
        let (environment, threads) = (&self.record.environment, u64::from(probes.load.threads));
        let mut setup = if nodes.is_empty() {
            diagnosis::setup(target, environment, threads)
        } else {
            Setup {
                is_local: nodes.iter().all(|node| node.is_local),
                ..diagnosis::machine(target, environment, threads)
            }
        };
        let held = if target.target.is_ours() || self.plan.base.allow_non_empty {
            0
        } else {
            target.key_count()?
        };
        let idle = if held > 0 {
            &probes.gentle
        } else {
            &probes.idle
        };
        self.probe(&[idle], target)?;
        self.describe_path(&mut setup);
        self.setups(setup, target, &mut nodes)?;
        if held > 0 {
            self.say(format!(
                "The target holds {}, so only its settings and pings were examined; --allow-non-empty enables the other probes, which write under their own prefix.",
                if held == 1 { "a key".into() } else { format!("{} keys", count_text(held)) }
            ));
        } else {
            self.load(target)?;
            self.null_server(target)?;
            self.hits_and_misses(target)?;
            self.more_work(target)?;
        }
        self.other_activity(target, &mut nodes)
    }

    /// Adds the findings about `setup` and about the setups of the nodes of a cluster.
    fn setups(
        &mut self,
        setup: Setup,
        target: &Opened,
        nodes: &mut [Asked],
    ) -> Result<(), Failure> {
        let mut setups = vec![setup];
        for node in nodes.iter_mut().filter(|node| node.is_master) {
            setups.push(diagnosis::node(node, &setups[0])?);
        }
        self.record.doctor.extend(diagnosis::findings(&setups));
        let nodes = nodes.iter_mut().map(Asked::describe);
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        let found = doctor::examine_cluster(&target.name, &nodes);
        self.record.doctor.extend(findings(found));
        Ok(())
    }

    /// Adds the findings about other activity at the masters of a cluster during the probes.
    fn other_activity(&mut self, target: &Opened, nodes: &mut [Asked]) -> Result<(), Failure> {
        for node in nodes.iter_mut().filter(|node| node.is_master) {
            let scope = diagnosis::node_scope(&target.name, node);
            let observed = node.seen(target.target.is_ours())?;
            let evidence = Evidence::of_scope(scope, 0, observed);
            let mut found = doctor::examine(&evidence);
            // The other rules concern a case.
            found.retain(|diagnosis| diagnosis.rule().class() == Class::Server);
            self.record.doctor.extend(findings(found));
        }
        Ok(())
    }

    fn say(&mut self, sentence: String) {
        self.record.findings.push(sentence);
    }

    /// Measures `cases` in interleaved rounds and adds them with their findings. After an interrupt, unmeasured
    /// cases are left out.
    fn probe(&mut self, cases: &[&Case], target: &mut Opened) -> Result<(), Failure> {
        let base = &self.plan.base;
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        self.progress
            .begin(&format!("{}: {}", target.name, names.join(" and ")));
        for case in cases {
            subjects::load(target, case, self.run_id, base.seed, self.control)?;
        }
        let watch = target.watch();
        let machine = fingerprint::Counters::read();
        let mut subjects = cases
            .iter()
            .map(|case| subjects::of(target, case, self.run_id, base.seed))
            .collect::<Result<Vec<_>, _>>()?;
        let measured = self.rounds(&mut subjects, |round| cases[0].block(round, base.rounds))?;
        drop(subjects);
        let machine = machine.since();
        note_steal(self.record, &machine);
        let declared: BTreeSet<String> = cases
            .iter()
            .flat_map(|case| case.workload.sends())
            .collect();
        let declared: Vec<String> = declared.into_iter().collect();
        for (case, measured) in cases.iter().zip(&measured) {
            let around = Observed {
                cpu_pressure: machine.cpu_pressure,
                steal: machine.steal,
                ..target.seen_since(&watch, &declared)
            };
            self.add(case, target, measured, around);
        }
        self.progress.step();
        Ok(())
    }

    fn add(&mut self, case: &Case, target: &Opened, measured: &Measured, mut around: Observed) {
        if measured.blocks.is_empty() {
            return;
        }
        if target.target.is_cluster() {
            // Each master is examined separately.
            around.persistence.clear();
        }
        let entry = recording::case(case, &self.plan.base, target, measured, &around);
        // A probe of misses is supposed to miss.
        let judged = record::Case {
            hit_ratio: entry.hit_ratio.filter(|_| case.workload.load.is_some()),
            ..entry.clone()
        };
        let mut findings = recording::examine(&judged, case, measured, around);
        // A probe is short on purpose.
        findings.retain(|finding| finding.rule.class() != Class::Length);
        self.record.doctor.extend(findings);
        self.record.cases.push(entry);
    }

    /// Runs blocks of `subjects` that end by `stop`, in interleaved rounds.
    fn rounds(
        &self,
        subjects: &mut [Box<dyn Subject + '_>],
        stop: impl Fn(u32) -> Stop,
    ) -> Result<Vec<Measured>, Failure> {
        let base = &self.plan.base;
        let rounds = Rounds {
            stops: (0..base.rounds).map(stop).collect(),
            warmup: base.warmup,
            order: base.seed,
            seed: base.seed,
        };
        let mut subjects: Vec<&mut dyn Subject> = subjects
            .iter_mut()
            .map(|subject| &mut **subject as &mut dyn Subject)
            .collect();
        runner::run(&mut subjects, &rounds, self.control, &mut |_| {}, &|_| {
            false
        })
        .map_err(|error| failure("the probe", &error.error))
    }

    /// The result of the last measurement.
    fn last(&self) -> Option<&record::Case> {
        self.record.cases.last()
    }

    fn describe_path(&mut self, setup: &mut Setup) {
        let Some(idle) = self.last() else { return };
        setup.idle = Some(idle.response_time_ns);
        setup.server_ns = idle.parts_ns.server;
        let place = if setup.is_local {
            "on this machine, so no network is involved"
        } else {
            "reached over a network"
        };
        let times = match (idle.response_time_ns.p50, idle.response_time_ns.p99) {
            (Some(p50), Some(p99)) => format!(
                "an idle round trip takes {:.1} us at the median and {:.1} us at the p99",
                p50 as f64 / 1e3,
                p99 as f64 / 1e3
            ),
            (Some(p50), None) => format!(
                "an idle round trip takes {:.1} us at the median",
                p50 as f64 / 1e3
            ),
            _ => "the probe had too few idle round trips for a median".into(),
        };
        self.say(format!("The server is {place}; {times}."));
    }

    /// Measures the target under full load, and adds which side was the limit.
    fn load(&mut self, target: &mut Opened) -> Result<(), Failure> {
        self.probe(&[&self.plan.probes.load], target)?;
        let Some(load) = self.last() else {
            return Ok(());
        };
        let share = |busy: Option<f64>| {
            busy.map_or("an unknown share".into(), |busy| {
                format!("{:.0} %", busy * 100.0)
            })
        };
        let sentence = format!(
            "Under load (GET, {} connections, pipeline {}) it carried {:.0} operations per second; the server used {} of a CPU and the busiest thread of the generator {}.",
            load.scenario.connections,
            load.scenario.pipeline,
            load.throughput_ops_per_s,
            share(load.server_cpu_busy),
            share(load.client_cpu_busy),
        );
        self.say(sentence);
        Ok(())
    }

    /// Sends the same pings to the target and to a null server, in the same rounds.
    fn null_server(&mut self, target: &mut Opened) -> Result<(), Failure> {
        let (base, case) = (&self.plan.base, &self.plan.probes.ping);
        self.progress
            .begin(&format!("{}: compared with a null server", target.name));
        let null = NullPings::start()?;
        let watch = target.watch();
        let mut subjects = vec![
            subjects::of(target, case, self.run_id, base.seed)?,
            Box::new(null.subject(case, base.seed)?),
        ];
        let measured = self.rounds(&mut subjects, |round| case.block(round, base.rounds))?;
        drop(subjects);
        let around = Observed {
            null_speedup: speedup(&measured),
            ..target.seen_since(&watch, &case.workload.sends())
        };
        if let Some(times) = around.null_speedup {
            self.say(format!(
                "A null server was {times:.2} times as fast under the same pings ({} connections, pipeline {}).",
                case.connections, case.pipeline
            ));
        }
        self.add(case, target, &measured[0], around);
        self.progress.step();
        Ok(())
    }

    /// Compares reads that hit with reads that miss; their replies are almost the same size.
    fn hits_and_misses(&mut self, target: &mut Opened) -> Result<(), Failure> {
        let probes = &self.plan.probes;
        self.probe(&[&probes.hit, &probes.miss], target)?;
        let [.., hit, miss] = &self.record.cases[..] else {
            return Ok(());
        };
        let finding = doctor::hit_beside_miss(hit, miss);
        let medians = hit.response_time_ns.p50.zip(miss.response_time_ns.p50);
        let sentence = medians.map(|(hit, miss)| {
            format!(
                "A hit took {:.1} us and a miss {:.1} us (GET, medians); their replies differ in size by two bytes.",
                hit as f64 / 1e3,
                miss as f64 / 1e3
            )
        });
        self.record.doctor.extend(findings(finding));
        self.record.findings.extend(sentence);
        Ok(())
    }

    /// Checks that a block of many more operations takes longer than a block of a few.
    fn more_work(&mut self, target: &mut Opened) -> Result<(), Failure> {
        let (base, case) = (&self.plan.base, &self.plan.probes.load);
        let is_load = |entry: &&record::Case| entry.scenario.workload == case.workload.name;
        let load = self.record.cases.iter().find(is_load);
        let Some(load) = load.filter(|_| !self.control.interrupted()) else {
            return Ok(());
        };
        let units = ((load.throughput_ops_per_s * WORK.as_secs_f64()) as u64).max(LEAST_WORK);
        self.progress.begin(&format!("{}: more work", target.name));
        // The shortest of several blocks of the same size is the least disturbed.
        let (mut small, mut large) = (u64::MAX, u64::MAX);
        let mut subject = subjects::of(target, case, self.run_id, base.seed)?;
        let mut block = |ops: u64, seed: u64| {
            let block = subject.block(Stop::after_ops(ops), seed, self.control);
            block
                .map(|block| nanoseconds(block.duration))
                .map_err(|error: Error| failure("the probe", &error))
        };
        for round in 0..WORK_ROUNDS {
            let seed = base.seed ^ u64::from(round);
            for _ in 0..SMALL_BLOCKS {
                small = small.min(block(units, seed)?);
            }
            large = large.min(block(MORE_WORK * units, seed)?);
        }
        drop(subject);
        if self.control.interrupted() {
            return Ok(());
        }
        self.say(format!(
            "{MORE_WORK} times the operations took {:.1} times the time.",
            large as f64 / small.max(1) as f64
        ));
        let work = |units, duration_ns| Work { units, duration_ns };
        let (small, large) = (work(units, small), work(MORE_WORK * units, large));
        let flat = doctor::time_stays_flat(&target.name, small, large);
        self.record.doctor.extend(findings(flat));
        self.progress.step();
        Ok(())
    }
}

/// Throughput of the second subject relative to the first: the median over the rounds.
fn speedup(measured: &[Measured]) -> Option<f64> {
    let [target, null] = measured else {
        return None;
    };
    let ratios: Vec<f64> = target
        .blocks
        .iter()
        .zip(&null.blocks)
        .map(|(target, null)| null.throughput() / target.throughput())
        .filter(|ratio| ratio.is_finite())
        .collect();
    median(&ratios)
}

/// The findings sorted by severity, with the most severe one of each rule. If a rule names one of the `nodes` of a
/// cluster, one per node.
fn worst_first(mut findings: Vec<Finding>, nodes: &[String]) -> Vec<Finding> {
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let mut seen = BTreeSet::new();
    findings.retain(|finding| {
        let node = nodes.iter().position(|node| finding.scope.ends_with(node));
        seen.insert((finding.rule.clone(), node))
    });
    findings
}

#[cfg(test)]
mod tests {
    use loadline_load::outcome::Outcome;
    use loadline_measure::record::{Rule, Severity};

    use super::*;

    #[test]
    fn of_each_rule_the_worst_is_kept() {
        let finding = |rule: Rule, severity, scope: &str| Finding {
            rule,
            severity,
            scope: scope.into(),
            evidence: String::new(),
            what_to_do: String::new(),
        };
        let found = vec![
            finding(Rule::GeneratorBound, Severity::Info, "a"),
            finding(Rule::ServerBusyElsewhere, Severity::Warning, "b"),
            finding(Rule::GeneratorBound, Severity::Critical, "c"),
            finding(Rule::ServerBusyElsewhere, Severity::Warning, "d"),
            finding(
                Rule::ServerBusyElsewhere,
                Severity::Warning,
                "e, node 10.0.0.1:7000",
            ),
            finding(
                Rule::ServerBusyElsewhere,
                Severity::Warning,
                "e, node 10.0.0.2:7000",
            ),
        ];
        let nodes = ["node 10.0.0.1:7000", "node 10.0.0.2:7000"].map(str::to_owned);
        assert_eq!(worst_first(found.clone(), &nodes).len(), 4);
        let kept = worst_first(found, &[]);
        let kept: Vec<(Rule, &str)> = kept
            .iter()
            .map(|finding| (finding.rule.clone(), finding.scope.as_str()))
            .collect();
        assert_eq!(
            kept,
            [
                (Rule::GeneratorBound, "c"),
                (Rule::ServerBusyElsewhere, "b")
            ]
        );
    }

    #[test]
    fn speedup_is_that_of_the_middle_round() {
        let measured = |operations: [u64; 3]| Measured {
            blocks: operations
                .map(|ops| Outcome {
                    ops,
                    duration: Duration::from_secs(1),
                    ..Outcome::empty()
                })
                .into(),
            warmup: Duration::ZERO,
            steady: None,
        };
        let pair = [measured([100, 100, 100]), measured([150, 900, 300])];
        assert_eq!(speedup(&pair), Some(3.0));
        assert_eq!(speedup(&pair[..1]), None);
        assert_eq!(speedup(&[measured([0, 0, 0]), measured([1, 1, 1])]), None);
    }
}
