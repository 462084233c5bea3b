//! Two records of failovers, of different times.
//!
//! A trial shows each time of an outage once, and such times vary much from one trial to the next. So they are compared
//! by the intervals of their medians over repetitions. A write that was executed twice is a fact, and one is enough.

use std::collections::BTreeMap;

use super::{difference_notes, is_elsewhere, refused};
use crate::failover::{Failover, Kind, Trial};
use crate::gate::judgement::{Basis, Policy, Row, RowVerdict, exp};
use crate::gate::limits::time_of_trial;
use crate::gate::reason::{
    FailoverReason, Gap, Grounds, Judged, JudgedRow, Reason, RepetitionGrounds, Side,
};
use crate::gate::strict::Thresholds;
use crate::interval::{self, ALPHA, MedianInterval};
use crate::metric::Metric;
use crate::quantile::median;
use crate::record::Record;

/// A time that is certainly less than this multiple of the one before is no regression.
const DOUBLED: f64 = 2.0;

/// The trials by name: those of a name are repetitions.
type ByName<'a> = BTreeMap<String, Vec<&'a Trial>>;

/// Judges the outages and the audits of the second record against those of the first.
pub(super) fn judge(before: (&Record, &Failover), after: (&Record, &Failover)) -> Judged {
    let (was, is) = (by_name(before.1), by_name(after.1));
    let reasons = other_work((before.1, &was), (after.1, &is));
    if !reasons.is_empty() {
        return refused(reasons.into_iter().map(Reason::Failovers).collect());
    }
    // A writer notices an end of an outage with its next write.
    let step_ns = after.1.writers as f64 * 1e9 / after.1.rate.max(1) as f64;
    let mut rows = Vec::new();
    for (name, trials) in &is {
        let held = &was[name];
        let times = Metric::FAULT.into_iter();
        rows.extend(times.filter_map(|metric| time_row(name, metric, held, trials, step_ns)));
        rows.push(count_row(name, Metric::Lost, Trial::lost, held, trials));
        rows.push(count_row(name, Metric::Twice, Trial::twice, held, trials));
    }
    let environments = (&before.0.environment, &after.0.environment);
    if is_elsewhere(environments) {
        let times = rows
            .iter_mut()
            .filter(|row| Metric::FAULT.contains(&row.metric));
        for row in times {
            row.verdict = RowVerdict::Inconclusive;
            row.evidence = Grounds::Gap(Gap::OtherMachine);
        }
    }
    let mut judgement = Judged::new(Policy::Strict, Basis::Records, rows);
    if was
        .values()
        .chain(is.values())
        .any(|trials| too_few(trials))
    {
        let note = Reason::Failovers(FailoverReason::FewRepetitions);
        judgement.notes.push(note);
    }
    let clients = (before.1.client_names(), after.1.client_names());
    if clients.0 != clients.1 {
        let note = FailoverReason::OtherClient(clients.0, clients.1);
        judgement.notes.push(Reason::Failovers(note));
    }
    judgement.notes.extend(difference_notes(environments));
    judgement
}

fn by_name(failover: &Failover) -> ByName<'_> {
    let mut trials = ByName::new();
    for trial in &failover.trials {
        trials.entry(trial.name()).or_default().push(trial);
    }
    trials
}

/// The differences between servers, loads and faults; empty if they were the same.
fn other_work(
    (before, was): (&Failover, &ByName<'_>),
    (after, is): (&Failover, &ByName<'_>),
) -> Vec<FailoverReason> {
    let mut reasons = Vec::new();
    if before.topology != after.topology {
        let topologies = (before.topology.clone(), after.topology.clone());
        reasons.push(FailoverReason::OtherTopology(topologies.0, topologies.1));
    }
    let load = |failover: &Failover| {
        let Failover {
            rate,
            writers,
            pool,
            wait,
            min_replicas,
            reads,
            ..
        } = failover;
        let servers = *min_replicas;
        (*rate, *writers, *pool, *wait, servers, reads.clone())
    };
    if load(before) != load(after) {
        reasons.push(FailoverReason::OtherLoad);
    }
    if before.trials.is_empty() && after.trials.is_empty() {
        reasons.push(FailoverReason::NoFaults);
    }
    for name in was.keys().filter(|name| !is.contains_key(*name)) {
        reasons.push(FailoverReason::OneSided(Side::First, name.clone()));
    }
    for (name, trials) in is {
        match was.get(name) {
            None => reasons.push(FailoverReason::OneSided(Side::Second, name.clone())),
            Some(held) if kinds(held) != kinds(trials) => {
                reasons.push(FailoverReason::OtherOperations(name.clone()));
            }
            Some(_) => {}
        }
    }
    reasons
}

fn kinds<'a>(trials: &[&'a Trial]) -> Vec<&'a Kind> {
    let mut kinds: Vec<&Kind> = Vec::new();
    for audit in trials.iter().flat_map(|trial| &trial.audits) {
        if !kinds.contains(&&audit.kind) {
            kinds.push(&audit.kind);
        }
    }
    kinds
}

/// Whether the repetitions are too few for an interval.
fn too_few(trials: &[&Trial]) -> bool {
    interval::of_median(&vec![0.0; trials.len()], ALPHA).is_none()
}

/// The reason why repetitions of two records give no verdict.
fn unjudged(was: usize, is: usize) -> Grounds {
    Grounds::Repetitions(RepetitionGrounds::Few(was.min(is)))
}

/// A time in each repetition, and whether a load ended before one of them.
struct Times {
    ns: Vec<f64>,
    is_open: bool,
}

impl Times {
    /// `None` if it was not measured in every repetition.
    fn of(metric: Metric, trials: &[&Trial]) -> Option<Self> {
        let times = trials.iter().map(|trial| time_of_trial(metric, trial));
        let times = times.collect::<Option<Vec<(u64, bool)>>>()?;
        Some(Self {
            // At least one nanosecond, for the logarithm.
            ns: times.iter().map(|(ns, _)| (*ns).max(1) as f64).collect(),
            is_open: times.iter().any(|(_, is_open)| *is_open),
        })
    }
}

/// The verdict about a time; `None` if neither record has it.
fn time_row(
    name: &str,
    metric: Metric,
    held: &[&Trial],
    trials: &[&Trial],
    step_ns: f64,
) -> Option<JudgedRow> {
    let (was, is) = (Times::of(metric, held), Times::of(metric, trials));
    let mut row = Row {
        baseline: was.as_ref().and_then(|times| median(&times.ns)),
        candidate: is.as_ref().and_then(|times| median(&times.ns)),
        ..Row::unknown(name, metric)
    };
    let (was, is) = match (was, is) {
        (None, None) => return None,
        (Some(was), Some(is)) => (was, is),
        _ => {
            row.evidence = Grounds::Repetitions(RepetitionGrounds::NotInEach);
            return Some(row);
        }
    };
    row.ratio = row.candidate.zip(row.baseline).map(|(is, was)| is / was);
    let intervals = interval::of_median(&was.ns, ALPHA).zip(interval::of_median(&is.ns, ALPHA));
    let Some((a, b)) = intervals else {
        row.evidence = unjudged(was.ns.len(), is.ns.len());
        return Some(row);
    };
    // Where a load ended first, the time is only known to be longer.
    let lo = (!was.is_open).then(|| (b.lo / (a.hi + step_ns)).ln());
    let hi = (!is.is_open).then(|| ((b.hi + step_ns) / a.lo).ln());
    (row.lo, row.hi) = (lo.map(exp), hi.map(exp));
    let ratio = row.ratio.unwrap_or(1.0);
    let (verdict, grounds) = time_verdict(lo, hi, ratio);
    (row.verdict, row.evidence) = (verdict, Grounds::Repetitions(grounds));
    Some(row)
}

/// The verdict from the bounds of the logarithm of the ratio, where they are known, and the ratio of the medians.
fn time_verdict(lo: Option<f64>, hi: Option<f64>, ratio: f64) -> (RowVerdict, RepetitionGrounds) {
    let thresholds = Thresholds::default();
    let margin = thresholds.margin.ln_1p();
    if let Some(lo) = lo.filter(|lo| *lo > margin) {
        let verdict = if lo >= thresholds.critical.ln_1p() {
            RowVerdict::Critical
        } else if ratio >= 1.0 + thresholds.warning {
            RowVerdict::Warning
        } else {
            RowVerdict::Slower
        };
        return (verdict, RepetitionGrounds::Longer(exp(lo) - 1.0));
    }
    match (lo, hi) {
        (_, Some(hi)) if hi < -margin => {
            let least = 1.0 - exp(hi);
            (RowVerdict::Faster, RepetitionGrounds::Shorter(least))
        }
        (_, Some(hi)) if hi < DOUBLED.ln() => {
            let most = exp(hi) - 1.0;
            (
                RowVerdict::Equivalent,
                RepetitionGrounds::AtMostLonger(most),
            )
        }
        (Some(_), Some(_)) => (RowVerdict::Inconclusive, RepetitionGrounds::Varying),
        _ => (RowVerdict::Inconclusive, RepetitionGrounds::LoadEnded),
    }
}

/// The verdict about a number of writes.
fn count_row(
    name: &str,
    metric: Metric,
    of: fn(&Trial) -> u64,
    held: &[&Trial],
    trials: &[&Trial],
) -> JudgedRow {
    let counts =
        |trials: &[&Trial]| -> Vec<f64> { trials.iter().map(|trial| of(trial) as f64).collect() };
    let (was, is) = (counts(held), counts(trials));
    let row = Row {
        baseline: median(&was),
        candidate: median(&is),
        ..Row::unknown(name, metric)
    };
    let (before, after): (f64, f64) = (was.iter().sum(), is.iter().sum());
    let intervals = interval::of_median(&was, ALPHA).zip(interval::of_median(&is, ALPHA));
    let (verdict, evidence) = match intervals {
        // What a client never does needs no repetitions.
        _ if metric == Metric::Twice && before == 0.0 && after > 0.0 => (
            RowVerdict::Critical,
            Grounds::Repetitions(RepetitionGrounds::NewlyTwice(after)),
        ),
        None => (RowVerdict::Inconclusive, unjudged(was.len(), is.len())),
        Some((a, b)) => {
            let (verdict, grounds) = count_verdict(&a, &b, before + after == 0.0);
            (verdict, Grounds::Repetitions(grounds))
        }
    };
    Row {
        verdict,
        evidence,
        ..row
    }
}

fn count_verdict(
    a: &MedianInterval,
    b: &MedianInterval,
    is_none: bool,
) -> (RowVerdict, RepetitionGrounds) {
    let critical = 1.0 + Thresholds::default().critical;
    if is_none {
        (RowVerdict::Equivalent, RepetitionGrounds::NoWrite)
    } else if b.lo > a.hi * critical {
        let grounds = RepetitionGrounds::More(b.lo, a.hi);
        (RowVerdict::Critical, grounds)
    } else if b.hi < a.lo {
        let grounds = RepetitionGrounds::AtMost(b.hi, a.lo);
        (RowVerdict::Faster, grounds)
    } else if b.hi < a.lo * DOUBLED {
        let grounds = RepetitionGrounds::AtMost(b.hi, a.lo);
        (RowVerdict::Equivalent, grounds)
    } else {
        (RowVerdict::Inconclusive, RepetitionGrounds::Varying)
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::failover::{Audit, Clocks, Fault, Gap, Loss};
    use crate::gate::judgement::Outcome;
    use crate::gate::records;
    use crate::record::{Answer, Environment, Run};
    use crate::work::WorkRules;

    const MS: u64 = 1_000_000;

    /// A trial whose outage lasts for about `ms`, half shorter or longer at most.
    fn trial(rng: &mut SmallRng, ms: u64, twice: u64) -> Trial {
        let ns = rng.random_range(ms * MS * 3 / 4..=ms * MS * 5 / 4);
        Trial {
            fault: Fault::Cut,
            audits: vec![Audit {
                kind: Kind::Incr,
                sent: 1_000,
                acknowledged: 1_000,
                twice: Some(twice),
                ..Audit::default()
            }],
            clocks: Clocks {
                fault_ns: 500 * MS,
                end_ns: 9_000 * MS,
                first_write_ns: Some(ns),
                outage: Some(Gap {
                    from_ns: 500 * MS,
                    to_ns: 500 * MS + ns,
                    ..Gap::default()
                }),
                ..Clocks::default()
            },
            ..Trial::default()
        }
    }

    fn record(trials: Vec<Trial>) -> Record {
        let mut record = Record::new(Run::default(), Environment::default());
        record.answer = Answer::Failover(Failover {
            rate: 2_000,
            writers: 6,
            trials,
            ..Failover::default()
        });
        record
    }

    fn repeated(rng: &mut SmallRng, times: usize, ms: u64) -> Record {
        record((0..times).map(|_| trial(rng, ms, 0)).collect())
    }

    fn judged(before: &Record, after: &Record) -> Judged {
        records::judge(before, after, &WorkRules::default())
    }

    #[test]
    fn doubled_outage_is_found_in_100_of_100_and_in_none_of_100_equal_ones() {
        for seed in 0..100 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let before = repeated(&mut rng, 8, 1_000);
            let same = judged(&before, &repeated(&mut rng, 8, 1_000));
            assert_eq!(same.outcome, Outcome::None, "{seed}: {same:#?}");
            let doubled = judged(&before, &repeated(&mut rng, 8, 2_100));
            assert_eq!(doubled.outcome, Outcome::Critical, "{seed}: {doubled:#?}");
            assert_eq!(doubled.exit_code(false), 2);
        }
    }

    #[test]
    fn planted_losses_are_found_in_100_of_100_and_equal_ones_alarm_in_none() {
        let losing = |rng: &mut SmallRng, count: u64| {
            let trials = (0..8).map(|_| {
                let mut trial = trial(rng, 1_000, 0);
                let count = rng.random_range(count * 9 / 10..=count * 11 / 10);
                trial.audits[0].loss = (count > 0).then(|| Loss {
                    count,
                    ..Loss::default()
                });
                trial
            });
            record(trials.collect())
        };
        for seed in 0..100 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let (none, some) = (losing(&mut rng, 0), losing(&mut rng, 100));
            let (same, more) = (losing(&mut rng, 100), losing(&mut rng, 200));
            for (before, after, outcome) in [
                (&none, &none, Outcome::None),
                (&some, &same, Outcome::None),
                (&some, &none, Outcome::None),
                (&none, &some, Outcome::Critical),
                (&some, &more, Outcome::Critical),
            ] {
                let judgement = judged(before, after);
                assert_eq!(judgement.outcome, outcome, "{seed}: {judgement:#?}");
            }
        }
    }

    #[test]
    fn one_repetition_says_that_it_cannot_be_judged_and_never_alarms() {
        let mut rng = SmallRng::seed_from_u64(1);
        let (before, after) = (repeated(&mut rng, 1, 100), repeated(&mut rng, 1, 5_000));
        let judgement = judged(&before, &after);
        assert_eq!(judgement.outcome, Outcome::Inconclusive);
        for row in &judgement.rows {
            assert_eq!(row.evidence, unjudged(1, 8));
        }
        let note = Reason::Failovers(FailoverReason::FewRepetitions);
        assert_eq!(judgement.notes[0], note);
        assert_eq!(
            (judgement.exit_code(false), judgement.exit_code(true)),
            (0, 3)
        );
    }

    #[test]
    fn times_that_vary_too_much_are_no_all_clear_though_nothing_was_lost() {
        let mut rng = SmallRng::seed_from_u64(5);
        let mut varied = || {
            let trials = [100, 5_000].repeat(4);
            record(
                trials
                    .into_iter()
                    .map(|ms| trial(&mut rng, ms, 0))
                    .collect(),
            )
        };
        let judgement = judged(&varied(), &varied());
        assert_eq!(judgement.outcome, Outcome::Inconclusive, "{judgement:#?}");
        assert_eq!(judgement.reasons, [Reason::NoTime("cut".to_owned())]);
    }

    #[test]
    fn one_write_executed_twice_is_critical_without_repetitions() {
        let mut rng = SmallRng::seed_from_u64(2);
        let before = repeated(&mut rng, 1, 100);
        let judgement = judged(&before, &record(vec![trial(&mut rng, 100, 1)]));
        assert_eq!(judgement.outcome, Outcome::Critical);
        let [Reason::Row(row)] = &judgement.reasons[..] else {
            panic!("{judgement:#?}");
        };
        let twice = Grounds::Repetitions(RepetitionGrounds::NewlyTwice(1.0));
        assert_eq!((row.metric, &row.evidence), (Metric::Twice, &twice));
    }

    #[test]
    fn load_that_ended_during_the_outage_bounds_it_from_below_only() {
        let mut rng = SmallRng::seed_from_u64(3);
        let closed = repeated(&mut rng, 8, 1_000);
        let mut trials: Vec<Trial> = (0..8).map(|_| trial(&mut rng, 3_000, 0)).collect();
        for trial in &mut trials {
            trial.clocks.outage.as_mut().unwrap().is_open = true;
        }
        let open = record(trials);
        let verdict = |judgement: &Judged| {
            let mut rows = judgement.rows.iter();
            rows.find(|row| row.metric == Metric::Outage)
                .unwrap()
                .verdict
        };
        assert_eq!(verdict(&judged(&closed, &open)), RowVerdict::Critical);
        // It was longer than 3 s before: 1 s is certainly shorter.
        assert_eq!(verdict(&judged(&open, &closed)), RowVerdict::Faster);
        assert_eq!(verdict(&judged(&open, &open)), RowVerdict::Inconclusive);
    }

    #[test]
    fn other_faults_loads_and_topologies_are_refused() {
        let mut rng = SmallRng::seed_from_u64(4);
        let before = repeated(&mut rng, 8, 1_000);
        let mut other = trial(&mut rng, 1_000, 0);
        other.fault = Fault::Reset;
        let judgement = judged(&before, &record(vec![other]));
        assert!(judgement.refused && judgement.exit_code(false) == 3);
        assert_eq!(
            judgement.reasons,
            [(Side::First, "cut"), (Side::Second, "reset")].map(|(side, fault)| {
                Reason::Failovers(FailoverReason::OneSided(side, fault.to_owned()))
            })
        );
        let judgement = judged(
            &before,
            &Record::new(Run::default(), Environment::default()),
        );
        assert!(judgement.refused, "{judgement:#?}");
    }
}
