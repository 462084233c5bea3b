//! A delay line for packets, with real TCP on both sides of it.
//!
//! Two TUN devices, one here and one in a network namespace of our own, with an emulator between them
//! that delays and loses packets:
//!
//! ```text
//! client -- TCP -- TUN device == emulator == TUN device -- TCP -- forwarder -- server
//!         this namespace                          the link's namespace     this namespace
//! ```
//!
//! The client connects to an address of the link. Its connection ends at a forwarder whose listening
//! socket is in the other namespace, so the kernel's own handshake, slow start, congestion control
//! and retransmission are at work in both directions. The forwarder leads each connection to the
//! server at once, over whatever leads there from here. It needs root, `/dev/net/tun` and the `ip`
//! program.

mod emulator;

use std::net::SocketAddr;
use std::sync::Arc;

use tun_rs::{DeviceBuilder, SyncDevice};

use crate::address::{Address, Listener};
use crate::fault::Fault;
use crate::l4::{Beside, Proxy, Route};
use crate::lateness::Lateness;
use crate::namespace::{Ends, Namespace};
use crate::shape::Shape;
use crate::{Error, Scheduling};

pub use emulator::Stats;
use emulator::{Controls, Emulator};

/// What TCP on a link of packets is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packets {
    /// The largest packet in bytes, headers included.
    pub mtu: u16,
    /// The congestion control of both sides by its kernel name, such as `reno`; `None` is this
    /// machine's default.
    pub congestion_control: Option<String>,
}

impl Default for Packets {
    /// Ethernet's packets and this machine's congestion control.
    fn default() -> Self {
        Self {
            mtu: 1_500,
            congestion_control: None,
        }
    }
}

/// A link at the packet level. Dropping it removes everything that it made.
#[derive(Debug)]
pub struct PacketLink {
    controls: Arc<Controls>,
    forwarder: Proxy,
}

/// Packets that the kernel keeps for the emulator to read: what the emulator cannot read in time is
/// lost, and that loss would be ours and not the link's.
const DEVICE_QUEUE_PACKETS: u32 = 20_000;

impl PacketLink {
    /// Sets up the devices and forwards. Of a route's `listen` the port is used; the address is the
    /// link's own.
    ///
    /// # Errors
    /// [`Error::NoRoute`], [`Error::Shape`]; [`Error::System`] and [`Error::Program`] where there is
    /// no root, TUN device or `ip` program, or the congestion control is unknown.
    pub fn start(routes: &[Route], shape: Shape, packets: &Packets) -> Result<Self, Error> {
        shape.check()?;
        let namespace = Arc::new(Namespace::new()?);
        let ends = Ends::draw()?;
        let control = packets.congestion_control.as_deref();
        let near = device(packets.mtu)?;
        Ends::assign(&name(&near)?, ends.near, ends.far, control)?;
        let far = namespace.enter(|| {
            let far = device(packets.mtu)?;
            Ends::assign(&name(&far)?, ends.far, ends.near, control)?;
            Ok(far)
        })?;
        let controls = Arc::new(Controls::default());
        let emulator = Emulator::new(near, far, shape, Arc::clone(&controls));
        let forwarder = forwarder(routes, ends, &namespace, Some(Box::new(emulator)))?;
        Ok(Self {
            controls,
            forwarder,
        })
    }

    /// Where clients connect to: one address per route, in their order.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        self.forwarder.addresses()
    }

    /// Changes the shape for packets that arrive from now on.
    ///
    /// # Errors
    /// [`Error::Shape`] for an impossible shape, [`Error::Stopped`] when the thread has ended.
    pub fn set_shape(&self, shape: Shape) -> Result<(), Error> {
        shape.check()?;
        self.controls.set_shape(shape);
        self.forwarder.wake()
    }

    /// Makes something go wrong. A black hole drops packets; the others happen at the far end, and
    /// what it then sends takes its time to arrive.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the thread of the link has ended.
    pub fn inject(&self, fault: Fault) -> Result<(), Error> {
        match fault {
            Fault::BlackHole => {
                self.controls.set_black_hole(true);
                self.forwarder.wake()
            }
            other => self.forwarder.inject(other),
        }
    }

    /// Ends the faults that last.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the thread of the link has ended.
    pub fn clear(&self) -> Result<(), Error> {
        self.controls.set_black_hole(false);
        self.forwarder.clear()
    }

    /// How late it released what was due, so far: the first packet of each turn.
    #[must_use]
    pub fn lateness(&self) -> Lateness {
        self.controls.lateness()
    }

    /// How its thread is scheduled while it has time to sleep.
    #[must_use]
    pub fn scheduling(&self) -> Scheduling {
        self.forwarder.stats().scheduling
    }

    /// What has passed so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.controls.stats()
    }
}

impl Drop for PacketLink {
    fn drop(&mut self) {
        // The emulator still delivers these resets before it stops: a client would otherwise hear
        // nothing at all of an end. A forwarder that has stopped has no connections to reset.
        let _ = self.forwarder.inject(Fault::Reset);
    }
}

/// Whether this machine can have such a link: root, `/dev/net/tun`, namespaces and the `ip` program.
///
/// # Errors
/// What is missing.
pub fn probe() -> Result<(), Error> {
    let namespace = Namespace::new()?;
    namespace.enter(|| device(Packets::default().mtu).map(drop))
}

/// Leads connections that arrive in the namespace to the servers. Its thread and what it connects to
/// are in ours.
pub(crate) fn forwarder(
    routes: &[Route],
    ends: Ends,
    namespace: &Arc<Namespace>,
    beside: Option<Box<dyn Beside>>,
) -> Result<Proxy, Error> {
    let routes: Vec<Route> = routes
        .iter()
        .map(|route| Route {
            listen: Address::Tcp(SocketAddr::from((ends.far, port(&route.listen)))),
            upstream: route.upstream.clone(),
        })
        .collect();
    let namespace = Arc::clone(namespace);
    let bind = move |address: &Address| -> Result<Listener, Error> { namespace.bind(address) };
    Proxy::with(&routes, Shape::default(), Box::new(bind), beside)
}

fn port(listen: &Address) -> u16 {
    match listen {
        Address::Tcp(address) => address.port(),
        Address::Unix(_) => 0,
    }
}

/// A TUN device in this thread's namespace. It goes when its descriptor is closed.
fn device(mtu: u16) -> Result<SyncDevice, Error> {
    let make = || {
        let device = DeviceBuilder::new()
            .name("loadline%d")
            .mtu(mtu)
            .tx_queue_len(DEVICE_QUEUE_PACKETS)
            .enable(false)
            .build_sync()?;
        device.set_nonblocking(true)?;
        Ok::<_, std::io::Error>(device)
    };
    make().map_err(Error::system("a TUN device, which needs root"))
}

fn name(device: &SyncDevice) -> Result<String, Error> {
    device
        .name()
        .map_err(Error::system("the name of the TUN device"))
}
