//! A link of any class, and its measured accuracy.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::address::Address;
use crate::echo::{Echo, RoundTrips};
use crate::fault::Fault;
use crate::l3::{self, PacketLink, Packets};
use crate::l4::{Proxy, Route};
use crate::lateness::Lateness;
use crate::netem::{self, NetemLink};
use crate::shape::{Jitter, Shape};
use crate::{Error, Scheduling, Wakefulness};

/// The mechanism of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The kernel's network emulator.
    Netem,
    /// Packets moved between two devices.
    L3,
    /// A proxy that moves bytes between sockets.
    L4,
}

/// All classes, the most realistic one first.
pub const CLASSES: [Class; 3] = [Class::Netem, Class::L3, Class::L4];

impl Class {
    /// The name that [`Class::from_str`] reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Netem => "netem",
            Self::L3 => "l3",
            Self::L4 => "l4",
        }
    }

    /// Checks that this machine supports this class and shape.
    ///
    /// # Errors
    /// The missing requirement, or the problem of the shape.
    pub fn probe(self, shape: &Shape) -> Result<(), Error> {
        shape.check()?;
        match self {
            Self::Netem => netem::check(shape).and_then(|()| netem::probe()),
            Self::L3 => l3::probe(),
            Self::L4 => crate::l4::check(shape),
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Class {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        CLASSES
            .into_iter()
            .find(|class| class.name() == name)
            .ok_or(Error::UnknownClass)
    }
}

/// A selected class and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The class.
    pub class: Class,
    /// One sentence for the report.
    pub reason: String,
}

/// Selects a class: the requested one, or the first of netem, l3 and l4 that is available.
///
/// # Errors
/// If the requested class, or the last one, is not available.
pub fn choose(asked: Option<Class>, shape: &Shape) -> Result<Choice, Error> {
    if let Some(class) = asked {
        class.probe(shape)?;
        return Ok(Choice {
            class,
            reason: format!("{class} was requested."),
        });
    }
    let mut missing = Vec::new();
    for class in CLASSES {
        match class.probe(shape) {
            Ok(()) => {
                return Ok(Choice {
                    class,
                    reason: reason(class, &missing),
                });
            }
            Err(error) if class == Class::L4 => return Err(error),
            Err(error) => missing.push(format!("{class} is not available here ({error})")),
        }
    }
    unreachable!("the last class is returned or refused")
}

fn reason(class: Class, missing: &[String]) -> String {
    let shows = match class {
        Class::Netem | Class::L3 => "the handshake, slow start and loss are real",
        Class::L4 => "the handshake, slow start and loss do not show",
    };
    match missing {
        [] => format!("{class} is available here: {shows}."),
        missing => format!("{class}, since {}: {shows}.", missing.join(" and ")),
    }
}

/// A link of any class, which can measure itself.
#[derive(Debug)]
pub struct Link {
    kind: Kind,
    class: Class,
    packets: Packets,
    shape: Shape,
    /// The destination of the last route.
    echo: Echo,
    /// Held while there is latency, if the kernel accepts the request.
    wakefulness: Option<Wakefulness>,
}

#[derive(Debug)]
enum Kind {
    Netem(NetemLink),
    L3(PacketLink),
    L4(Proxy),
}

impl Link {
    /// Sets up a link of this class. `packets` applies to the classes that handle packets.
    ///
    /// # Errors
    /// The errors of the class's own type.
    pub fn start(
        class: Class,
        routes: &[Route],
        shape: Shape,
        packets: &Packets,
    ) -> Result<Self, Error> {
        if routes.is_empty() {
            return Err(Error::NoRoute);
        }
        let echo = Echo::tcp().map_err(Error::system("an echo"))?;
        let upstream = echo.address().map_err(Error::system("an echo"))?;
        let mut routes = routes.to_vec();
        routes.push(Route::from_loopback(upstream));
        let kind = match class {
            Class::Netem => Kind::Netem(NetemLink::start(&routes, shape, packets)?),
            Class::L3 => Kind::L3(PacketLink::start(&routes, shape, packets)?),
            Class::L4 => Kind::L4(Proxy::start(&routes, shape)?),
        };
        Ok(Self {
            kind,
            class,
            packets: packets.clone(),
            shape,
            echo,
            wakefulness: wakefulness(&shape),
        })
    }

    /// The class of the link.
    #[must_use]
    pub fn class(&self) -> Class {
        self.class
    }

    /// The addresses that clients connect to, one per route, in order.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        let addresses = self.all_addresses();
        &addresses[..addresses.len() - 1]
    }

    /// Changes the shape for data that arrives from now on.
    ///
    /// # Errors
    /// [`Error::Shape`] if the class does not support it, [`Error::Stopped`] if a thread has ended.
    pub fn set_shape(&mut self, shape: Shape) -> Result<(), Error> {
        match &self.kind {
            Kind::Netem(link) => link.set_shape(shape),
            Kind::L3(link) => link.set_shape(shape),
            Kind::L4(proxy) => proxy.set_shape(shape),
        }?;
        self.shape = shape;
        self.wakefulness = wakefulness(&shape);
        Ok(())
    }

    /// Injects a fault.
    ///
    /// # Errors
    /// [`Error::Stopped`] if a thread of the link has ended.
    pub fn inject(&self, fault: Fault) -> Result<(), Error> {
        match &self.kind {
            Kind::Netem(link) => link.inject(fault),
            Kind::L3(link) => link.inject(fault),
            Kind::L4(proxy) => proxy.inject(fault),
        }
    }

    /// Clears the lasting faults.
    ///
    /// # Errors
    /// [`Error::Stopped`] if a thread of the link has ended.
    pub fn clear(&self) -> Result<(), Error> {
        match &self.kind {
            Kind::Netem(link) => link.clear(),
            Kind::L3(link) => link.clear(),
            Kind::L4(proxy) => proxy.clear(),
        }
    }

    /// Makes `count` sequential round trips to an echo, directly and then through the link. It takes `count`
    /// times the latency and must not overlap with other use of the link.
    ///
    /// # Errors
    /// [`Error::System`] if the connection fails.
    pub fn measure(&self, count: usize) -> Result<Achieved, Error> {
        let failed = Error::system("measuring the link");
        let addresses = self.all_addresses();
        let through = &addresses[addresses.len() - 1];
        let latency = self.shape.latency();
        let trips = || {
            let direct = self.echo.address()?;
            let direct = self.echo.round_trips(&direct, count, Duration::ZERO)?;
            let through = self.echo.round_trips(through, count, latency)?;
            Ok::<_, std::io::Error>((direct, through))
        };
        let before = self.lateness();
        let (direct, through) = trips().map_err(failed)?;
        let releases = self.lateness().zip(before);
        Ok(Achieved {
            class: self.class,
            shape: self.shape,
            mtu: match self.class {
                Class::Netem | Class::L3 => Some(self.packets.mtu),
                Class::L4 => None,
            },
            direct,
            through,
            release: releases.map(|(now, before)| now.since(&before)),
            scheduling: self.scheduling(),
            keeps_awake: self.wakefulness.is_some(),
        })
    }

    /// The lateness of releases so far; `None` if the kernel releases.
    #[must_use]
    pub fn lateness(&self) -> Option<Lateness> {
        match &self.kind {
            Kind::Netem(_) => None,
            Kind::L3(link) => Some(link.lateness()),
            Kind::L4(proxy) => Some(proxy.lateness()),
        }
    }

    /// The scheduling of the releasing thread; `None` if the kernel releases.
    #[must_use]
    pub fn scheduling(&self) -> Option<Scheduling> {
        match &self.kind {
            Kind::Netem(_) => None,
            Kind::L3(link) => Some(link.scheduling()),
            Kind::L4(proxy) => Some(proxy.stats().scheduling),
        }
    }

    fn all_addresses(&self) -> &[Address] {
        match &self.kind {
            Kind::Netem(link) => link.addresses(),
            Kind::L3(link) => link.addresses(),
            Kind::L4(proxy) => proxy.addresses(),
        }
    }
}

/// The measured effect of a link on round trips.
#[derive(Debug, Clone, PartialEq)]
pub struct Achieved {
    /// The class of the link.
    pub class: Class,
    /// The requested shape.
    pub shape: Shape,
    /// The largest packet in bytes; `None` for a proxy, which handles no packets.
    pub mtu: Option<u16>,
    /// Round trips to the echo without the link.
    pub direct: RoundTrips,
    /// Round trips to the echo through the link, with the congestion control of the client's end.
    pub through: RoundTrips,
    /// The lateness of releases during the measurement, without the wake-ups of the echo and the client;
    /// `None` if the kernel releases.
    pub release: Option<Lateness>,
    /// The scheduling of the releasing thread; `None` if the kernel releases.
    pub scheduling: Option<Scheduling>,
    /// Whether idle CPUs polled instead of sleeping.
    pub keeps_awake: bool,
}

fn wakefulness(shape: &Shape) -> Option<Wakefulness> {
    let is_wanted = shape.latency() > Duration::ZERO;
    is_wanted.then(Wakefulness::claim)?.ok()
}

impl Achieved {
    /// The overshoot at the 99th percentile above which a run does not have the requested latency.
    pub const TOLERANCE: Duration = Duration::from_micros(250);

    /// The overshoot of the added delay at a quantile from 0 to 1: the round trip through the link, minus the
    /// latency and the median direct round trip.
    #[must_use]
    pub fn overshoot(&self, quantile: f64) -> Duration {
        self.through
            .quantile(quantile)
            .saturating_sub(self.shape.latency())
            .saturating_sub(self.direct.quantile(0.5))
    }

    /// Whether the overshoot exceeds [`Achieved::TOLERANCE`]. Always false with jitter or limited bandwidth,
    /// whose delays are intended.
    #[must_use]
    pub fn is_off(&self) -> bool {
        let lanes = [self.shape.up, self.shape.down];
        let exact = lanes.iter().all(|lane| {
            lane.jitter == Jitter::None && lane.bytes_per_second.is_none() && lane.loss == 0.0
        });
        exact && self.overshoot(0.99) > Self::TOLERANCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_names_that_are_read_back() {
        for class in CLASSES {
            assert_eq!(class.name().parse::<Class>().unwrap(), class);
        }
        let refusal = "l5".parse::<Class>().unwrap_err().to_string();
        assert!(CLASSES.iter().all(|class| refusal.contains(class.name())));
    }

    #[test]
    fn requested_class_is_used_or_refused() {
        let shape = Shape::round_trip(Duration::from_millis(1));
        let choice = choose(Some(Class::L4), &shape).unwrap();
        assert_eq!(choice.class, Class::L4);
        assert!(choice.reason.contains("requested"));
        let refusal = choose(Some(Class::L4), &shape.with_loss(0.1)).unwrap_err();
        assert!(matches!(refusal, Error::Shape { .. }), "{refusal}");
    }

    #[test]
    fn auto_takes_the_first_that_is_possible_and_says_why() {
        let shape = Shape::round_trip(Duration::from_millis(1));
        let choice = choose(None, &shape).unwrap();
        let first = CLASSES
            .into_iter()
            .find(|class| class.probe(&shape).is_ok());
        assert_eq!(Some(choice.class), first);
        for class in CLASSES
            .into_iter()
            .take_while(|class| *class != choice.class)
        {
            let said = format!("{class} is not available here (");
            assert!(choice.reason.contains(&said), "{}", choice.reason);
        }
        // Packets out of order were not requested.
        let normal = Jitter::Normal {
            deviation: Duration::from_micros(1),
        };
        let choice = choose(None, &shape.with_jitter(normal)).unwrap();
        assert_ne!(choice.class, Class::Netem);
    }

    #[test]
    fn link_measures_itself_and_hides_its_echo() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let route = Route::from_loopback(server.local_addr().unwrap().into());
        let latency = Duration::from_millis(3);
        let shape = Shape::round_trip(latency);
        let link = Link::start(Class::L4, &[route], shape, &Packets::default()).unwrap();
        assert_eq!(link.addresses().len(), 1);
        let achieved = link.measure(20).unwrap();
        assert_eq!(achieved.through.count(), 20);
        assert!(achieved.through.quantile(0.0) >= latency);
        assert_eq!(achieved.mtu, None);
        // Two releases for each round trip, including the uncounted one, and the end.
        let release = achieved.release.as_ref().unwrap();
        assert!((42..=44).contains(&release.count()), "{release:?}");
        assert!(release.quantile(0.5) > Duration::ZERO);
        assert!(achieved.scheduling.is_some());
        assert_eq!(achieved.keeps_awake, Wakefulness::claim().is_ok());
        assert!(achieved.through.congestion_control().is_some());
        let over = achieved.through.quantile(1.0) - latency;
        assert!(achieved.overshoot(1.0) <= over);
    }

    #[test]
    fn latency_is_off_above_the_tolerance_and_only_where_it_was_exact() {
        let shape = Shape::round_trip(Duration::from_millis(1));
        let mut achieved = Achieved {
            class: Class::L4,
            shape,
            mtu: None,
            direct: RoundTrips::of(vec![Duration::from_micros(30)]),
            through: RoundTrips::of(vec![Duration::from_micros(1_280)]),
            release: None,
            scheduling: None,
            keeps_awake: false,
        };
        assert_eq!(achieved.overshoot(0.99), Achieved::TOLERANCE);
        assert!(!achieved.is_off());
        achieved.through = RoundTrips::of(vec![Duration::from_micros(1_281)]);
        assert!(achieved.is_off());
        achieved.shape = shape.with_bandwidth(1_000_000);
        assert!(!achieved.is_off());
    }
}
