//! Blocks in interleaved rounds on a thread of their own: a call that gets no reply lasts as long as the client waits, and
//! after an interrupt that thread is given up. What was measured until then is kept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;
use loadline_load::runner::{self, Event, Measured, Rounds, Subject};
use loadline_load::{Control, Error};

use crate::exit::Failure;
use crate::interrupt::unless_given_up;
use crate::progress::Progress;
use crate::subjects::failure;

/// A subject whose blocks have details in addition to their outcome.
pub(super) trait Detailed: Subject + Send {
    type Details: Send;

    /// Takes the details of the last block, if it has any.
    fn take_details(&mut self) -> Option<Self::Details>;
}

/// The arms that are measured in the same rounds.
pub(super) struct Blocks {
    /// Title of these rounds in the progress.
    pub(super) title: String,
    /// The names of the subjects, in their order.
    pub(super) names: Vec<String>,
    pub(super) rounds: Rounds,
    pub(super) progress: Arc<Progress>,
}

/// The results of some rounds.
pub(super) struct Ran<D> {
    /// Of each subject.
    pub(super) measured: Vec<Measured>,
    /// Of each block of each subject that has details.
    pub(super) details: Vec<Vec<D>>,
    /// Failure that ended the rounds early, other than an interrupt.
    pub(super) broken: Option<Failure>,
}

/// The results so far, which the measuring thread and the waiting one share.
struct SoFar<D> {
    measured: Vec<Measured>,
    details: Vec<Vec<D>>,
    /// Whether the warm-up is over.
    is_warm: bool,
}

type SharedSoFar<D> = Arc<Mutex<SoFar<D>>>;

fn lock<D>(so_far: &SharedSoFar<D>) -> MutexGuard<'_, SoFar<D>> {
    so_far.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A subject whose blocks are kept as soon as they end.
struct KeptBlocks<S: Detailed> {
    subject: S,
    place: usize,
    so_far: SharedSoFar<S::Details>,
}

impl<S: Detailed> Subject for KeptBlocks<S> {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        let outcome = self.subject.block(stop, seed, control)?;
        let details = self.subject.take_details();
        let mut so_far = lock(&self.so_far);
        if so_far.is_warm {
            so_far.measured[self.place].blocks.push(outcome.clone());
            so_far.details[self.place].extend(details);
        }
        Ok(outcome)
    }
}

impl Blocks {
    /// Runs the blocks of the subjects that `open` opens.
    ///
    /// # Errors
    /// Those of `open`, and an internal error if a thread cannot be started.
    pub(super) fn run<S: Detailed>(
        self,
        control: &Arc<Control>,
        open: impl FnOnce() -> Result<Vec<S>, Failure> + Send + 'static,
    ) -> Result<Ran<S::Details>, Failure>
    where
        S::Details: 'static,
    {
        let so_far = Arc::new(Mutex::new(SoFar {
            measured: self.names.iter().map(|_| Measured::default()).collect(),
            details: self.names.iter().map(|_| Vec::new()).collect(),
            is_warm: false,
        }));
        let (kept, own) = (Arc::clone(&so_far), Arc::clone(control));
        let broken = unless_given_up(control, move || self.measure(open()?, &kept, &own))?;
        let mut so_far = lock(&so_far);
        Ok(Ran {
            measured: std::mem::take(&mut so_far.measured),
            details: std::mem::take(&mut so_far.details),
            broken: broken.flatten(),
        })
    }

    /// Returns why the rounds ended early, other than by an interrupt.
    fn measure<S: Detailed>(
        &self,
        subjects: Vec<S>,
        so_far: &SharedSoFar<S::Details>,
        control: &Control,
    ) -> Result<Option<Failure>, Failure> {
        let subjects = subjects.into_iter().enumerate();
        let mut subjects: Vec<KeptBlocks<S>> = subjects
            .map(|(place, subject)| KeptBlocks {
                subject,
                place,
                so_far: Arc::clone(so_far),
            })
            .collect();
        let mut runnable: Vec<&mut dyn Subject> = subjects
            .iter_mut()
            .map(|subject| subject as &mut dyn Subject)
            .collect();
        let mut observe = |event| {
            if let Event::Begin { .. } = event {
                lock(so_far).is_warm = true;
            }
            self.show(event);
        };
        let ran = runner::run(&mut runnable, &self.rounds, control, &mut observe, &|_| {
            false
        });
        let (measured, broken) = match ran {
            Ok(measured) => (measured, None),
            Err(broken) => {
                let why = failure(&self.names[broken.subject], &broken.error);
                (broken.measured, Some(why))
            }
        };
        let mut so_far = lock(so_far);
        for (details, measured) in so_far.details.iter_mut().zip(&measured) {
            details.truncate(measured.blocks.len());
        }
        so_far.measured = measured;
        Ok(broken)
    }

    fn show(&self, event: Event) {
        let (title, progress) = (&self.title, &self.progress);
        match event {
            Event::WarmUp { subject } => {
                progress.begin(&format!("{title}: {} is warmed up", self.names[subject]));
            }
            Event::Begin { subject, round } => progress.begin(&format!(
                "{title}: {}, round {} of {}",
                self.names[subject],
                round + 1,
                self.rounds.stops.len()
            )),
            Event::End => progress.step(),
        }
    }
}
