//! The kernel's network emulator: a pair of virtual Ethernet devices, one of them in a private network
//! namespace, with a `netem` queue at each end.
//!
//! As with [`l3`](crate::l3), the client's connection ends at a forwarder in that namespace. It needs root,
//! the `sch_netem` module and the programs `ip` and `tc`.

use std::sync::{Arc, Mutex};

use crate::Error;
use crate::address::Address;
use crate::fault::Fault;
use crate::l3::{Packets, forwarder};
use crate::l4::{Proxy, Route};
use crate::namespace::{Ends, Namespace, ip, run};
use crate::shape::{Jitter, Lane, Shape};

/// A link through the kernel's emulator. Dropping it removes its devices and namespace.
#[derive(Debug)]
pub struct NetemLink {
    forwarder: Proxy,
    namespace: Arc<Namespace>,
    near_device: String,
    state: Mutex<State>,
}

/// The current settings of the queues.
#[derive(Debug, Clone, Copy)]
struct State {
    shape: Shape,
    drops: bool,
}

/// The name of the end in the namespace, where it cannot conflict.
const FAR_DEVICE: &str = "far";

impl NetemLink {
    /// Sets up the devices and forwards. The link uses the port of each route's `listen` and its own address.
    ///
    /// # Errors
    /// [`Error::NoRoute`]; [`Error::Shape`], also for jitter, because netem then reorders packets;
    /// [`Error::System`] or [`Error::Program`] if a requirement is missing.
    pub fn start(routes: &[Route], shape: Shape, packets: &Packets) -> Result<Self, Error> {
        check(&shape)?;
        let namespace = Arc::new(Namespace::new()?);
        let ends = Ends::draw()?;
        let control = packets.congestion_control.as_deref();
        let near_device = connect_namespaces(&namespace, ends, packets.mtu)?;
        delay("add", &near_device, &shape.up, false)?;
        namespace.enter(|| delay("add", FAR_DEVICE, &shape.down, false))?;
        Ends::assign(&near_device, ends.near, ends.far, control)?;
        namespace.enter(|| Ends::assign(FAR_DEVICE, ends.far, ends.near, control))?;
        let forwarder = forwarder(routes, ends, &namespace, None)?;
        Ok(Self {
            forwarder,
            namespace,
            near_device,
            state: Mutex::new(State {
                shape,
                drops: false,
            }),
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
    /// The errors of [`NetemLink::start`].
    pub fn set_shape(&self, shape: Shape) -> Result<(), Error> {
        check(&shape)?;
        self.change(|state| state.shape = shape)
    }

    /// Injects a fault, as [`PacketLink::inject`](crate::l3::PacketLink::inject) does.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the thread has ended, [`Error::Program`] if `tc` fails.
    pub fn inject(&self, fault: Fault) -> Result<(), Error> {
        match fault {
            Fault::Freeze => self.change(|state| state.drops = true),
            Fault::BlackHole => {
                self.change(|state| state.drops = true)?;
                self.forwarder.inject(fault)
            }
            other => self.forwarder.inject(other),
        }
    }

    /// Clears the lasting faults.
    ///
    /// # Errors
    /// The errors of [`NetemLink::inject`].
    pub fn clear(&self) -> Result<(), Error> {
        self.change(|state| state.drops = false)?;
        self.forwarder.clear()
    }

    fn change(&self, how: impl FnOnce(&mut State)) -> Result<(), Error> {
        let mut state = self.state.lock().map_err(|_| Error::Stopped)?;
        how(&mut state);
        let State { shape, drops } = *state;
        delay("change", &self.near_device, &shape.up, drops)?;
        self.namespace
            .enter(|| delay("change", FAR_DEVICE, &shape.down, drops))
    }
}

/// Checks that this machine supports the kernel's emulator.
///
/// # Errors
/// The missing requirement.
pub fn probe() -> Result<(), Error> {
    let namespace = Namespace::new()?;
    namespace.enter(|| delay("add", "lo", &Lane::default(), false))
}

pub(crate) fn check(shape: &Shape) -> Result<(), Error> {
    shape.check()?;
    if [shape.up, shape.down]
        .iter()
        .any(|lane| lane.jitter != Jitter::None)
    {
        return Err(Error::Shape {
            what: "netem reorders packets when the delay varies; the l3 link does not",
        });
    }
    Ok(())
}

/// Creates the pair of devices and returns the name of the near end.
fn connect_namespaces(namespace: &Namespace, ends: Ends, mtu: u16) -> Result<String, Error> {
    // All addresses share their first 15 bits; the remaining bits distinguish links that run at the same
    // time.
    let near = format!("loadline{:05x}", u32::from(ends.near) & 0x1_ffff);
    let here = format!("/proc/{}/ns/net", std::process::id());
    let mtu = mtu.to_string();
    namespace.enter(|| {
        let device = ["link", "add", FAR_DEVICE, "mtu", &mtu, "type", "veth"];
        let peer = ["peer", "name", &near, "mtu", &mtu, "netns", &here];
        ip(&[&device[..], &peer[..]].concat())?;
        ip(&["link", "set", FAR_DEVICE, "gso_max_segs", "1"])
    })?;
    // The emulator then delays and drops single packets instead of bundles of up to 44.
    ip(&["link", "set", &near, "gso_max_segs", "1"])?;
    Ok(near)
}

/// Adds or changes the emulator of a device of this thread's namespace.
fn delay(verb: &str, device: &str, lane: &Lane, drops: bool) -> Result<(), Error> {
    let lane = arguments(lane, drops);
    let mut command = vec!["qdisc", verb, "dev", device, "root", "netem"];
    command.extend(lane.iter().map(String::as_str));
    run("tc", &command).map(drop)
}

fn arguments(lane: &Lane, drops: bool) -> Vec<String> {
    // 64 MiB of full packets in flight, as in the l3 link, or the queue of a router with limited bandwidth.
    let packets = if lane.bytes_per_second.is_some() {
        1_000
    } else {
        45_000
    };
    let loss = if drops { 1.0 } else { lane.loss };
    let mut arguments = vec![
        "limit".to_owned(),
        packets.to_string(),
        "delay".to_owned(),
        // Some versions of tc do not accept nanoseconds by name.
        format!(
            "{}.{:03}us",
            lane.delay.as_micros(),
            lane.delay.as_nanos() % 1_000
        ),
        "loss".to_owned(),
        format!("{}%", loss * 100.0),
    ];
    if let Some(rate) = lane.bytes_per_second {
        arguments.extend(["rate".to_owned(), format!("{rate}bps")]);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lane_in_the_words_of_tc() {
        let lane = Lane {
            delay: Duration::from_nanos(5_250_001),
            bytes_per_second: Some(1_000_000),
            loss: 0.015,
            ..Lane::default()
        };
        assert_eq!(
            arguments(&lane, false).join(" "),
            "limit 1000 delay 5250.001us loss 1.5% rate 1000000bps"
        );
        assert_eq!(
            arguments(&Lane::default(), true).join(" "),
            "limit 45000 delay 0.000us loss 100%"
        );
    }

    /// Without the kernel module, tc still parses its arguments and reports errors in them first.
    #[test]
    fn tc_understands_the_words() {
        if !is_root("the arguments of tc") {
            return;
        }
        let lane = Lane {
            delay: Duration::from_nanos(5_250_001),
            bytes_per_second: Some(1_000_000),
            loss: 0.015,
            ..Lane::default()
        };
        let namespace = Namespace::new().unwrap();
        let add = || delay("add", "lo", &lane, false);
        if let Err(error) = namespace.enter(add) {
            let said = error.to_string();
            assert!(said.contains("qdisc kind is unknown"), "{said}");
        }
    }

    /// Returns false without root, with a message that the test harness does not capture.
    fn is_root(test: &str) -> bool {
        use std::io::Write;

        if rustix::process::geteuid().is_root() {
            return true;
        }
        let refusal = Namespace::new().unwrap_err().to_string();
        assert!(refusal.contains("root"), "{refusal}");
        let said = format!("\n*** NOT TESTED: {test}, because it needs root\n");
        std::io::stderr().write_all(said.as_bytes()).unwrap();
        false
    }

    /// Everything but the queues, which few machines support: the devices, the addresses and the forwarder.
    #[test]
    fn devices_lead_to_the_server_and_go_with_the_namespace() {
        use std::io::{Read, Write};
        use std::net::{TcpListener, TcpStream};

        if !is_root("the devices of the netem link") {
            return;
        }
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let namespace = Arc::new(Namespace::new().unwrap());
        let ends = Ends::draw().unwrap();
        let near = connect_namespaces(&namespace, ends, 1_400).unwrap();
        Ends::assign(&near, ends.near, ends.far, Some("reno")).unwrap();
        namespace
            .enter(|| Ends::assign(FAR_DEVICE, ends.far, ends.near, Some("reno")))
            .unwrap();
        let route = Route::from_loopback(server.local_addr().unwrap().into());
        let forwarder = forwarder(&[route], ends, &namespace, None).unwrap();
        let Address::Tcp(address) = forwarder.addresses()[0] else {
            panic!("it listens on TCP");
        };
        assert_eq!(address.ip(), ends.far);
        let patience = Some(Duration::from_secs(20));
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(patience).unwrap();
        let control = rustix::net::sockopt::tcp_congestion(&client).unwrap();
        assert_eq!(control, "reno");
        client.write_all(b"ping").unwrap();
        let (mut peer, _) = server.accept().unwrap();
        peer.set_read_timeout(patience).unwrap();
        let mut got = [0; 4];
        peer.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"ping");
        drop((client, peer, forwarder, namespace));
        let start = std::time::Instant::now();
        // The kernel removes a namespace with a short delay.
        while ip(&["link", "show", &near]).is_ok() {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{near} is still there"
            );
        }
    }

    #[test]
    fn jitter_is_refused() {
        let shape = Shape::default().with_jitter(Jitter::Normal {
            deviation: Duration::from_millis(1),
        });
        let refusal = check(&shape).unwrap_err().to_string();
        assert!(refusal.contains("reorders"), "{refusal}");
    }
}
