//! Latency in the path of a benchmark: links that delay what passes through them.
//!
//! A link forwards whatever it carries between a client and a server, later, slower or not at all. It
//! knows no protocol. The pure part is [`queue`]: when bytes are due and what keeps them until then.
//! Around it are a proxy for sockets ([`l4`]) and an emulator of packets between two TUN devices
//! ([`l3`]); [`netem`] sets up the kernel's own. A [`Link`](link::Link) is any of them,
//! [`choose`](link::choose) says which suits, and each can measure what it achieves.
//!
//! It is not a model of a network: there is one path with one delay per direction, and nothing
//! overtakes. docs/link.md says what each class shows and hides, and how precise it is.
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
pub mod shape;
mod wait;
mod wakefulness;

pub use error::Error;
pub use priority::Scheduling;
pub use wakefulness::Wakefulness;
