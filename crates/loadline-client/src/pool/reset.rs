//! Resets the state of a connection after a borrower changed it.

use std::time::Duration;

use loadline_resp::{Protocol, encode};

use crate::conn::greeting::Greeting;
use crate::flags::Flags;
use crate::multiplexed::Dedicated;
use crate::request::{Replies, Request, Requests, Summary};
use crate::{Config, Error};

const RESET: &[u8] = b"*1\r\n$5\r\nRESET\r\n";
/// The modes that `RESET` leaves on in Redis 7.0. A server that refuses these has no such mode, or did not
/// let the borrower set it either.
const MODES: [[&str; 3]; 2] = [["CLIENT", "NO-EVICT", "OFF"], ["CLIENT", "NO-TOUCH", "OFF"]];

/// Resets a connection to the state of a new one, in one round trip: `RESET` (Redis 6.2), then the
/// handshake.
///
/// # Errors
/// The reason why the state is unknown; the connection must be closed.
pub(super) async fn reset(connection: &mut Dedicated, config: &Config) -> Result<(), Error> {
    let protocol = connection.protocol();
    let config = Config {
        // The protocol of the first handshake.
        protocol: Some(protocol.unwrap_or(Protocol::Resp2)),
        ..config.clone()
    };
    let limit = config.connect_timeout;
    let answered = tokio::time::timeout(limit, connection.run(Reset::new(&config))).await;
    answered.unwrap_or(Err(Error::Timeout {
        maybe_executed: true,
        after: limit,
    }))?;
    connection.was_reset();
    Ok(())
}

/// `RESET` and the handshake as one request.
struct Reset<'c> {
    config: &'c Config,
    bytes: Vec<u8>,
    /// The commands of the handshake.
    greeting: u32,
}

impl<'c> Reset<'c> {
    fn new(config: &'c Config) -> Self {
        let mut bytes = RESET.to_vec();
        let greeting = Greeting::start(config, &mut bytes);
        let greeting = greeting.expected_replies();
        for mode in MODES {
            encode::command(&mut bytes, &mode);
        }
        Self {
            config,
            bytes,
            greeting,
        }
    }
}

impl Request for Reset<'_> {
    type Output = Result<(), Error>;

    fn commands(&self) -> usize {
        1 + self.greeting as usize + MODES.len()
    }

    fn encode(&self, out: &mut Requests<'_>) {
        let summary = Summary {
            commands: 1 + self.greeting + MODES.len() as u32,
            // It means nothing on another connection.
            flags: Flags::DEDICATED,
            name: "RESET",
            wait: Duration::ZERO,
        };
        out.raw(&self.bytes, &summary);
    }

    fn decode<R: Replies>(&self, replies: &mut R) -> Self::Output {
        let reply = replies.next()?;
        if let Some(text) = reply.error_text() {
            return Err(Error::server(text));
        }
        let mut unused = Vec::new();
        let mut greeting = Greeting::start(self.config, &mut unused);
        let mut done = None;
        for _ in 0..self.greeting {
            done = greeting.reply(&replies.next()?, &mut unused)?;
        }
        for _ in MODES {
            replies.next()?;
        }
        done.map(drop).ok_or(Error::Type {
            expected: "the replies of a handshake",
            got: "another number of them",
        })
    }
}
