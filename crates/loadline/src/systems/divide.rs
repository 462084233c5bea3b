//! A network between servers of our own that can be parted: the client and the master on one side, all others on the other.
//!
//! Proxies carry what crosses the line. While it is parted, they hold everything, as TCP does until a retransmission
//! arrives, and neither end is notified.

use std::net::SocketAddr;

use loadline_link::fault::Fault;
use loadline_link::l4::{Proxy, Route};
use loadline_link::shape::Shape;

use super::faulty::entrances;
use super::servers::Child;
use crate::exit::Failure;

/// The paths across the line.
#[derive(Debug)]
pub(crate) struct Divide {
    /// From the other servers to the master.
    inward: Proxy,
    /// The master, as it is without a proxy.
    master: SocketAddr,
    /// From the client to the other servers, with their addresses.
    outward: Option<(Proxy, Vec<SocketAddr>)>,
}

impl Divide {
    /// # Errors
    /// If the operating system refuses a socket or a thread.
    pub(crate) fn in_front_of(master: &Child) -> Result<Self, Failure> {
        Ok(Self {
            inward: proxy(&[master.address()])?,
            master: master.address(),
            outward: None,
        })
    }

    /// The address at which the other servers find the master.
    pub(crate) fn master(&self) -> SocketAddr {
        let mut entrance = entrances(&self.inward);
        entrance.next().expect("it has one route")
    }

    /// Adds paths of the client to `others`.
    ///
    /// # Errors
    /// As [`in_front_of`](Self::in_front_of).
    pub(crate) fn keep_client_from<'c>(
        &mut self,
        others: impl IntoIterator<Item = &'c Child>,
    ) -> Result<(), Failure> {
        let others: Vec<SocketAddr> = others.into_iter().map(Child::address).collect();
        self.outward = Some((proxy(&others)?, others));
        Ok(())
    }

    /// Each address that a client can be led to, and the one at which it reaches that server.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr)> {
        let outward = self
            .outward
            .iter()
            .flat_map(|(proxy, others)| others.iter().copied().zip(entrances(proxy)));
        std::iter::once((self.master(), self.master)).chain(outward)
    }

    /// Parts the sides.
    ///
    /// # Errors
    /// If a proxy has ended.
    pub(crate) fn cut(&self) -> Result<(), Failure> {
        self.each(|proxy| proxy.inject(Fault::Freeze))
    }

    /// Joins the sides.
    ///
    /// # Errors
    /// If a proxy has ended.
    pub(crate) fn join(&self) -> Result<(), Failure> {
        self.each(Proxy::clear)
    }

    fn each(
        &self,
        act: impl Fn(&Proxy) -> Result<(), loadline_link::Error>,
    ) -> Result<(), Failure> {
        let outward = self.outward.iter().map(|(proxy, _)| proxy);
        let mut proxies = std::iter::once(&self.inward).chain(outward);
        proxies.try_for_each(|proxy| act(proxy).map_err(|error| refused(&error)))
    }
}

fn proxy(upstreams: &[SocketAddr]) -> Result<Proxy, Failure> {
    let routes = upstreams.iter();
    let routes: Vec<Route> = routes
        .map(|upstream| Route::from_loopback((*upstream).into()))
        .collect();
    Proxy::start(&routes, Shape::default()).map_err(|error| refused(&error))
}

fn refused(error: &loadline_link::Error) -> Failure {
    Failure::unavailable(format!("A proxy between the servers failed: {error}."))
}
