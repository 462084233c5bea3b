//! Connecting to a host: the order of its addresses, the time for each, and the options of a socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use crate::Config;

/// The probes that a peer leaves unanswered before the operating system gives a connection up.
const PROBES: u32 = 3;

/// Puts the addresses of a host into the order in which they are tried. The two families alternate, beginning
/// with that of the first address, so that a family without a route costs one attempt (RFC 8305, section 4).
pub(crate) fn in_order(addresses: impl IntoIterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut addresses = addresses.into_iter().peekable();
    let Some(first_is_v6) = addresses.peek().map(SocketAddr::is_ipv6) else {
        return Vec::new();
    };
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.partition(|address| address.is_ipv6() == first_is_v6);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut ordered = Vec::new();
    loop {
        let before = ordered.len();
        ordered.extend(first.next());
        ordered.extend(second.next());
        if ordered.len() == before {
            return ordered;
        }
    }
}

/// The time for one attempt with this number of addresses left: an equal share of the remainder.
pub(crate) fn share(deadline: Instant, addresses: usize) -> Duration {
    let left = deadline.saturating_duration_since(Instant::now());
    left / u32::try_from(addresses.max(1)).unwrap_or(u32::MAX)
}

/// Sets the options of a new TCP socket: small writes are sent at once, and a peer that has vanished is noticed
/// although nothing is written.
pub(crate) fn prepare(socket: impl AsFd, config: &Config) -> io::Result<()> {
    sockopt::set_tcp_nodelay(&socket, true)?;
    let Some(idle) = config.tcp_keepalive else {
        return Ok(());
    };
    sockopt::set_socket_keepalive(&socket, true)?;
    #[cfg(target_os = "linux")]
    {
        // The system counts in whole seconds.
        let second = Duration::from_secs(1);
        sockopt::set_tcp_keepidle(&socket, idle.max(second))?;
        sockopt::set_tcp_keepintvl(&socket, (idle / PROBES).max(second))?;
        sockopt::set_tcp_keepcnt(&socket, PROBES)?;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (idle, PROBES);
    Ok(())
}

/// The error for a name without an address.
pub(crate) fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the host name has no address")
}

/// The error for an address that does not answer.
pub(crate) fn no_answer() -> io::Error {
    let what = "the address did not answer within its share of the connect timeout";
    io::Error::new(io::ErrorKind::TimedOut, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(addresses: &[&str]) -> Vec<String> {
        let addresses = addresses.iter().map(|address| address.parse().unwrap());
        let ordered = in_order(addresses);
        ordered.iter().map(SocketAddr::to_string).collect()
    }

    #[test]
    fn families_alternate_from_the_first_address_on() {
        assert_eq!(
            ordered(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]),
            ["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]
        );
        assert_eq!(
            ordered(&["1.1.1.1:1", "[::1]:1", "[::2]:1"]),
            ["1.1.1.1:1", "[::1]:1", "[::2]:1"]
        );
        assert!(ordered(&[]).is_empty());
    }

    #[test]
    fn each_address_gets_an_equal_share_of_the_remaining_time() {
        let deadline = Instant::now() + Duration::from_secs(9);
        let third = share(deadline, 3);
        assert!(third <= Duration::from_secs(3) && third > Duration::from_secs(2));
        assert_eq!(share(Instant::now(), 1), Duration::ZERO);
    }
}
