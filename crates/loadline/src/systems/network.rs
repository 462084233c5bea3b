//! Network devices on the way to a target: their traffic, and the speed that they state.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::time::Instant;

use loadline_measure::doctor::NetworkUse;
use nix::ifaddrs::getifaddrs;

use crate::spelling::{Address, Server};

/// The devices of the kernel.
const DEVICES: &str = "/sys/class/net";

/// The traffic of devices that state a speed, at some time.
#[derive(Debug)]
pub(crate) struct Traffic {
    since: Instant,
    devices: Vec<Device>,
}

/// A network device that states its speed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Device {
    name: String,
    /// In bytes per second in each direction.
    speed: u64,
    /// Bytes received and sent so far.
    bytes: [u64; 2],
}

impl Traffic {
    /// The traffic of the devices on the way to `servers` so far. Loopback and most virtual devices state no speed.
    pub(crate) fn on_the_way_to(servers: &[Server]) -> Self {
        let mut names: Vec<String> = servers.iter().filter_map(device_to).collect();
        names.sort_unstable();
        names.dedup();
        let devices = names
            .iter()
            .filter_map(|name| Device::read(Path::new(DEVICES), name));
        Self {
            since: Instant::now(),
            devices: devices.collect(),
        }
    }

    /// The use of the device that was closest to its speed since then.
    pub(crate) fn since(&self) -> Option<NetworkUse> {
        let seconds = self.since.elapsed().as_secs_f64().max(1e-9);
        let used = self.devices.iter().filter_map(|before| {
            let after = Device::read(Path::new(DEVICES), &before.name)?;
            Some(before.used_until(&after, seconds))
        });
        used.max_by(|a, b| share(a).total_cmp(&share(b)))
    }
}

fn share(network: &NetworkUse) -> f64 {
    network.used as f64 / network.speed.max(1) as f64
}

impl Device {
    /// Reads the device `name` below `root`; `None` if it states no speed.
    fn read(root: &Path, name: &str) -> Option<Self> {
        let number = |file: &str| -> Option<i64> {
            let text = fs::read_to_string(root.join(name).join(file)).ok()?;
            text.trim().parse().ok()
        };
        let bytes = |file: &str| number(file).and_then(|bytes| u64::try_from(bytes).ok());
        // In Mbit/s; -1 if it is not known.
        let speed = number("speed").filter(|speed| *speed > 0)?;
        Some(Self {
            name: name.to_owned(),
            speed: u64::try_from(speed).ok()?.checked_mul(1_000_000 / 8)?,
            bytes: [bytes("statistics/rx_bytes")?, bytes("statistics/tx_bytes")?],
        })
    }

    fn used_until(&self, after: &Self, seconds: f64) -> NetworkUse {
        let grown = self.bytes.iter().zip(after.bytes);
        let grown = grown.map(|(before, after)| after.saturating_sub(*before));
        NetworkUse {
            device: self.name.clone(),
            speed: self.speed,
            used: (grown.max().unwrap_or(0) as f64 / seconds) as u64,
        }
    }
}

/// The name of the device that packets to `server` leave through.
fn device_to(server: &Server) -> Option<String> {
    let Address::Tcp { host, port } = &server.address else {
        return None;
    };
    let address = (host.as_str(), *port).to_socket_addrs().ok()?.next()?;
    let any = match address {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    // Connecting sends nothing: it only chooses the route.
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(address).ok()?;
    let own = socket.local_addr().ok()?.ip();
    let mut devices = getifaddrs().ok()?;
    let is_own = |storage: nix::sys::socket::SockaddrStorage| {
        let v4 = storage.as_sockaddr_in().map(|own| IpAddr::V4(own.ip()));
        v4.or_else(|| storage.as_sockaddr_in6().map(|own| IpAddr::V6(own.ip()))) == Some(own)
    };
    let found = devices.find(|device| device.address.is_some_and(is_own))?;
    Some(found.interface_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_of_a_local_server_is_the_loopback() {
        let server = Server::local("127.0.0.1:6379".parse().unwrap());
        assert_eq!(device_to(&server).as_deref(), Some("lo"));
        // It states no speed.
        assert_eq!(Traffic::on_the_way_to(&[server]).since(), None);
    }

    #[test]
    fn busier_direction_of_a_device_counts() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("eth0");
        let write = |speed: &str, received: u64, sent: u64| {
            fs::create_dir_all(dir.join("statistics")).unwrap();
            fs::write(dir.join("speed"), speed).unwrap();
            fs::write(dir.join("statistics/rx_bytes"), format!("{received}\n")).unwrap();
            fs::write(dir.join("statistics/tx_bytes"), format!("{sent}\n")).unwrap();
        };
        write("-1\n", 0, 0);
        assert_eq!(Device::read(root.path(), "eth0"), None);
        write("10000\n", 1_000, 500);
        let before = Device::read(root.path(), "eth0").unwrap();
        write("10000\n", 2_000_001_000, 700);
        let after = Device::read(root.path(), "eth0").unwrap();
        let used = NetworkUse {
            device: "eth0".to_owned(),
            speed: 1_250_000_000,
            used: 1_000_000_000,
        };
        assert_eq!(before.used_until(&after, 2.0), used);
        assert_eq!(Device::read(root.path(), "eth1"), None);
    }
}
