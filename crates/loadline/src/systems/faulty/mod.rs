//! The fault proxy in front of a server that fails in one way, for the behaviour of clients.

use std::net::SocketAddr;
use std::time::Instant;

use loadline_link::address::Address;
use loadline_link::l4::{Occurrence, Proxy, Route, Scripted};
use loadline_link::shape::Shape;
use loadline_measure::clients::Fault;

use crate::framing::RespMessages;
use crate::plan::fault_script;

/// The most connections at a time. A client at fault does not take all descriptors.
const MOST_CONNECTIONS: usize = 256;

/// A proxy with one fault. Dropping it closes its connections.
#[derive(Debug)]
pub(crate) struct Faulty {
    fault: Fault,
    proxy: Proxy,
}

impl Faulty {
    /// A proxy to `upstream` on a free port of the loopback interface.
    ///
    /// # Errors
    /// If the operating system refuses a socket or a thread.
    pub(crate) fn start(fault: Fault, upstream: SocketAddr) -> Result<Self, loadline_link::Error> {
        let scripted = Scripted {
            script: fault_script(&fault),
            messages: Some(Box::new(|| Box::new(RespMessages::new()))),
            max_connections: MOST_CONNECTIONS,
        };
        let route = Route::from_loopback(upstream.into());
        let proxy = Proxy::scripted(&[route], Shape::default(), scripted)?;
        Ok(Self { fault, proxy })
    }

    /// The address of the proxy.
    pub(crate) fn address(&self) -> SocketAddr {
        match self.proxy.addresses()[0] {
            Address::Tcp(address) => address,
            Address::Unix(_) => unreachable!("its route is from loopback"),
        }
    }

    /// Times that the fault has occurred.
    pub(crate) fn faults(&self) -> u64 {
        self.occurrences().len() as u64
    }

    /// When the fault ended, or when it began if it does not end; `None` before it began. Of replies that are cut, the first
    /// one counts, because the last one would leave no time to recover.
    pub(crate) fn ended(&self) -> Option<Instant> {
        let occurrences = self.occurrences();
        let one = match self.fault {
            Fault::ReplyCut => occurrences.first(),
            _ => occurrences.last(),
        }?;
        one.ended.or(Some(one.began))
    }

    /// The occurrences of the first step; others only belong to it.
    fn occurrences(&self) -> Vec<Occurrence> {
        let mut occurrences = self.proxy.occurrences();
        occurrences.retain(|one| one.step == 0);
        occurrences
    }
}

#[cfg(test)]
mod tests;
