//! A private network namespace: a second network stack on the same machine.
//!
//! It never outlives the process, even one that is killed: the namespace has no name and no file, and the
//! kernel removes it and its devices when its last descriptor is closed.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use rand::RngExt;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::Error;
use crate::address::Address;
use crate::socket::Listener;

/// A network namespace without a name.
#[derive(Debug)]
pub(crate) struct Namespace {
    file: File,
}

impl Namespace {
    /// Creates a namespace in which only the loopback interface is up.
    pub(crate) fn new() -> Result<Self, Error> {
        // A thread that has changed its namespace cannot be reused, so it ends.
        let file = in_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(Error::system(
                "a private network namespace, which needs root",
            ))?;
            File::open("/proc/thread-self/ns/net")
                .map_err(Error::system("/proc/thread-self/ns/net"))
        })?;
        let namespace = Self { file };
        namespace.enter(|| ip(&["link", "set", "lo", "up"]))?;
        Ok(namespace)
    }

    /// Runs `what` inside the namespace, on a new thread. The sockets, devices and processes that it creates
    /// stay in the namespace wherever they are used later.
    pub(crate) fn enter<T: Send>(
        &self,
        what: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        in_thread(|| {
            move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(Error::system("entering the network namespace"))?;
            what()
        })
    }

    /// Listens inside the namespace.
    pub(crate) fn bind(&self, address: &Address) -> Result<Listener, Error> {
        self.enter(|| Listener::bind(address))
    }
}

fn in_thread<T: Send>(what: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("link-namespace".into())
            .spawn_scoped(scope, what)
            .map_err(Error::system("a thread for the link"))?;
        thread.join().map_err(|_| Error::Stopped)?
    })
}

/// The two ends of a link: adjacent addresses that nothing else on this machine uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ends {
    /// The client's side, in the original namespace.
    pub(crate) near: Ipv4Addr,
    /// The server's side, in the link's namespace.
    pub(crate) far: Ipv4Addr,
}

impl Ends {
    /// Draws addresses from 198.18.0.0/15, which RFC 2544 reserves for benchmarks. New addresses each time
    /// avoid the metrics that the kernel cached for an earlier link with another latency.
    pub(crate) fn draw() -> Result<Self, Error> {
        let taken = ip_output(&["-4", "-oneline", "address", "show"])?;
        let mut rng = rand::rng();
        for _ in 0..64 {
            let near = 0xC612_0000 | (rng.random_range(0..0x1_0000u32) << 1);
            let ends = Self {
                near: near.into(),
                far: (near | 1).into(),
            };
            let used = |end: Ipv4Addr| taken.contains(&format!(" {end}"));
            if !used(ends.near) && !used(ends.far) {
                return Ok(ends);
            }
        }
        Err(Error::System {
            what: "an unused address in 198.18.0.0/15",
            source: io::ErrorKind::AddrInUse.into(),
        })
    }

    /// Assigns `local` to a device of this thread's namespace, with `peer` behind it.
    pub(crate) fn assign(
        device: &str,
        local: Ipv4Addr,
        peer: Ipv4Addr,
        congestion_control: Option<&str>,
    ) -> Result<(), Error> {
        let (local, peer) = (local.to_string(), peer.to_string());
        ip(&["address", "add", &local, "peer", &peer, "dev", device])?;
        ip(&["link", "set", device, "up"])?;
        if let Some(name) = congestion_control {
            let route = ["route", "replace", &peer, "dev", device, "src", &local];
            ip(&[&route[..], &["congctl", name]].concat())?;
        }
        Ok(())
    }
}

/// Runs the `ip` program in this thread's namespace.
pub(crate) fn ip(arguments: &[&str]) -> Result<(), Error> {
    run("ip", arguments).map(drop)
}

fn ip_output(arguments: &[&str]) -> Result<String, Error> {
    run("ip", arguments)
}

/// Runs a program in this thread's namespace and returns what it printed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, Error> {
    let failed = |source| Error::Program {
        command: format!("{program} {}", arguments.join(" ")),
        source,
    };
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(failed)?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(failed(io::Error::other(said.trim().to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_that_fails_or_is_missing_is_named() {
        let missing = run("loadline-no-such-program", &["x"]).unwrap_err();
        let said = missing.to_string();
        assert!(said.contains("loadline-no-such-program x"), "{said}");
        let failed = run("sh", &["-c", "echo why >&2; exit 3"]).unwrap_err();
        assert!(failed.to_string().ends_with("why"), "{failed}");
    }

    #[test]
    fn ends_are_neighbours_in_the_benchmark_range() {
        let ends = Ends::draw().unwrap();
        assert_eq!(u32::from(ends.near) + 1, u32::from(ends.far));
        assert!(ends.near.octets()[0] == 198 && [18, 19].contains(&ends.near.octets()[1]));
    }
}
