//! Ports for servers that tests start.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

/// A port of the loopback address that no other program or test gets while this value exists.
///
/// A port that is free now can be another's before the server is started, or while it is restarted. The socket of this
/// value is bound and does not listen, so a server that sets `SO_REUSEADDR`, as redis-server does, can still listen on the
/// port, and without one a connection is refused.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _socket: OwnedFd,
}

impl Port {
    pub(crate) fn reserve() -> Self {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        sockopt::set_socket_reuseaddr(&socket, true).unwrap();
        net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = SocketAddr::try_from(net::getsockname(&socket).unwrap()).unwrap();
        Self {
            number: address.port(),
            _socket: socket,
        }
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}
