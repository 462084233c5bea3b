//! Interleaves the blocks of several subjects, so that disturbances affect all of them.

use std::time::{Duration, Instant};

use loadline_measure::corrected::Corrected;
use loadline_measure::steady;
use rand::seq::SliceRandom;
use rand::{SeedableRng, rngs::SmallRng};

use crate::outcome::Outcome;
use crate::pacing::Stop;
use crate::windows::Windows;
use crate::{Control, Error};

/// Slices of a warm-up; their medians determine its end.
const WARMUP_SLICES: u32 = 2 * steady::WINDOW as u32;
/// A warm-up that does not become steady is extended up to this multiple of its planned length.
const WARMUP_PATIENCE: u32 = 3;

/// Something that performs operations in blocks.
pub trait Subject {
    /// Runs one block that ends by `stop`; `seed` determines its arrivals.
    ///
    /// # Errors
    /// If the block could not be run to its end.
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error>;

    /// Measures single operations, one at a time, with their CPU waiting time. Called after every block of a
    /// round, and never in a warm-up; `None` if the subject cannot measure it.
    ///
    /// # Errors
    /// If the operations could not be run.
    fn tail(&mut self, _control: &Control) -> Result<Option<Corrected>, Error> {
        Ok(None)
    }

    /// Runs an open loop over all rounds without a pause, if this subject can: rounds that end by `stops` are windows
    /// of one schedule. Calls `next` at the end of each window but the last. Only called for a subject that has its
    /// rounds to itself.
    fn windows(
        &mut self,
        _stops: &[Stop],
        _seed: u64,
        _control: &Control,
        _next: &mut dyn FnMut(),
    ) -> Option<Windows> {
        None
    }
}

/// The layout of the blocks of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounds {
    /// The stop rule of each round.
    pub stops: Vec<Stop>,
    /// The warm-up of each subject; zero for none.
    pub warmup: Duration,
    /// Determines the order of subjects in each round.
    pub order: u64,
    /// Determines the arrivals.
    pub seed: u64,
}

/// The measurements of one subject.
#[derive(Debug, Default)]
pub struct Measured {
    /// The blocks, in the order of the rounds.
    pub blocks: Vec<Outcome>,
    /// The duration of the warm-up.
    pub warmup: Duration,
    /// Whether the medians of the warm-up stopped shifting; `None` without a warm-up.
    pub steady: Option<bool>,
}

/// A run that ended early because of a subject, with the measurements so far.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Broken {
    /// The error.
    #[source]
    pub error: Error,
    /// The index of the subject.
    pub subject: usize,
    /// The round of the error, from 0; `None` in the warm-up.
    pub round: Option<usize>,
    /// The rounds that all subjects completed. Empty if the warm-up was not complete.
    pub measured: Vec<Measured>,
}

impl Broken {
    fn new(
        error: Error,
        subject: usize,
        round: Option<usize>,
        mut measured: Vec<Measured>,
    ) -> Box<Self> {
        for one in &mut measured {
            one.blocks.truncate(round.unwrap_or(0));
        }
        Box::new(Self {
            error,
            subject,
            round,
            measured,
        })
    }
}

impl From<Box<Broken>> for Error {
    fn from(broken: Box<Broken>) -> Self {
        broken.error
    }
}

/// The runner's next step, for an observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Subject `subject` is warmed up.
    WarmUp {
        /// The index of the subject.
        subject: usize,
    },
    /// A block begins.
    Begin {
        /// The index of the subject.
        subject: usize,
        /// The round, from 0.
        round: usize,
    },
    /// A block has ended.
    End,
}

/// Warms up every subject, then runs one block of each per round, in random order, until all rounds are done
/// or `enough` returns true. The rounds of a single subject in an open loop are windows of one schedule, all of which
/// are run. An interrupt ends it after the current block. An interrupted round counts,
/// because rounds are stored per subject and comparisons use those that all subjects have.
///
/// # Errors
/// The first error of a subject, with the rounds that all subjects had completed before it: they are as valid
/// as those of a shorter run.
pub fn run(
    subjects: &mut [&mut dyn Subject],
    rounds: &Rounds,
    control: &Control,
    observe: &mut dyn FnMut(Event),
    enough: &dyn Fn(&[Measured]) -> bool,
) -> Result<Vec<Measured>, Box<Broken>> {
    let mut measured = Vec::with_capacity(subjects.len());
    for (subject, warmed) in subjects.iter_mut().enumerate() {
        observe(Event::WarmUp { subject });
        match warm_up(*warmed, rounds, control) {
            Ok(warm) => measured.push(warm),
            Err(error) => return Err(Broken::new(error, subject, None, measured)),
        }
    }
    if let [subject] = subjects
        && let Some(measured) = windows(*subject, rounds, control, observe, &mut measured)
    {
        return measured;
    }
    let mut rng = SmallRng::seed_from_u64(rounds.order);
    let mut order: Vec<usize> = (0..subjects.len()).collect();
    for (round, stop) in rounds.stops.iter().enumerate() {
        order.shuffle(&mut rng);
        for &subject in &order {
            observe(Event::Begin { subject, round });
            if control.interrupted() {
                return Ok(measured);
            }
            let seed = rounds.seed ^ round as u64;
            match block(subjects[subject], *stop, seed, control) {
                Ok(outcome) => measured[subject].blocks.push(outcome),
                Err(error) => return Err(Broken::new(error, subject, Some(round), measured)),
            }
            observe(Event::End);
        }
        if enough(&measured) {
            break;
        }
    }
    Ok(measured)
}

/// Runs the rounds of the only subject as windows of one schedule; `None` if it cannot.
fn windows(
    subject: &mut dyn Subject,
    rounds: &Rounds,
    control: &Control,
    observe: &mut dyn FnMut(Event),
    measured: &mut Vec<Measured>,
) -> Option<Result<Vec<Measured>, Box<Broken>>> {
    if rounds.stops.is_empty() || control.interrupted() {
        return None;
    }
    let mut round = 0;
    observe(Event::Begin { subject: 0, round });
    if control.interrupted() {
        return Some(Ok(std::mem::take(measured)));
    }
    let windows = subject.windows(&rounds.stops, rounds.seed, control, &mut || {
        observe(Event::End);
        round += 1;
        observe(Event::Begin { subject: 0, round });
    })?;
    observe(Event::End);
    let complete = windows.outcomes.len();
    measured[0].blocks = windows.outcomes;
    Some(match windows.error {
        None => Ok(std::mem::take(measured)),
        Some(error) => Err(Broken::new(
            error,
            0,
            Some(complete),
            std::mem::take(measured),
        )),
    })
}

/// Runs a block, and single operations directly after it.
fn block(
    subject: &mut dyn Subject,
    stop: Stop,
    seed: u64,
    control: &Control,
) -> Result<Outcome, Error> {
    let mut outcome = subject.block(stop, seed, control)?;
    outcome.tail = subject.tail(control)?;
    Ok(outcome)
}

fn warm_up(
    subject: &mut dyn Subject,
    rounds: &Rounds,
    control: &Control,
) -> Result<Measured, Error> {
    let start = Instant::now();
    let mut medians = Vec::new();
    let slice = Stop::after(rounds.warmup / WARMUP_SLICES);
    while !rounds.warmup.is_zero() && !control.interrupted() {
        let outcome = subject.block(slice, rounds.seed ^ medians.len() as u64, control)?;
        medians.extend(outcome.response.value_at(0.5).map(|ns| ns as f64));
        let steady = steady::steady_from(&medians).is_some();
        if steady || start.elapsed() >= rounds.warmup * WARMUP_PATIENCE {
            return Ok(Measured {
                blocks: Vec::new(),
                warmup: start.elapsed(),
                steady: Some(steady),
            });
        }
    }
    Ok(Measured {
        blocks: Vec::new(),
        warmup: start.elapsed(),
        steady: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records when it was called; the test determines its times.
    struct Fake<'l> {
        name: char,
        log: &'l std::cell::RefCell<String>,
        medians: std::vec::IntoIter<u64>,
    }

    impl Subject for Fake<'_> {
        fn block(&mut self, _: Stop, _: u64, _: &Control) -> Result<Outcome, Error> {
            self.log.borrow_mut().push(self.name);
            let mut outcome = Outcome::empty();
            outcome
                .response
                .record_n(self.medians.next().unwrap_or(1_000), 1_000);
            Ok(outcome)
        }

        fn tail(&mut self, _: &Control) -> Result<Option<Corrected>, Error> {
            self.log.borrow_mut().push(self.name.to_ascii_uppercase());
            Ok(Some(Corrected::default()))
        }
    }

    fn rounds(count: usize, warmup: Duration) -> Rounds {
        Rounds {
            stops: vec![Stop::after_ops(1); count],
            warmup,
            order: 4,
            seed: 4,
        }
    }

    #[test]
    fn every_round_runs_each_subject_once_in_changing_order() {
        let log = std::cell::RefCell::new(String::new());
        let mut a = Fake {
            name: 'a',
            log: &log,
            medians: vec![].into_iter(),
        };
        let mut b = Fake {
            name: 'b',
            log: &log,
            medians: vec![].into_iter(),
        };
        let measured = run(
            &mut [&mut a, &mut b],
            &rounds(20, Duration::ZERO),
            &Control::default(),
            &mut |_| {},
            &|_| false,
        )
        .unwrap();
        assert_eq!(
            measured.iter().map(|m| m.blocks.len()).collect::<Vec<_>>(),
            [20, 20]
        );
        assert!(measured.iter().all(|m| m.steady.is_none()));
        let log = log.into_inner();
        let pairs: Vec<&str> = (0..20)
            .map(|round| &log[4 * round..4 * round + 4])
            .collect();
        // Each subject's tail directly follows its block.
        assert!(
            pairs.iter().all(|pair| *pair == "aAbB" || *pair == "bBaA"),
            "{pairs:?}"
        );
        assert!(
            pairs.contains(&"aAbB") && pairs.contains(&"bBaA"),
            "{pairs:?}"
        );
        let tails = measured.iter().flat_map(|of| &of.blocks);
        assert!(tails.into_iter().all(|block| block.tail.is_some()));
    }

    #[test]
    fn warm_up_ends_where_medians_stop_shifting() {
        let log = std::cell::RefCell::new(String::new());
        let falling: Vec<u64> = (0..8).map(|slice| 100_000 - slice * 12_000).collect();
        let mut subject = Fake {
            name: 'a',
            log: &log,
            medians: falling.into_iter(),
        };
        let measured = run(
            &mut [&mut subject],
            &rounds(0, Duration::from_secs(3_600)),
            &Control::default(),
            &mut |_| {},
            &|_| false,
        )
        .unwrap();
        assert_eq!(measured[0].steady, Some(true));
        let slices = log.into_inner().len();
        assert!((11..=20).contains(&slices), "{slices} slices");
    }

    /// Fails in the block that the test selects.
    struct Failing {
        blocks: usize,
        fails_at: usize,
    }

    impl Subject for Failing {
        fn block(&mut self, _: Stop, _: u64, _: &Control) -> Result<Outcome, Error> {
            self.blocks += 1;
            if self.blocks > self.fails_at {
                return Err(Error::Subject("gone".into()));
            }
            Ok(Outcome::empty())
        }
    }

    #[test]
    fn rounds_that_were_finished_come_back_with_the_error() {
        let failing = |fails_at| Failing {
            blocks: 0,
            fails_at,
        };
        let (mut good, mut bad) = (failing(usize::MAX), failing(7));
        let run = |subjects: &mut [&mut dyn Subject], warmup| {
            let rounds = rounds(20, warmup);
            run(subjects, &rounds, &Control::default(), &mut |_| {}, &|_| {
                false
            })
        };
        let broken = run(&mut [&mut good, &mut bad], Duration::ZERO).unwrap_err();
        assert_eq!((broken.subject, broken.round), (1, Some(7)));
        assert_eq!(broken.to_string(), "gone");
        // The eighth block of the working subject has no partner.
        let blocks: Vec<usize> = broken.measured.iter().map(|of| of.blocks.len()).collect();
        assert_eq!(blocks, [7, 7]);

        let (mut good, mut bad) = (failing(usize::MAX), failing(0));
        let broken = run(&mut [&mut good, &mut bad], Duration::from_millis(2)).unwrap_err();
        assert_eq!((broken.subject, broken.round), (1, None));
        assert!(broken.measured.iter().all(|of| of.blocks.is_empty()));
    }

    #[test]
    fn interrupt_ends_the_rounds() {
        let log = std::cell::RefCell::new(String::new());
        let mut subject = Fake {
            name: 'a',
            log: &log,
            medians: vec![].into_iter(),
        };
        let control = Control::default();
        let mut ended = 0;
        let measured = run(
            &mut [&mut subject],
            &rounds(10, Duration::ZERO),
            &control,
            &mut |event| {
                ended += usize::from(event == Event::End);
                if ended == 3 {
                    control
                        .interrupt
                        .store(true, std::sync::atomic::Ordering::Relaxed);
                }
            },
            &|_| false,
        )
        .unwrap();
        assert_eq!(measured[0].blocks.len(), 3);
    }

    /// Runs its rounds as windows, some of which are over when it fails or ends.
    struct Windowed {
        over: usize,
        error: Option<Error>,
    }

    impl Subject for Windowed {
        fn block(&mut self, _: Stop, _: u64, _: &Control) -> Result<Outcome, Error> {
            panic!("a block of its own")
        }

        fn windows(
            &mut self,
            stops: &[Stop],
            _: u64,
            _: &Control,
            next: &mut dyn FnMut(),
        ) -> Option<Windows> {
            (0..self.over.min(stops.len() - 1)).for_each(|_| next());
            Some(Windows {
                outcomes: (0..self.over).map(|_| Outcome::empty()).collect(),
                error: self.error.take(),
            })
        }
    }

    #[test]
    fn windows_are_observed_as_rounds_and_come_back_with_an_error() {
        for (over, error, begun) in [(5, None, 5), (3, None, 4), (2, Some("gone"), 3)] {
            let mut subject = Windowed {
                over,
                error: error.map(|error| Error::Subject(error.into())),
            };
            let (mut rounds_begun, mut ended) = (Vec::new(), 0);
            let result = run(
                &mut [&mut subject],
                &rounds(5, Duration::ZERO),
                &Control::default(),
                &mut |event| match event {
                    Event::Begin { round, .. } => rounds_begun.push(round),
                    Event::End => ended += 1,
                    Event::WarmUp { .. } => {}
                },
                &|_| false,
            );
            let measured = match result {
                Ok(measured) => {
                    assert_eq!(error, None);
                    measured
                }
                Err(broken) => {
                    assert_eq!(Some(broken.to_string().as_str()), error);
                    assert_eq!(broken.round, Some(over));
                    broken.measured
                }
            };
            assert_eq!(measured[0].blocks.len(), over);
            assert_eq!(rounds_begun, (0..begun).collect::<Vec<usize>>());
            assert_eq!(ended, begun);
        }
    }

    #[test]
    fn interrupt_before_the_first_window_runs_none() {
        let mut subject = Windowed {
            over: 5,
            error: None,
        };
        let control = Control::default();
        let interrupt = &control.interrupt;
        interrupt.store(true, std::sync::atomic::Ordering::Relaxed);
        let rounds = rounds(5, Duration::ZERO);
        let measured = run(&mut [&mut subject], &rounds, &control, &mut |_| {}, &|_| {
            false
        });
        assert!(measured.unwrap()[0].blocks.is_empty());
    }

    #[test]
    fn rounds_end_where_they_are_enough() {
        let log = std::cell::RefCell::new(String::new());
        let fake = |name| Fake {
            name,
            log: &log,
            medians: vec![].into_iter(),
        };
        let (mut a, mut b) = (fake('a'), fake('b'));
        let measured = run(
            &mut [&mut a, &mut b],
            &rounds(20, Duration::ZERO),
            &Control::default(),
            &mut |_| {},
            &|measured| measured[0].blocks.len() >= 4,
        )
        .unwrap();
        let blocks: Vec<usize> = measured.iter().map(|of| of.blocks.len()).collect();
        assert_eq!(blocks, [4, 4]);
    }
}
