//! Where requests are counted and connections are talked about, if the features for it are on; if not,
//! nothing of this is left.

use crate::cluster::Node;
use crate::request::Summary;
use crate::{Config, ConnectionEvent, Error, Replies, Request};

/// One request, from its start to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    #[cfg(feature = "metrics")]
    begun: std::time::Instant,
    #[cfg(feature = "metrics")]
    name: &'static str,
}

impl Meter {
    #[inline]
    pub(crate) fn begin() -> Self {
        Self {
            #[cfg(feature = "metrics")]
            begun: std::time::Instant::now(),
            #[cfg(feature = "metrics")]
            name: "other",
        }
    }

    /// What the request is, which is known once it is encoded.
    #[inline]
    pub(crate) fn is(&mut self, summary: &Summary) {
        #[cfg(feature = "metrics")]
        {
            let alone = summary.commands == 1 || summary.name == "MULTI";
            self.name = if alone { summary.name } else { "pipeline" };
        }
        #[cfg(not(feature = "metrics"))]
        let _ = summary;
    }

    /// Lets the request read its replies, which is its end.
    #[cfg(not(feature = "metrics"))]
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
    #[cfg(feature = "metrics")]
    pub(crate) fn decode<Q: Request, R: Replies>(
        &self,
        config: &Config,
        request: &Q,
        replies: &mut R,
    ) -> Q::Output {
        let mut counted = Counted { replies, errors: 0 };
        let output = request.decode(&mut counted);
        self.end(config, counted.errors);
        output
    }

    /// The request ended, with this number of errors.
    #[inline]
    pub(crate) fn end(&self, config: &Config, errors: u64) {
        #[cfg(feature = "metrics")]
        config
            .metrics
            .record(self.name, errors, self.begun.elapsed());
        #[cfg(not(feature = "metrics"))]
        let _ = (config, errors);
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
#[cfg(feature = "metrics")]
struct Counted<'r, R> {
    replies: &'r mut R,
    errors: u64,
}

#[cfg(feature = "metrics")]
impl<R: Replies> Replies for Counted<'_, R> {
    fn next(&mut self) -> Result<loadline_resp::Reply<'_>, Error> {
        let next = self.replies.next();
        let failed = match &next {
            Ok(reply) => reply.is_error(),
            Err(_) => true,
        };
        self.errors += u64::from(failed);
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
