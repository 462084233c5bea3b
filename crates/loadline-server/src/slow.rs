//! Commands and events that took long: the slow log, and the samples of LATENCY.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::settings::Settings;

/// The most words of a command in the slow log, and the most bytes of a word.
const MOST_WORDS: usize = 32;
const MOST_BYTES: usize = 128;

/// The most samples of an event.
const MOST_SAMPLES: usize = 160;

/// A command of the slow log.
#[derive(Debug)]
pub(crate) struct SlowCommand {
    pub(crate) id: u64,
    /// The time of its end, in seconds since the Unix epoch.
    pub(crate) at: u64,
    pub(crate) micros: u64,
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) address: String,
    pub(crate) name: Vec<u8>,
}

/// A sample of an event: the longest one of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// In seconds since the Unix epoch.
    pub(crate) at: u64,
    pub(crate) millis: u64,
}

/// The samples of an event, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    pub(crate) latest: VecDeque<Sample>,
    pub(crate) most_millis: u64,
}

impl Samples {
    fn add(&mut self, sample: Sample) {
        self.most_millis = self.most_millis.max(sample.millis);
        match self.latest.back_mut() {
            Some(last) if last.at == sample.at => last.millis = last.millis.max(sample.millis),
            _ => {
                if self.latest.len() == MOST_SAMPLES {
                    self.latest.pop_front();
                }
                self.latest.push_back(sample);
            }
        }
    }
}

/// What took long.
#[derive(Debug)]
pub(crate) struct Slow {
    /// The slow log, newest first.
    pub(crate) commands: VecDeque<SlowCommand>,
    next_id: u64,
    pub(crate) events: BTreeMap<&'static str, Samples>,
    logged_from: Option<Duration>,
    most_commands: usize,
    sampled_from: Option<Duration>,
}

impl Default for Slow {
    fn default() -> Self {
        let mut slow = Self {
            commands: VecDeque::new(),
            next_id: 0,
            events: BTreeMap::new(),
            logged_from: None,
            most_commands: 0,
            sampled_from: None,
        };
        slow.set(&Settings::default());
        slow
    }
}

impl Slow {
    /// Below this, a command is measured only from time to time, since it can hardly reach a limit.
    const RARE: Duration = Duration::from_millis(1);

    pub(crate) fn set(&mut self, settings: &Settings) {
        let micros = u64::try_from(settings.slowlog_log_slower_than).ok();
        self.logged_from = micros.map(Duration::from_micros);
        self.most_commands = usize::try_from(settings.slowlog_max_len).unwrap_or(usize::MAX);
        self.commands.truncate(self.most_commands);
        let millis = settings.latency_monitor_threshold;
        self.sampled_from = (millis > 0).then(|| Duration::from_millis(millis));
    }

    /// Whether every command has to be measured.
    #[inline]
    pub(crate) fn measures_all(&self) -> bool {
        self.logged_from.is_some_and(|limit| limit < Self::RARE)
    }

    /// Whether a command that took this long is noted.
    #[inline]
    pub(crate) fn is_noted(&self, took: Duration) -> bool {
        let reaches = |limit: &Option<Duration>| limit.is_some_and(|limit| took >= limit);
        reaches(&self.logged_from) || reaches(&self.sampled_from)
    }

    /// Adds a command to the slow log, if it took long enough.
    pub(crate) fn log(&mut self, took: Duration, command: impl FnOnce() -> SlowCommand) {
        if self.logged_from.is_none_or(|limit| took < limit) {
            return;
        }
        let id = self.next_id;
        self.next_id += 1;
        let micros = took.as_micros() as u64;
        self.commands.push_front(SlowCommand {
            id,
            micros,
            ..command()
        });
        self.commands.truncate(self.most_commands);
    }

    /// Adds a sample of an event, if it took long enough.
    pub(crate) fn sample(&mut self, event: &'static str, took: Duration, at: u64) {
        if self.sampled_from.is_some_and(|limit| took >= limit) {
            let millis = took.as_millis() as u64;
            self.events
                .entry(event)
                .or_default()
                .add(Sample { at, millis });
        }
    }
}

/// The words of a command as the slow log keeps them.
pub(crate) fn shortened(words: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if words.len() > MOST_WORDS {
        &words[..MOST_WORDS - 1]
    } else {
        words
    };
    let shorten = |word: &&[u8]| match word.len().checked_sub(MOST_BYTES) {
        None | Some(0) => word.to_vec(),
        Some(more) => {
            let end = format!("... ({more} more bytes)");
            [&word[..MOST_BYTES], end.as_bytes()].concat()
        }
    };
    let mut kept: Vec<Vec<u8>> = kept.iter().map(shorten).collect();
    if words.len() > MOST_WORDS {
        let more = words.len() - kept.len();
        kept.push(format!("... ({more} more arguments)").into_bytes());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_bounded_and_one_a_second() {
        let mut slow = Slow::default();
        slow.set(&Settings {
            latency_monitor_threshold: 10,
            ..Settings::default()
        });
        for (at, millis) in [(1, 20), (1, 30), (1, 25), (2, 9)] {
            slow.sample("command", Duration::from_millis(millis), at);
        }
        let samples = &slow.events["command"];
        assert_eq!(samples.latest, [Sample { at: 1, millis: 30 }]);
        for at in 0..1_000 {
            slow.sample("command", Duration::from_millis(11), at);
        }
        let samples = &slow.events["command"];
        assert_eq!(
            (samples.latest.len(), samples.most_millis),
            (MOST_SAMPLES, 30)
        );
    }
}
