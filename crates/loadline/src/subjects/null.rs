//! A server that does nothing, in this process: it answers PING with constants. What the generator
//! reaches on it is the generator's own ceiling.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use loadline_load::runner::Subject;
use loadline_load::wire::{Connect, Session, Shape, Transport};
use loadline_load::{Control, Error, block::Block, outcome::Outcome, pacing::Stop};

use super::{failure, load_block, workload};
use crate::exit::Failure;
use crate::framing::RespFraming;
use crate::plan::Case;

/// The request that it knows, as the workload `ping` sends it.
const REQUEST: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const REPLY: &[u8] = b"+PONG\r\n";
const READ_BYTES: usize = 16 << 10;

/// A thread that accepts connections, each of which has a thread that answers.
#[derive(Debug)]
pub(crate) struct NullServer {
    address: SocketAddr,
    closing: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl NullServer {
    /// Listens on a free port of loopback.
    ///
    /// # Errors
    /// That there is none.
    pub(crate) fn start() -> Result<Self, Failure> {
        Self::listen().map_err(|error| {
            Failure::unavailable(format!(
                "The null server on loopback could not be started: {error}."
            ))
        })
    }

    fn listen() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let closing = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&closing);
        let acceptor = thread::Builder::new()
            .name("null-server".into())
            .spawn(move || {
                for stream in listener.incoming() {
                    if flag.load(Ordering::Relaxed) {
                        break;
                    }
                    if let Ok(stream) = stream {
                        thread::spawn(move || answer(stream));
                    }
                }
            })?;
        Ok(Self {
            address,
            closing,
            acceptor: Some(acceptor),
        })
    }

    /// What runs the blocks of `case`, which sends nothing but PING.
    ///
    /// # Errors
    /// That a connection cannot be opened.
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

impl Drop for NullServer {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        // The acceptor waits for a connection, and looks at the flag with the next one.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(acceptor) = self.acceptor.take().filter(|_| woken) {
            // It ends in a panic only where the panic was reported already.
            let _ = acceptor.join();
        }
    }
}

impl Connect for NullServer {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Box::new(stream))
    }
}

/// One case on the server that does nothing.
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

/// Answers each whole request that arrives, however it is cut, until the other end closes.
fn answer(mut stream: TcpStream) {
    let mut buffer = vec![0; READ_BYTES];
    let replies = REPLY.repeat(READ_BYTES / REQUEST.len() + 1);
    let mut pending = 0;
    if stream.set_nodelay(true).is_err() {
        return;
    }
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
        let server = NullServer::listen().unwrap();
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream
            .set_read_timeout(Some(crate::targets::connect::PATIENCE))
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
