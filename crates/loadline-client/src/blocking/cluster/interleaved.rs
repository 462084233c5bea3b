//! The replies of several nodes to one request, read where they were received.
//!
//! Each node answers in the order of its own commands, so a request that reads its replies in the order of all
//! commands finds each at the front of its node's connection, and nothing has to be kept in between. That ends
//! at the first reply that is an error or that does not come: it may be that the command has to be sent again.
//! From there on outcomes are collected, and settled, as those of any request to a cluster.

use std::ops::Range;
use std::time::{Duration, Instant};

use loadline_resp::Reply;

use super::Cluster;
use crate::blocking::replies::Incoming;
use crate::blocking::{Connection, protocol_error};
use crate::cluster::batch::{Batch, Group};
use crate::cluster::plan::Plan;
use crate::cluster::replies::{Collected, Outcome};
use crate::meter::{Failures, Meter};
use crate::{Config, Error, Replies};

/// The place of a unit that no node serves.
const NOWHERE: usize = usize::MAX;

/// The replies to a request whose units are single commands.
pub(super) struct Interleaved<'c, 'p> {
    cluster: &'c mut Cluster,
    /// The part that carries each unit.
    places: Vec<usize>,
    /// Number of replies that were handed out.
    read: usize,
    parts: Vec<NodePart<'p>>,
    /// There as long as replies are read in place.
    batch: Option<Batch<'p>>,
    /// Replies that are handed out afterwards.
    rest: Collected,
}

/// One node's part of the request, with the connection that carries it.
struct NodePart<'p> {
    group: Group<'p>,
    connection: Connection,
    meter: Option<Meter>,
    deadline: Option<Instant>,
    /// Number of its replies that were handed out.
    read: usize,
    /// The place of a reply that was received and not handed out.
    first: Option<Range<usize>>,
    /// The reason why no more replies will come.
    fault: Option<Error>,
}

/// The place of a reply.
enum Found {
    /// The text of a bulk string.
    Text(Range<usize>),
    /// A whole reply.
    Message(Range<usize>),
}

impl<'c, 'p> Interleaved<'c, 'p> {
    /// Writes the request to all of its nodes, so that they work at the same time.
    pub(super) fn send(cluster: &'c mut Cluster, plan: &'p Plan, mut batch: Batch<'p>) -> Self {
        let mut places = vec![NOWHERE; plan.units().len()];
        let groups = cluster.groups(&mut batch);
        let mut parts = Vec::with_capacity(groups.len());
        for group in groups {
            group.units().for_each(|unit| places[unit] = parts.len());
            let connection = cluster.take_connection(&group.node);
            parts.push(NodePart::write(group, connection));
        }
        // When the node has answered that was asked last, the others mostly have too. So this thread sleeps
        // once, and not once for each of them.
        if let [_, .., last] = &mut parts[..] {
            last.wait();
        }
        Self {
            cluster,
            places,
            read: 0,
            parts,
            batch: Some(batch),
            rest: Collected::new(Vec::new()),
        }
    }

    /// Gives the connections back. What the request did not read is executed all the same.
    pub(super) fn finish(mut self) {
        if self.read < self.places.len() {
            self.collect();
        }
        for part in self.parts.drain(..) {
            part.end(self.cluster, &Failures::default());
        }
    }

    /// The next reply and the place of its part, if it can be handed out as it is.
    #[inline]
    fn next_in_place(&mut self) -> Option<(usize, Found)> {
        let place = *self.places.get(self.read)?;
        let found = self.parts.get_mut(place)?.next()?;
        self.read += 1;
        Some((place, found))
    }

    /// Collects all replies that were not handed out, and sends again what has to be.
    #[cold]
    fn collect(&mut self) {
        let Some(mut batch) = self.batch.take() else {
            return;
        };
        for mut part in self.parts.drain(..) {
            let outcomes = part.outcomes();
            let mut failures = Failures::default();
            for outcome in &outcomes {
                failures.see(outcome.as_ref());
            }
            batch.settle_rest(&part.group, part.read, outcomes);
            part.end(self.cluster, &failures);
        }
        self.rest = Collected::new(if self.cluster.goes_on(&mut batch) {
            self.cluster.execute(batch)
        } else {
            batch.finish()
        });
    }
}

impl Replies for Interleaved<'_, '_> {
    #[inline]
    fn next(&mut self) -> Result<Reply<'_>, Error> {
        if self.batch.is_some() {
            if let Some((part, found)) = self.next_in_place() {
                let input = &self.parts[part].connection.input;
                return match found {
                    Found::Text(text) => Ok(Reply::Bulk(input.text(text))),
                    Found::Message(message) => input.read(message).map_err(protocol_error),
                };
            }
            self.collect();
        }
        self.rest.next()
    }
}

impl<'p> NodePart<'p> {
    fn write(group: Group<'p>, mut connection: Connection) -> Self {
        let (meter, deadline, fault) = match connection.write_half(&group) {
            Ok(written) => (Some(written.meter), written.deadline, None),
            Err(error) => (None, None, Some(error)),
        };
        Self {
            group,
            connection,
            meter,
            deadline,
            read: 0,
            first: None,
            fault,
        }
    }

    /// Waits until some of the replies are there.
    fn wait(&mut self) {
        if self.fault.is_none()
            && let Err(error) = self.connection.receive()
        {
            let error = Error::connection(error, true);
            self.connection.give_up(&error);
            self.fault = Some(error);
        }
    }

    /// The next reply, unless it is an error or does not come.
    #[inline]
    fn next(&mut self) -> Option<Found> {
        // An input whose connection broke is empty.
        let found = match self.connection.input.next_bulk() {
            Some(text) => Found::Text(text),
            None => self.next_of_any_kind()?,
        };
        self.read += 1;
        Some(found)
    }

    fn next_of_any_kind(&mut self) -> Option<Found> {
        if self.fault.is_some() {
            return None;
        }
        let after = response_timeout(&self.connection.config);
        match self.connection.next_reply(self.deadline, after) {
            Ok(message) => {
                // Attributes can come before an error.
                let first = self.connection.input.text(message.clone()).first();
                if !matches!(first, Some(b'-' | b'!' | b'|')) {
                    return Some(Found::Message(message));
                }
                self.first = Some(message);
            }
            Err(error) => {
                self.connection.give_up(&error);
                self.fault = Some(error);
            }
        }
        None
    }

    /// The outcomes of the commands whose replies were not handed out.
    fn outcomes(&mut self) -> Vec<Outcome> {
        // A group has no more units than a plan, whose commands are counted by 32 bits.
        let left = (self.group.units().len() - self.read) as u32;
        let (first, fault) = (self.first.take(), self.fault.take());
        let mut incoming = Incoming::rest(&mut self.connection, left, first, self.deadline, fault);
        (0..left)
            .map(|_| incoming.next().map(|reply| reply.to_owned()))
            .collect()
    }

    fn end(self, cluster: &mut Cluster, failures: &Failures) {
        if let Some(meter) = self.meter {
            meter.end(&self.connection.config, &self.group, failures);
        }
        cluster.give_connection(self.group.node, self.connection);
    }
}

fn response_timeout(config: &Config) -> Duration {
    config.response_timeout.unwrap_or(Duration::MAX)
}
