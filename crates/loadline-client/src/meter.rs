//! Where requests are counted and connections are talked about, if the features for it are on; if not,
//! nothing of this is left.

#[cfg(any(feature = "metrics", feature = "opentelemetry"))]
use std::time::Instant;

use loadline_resp::Frame;

use crate::cluster::Node;
use crate::request::Summary;
#[cfg(feature = "opentelemetry")]
use crate::telemetry::{Call, Encode, Failure};
use crate::{Config, ConnectionEvent, Error, Replies, Request};

/// One request, from its start to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    #[cfg(any(feature = "metrics", feature = "opentelemetry"))]
    begun: Instant,
    /// The name of the first command, and the number of commands.
    #[cfg(any(feature = "metrics", feature = "opentelemetry"))]
    request: Option<(&'static str, u32)>,
}

/// The errors of one request.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    #[cfg(feature = "metrics")]
    count: u64,
    #[cfg(feature = "opentelemetry")]
    first: Option<Failure>,
}

impl Failures {
    /// Counts a reply if it is an error, or the reason why there is none.
    #[inline]
    pub(crate) fn see<B: AsRef<[u8]>>(&mut self, outcome: Result<&Frame<B>, &Error>) {
        #[cfg(feature = "metrics")]
        {
            let failed = outcome.map_or(true, Frame::is_error);
            self.count += u64::from(failed);
        }
        #[cfg(feature = "opentelemetry")]
        if self.first.is_none() {
            self.first = Failure::of(outcome);
        }
        #[cfg(not(any(feature = "metrics", feature = "opentelemetry")))]
        let _ = outcome;
    }
}

impl Meter {
    #[inline]
    pub(crate) fn begin() -> Self {
        Self {
            #[cfg(any(feature = "metrics", feature = "opentelemetry"))]
            begun: Instant::now(),
            #[cfg(any(feature = "metrics", feature = "opentelemetry"))]
            request: None,
        }
    }

    /// Notes the name and the size of the request, which are known once it is encoded.
    #[inline]
    pub(crate) fn is(&mut self, summary: &Summary) {
        #[cfg(any(feature = "metrics", feature = "opentelemetry"))]
        {
            self.request = Some((summary.name, summary.commands));
        }
        #[cfg(not(any(feature = "metrics", feature = "opentelemetry")))]
        let _ = summary;
    }

    /// Lets the request read its replies, which is its end.
    #[cfg(not(any(feature = "metrics", feature = "opentelemetry")))]
    #[inline]
    pub(crate) fn decode<Q: Request, R: Replies>(
        &self,
        _: &Config,
        request: &Q,
        replies: &mut R,
    ) -> Q::Output {
        request.decode(replies)
    }

    /// Lets the request read its replies, which is its end.
    #[cfg(any(feature = "metrics", feature = "opentelemetry"))]
    pub(crate) fn decode<Q: Request, R: Replies>(
        &self,
        config: &Config,
        request: &Q,
        replies: &mut R,
    ) -> Q::Output {
        let mut counted = Counted {
            replies,
            failures: Failures::default(),
        };
        let output = request.decode(&mut counted);
        self.end(config, request, &counted.failures);
        output
    }

    /// The request ended with these errors.
    #[inline]
    pub(crate) fn end<Q: Request>(&self, config: &Config, request: &Q, failures: &Failures) {
        #[cfg(feature = "metrics")]
        self.record(config, failures);
        #[cfg(feature = "opentelemetry")]
        self.report(config, &|requests| request.encode(requests), failures);
        let _ = (config, request, failures);
    }

    #[cfg(feature = "metrics")]
    fn record(&self, config: &Config, failures: &Failures) {
        let name = match self.request {
            None => "other",
            Some((name, commands)) if commands == 1 || name == "MULTI" => name,
            Some(_) => "pipeline",
        };
        config
            .metrics
            .record(name, failures.count, self.begun.elapsed());
    }

    #[cfg(feature = "opentelemetry")]
    fn report(&self, config: &Config, request: Encode<'_>, failures: &Failures) {
        if let (Some(telemetry), Some((name, commands @ 1..))) = (&config.telemetry, self.request) {
            let call = Call {
                name,
                commands,
                took: self.begun.elapsed(),
            };
            let server = (&config.address, config.database);
            telemetry.report(server, call, failures.first.as_ref(), request);
        }
    }

    /// The request ends with an error before anything came.
    pub(crate) fn failed<Q: Request>(
        &self,
        config: &Config,
        request: &Q,
        error: Error,
    ) -> Q::Output {
        self.decode(config, request, &mut crate::request::Failed(error))
    }
}

/// Replies, counting the errors among them.
#[cfg(any(feature = "metrics", feature = "opentelemetry"))]
struct Counted<'r, R> {
    replies: &'r mut R,
    failures: Failures,
}

#[cfg(any(feature = "metrics", feature = "opentelemetry"))]
impl<R: Replies> Replies for Counted<'_, R> {
    fn next(&mut self) -> Result<loadline_resp::Reply<'_>, Error> {
        let next = self.replies.next();
        self.failures.see(next.as_ref());
        next
    }
}

/// A connection is ready for requests.
pub(crate) fn connected(config: &Config) {
    #[cfg(feature = "tracing")]
    tracing::debug!(address = ?config.address, "connected");
    #[cfg(not(feature = "tracing"))]
    let _ = config;
}

/// A connection broke, or could not be made.
pub(crate) fn lost(config: &Config, error: &Error) {
    #[cfg(feature = "tracing")]
    tracing::warn!(address = ?config.address, %error, "no connection");
    #[cfg(not(feature = "tracing"))]
    let _ = (config, error);
}

/// A node of a cluster said that a slot is on another node.
pub(crate) fn moved(config: &Config, slot: u16, node: &Node) {
    if let Some(events) = &config.events {
        let node = node.clone();
        events.push(ConnectionEvent::Moved { slot, node });
    }
}
