//! Links that add network latency to a benchmark.
//!
//! A link forwards bytes between a client and a server, and delays, limits or blocks them. It knows no
//! protocol. The pure part is [`queue`]: when bytes are due, and the queues that hold them until then. Around
//! it are a proxy for sockets ([`l4`]) and an emulator of packets between two TUN devices ([`l3`]); [`netem`]
//! uses the kernel's own emulator. [`Link`](link::Link) is any of them, [`choose`](link::choose) selects one,
//! and each can measure its own accuracy. A [`script`] makes the proxy fail at certain times, or at certain messages
//! of a protocol that the caller knows.
//!
//! It does not model a whole network: there is one path with one delay per direction, and data stays in
//! order. docs/link.md describes what each class shows and hides, and how precise it is.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::{TcpListener, TcpStream};
//! use std::time::{Duration, Instant};
//!
//! use loadline_link::address::Address;
//! use loadline_link::l4::{Proxy, Route};
//! use loadline_link::shape::Shape;
//!
//! let server = TcpListener::bind("127.0.0.1:0")?;
//! let route = Route::from_loopback(server.local_addr()?.into());
//! let proxy = Proxy::start(&[route], Shape::round_trip(Duration::from_millis(10)))?;
//! let Address::Tcp(address) = &proxy.addresses()[0] else { unreachable!("it was asked for TCP") };
//!
//! let mut client = TcpStream::connect(address)?;
//! let sent = Instant::now();
//! client.write_all(b"ping")?;
//! let (mut peer, _) = server.accept()?;
//! let mut bytes = [0; 4];
//! peer.read_exact(&mut bytes)?;
//! assert!(sent.elapsed() >= Duration::from_millis(5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod address;
pub mod echo;
mod error;
pub mod fault;
pub mod l3;
pub mod l4;
pub mod lateness;
pub mod link;
mod namespace;
pub mod netem;
mod priority;
pub mod queue;
pub mod script;
pub mod shape;
mod socket;
mod wait;
mod wakefulness;

pub use error::Error;
pub use priority::Scheduling;
pub use wakefulness::Wakefulness;
