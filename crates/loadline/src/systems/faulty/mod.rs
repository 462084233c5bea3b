//! The fault proxy in front of servers, and of one that fails in one way, for the behaviour of clients.

use std::net::SocketAddr;
use std::time::Instant;

use loadline_link::address::Address;
use loadline_link::l4::{Occurrence, Proxy, Route, Scripted};
use loadline_link::script::Script;
use loadline_link::shape::Shape;
use loadline_measure::clients::Fault;

use crate::framing::RespMessages;
use crate::plan::fault_script;

/// The most connections at a time. A client at fault does not take all descriptors.
const MOST_CONNECTIONS: usize = 256;

/// A proxy with a script in front of servers. Dropping it closes its connections.
#[derive(Debug)]
pub(crate) struct FaultyPath(Proxy);

impl FaultyPath {
    /// A proxy to each of `upstreams` on free ports of the loopback interface.
    ///
    /// # Errors
    /// If the operating system refuses a socket or a thread.
    pub(crate) fn start(
        script: Script,
        upstreams: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<Self, loadline_link::Error> {
        let scripted = Scripted {
            script,
            messages: Some(Box::new(|| Box::new(RespMessages::new()))),
            max_connections: MOST_CONNECTIONS,
        };
        let routes = upstreams.into_iter();
        let routes: Vec<Route> = routes
            .map(|upstream| Route::from_loopback(upstream.into()))
            .collect();
        Proxy::scripted(&routes, Shape::default(), scripted).map(Self)
    }

    /// The addresses of the proxy, one for each server.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        entrances(&self.0)
    }

    /// The occurrences of the first step; others only belong to it.
    pub(crate) fn occurrences(&self) -> Vec<Occurrence> {
        let mut occurrences = self.0.occurrences();
        occurrences.retain(|one| one.step == 0);
        occurrences
    }
}

/// The addresses of a proxy whose routes are from loopback, in their order.
pub(super) fn entrances(proxy: &Proxy) -> impl Iterator<Item = SocketAddr> {
    proxy.addresses().iter().map(|address| match address {
        Address::Tcp(address) => *address,
        Address::Unix(_) => unreachable!("its routes are from loopback"),
    })
}

/// A proxy with one fault.
#[derive(Debug)]
pub(crate) struct Faulty {
    fault: Fault,
    path: FaultyPath,
}

impl Faulty {
    /// A proxy to `upstream` on a free port of the loopback interface.
    ///
    /// # Errors
    /// If the operating system refuses a socket or a thread.
    pub(crate) fn start(fault: Fault, upstream: SocketAddr) -> Result<Self, loadline_link::Error> {
        let path = FaultyPath::start(fault_script(&fault), [upstream])?;
        Ok(Self { fault, path })
    }

    /// The address of the proxy.
    pub(crate) fn address(&self) -> SocketAddr {
        let mut addresses = self.path.addresses();
        addresses.next().expect("it has one route")
    }

    /// Times that the fault has occurred.
    pub(crate) fn faults(&self) -> u64 {
        self.path.occurrences().len() as u64
    }

    /// When the fault ended, or when it began if it does not end; `None` before it began. Of replies that are cut, the first
    /// one counts, because the last one would leave no time to recover.
    pub(crate) fn ended(&self) -> Option<Instant> {
        let occurrences = self.path.occurrences();
        let one = match self.fault {
            Fault::ReplyCut => occurrences.first(),
            _ => occurrences.last(),
        }?;
        one.ended.or(Some(one.began))
    }
}

#[cfg(test)]
mod tests;
