//! A null server: it answers Redis requests without doing any work. The rate of a load generator on it is the generator's
//! own limit, and the time of a call to it is the time of the socket.
//!
//! [`Answers`] is the pure part, bytes in and bytes out. [`NullServer`] answers the connections of a TCP port or a unix
//! socket on one thread, as Redis does: all replies to one read are one write. The program `null-server`
//! does the same in a process of its own, for generators that are measured from outside.
//!
//! It is not a fake of Redis: it keeps no keys, and most of its replies are `+OK`.
//!
//! ```
//! use loadline_null::{NullServer, Reads};
//! use std::io::{Read, Write};
//!
//! let server = NullServer::start(Reads::Ok)?;
//! let mut stream = std::net::TcpStream::connect(server.address().expect("a port of loopback"))?;
//! stream.write_all(b"PING\r\n")?;
//! let mut reply = [0; 7];
//! stream.read_exact(&mut reply)?;
//! assert_eq!(&reply, b"+PONG\r\n");
//! # Ok::<(), std::io::Error>(())
//! ```

#![forbid(unsafe_code)]

mod answers;
mod server;

pub use answers::{Answers, Reads};
pub use server::{Listener, NullServer, THREAD, serve};
