//! The null server under pings. The throughput of the generator on it is the generator's own limit.

use std::io;
use std::net::TcpStream;

use loadline_load::runner::Subject;
use loadline_load::wire::{Connect, Session, Shape, Transport};
use loadline_load::{Control, Error, block::Block, outcome::Outcome, pacing::Stop};
use loadline_null::{NullServer, Reads};

use super::{failure, load_block, workload};
use crate::exit::Failure;
use crate::framing::RespFraming;
use crate::plan::Case;
use crate::systems::null::null_server;

/// A null server for blocks of pings.
#[derive(Debug)]
pub(crate) struct NullPings(NullServer);

impl NullPings {
    /// Listens on a free port of loopback.
    ///
    /// # Errors
    /// If no port is free.
    pub(crate) fn start() -> Result<Self, Failure> {
        null_server(Reads::Ok, None).map(Self)
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
        let address = self.0.address().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let stream = TcpStream::connect(address)?;
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
