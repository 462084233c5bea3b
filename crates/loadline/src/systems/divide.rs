//! A network between servers of our own that can be parted: the client and the master on one side, all others on the other.
//!
//! Proxies carry what crosses the line. While it is parted, they hold everything, as TCP does until a retransmission
//! arrives, and neither end is notified.

use std::net::{Ipv4Addr, SocketAddr};

use loadline_link::fault::Fault;
use loadline_link::l4::{Proxy, Route};
use loadline_link::shape::Shape;

use super::faulty::entrances;
use super::servers::{Child, NodeAddresses};
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
            inward: proxy([loopback(master.address())])?,
            master: master.address(),
            outward: None,
        })
    }

    /// Between the first of these nodes of a cluster, a master, and the others, which it finds at their ports of the first
    /// loopback address.
    ///
    /// # Errors
    /// As [`in_front_of`](Self::in_front_of).
    ///
    /// # Panics
    /// Without a node.
    pub(crate) fn between(nodes: &[NodeAddresses]) -> Result<Self, Failure> {
        let (first, others) = nodes.split_first().expect("it has a master");
        let [clients, buses] = [0, 1].map(|use_of| others.iter().map(move |node| node[use_of]));
        let outward = clients.clone().chain(buses).map(|upstream| Route {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, upstream.port())).into(),
            upstream: upstream.into(),
        });
        Ok(Self {
            inward: proxy(first.map(loopback))?,
            master: first[0],
            outward: Some((proxy(outward)?, clients.collect())),
        })
    }

    /// The addresses at which the other nodes of a cluster find the master.
    pub(crate) fn node(&self) -> NodeAddresses {
        let mut entrances = entrances(&self.inward);
        std::array::from_fn(|_| entrances.next().expect("it has two routes"))
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
        self.outward = Some((proxy(others.iter().copied().map(loopback))?, others));
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

fn loopback(upstream: SocketAddr) -> Route {
    Route::from_loopback(upstream.into())
}

fn proxy(routes: impl IntoIterator<Item = Route>) -> Result<Proxy, Failure> {
    let routes: Vec<Route> = routes.into_iter().collect();
    Proxy::start(&routes, Shape::default()).map_err(|error| refused(&error))
}

fn refused(error: &loadline_link::Error) -> Failure {
    Failure::unavailable(format!("A proxy between the servers failed: {error}."))
}
