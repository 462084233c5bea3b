//! The duration of an outage after which the consumer of a reader hears of it. No clock.

use std::time::{Duration, Instant};

use crate::{Config, Error};

/// The pause while a server loads its data.
const LOADING_PAUSE: Duration = Duration::from_millis(10);

/// Decides which errors of a reader are hidden from its consumer.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    limit: Duration,
    broken_since: Option<Instant>,
}

impl Patience {
    /// An outage can last for the response timeout.
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            limit: config.response_timeout.unwrap_or(Duration::MAX),
            broken_since: None,
        }
    }

    /// A request succeeded.
    pub(crate) fn recovered(&mut self) {
        self.broken_since = None;
    }

    /// The pause before the request is repeated; `None` if the consumer gets the error.
    pub(crate) fn retry(&mut self, error: &Error, now: Instant) -> Option<Duration> {
        let since = *self.broken_since.get_or_insert(now);
        if !passes(error) || now.saturating_duration_since(since) >= self.limit {
            self.broken_since = None;
            return None;
        }
        Some(match error {
            Error::Server(_) => LOADING_PAUSE,
            _ => Duration::ZERO,
        })
    }
}

/// Whether an error can pass. A request that was not even sent has waited for a connection for as long as it can;
/// a server that has just started loads its data first.
fn passes(error: &Error) -> bool {
    error.maybe_executed() || error.is_server_code("LOADING")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience() -> Patience {
        Patience {
            limit: Duration::from_secs(2),
            broken_since: None,
        }
    }

    fn closed(maybe_executed: bool) -> Error {
        Error::Closed { maybe_executed }
    }

    #[test]
    fn outage_is_hidden_until_the_limit_and_then_from_its_own_beginning() {
        let (mut patience, begun) = (patience(), Instant::now());
        let after = |ms| begun + Duration::from_millis(ms);
        assert_eq!(patience.retry(&closed(true), begun), Some(Duration::ZERO));
        assert_eq!(
            patience.retry(&closed(true), after(1999)),
            Some(Duration::ZERO)
        );
        assert_eq!(patience.retry(&closed(true), after(2000)), None);
        assert!(
            patience.retry(&closed(true), after(2001)).is_some(),
            "a new outage"
        );
        patience.recovered();
        assert!(patience.retry(&closed(true), after(4500)).is_some());
    }

    #[test]
    fn only_errors_that_pass_are_hidden() {
        let (mut patience, now) = (patience(), Instant::now());
        assert_eq!(patience.retry(&closed(false), now), None);
        let wrong = Error::server(b"WRONGTYPE Operation against a key");
        assert_eq!(patience.retry(&wrong, now), None);
        let loading = Error::server(b"LOADING Redis is loading the dataset in memory");
        assert_eq!(patience.retry(&loading, now), Some(LOADING_PAUSE));
    }
}
