//! A connection that sends operations together and waits for all of their replies before it sends more.
//!
//! The work of a server then depends only on the operations and not on the speed of either side. The wire loop,
//! with its sliding window, cannot guarantee that.

use std::io::{self, Read, Write};
use std::time::Instant;

use loadline_client::blocking::Socket;
use loadline_load::Error;
use loadline_load::keys::KeyDist;
use loadline_load::reply::Tally;
use loadline_load::wire::Framing;
use loadline_load::workload::{Chooser, Command, Workload, cumulative_weights};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::workload;
use crate::framing::RespFraming;
use crate::plan::Case;
use crate::systems::connect::{Endpoint, PATIENCE};

const READ_BYTES: usize = 64 << 10;

/// A connection, and the operations that it sends.
pub(super) struct Lockstep {
    socket: Socket,
    framing: RespFraming,
    workload: Workload,
    cumulative: Vec<u32>,
    chooser: Chooser,
    seed: u64,
    request: Vec<u8>,
    /// Expected replies to the request.
    awaited: u64,
    received: Vec<u8>,
    /// Bytes sent and received since the last [`restart`](Self::restart).
    pub(super) traffic: Traffic,
}

/// Bytes sent and received over a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl Lockstep {
    /// Connects to `endpoint` to send `commands` over the keys of `case`, chosen by `dist`.
    ///
    /// # Errors
    /// If the connection cannot be opened, or the commands are not a valid workload.
    pub(super) fn open(
        endpoint: &Endpoint,
        commands: Vec<Command>,
        case: &Case,
        dist: &KeyDist,
        seed: u64,
    ) -> Result<Self, Error> {
        let workload = workload(commands, case, dist, seed)?;
        let socket = endpoint
            .socket()
            .map_err(|error| Error::Subject(error.into()))?;
        Ok(Self {
            socket,
            framing: RespFraming::new(),
            cumulative: cumulative_weights(workload.commands()),
            workload,
            chooser: Chooser::new(SmallRng::seed_from_u64(seed), 0, 1),
            seed,
            request: Vec::new(),
            awaited: 0,
            received: vec![0; READ_BYTES],
            traffic: Traffic::default(),
        })
    }

    /// Restarts the sequence of operations.
    pub(super) fn restart(&mut self) {
        self.chooser = Chooser::new(SmallRng::seed_from_u64(self.seed), 0, 1);
        self.traffic = Traffic::default();
    }

    /// Chooses the next `operations` operations and formats them.
    pub(super) fn prepare(&mut self, operations: u64) {
        self.request.clear();
        self.awaited = 0;
        for _ in 0..operations {
            let command = &self.workload.commands()[self.chooser.command(&self.cumulative)];
            for part in &command.parts {
                part.append(&mut self.chooser, &self.workload, &mut self.request);
            }
            self.awaited += u64::from(command.replies);
        }
    }

    /// Sends the prepared request and waits for its replies. Allocates nothing, so that the time taken is that of
    /// the operations.
    ///
    /// # Errors
    /// If the connection is lost, the replies are not RESP, or they do not arrive in time.
    pub(super) fn exchange(&mut self) -> io::Result<Tally> {
        let mut tally = Tally::default();
        let sent = Instant::now();
        self.socket.write_all(&self.request)?;
        self.socket.flush()?;
        self.traffic.sent += self.request.len() as u64;
        while tally.replies < self.awaited {
            let bytes = match self.socket.read(&mut self.received) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            self.traffic.received += bytes as u64;
            self.framing
                .feed(&self.received[..bytes], &mut tally)
                .map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
            if sent.elapsed() > PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(tally)
    }

    /// The first bytes received after `request`: its reply, unless an earlier reply was not read.
    #[cfg(test)]
    pub(super) fn answer_to(&mut self, request: &[u8]) -> [u8; 7] {
        self.socket.write_all(request).unwrap();
        let mut reply = [0; 7];
        self.socket.read_exact(&mut reply).unwrap();
        reply
    }
}
