//! Faults of a running proxy: their beginning, their end, and the steps of a script.

use std::time::{Duration, Instant};

use crate::Error;
use crate::fault::Fault;
use crate::l4::Occurrence;
use crate::l4::engine::{Engine, Lasting};
use crate::l4::pair::{Flow, Pair};
use crate::script::{Action, Progress, Scope};

/// The time until an address that another socket has taken is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(10);

impl Engine {
    /// Begins a fault of all pairs or of one.
    ///
    /// # Errors
    /// As [`Engine::settle`].
    pub(super) fn begin(
        &mut self,
        fault: Fault,
        pair: Option<u64>,
        until: Option<Instant>,
        occurrence: Option<usize>,
    ) -> Result<(), Error> {
        match fault {
            Fault::Cut => self.each(pair, Pair::cut),
            Fault::HalfOpen => self.each(pair, Pair::half_open),
            Fault::BlackHole => self.each(pair, Pair::vanish),
            Fault::Reset => self.ids(pair).into_iter().for_each(|id| self.reset(id)),
            Fault::Freeze | Fault::Refuse | Fault::SlowClose { .. } | Fault::Delay { .. } => {}
        }
        if !fault.is_lasting() {
            self.note_end(occurrence);
            return Ok(());
        }
        self.lasting.push(Lasting {
            fault,
            pair,
            until,
            occurrence,
        });
        self.settle()
    }

    /// Ends all lasting faults.
    pub(super) fn clear(&mut self) -> Result<(), Error> {
        self.end(|_| true)
    }

    /// Acts on the time: ends faults that are over, and begins those that are due.
    pub(super) fn keep_time(&mut self) {
        if self.lasting.is_empty() && self.staging.is_none() {
            return;
        }
        let now = Instant::now();
        let is_over = |lasting: &Lasting| lasting.until.is_some_and(|until| until <= now);
        if self.lasting.iter().any(is_over) && self.end(is_over).is_err() {
            // Another socket has taken the address meanwhile.
            self.lasting.push(Lasting {
                fault: Fault::Refuse,
                pair: None,
                until: Some(now + TRY_AGAIN),
                occurrence: None,
            });
        }
        if let (Some(staging), Some(progress)) = (&self.staging, &mut self.path.flow.progress) {
            for step in progress.at(now.saturating_duration_since(staging.started)) {
                self.act(step, None);
            }
        }
    }

    /// The time of the next end or beginning.
    pub(super) fn next_fault(&self) -> Option<Instant> {
        let started = self.staging.as_ref().map(|staging| staging.started);
        let progress = self.path.flow.progress.as_ref();
        let begins = started
            .zip(progress.and_then(Progress::next_time))
            .map(|(started, time)| started + time);
        let ends = self.lasting.iter().filter_map(|lasting| lasting.until);
        ends.chain(begins).min()
    }

    /// Acts on a step of the script, which is due at a message of `pair` or at a time.
    pub(super) fn act(&mut self, step: usize, pair: Option<u64>) {
        let now = Instant::now();
        let occurrence = self.parts.counters.note(Occurrence {
            step,
            began: now,
            ended: None,
        });
        let Some(progress) = &self.path.flow.progress else {
            return;
        };
        let step = progress.step(step);
        let (scope, until) = (step.scope, step.lasts.map(|lasts| now + lasts));
        let Action::Fault(fault) = step.action else {
            self.note_end(occurrence);
            return;
        };
        let pair = pair.filter(|_| scope == Scope::Connection);
        // Only an end can fail.
        let _ = self.begin(fault, pair, until, occurrence);
    }

    /// Whether all pairs stand still.
    pub(super) fn is_still(&self) -> bool {
        let stops = |lasting: &&Lasting| matches!(lasting.fault, Fault::Freeze | Fault::BlackHole);
        let stopping = self.lasting.iter().filter(stops);
        stopping.into_iter().any(|lasting| lasting.pair.is_none())
    }

    fn end(&mut self, is_over: impl Fn(&Lasting) -> bool) -> Result<(), Error> {
        let (over, lasting) = self.lasting.iter().partition(|lasting| is_over(lasting));
        self.lasting = lasting;
        let over: Vec<Lasting> = over;
        for lasting in over {
            self.note_end(lasting.occurrence);
        }
        self.settle()?;
        // What was held moves on.
        self.busy.extend(self.pairs.keys());
        self.accept();
        Ok(())
    }

    fn note_end(&self, occurrence: Option<usize>) {
        if let Some(place) = occurrence {
            self.parts.counters.note_end(place, Instant::now());
        }
    }

    /// Brings the state of the proxy in line with the lasting faults.
    ///
    /// # Errors
    /// [`Error::Listen`] if connections are no longer refused, and the address has been taken by another socket.
    fn settle(&mut self) -> Result<(), Error> {
        let (mut delay, mut close_delay, mut refuses) = (Duration::ZERO, Duration::ZERO, false);
        self.pairs
            .values_mut()
            .for_each(|entry| entry.is_frozen = false);
        for lasting in &self.lasting {
            match (lasting.fault, lasting.pair) {
                (Fault::Refuse, _) => refuses = true,
                (Fault::Delay { delay: more }, _) => delay = delay.max(more),
                (Fault::SlowClose { delay: more }, _) => close_delay = close_delay.max(more),
                (Fault::Freeze, Some(id)) => {
                    if let Some(entry) = self.pairs.get_mut(&id) {
                        entry.is_frozen = true;
                    }
                }
                _ => {}
            }
        }
        self.path.flow.delay = delay;
        self.path.flow.close_delay = close_delay;
        for index in 0..self.endpoints.len() {
            if refuses {
                if let Some(mut listener) = self.endpoints[index].listener.take() {
                    listener.keep_file();
                }
            } else if self.endpoints[index].listener.is_none() {
                let address = self.endpoints[index].address.clone();
                self.endpoints[index].listener = Some(self.listen(index, &address)?);
            }
        }
        Ok(())
    }

    fn ids(&self, pair: Option<u64>) -> Vec<u64> {
        match pair {
            Some(id) => vec![id],
            None => self.pairs.keys().copied().collect(),
        }
    }

    fn each(&mut self, pair: Option<u64>, what: impl Fn(&mut Pair, &mut Flow)) {
        for id in self.ids(pair) {
            if let Some(entry) = self.pairs.get_mut(&id) {
                what(&mut entry.pair, &mut self.path.flow);
                // Data that is still to be read is discarded from now on.
                self.busy.push(id);
            }
        }
    }
}
