//! The listener of a null server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::exit::Failure;

/// A thread that accepts connections, and a thread per connection that answers.
#[derive(Debug)]
pub(crate) struct NullServer {
    address: SocketAddr,
    closing: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl NullServer {
    /// Listens on a free port of loopback. `answer` serves one connection until the peer closes it.
    ///
    /// # Errors
    /// If no port is free or no thread can be started.
    pub(crate) fn start(
        answer: impl Fn(TcpStream) + Clone + Send + 'static,
    ) -> Result<Self, Failure> {
        Self::listen(answer).map_err(|error| {
            Failure::unavailable(format!(
                "The null server on loopback could not be started: {error}."
            ))
        })
    }

    fn listen(answer: impl Fn(TcpStream) + Clone + Send + 'static) -> io::Result<Self> {
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
                    if let Ok(stream) = stream.and_then(|stream| {
                        stream.set_nodelay(true)?;
                        Ok(stream)
                    }) {
                        let answer = answer.clone();
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

    /// Its address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        // The accepting thread checks the flag after the next connection.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(acceptor) = self.acceptor.take().filter(|_| woken) {
            // Fails only if the thread panicked, which has been reported.
            let _ = acceptor.join();
        }
    }
}
