//! The link in the path of a target: set up, measured, and recorded.

use std::net::ToSocketAddrs;
use std::time::Duration;

use loadline_link::l3::Packets;
use loadline_link::l4::Route;
use loadline_link::link::{Achieved, Link, choose};
use loadline_measure::record;

use crate::exit::Failure;
use crate::plan::{PathShape, measuring_trips};
use crate::spelling::{Address, Server};

/// A path to a server with added latency.
#[derive(Debug)]
pub(crate) struct Path {
    /// Addresses of servers, each with the address to connect to instead; never empty.
    routes: Vec<(Address, Address)>,
    /// The measured properties of the link.
    pub(crate) measured: record::Link,
    _link: Link,
}

impl Path {
    /// Adds `latency` to the round trips to each of `servers`, gives the path the properties in `path`, and
    /// measures the result. Returns `None` if the path does not change, or there are no servers. Jitter is drawn
    /// from `seed`.
    ///
    /// # Errors
    /// If the link is not possible here or does not work.
    pub(crate) fn open(
        servers: &[Server],
        latency: Duration,
        path: &PathShape,
        seed: u64,
    ) -> Result<Option<Self>, Failure> {
        if servers.is_empty() || (latency.is_zero() && path.is_plain()) {
            return Ok(None);
        }
        let failed = |error: loadline_link::Error| {
            Failure::unavailable(format!(
                "A latency of {latency:?} cannot be added: {error}."
            ))
        };
        let shape = path.with_latency(latency, seed);
        let choice = choose(path.class, &shape).map_err(failed)?;
        let routes = servers
            .iter()
            .map(|server| upstream(server).map(Route::from_loopback))
            .collect::<Result<Vec<_>, _>>()?;
        let link =
            Link::start(choice.class, &routes, shape, &Packets::default()).map_err(failed)?;
        let achieved = link.measure(measuring_trips(latency)).map_err(failed)?;
        let own = servers.iter().map(|server| server.address.clone());
        let routes = own.zip(link.addresses().iter().map(entrance)).collect();
        Ok(Some(Self {
            routes,
            measured: record::Link {
                jitter: path.jitter_text(),
                bandwidth_bytes_per_s: path.bytes_per_second,
                ..measured(&achieved, latency, choice.reason)
            },
            _link: link,
        }))
    }

    /// The address to connect to instead of the first server.
    pub(crate) fn address(&self) -> &Address {
        &self.routes[0].1
    }

    /// Addresses of servers, each with the address to connect to instead.
    pub(crate) fn routes(&self) -> &[(Address, Address)] {
        &self.routes
    }
}

/// An address of a link, in the form passed to a client.
fn entrance(address: &loadline_link::address::Address) -> Address {
    match address {
        loadline_link::address::Address::Tcp(address) => Address::Tcp {
            host: address.ip().to_string(),
            port: address.port(),
        },
        loadline_link::address::Address::Unix(path) => Address::Unix(path.clone()),
    }
}

fn upstream(server: &Server) -> Result<loadline_link::address::Address, Failure> {
    match &server.address {
        Address::Unix(path) => Ok(loadline_link::address::Address::Unix(path.clone())),
        Address::Tcp { host, port } => {
            let mut found = (host.as_str(), *port).to_socket_addrs().map_err(|error| {
                Failure::unavailable(format!("{server}: cannot resolve the host name: {error}."))
            })?;
            found
                .next()
                .map(loadline_link::address::Address::Tcp)
                .ok_or_else(|| {
                    Failure::unavailable(format!("{server}: the host name has no address."))
                })
        }
    }
}

fn measured(achieved: &Achieved, latency: Duration, reason: String) -> record::Link {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let late = |quantile| {
        let release = achieved.release.as_ref();
        release.map(|release| ns(release.quantile(quantile)))
    };
    record::Link {
        latency_ns: ns(latency),
        jitter: None,
        bandwidth_bytes_per_s: None,
        class: achieved.class.to_string().into(),
        reason,
        round_trips: achieved.through.count() as u64,
        direct_p50_ns: ns(achieved.direct.quantile(0.5)),
        through_p50_ns: ns(achieved.through.quantile(0.5)),
        through_p99_ns: ns(achieved.through.quantile(0.99)),
        overshoot_p50_ns: ns(achieved.overshoot(0.5)),
        overshoot_p99_ns: ns(achieved.overshoot(0.99)),
        release_late_p50_ns: late(0.5),
        release_late_p99_ns: late(0.99),
        scheduling: achieved.scheduling.map(|it| it.to_string().into()),
        keeps_awake: achieved.keeps_awake,
        is_off: achieved.is_off(),
        mtu: achieved.mtu.map(u64::from),
        congestion_control: achieved.through.congestion_control().map(Into::into),
    }
}
