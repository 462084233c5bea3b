//! A server in this process that answers PING with a constant. The throughput of the generator on it is the
//! generator's own limit.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use loadline_load::runner::Subject;
use loadline_load::wire::{Connect, Session, Shape, Transport};
use loadline_load::{Control, Error, block::Block, outcome::Outcome, pacing::Stop};

use super::{failure, load_block, workload};
use crate::exit::Failure;
use crate::framing::RespFraming;
use crate::plan::Case;
use crate::systems::NullServer;

/// The request that it expects, as the workload `ping` sends it.
const REQUEST: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const REPLY: &[u8] = b"+PONG\r\n";
const READ_BYTES: usize = 16 << 10;

/// A null server for pings.
#[derive(Debug)]
pub(crate) struct NullPings(NullServer);

impl NullPings {
    /// Listens on a free port of loopback.
    ///
    /// # Errors
    /// If no port is free.
    pub(crate) fn start() -> Result<Self, Failure> {
        NullServer::start(answer).map(Self)
    }

    /// Creates the subject that runs the blocks of `case`, which must send only PING.
    ///
    /// # Errors
    /// If a connection cannot be opened.
    pub(crate) fn subject(&self, case: &Case, seed: u64) -> Result<NullSubject<'_>, Failure> {
        let commands = case
            .workload
            .compile("", case.keys, &case.value_size)
            .commands;
        let opened = workload(commands, case, &case.key_dist, seed).and_then(|workload| {
            let shape = Shape {
                connections: case.connections as usize,
                threads: case.threads as usize,
                window: case.pipeline,
                verify: false,
                seed,
            };
            Session::open(workload, self, RespFraming::new, shape)
        });
        Ok(NullSubject {
            session: opened.map_err(|error| failure("the null server", &error))?,
            block: Block {
                pacing: case.pacing,
                ..load_block(case, seed)
            },
        })
    }
}

impl Connect for NullPings {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        let stream = TcpStream::connect(self.0.address())?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Box::new(stream))
    }
}

/// One case on the null server.
pub(crate) struct NullSubject<'n> {
    session: Session<'n, RespFraming>,
    block: Block,
}

impl Subject for NullSubject<'_> {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        let block = Block {
            stop,
            seed,
            ..self.block
        };
        self.session.run(&block, control)
    }
}

/// Answers every complete request, however it is split, until the peer closes the connection.
fn answer(mut stream: TcpStream) {
    let mut buffer = vec![0; READ_BYTES];
    let replies = REPLY.repeat(READ_BYTES / REQUEST.len() + 1);
    let mut pending = 0;
    while let Ok(read @ 1..) = Read::read(&mut stream, &mut buffer) {
        pending += read;
        let whole = pending / REQUEST.len();
        pending %= REQUEST.len();
        if stream.write_all(&replies[..whole * REPLY.len()]).is_err() {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_whole_request_is_answered() {
        let server = NullPings::start().unwrap();
        let mut stream = TcpStream::connect(server.0.address()).unwrap();
        stream
            .set_read_timeout(Some(crate::systems::connect::PATIENCE))
            .unwrap();
        stream.write_all(&REQUEST.repeat(3)).unwrap();
        stream.write_all(&REQUEST[..5]).unwrap();
        let mut reply = vec![0; 3 * REPLY.len()];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply, REPLY.repeat(3));
        stream.write_all(&REQUEST[5..]).unwrap();
        let mut last = vec![0; REPLY.len()];
        stream.read_exact(&mut last).unwrap();
        assert_eq!(last, REPLY);
    }
}
