//! A delay line for packets, with real TCP on both sides of it.
//!
//! It consists of two TUN devices, one in this network namespace and one in a private namespace, with an
//! emulator between them that delays and drops packets:
//!
//! ```text
//! client -- TCP -- TUN device == emulator == TUN device -- TCP -- forwarder -- server
//!         this namespace                          the link's namespace     this namespace
//! ```
//!
//! The client connects to an address of the link. Its connection ends at a forwarder whose listening socket
//! is in the private namespace, so the kernel's handshake, slow start, congestion control and retransmission
//! apply in both directions. The forwarder immediately opens a connection to the server from this namespace.
//! It needs root, `/dev/net/tun` and the `ip` program.

mod emulator;

use std::net::SocketAddr;
use std::sync::Arc;

use tun_rs::{DeviceBuilder, SyncDevice};

use crate::address::Address;
use crate::fault::Fault;
use crate::l4::{Companion, Proxy, Route};
use crate::lateness::Lateness;
use crate::namespace::{Ends, Namespace};
use crate::shape::Shape;
use crate::socket::Listener;
use crate::{Error, Scheduling};

pub use emulator::Stats;
use emulator::{Controls, Emulator};

/// TCP settings of a packet-level link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packets {
    /// The largest packet in bytes, headers included.
    pub mtu: u16,
    /// The congestion control of both sides, by its kernel name, such as `reno`; `None` is this machine's
    /// default.
    pub congestion_control: Option<String>,
}

impl Default for Packets {
    /// Ethernet's packet size and this machine's congestion control.
    fn default() -> Self {
        Self {
            mtu: 1_500,
            congestion_control: None,
        }
    }
}

/// A link at the packet level. Dropping it removes its devices and namespace.
#[derive(Debug)]
pub struct PacketLink {
    controls: Arc<Controls>,
    forwarder: Proxy,
}

/// Packets that the kernel queues for the emulator. It is large, because a packet dropped here would be an
/// artefact of the emulator.
const DEVICE_QUEUE_PACKETS: u32 = 20_000;

impl PacketLink {
    /// Sets up the devices and forwards. The link uses the port of each route's `listen` and its own address.
    ///
    /// # Errors
    /// [`Error::NoRoute`] and [`Error::Shape`]; [`Error::System`] or [`Error::Program`] if root, a TUN device
    /// or the `ip` program is missing, or if the congestion control is unknown.
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

    /// The addresses that clients connect to, one per route, in order.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        self.forwarder.addresses()
    }

    /// Changes the shape for packets that arrive from now on.
    ///
    /// # Errors
    /// [`Error::Shape`] for an invalid shape, [`Error::Stopped`] if the thread has ended.
    pub fn set_shape(&self, shape: Shape) -> Result<(), Error> {
        shape.check()?;
        self.controls.set_shape(shape);
        self.forwarder.wake()
    }

    /// Injects a fault. A freeze and a black hole drop packets; other faults happen at the far end, and their packets
    /// take the link's delay to arrive.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the thread has ended.
    pub fn inject(&self, fault: Fault) -> Result<(), Error> {
        match fault {
            Fault::Freeze => {
                self.controls.set_drops(true);
                self.forwarder.wake()
            }
            Fault::BlackHole => {
                self.controls.set_drops(true);
                self.forwarder.inject(fault)
            }
            other => self.forwarder.inject(other),
        }
    }

    /// Clears the lasting faults.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the thread has ended.
    pub fn clear(&self) -> Result<(), Error> {
        self.controls.set_drops(false);
        self.forwarder.clear()
    }

    /// The lateness of releases so far, measured on the first packet of each turn.
    #[must_use]
    pub fn lateness(&self) -> Lateness {
        self.controls.lateness()
    }

    /// The current scheduling of its thread.
    #[must_use]
    pub fn scheduling(&self) -> Scheduling {
        self.forwarder.stats().scheduling
    }

    /// Packet counts so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.controls.stats()
    }
}

impl Drop for PacketLink {
    fn drop(&mut self) {
        // The emulator delivers these resets before it stops; without them, clients would not notice the end.
        // A forwarder that has stopped has no connections to reset.
        let _ = self.forwarder.inject(Fault::Reset);
    }
}

/// Checks that this machine supports packet-level links: root, `/dev/net/tun`, namespaces and the `ip`
/// program.
///
/// # Errors
/// The missing requirement.
pub fn probe() -> Result<(), Error> {
    let namespace = Namespace::new()?;
    namespace.enter(|| device(Packets::default().mtu).map(drop))
}

/// Forwards connections that arrive in the namespace to the servers. Its thread and its outgoing connections
/// are in the original namespace.
pub(crate) fn forwarder(
    routes: &[Route],
    ends: Ends,
    namespace: &Arc<Namespace>,
    companion: Option<Box<dyn Companion>>,
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
    Proxy::with(&routes, Shape::default(), None, Box::new(bind), companion)
}

fn port(listen: &Address) -> u16 {
    match listen {
        Address::Tcp(address) => address.port(),
        Address::Unix(_) => 0,
    }
}

/// Creates a TUN device in this thread's namespace. Closing its descriptor removes it.
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
