//! Stored noise: measurements of real comparisons of a server with itself, as lines of text.
//!
//! A method can be tried repeatedly on the same noise, and two methods can be compared on it. Comparisons are
//! drawn whole, with their two equal subjects in either order. (Drawing single rounds would overstate the
//! precision of a comparison.) The usual gate, which compares the mean, p95 and p99 of a run with a stored
//! number, draws two runs. Baselines are drawn as in `loadline_measure::proof`.
//!
//! ```text
//! # a comment
//! run,STATE,NUMBER,A_MEAN,A_P95,A_P99,B_MEAN,B_P95,B_P99
//! round,STATE,NUMBER,A_P50,B_P50,REFERENCE_P50,A_TAIL,B_TAIL
//! ```
//!
//! All times are in nanoseconds. `STATE` describes the machine, `NUMBER` counts its runs; the rounds of a run
//! follow its line. `TAIL` is the corrected p99 of the round, 0 if there is none.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use loadline_measure::Metric;
use loadline_measure::compare::{self, Paired, Rules, Verdict, log_ratios};
use loadline_measure::gate::Measured;
use loadline_measure::metric::Direction;
use loadline_measure::proof::{Draw, Share};
use loadline_measure::quantile::median;
use loadline_measure::record::{Record, RoundSummary};

/// The ratio from which the usual gate raises an alarm.
const NAIVE_ALARM: f64 = 1.20;

/// Comparisons of a server with itself while the machine was in one state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Noise {
    /// The state of the machine, in a word.
    pub(crate) state: String,
    runs: Vec<Run>,
}

/// One comparison.
#[derive(Debug, Clone, PartialEq)]
struct Run {
    /// Mean, p95 and p99 of all operations, of either subject.
    whole: [[f64; 3]; 2],
    rounds: Vec<Round>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Round {
    p50: [f64; 2],
    reference: f64,
    tail: [f64; 2],
}

impl Noise {
    /// Parses the lines into one `Noise` per state, in the order of their first lines.
    ///
    /// # Errors
    /// A sentence about the first line of neither kind or with a value that is not above zero.
    pub(crate) fn parse(text: &str) -> Result<Vec<Self>, String> {
        let mut all: Vec<Self> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            read(line, &mut all).ok_or_else(|| {
                let number = index + 1;
                format!("Line {number} of the stored noise is neither a run nor a round of one with times above zero.")
            })?;
        }
        Ok(all)
    }

    /// The number of stored comparisons.
    pub(crate) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// The share of suites in which any case is called slower by its p50 in paired rounds, after Holm's correction.
    pub(crate) fn pairs(&self, draw: &Draw) -> Share {
        alarms_of(&self.ratios(|round| round.p50), draw)
    }

    /// The same by the corrected p99, for comparisons that have one in every round.
    pub(crate) fn tail_pairs(&self, draw: &Draw) -> Share {
        alarms_of(&self.ratios(|round| round.tail), draw)
    }

    /// The logarithms of the ratios, round by round, of every complete comparison.
    fn ratios(&self, values: impl Fn(&Round) -> [f64; 2]) -> Vec<Vec<f64>> {
        let of_run = |run: &Run| {
            let both = run.rounds.iter().map(&values);
            let (a, b): (Vec<f64>, Vec<f64>) = both.map(|[a, b]| (a, b)).unzip();
            log_ratios(&a, &b).ok()
        };
        self.runs.iter().filter_map(of_run).collect()
    }

    /// The values that a baseline would store for the first subject of every comparison: the medians over
    /// rounds of the logarithm of p50, with and without the reference.
    pub(crate) fn as_runs(&self) -> Vec<Measured> {
        let of_run = |run: &Run| {
            let over_rounds = |value: &dyn Fn(&Round) -> f64| {
                median(&run.rounds.iter().map(value).collect::<Vec<f64>>())
            };
            let normalised = over_rounds(&|round| (round.p50[0] / round.reference).ln())?;
            let own = over_rounds(&|round| round.p50[0].ln())?;
            Some(Measured {
                normalised_ln: Some(normalised),
                round_ln: Some(own),
                raw: own.exp(),
                rounds: 1,
            })
        };
        self.runs.iter().filter_map(of_run).collect()
    }

    /// The share of suites in which the usual gate raises an alarm: the mean, p95 or p99 of any case is 20 % above
    /// the number stored by another run.
    pub(crate) fn naive(&self, draw: &Draw) -> Share {
        let mut rng = SmallRng::seed_from_u64(draw.seed);
        let mut share = Share::default();
        if self.runs.len() < 2 {
            return share;
        }
        for _ in 0..draw.suites {
            let mut alarm = false;
            for _ in 0..draw.cases {
                let [stored, now] = rand::seq::index::sample(&mut rng, self.runs.len(), 2)
                    .into_vec()
                    .try_into()
                    .expect("two were asked for");
                let mut of = |run: usize| self.runs[run].whole[rng.random_range(0..2)];
                let pairs = of(stored).into_iter().zip(of(now));
                let planted = 1.0 + draw.planted;
                alarm |= pairs
                    .into_iter()
                    .any(|(stored, now)| now * planted > NAIVE_ALARM * stored);
            }
            share.of += 1;
            share.hits += u64::from(alarm);
        }
        share
    }
}

fn alarms_of(comparisons: &[Vec<f64>], draw: &Draw) -> Share {
    let mut rng = SmallRng::seed_from_u64(draw.seed);
    let rules = Rules::default();
    let mut share = Share::default();
    if comparisons.is_empty() {
        return share;
    }
    for _ in 0..draw.suites {
        let mut one = || {
            let rounds = comparisons.choose(&mut rng)?;
            let turn = if rng.random_bool(0.5) { 1.0 } else { -1.0 };
            let b: Vec<f64> = rounds
                .iter()
                .map(|d| (turn * d + draw.planted.ln_1p()).exp())
                .collect();
            compare::paired(&vec![1.0; b.len()], &b, Direction::LessIsBetter, &rules).ok()
        };
        let mut family: Vec<Paired> = (0..draw.cases).filter_map(|_| one()).collect();
        compare::correct_for_several(&mut family, rules.alpha);
        let alarm = family.iter().any(|case| case.verdict == Verdict::Slower);
        share.of += 1;
        share.hits += u64::from(alarm);
    }
    share
}

fn read(line: &str, all: &mut Vec<Noise>) -> Option<()> {
    let mut fields = line.split(',');
    let (kind, state, _number) = (fields.next()?, fields.next()?, fields.next()?);
    let figures: Vec<f64> = fields
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    let is_time = |figure: &f64| figure.is_finite() && *figure >= 0.0;
    if !figures.iter().all(is_time) {
        return None;
    }
    match kind {
        "run" => {
            let &[a_mean, a_p95, a_p99, b_mean, b_p95, b_p99] = figures.as_slice() else {
                return None;
            };
            let run = Run {
                whole: [[a_mean, a_p95, a_p99], [b_mean, b_p95, b_p99]],
                rounds: Vec::new(),
            };
            if run.whole.as_flattened().contains(&0.0) {
                return None;
            }
            match all.iter_mut().find(|noise| noise.state == state) {
                Some(noise) => noise.runs.push(run),
                None => all.push(Noise {
                    state: state.to_owned(),
                    runs: vec![run],
                }),
            }
        }
        "round" => {
            let &[a, b, reference, a_tail, b_tail] = figures.as_slice() else {
                return None;
            };
            if [a, b, reference].contains(&0.0) {
                return None;
            }
            let noise = all.iter_mut().find(|noise| noise.state == state)?;
            noise.runs.last_mut()?.rounds.push(Round {
                p50: [a, b],
                reference,
                tail: [a_tail, b_tail],
            });
        }
        _ => return None,
    }
    Some(())
}

/// The lines of a comparison of a server with itself, without the rounds in which a side was starved; `None`
/// for other records, and for one with too few operations for a p99.
pub(crate) fn lines(state: &str, number: usize, record: &Record) -> Option<String> {
    let [a, b] = record.cases.as_slice() else {
        return None;
    };
    let mut whole = Vec::new();
    for case in [a, b] {
        for metric in [Metric::Mean, Metric::P95, Metric::P99] {
            whole.push(format!("{:.0}", metric.of_case(case)?));
        }
    }
    let mut out = format!("run,{state},{number},{}\n", whole.join(","));
    let rounds = a.rounds.iter().zip(&b.rounds);
    for [a, b, reference, a_tail, b_tail] in rounds.filter_map(figures) {
        out.push_str(&format!(
            "round,{state},{number},{a},{b},{reference},{a_tail},{b_tail}\n"
        ));
    }
    Some(out)
}

fn figures((a, b): (&RoundSummary, &RoundSummary)) -> Option<[u64; 5]> {
    let tail = |round: &RoundSummary| round.tail.map_or(0, |tail| tail.corrected_ns_p99);
    Some([
        a.response_time_ns_p50?,
        b.response_time_ns_p50?,
        a.reference_ns_p50?,
        tail(a),
        tail(b),
    ])
}

#[cfg(test)]
mod tests {
    use loadline_measure::proof::of_baselines;

    use super::*;
    use crate::STORED;

    fn draw(planted: f64, cases: usize) -> Draw {
        Draw {
            planted,
            cases,
            baseline_runs: 8,
            suites: 200,
            seed: 5,
        }
    }

    fn normalised_of(noise: &Noise) -> f64 {
        noise.as_runs()[0].normalised_ln.unwrap()
    }

    fn busy() -> Noise {
        let all = Noise::parse(STORED).unwrap();
        let busy = all.into_iter().find(|noise| noise.state == "busy");
        busy.expect("the file holds runs of a busy machine")
    }

    #[test]
    fn usual_gate_raises_alarms_on_stored_noise_and_the_methods_here_do_not() {
        let busy = busy();
        let usual = busy.naive(&draw(0.0, 1)).value();
        assert!(usual > 0.2, "{usual}");
        assert_eq!(busy.pairs(&draw(0.0, 20)).hits, 0);
        assert_eq!(busy.tail_pairs(&draw(0.0, 20)).hits, 0);
        let baselines = of_baselines(&busy.as_runs(), &draw(0.0, 20)).unwrap();
        assert_eq!(baselines.hits, 0);
    }

    #[test]
    fn more_is_planted_in_stored_noise_the_more_is_found() {
        let busy = busy();
        let found = |planted: f64| busy.pairs(&draw(planted, 1)).value();
        let (little, more, much) = (found(0.0), found(0.20), found(2.0));
        assert!(little < more && more < much, "{little}, {more}, {much}");
        let usual = |planted: f64| busy.naive(&draw(planted, 1)).value();
        assert!(usual(0.20) >= usual(0.0));
    }

    #[test]
    fn lines_are_read_by_state_and_bad_ones_are_named() {
        let text = "# noise\nrun,idle,1,10,20,30,11,21,31\nround,idle,1,8,9,5,0,0\nround,idle,1,8,8,4,7,7\n\nrun,busy,1,1,2,3,4,5,6\n";
        let all = Noise::parse(text).unwrap();
        let states: Vec<(&str, usize)> = all
            .iter()
            .map(|noise| (noise.state.as_str(), noise.runs()))
            .collect();
        assert_eq!(states, [("idle", 1), ("busy", 1)]);
        let ratios = all[0].ratios(|round| round.p50);
        assert!((ratios[0][0] - 1.125_f64.ln()).abs() < 1e-12 && ratios[0][1] == 0.0);
        let tails = all[0].ratios(|round| round.tail);
        assert!(tails.is_empty(), "a round has none");
        let normalised = f64::midpoint((8.0_f64 / 5.0).ln(), 2.0_f64.ln());
        assert!((normalised_of(&all[0]) - normalised).abs() < 1e-12);
        for bad in [
            "round,idle,1,8,9,5,0,0",
            "run,idle,1,10,20,30,11,21",
            "run,idle,1,0,20,30,11,21,31",
            "run,idle,1,x,20,30,11,21,31",
            "run,idle,1,inf,20,30,11,21,31",
            "other,idle,1,1,2,3,4,5,6",
            "run",
        ] {
            let error = Noise::parse(&format!("# one\n{bad}\n")).unwrap_err();
            assert!(error.starts_with("Line 2 of"), "{bad}: {error}");
        }
    }

    #[test]
    fn what_a_record_is_written_as_is_read_back() {
        use loadline_measure::record::{Case, Environment, Run as Head};
        let case = |p50: u64| {
            let mut case = Case::default();
            let times = &mut case.response_time_ns;
            (times.mean, times.p95, times.p99) = (Some(1.5e5), Some(2 * p50), Some(3 * p50));
            case.rounds = vec![
                RoundSummary {
                    response_time_ns_p50: Some(p50),
                    reference_ns_p50: Some(40_000),
                    ..RoundSummary::default()
                };
                3
            ];
            case
        };
        let mut record = Record::new(Head::default(), Environment::default());
        record.cases = vec![case(100_000)];
        assert_eq!(lines("idle", 1, &record), None, "it is of one subject");
        record.cases.push(case(110_000));
        let read = Noise::parse(&lines("idle", 1, &record).unwrap()).unwrap();
        let ratios = read[0].ratios(|round| round.p50);
        assert_eq!(ratios[0].len(), 3);
        assert!((ratios[0][0] - 1.1_f64.ln()).abs() < 1e-12);
        assert!((normalised_of(&read[0]) - 2.5_f64.ln()).abs() < 1e-12);
        record.cases[1].rounds[2].response_time_ns_p50 = None;
        let read = Noise::parse(&lines("idle", 1, &record).unwrap()).unwrap();
        let ratios = read[0].ratios(|round| round.p50);
        assert_eq!(ratios[0].len(), 2, "a round of one side is no pair");
        record.cases[0].response_time_ns.p99 = None;
        assert_eq!(lines("idle", 1, &record), None);
    }
}
