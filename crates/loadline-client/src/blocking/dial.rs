//! Connecting to a host by a deadline that holds for the name server and for each of the addresses.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::Config;
use crate::conn::dial;

/// Connects to the first address of a host that answers within its share of the time.
pub(super) fn connect(
    config: &Config,
    host: &str,
    port: u16,
    deadline: Instant,
) -> io::Result<TcpStream> {
    let addresses = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::from((address, port))],
        Err(_) => {
            let host = host.to_owned();
            look_up(deadline, move || {
                let found = (host.as_str(), port).to_socket_addrs()?;
                Ok(dial::in_order(found))
            })?
        }
    };
    let socket = connect_to(&addresses, deadline)?;
    dial::prepare(&socket, config)?;
    Ok(socket)
}

/// Asks for the addresses of a name in a thread of its own, since the call to the system has no deadline. A
/// thread that comes too late ends by itself.
fn look_up(
    deadline: Instant,
    ask: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
) -> io::Result<Vec<SocketAddr>> {
    let (sender, found) = mpsc::sync_channel(1);
    std::thread::Builder::new()
        .name("look-up".into())
        .spawn(move || {
            // The caller may have stopped waiting.
            let _ = sender.send(ask());
        })?;
    match found.recv_timeout(remaining(deadline)?) {
        Ok(found) => found,
        Err(RecvTimeoutError::Timeout) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the host name was not resolved within the connect timeout",
        )),
        Err(RecvTimeoutError::Disconnected) => Err(dial::no_address()),
    }
}

fn connect_to(addresses: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
    let mut last = dial::no_address();
    for (tried, address) in addresses.iter().enumerate() {
        remaining(deadline)?;
        // Zero is refused by the standard library.
        let share = dial::share(deadline, addresses.len() - tried).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(address, share) {
            Ok(socket) => return Ok(socket),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => last = dial::no_answer(),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The time until a deadline that has not passed.
pub(super) fn remaining(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::net::{AddressFamily, SocketAddrV4, SocketType, sockopt};

    use super::*;
    use crate::{Address, Config};

    /// An address that drops what is sent to it: a listener whose queue is full.
    fn dead() -> (SocketAddr, Vec<OwnedFd>) {
        let listener = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let name = rustix::net::getsockname(&listener).unwrap();
        let address: SocketAddr = name.try_into().unwrap();
        let mut held = vec![listener];
        while let Ok(socket) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            held.push(socket.into());
        }
        (address, held)
    }

    #[test]
    fn name_server_that_is_silent_takes_no_longer_than_the_connect_timeout() {
        let begun = Instant::now();
        let (release, released) = mpsc::channel::<()>();
        let error = look_up(begun + Duration::from_millis(100), move || {
            // It answers after the caller is gone.
            let _ = released.recv();
            Ok(Vec::new())
        })
        .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        assert!(error.to_string().contains("not resolved"), "{error}");
        drop(release);
    }

    #[test]
    fn address_that_is_dead_leaves_the_next_one_its_share_of_the_time() {
        let (dead, _held) = dead();
        let alive = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addresses = [dead, alive.local_addr().unwrap()];
        let deadline = Instant::now() + Duration::from_secs(2);
        let socket = connect_to(&addresses, deadline).unwrap();
        assert_eq!(socket.peer_addr().unwrap(), addresses[1]);
        let error = connect_to(&addresses[..1], Instant::now() + Duration::from_millis(200));
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn connections_probe_an_idle_peer_unless_keepalive_is_off() {
        let alive = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = alive.local_addr().unwrap().port();
        let mut config = Config::new(Address::Tcp {
            host: "127.0.0.1".into(),
            port,
        });
        let mut probed = |idle: Option<Duration>| {
            config.tcp_keepalive = idle;
            let deadline = Instant::now() + Duration::from_secs(2);
            let socket = connect(&config, "127.0.0.1", port, deadline).unwrap();
            let on = sockopt::socket_keepalive(socket.as_fd()).unwrap();
            on.then(|| sockopt::tcp_keepidle(socket.as_fd()).unwrap())
        };
        let default = Config::new(Address::Unix("/nowhere".into())).tcp_keepalive;
        assert_eq!(probed(default), Some(Duration::from_secs(15)));
        let minute = Duration::from_secs(60);
        assert_eq!(probed(Some(minute)), Some(minute));
        assert_eq!(probed(None), None);
    }
}
