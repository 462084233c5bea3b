//! Spans and events for the `tracing` crate. Without the feature, nothing of it is left.
//!
//! | what | level | fields |
//! | --- | --- | --- |
//! | span `lookup`: keys that were not all in memory | `DEBUG` | `keys`, and at its end `latency_us` |
//! | event `step`: what a tier had for a key | `TRACE`, or `DEBUG` if it failed | `tier`, `outcome`, `latency_us` |
//! | event `breaker`: it has opened or closed for `all` requests, for `reads`, or for `writes` | `WARN` or `INFO` | `requests`, `open` |

#[cfg(feature = "tracing")]
pub(crate) use self::on::{Lookup, breaker, hit, step};

#[cfg(not(feature = "tracing"))]
pub(crate) use self::off::{Lookup, breaker, hit, step};

#[cfg(feature = "tracing")]
mod on {
    use std::time::{Duration, Instant};

    use tracing::{Span, debug, debug_span, info, trace, warn};

    use crate::Found;

    /// The span of a lookup.
    pub(crate) struct Lookup {
        span: Span,
        begun: Instant,
    }

    impl Lookup {
        pub(crate) fn begin(keys: usize) -> Self {
            let empty = tracing::field::Empty;
            Self {
                span: debug_span!(target: "loadline_cache", "lookup", keys, latency_us = empty),
                begun: Instant::now(),
            }
        }

        /// Performs a part of the lookup.
        pub(crate) fn within<R>(&self, work: impl FnOnce() -> R) -> R {
            self.span.in_scope(work)
        }

        /// Performs a part of the lookup.
        #[cfg(feature = "tokio")]
        pub(crate) async fn around<R>(&self, work: impl Future<Output = R>) -> R {
            tracing::Instrument::instrument(work, self.span.clone()).await
        }
    }

    impl Drop for Lookup {
        fn drop(&mut self) {
            self.span.record("latency_us", us(self.begun.elapsed()));
        }
    }

    fn us(time: Duration) -> f64 {
        time.as_secs_f64() * 1e6
    }

    /// A hit in memory, which has no span of its own.
    #[inline]
    pub(crate) fn hit() {
        trace!(target: "loadline_cache", tier = "memory", outcome = "hit", "step");
    }

    pub(crate) fn step(found: Found, elapsed: Option<Duration>) {
        let (tier, outcome) = found.parts();
        let latency_us = elapsed.map(us);
        match found {
            Found::Damaged
            | Found::TierFailed
            | Found::TierTimedOut
            | Found::LoadFailed
            | Found::NotWritten
            | Found::Overtaken => {
                debug!(target: "loadline_cache", tier, outcome, latency_us, "step");
            }
            _ => trace!(target: "loadline_cache", tier, outcome, latency_us, "step"),
        }
    }

    pub(crate) fn breaker(requests: &str, open: bool) {
        match open {
            true => warn!(target: "loadline_cache", requests, open, "breaker"),
            false => info!(target: "loadline_cache", requests, open, "breaker"),
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod off {
    use std::time::Duration;

    use crate::Found;

    /// Nothing.
    pub(crate) struct Lookup;

    // It takes no room and has nothing to drop, and the functions are empty: no instruction of them is left.
    const _: () = assert!(size_of::<Lookup>() == 0 && !std::mem::needs_drop::<Lookup>());

    impl Lookup {
        #[inline(always)]
        pub(crate) fn begin(_: usize) -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn within<R>(&self, work: impl FnOnce() -> R) -> R {
            work()
        }

        #[cfg(feature = "tokio")]
        #[inline(always)]
        pub(crate) fn around<R>(&self, work: impl Future<Output = R>) -> impl Future<Output = R> {
            work
        }
    }

    #[inline(always)]
    pub(crate) fn hit() {}

    #[inline(always)]
    pub(crate) fn step(_: Found, _: Option<Duration>) {}

    #[inline(always)]
    pub(crate) fn breaker(_: &str, _: bool) {}
}
