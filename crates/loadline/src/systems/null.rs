//! The listener of a null server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::exit::Failure;
use crate::spelling::{Address, Server};

/// The name of the threads that answer, by which their CPU time is found.
pub(crate) const NULL_CONNECTION: &str = "null-connection";

/// A thread that accepts connections, and a thread per connection that answers.
#[derive(Debug)]
pub(crate) struct NullServer {
    place: Place,
    closing: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

/// Where it listens.
#[derive(Debug)]
enum Place {
    Tcp(SocketAddr),
    /// The file is removed with the server.
    Unix(PathBuf),
}

impl NullServer {
    /// Listens on a free port of loopback. `answer` serves one connection until the peer closes it.
    ///
    /// # Errors
    /// If no port is free or no thread can be started.
    pub(crate) fn start(
        answer: impl Fn(TcpStream) + Clone + Send + 'static,
    ) -> Result<Self, Failure> {
        let listen = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let address = listener.local_addr()?;
            let accept = move || {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(stream)
            };
            Self::serve(Place::Tcp(address), accept, answer)
        };
        listen().map_err(|error| refused("loopback", &error))
    }

    /// Listens on a socket in the file system.
    ///
    /// # Errors
    /// That there can be none, or no thread.
    pub(crate) fn start_at(
        path: &Path,
        answer: impl Fn(UnixStream) + Clone + Send + 'static,
    ) -> Result<Self, Failure> {
        let listen = || {
            let listener = UnixListener::bind(path)?;
            let accept = move || listener.accept().map(|(stream, _)| stream);
            Self::serve(Place::Unix(path.to_owned()), accept, answer)
        };
        listen().map_err(|error| refused(&path.display().to_string(), &error))
    }

    fn serve<S: Send + 'static>(
        place: Place,
        mut accept: impl FnMut() -> io::Result<S> + Send + 'static,
        answer: impl Fn(S) + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let closing = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&closing);
        let acceptor = thread::Builder::new()
            .name("null-server".into())
            .spawn(move || {
                loop {
                    let accepted = accept();
                    if flag.load(Ordering::Relaxed) {
                        break;
                    }
                    if let Ok(stream) = accepted {
                        let answer = answer.clone();
                        let connection = thread::Builder::new().name(NULL_CONNECTION.into());
                        // Without a thread, the other end notices that the connection is closed.
                        let _ = connection.spawn(move || answer(stream));
                    }
                }
            })?;
        Ok(Self {
            place,
            closing,
            acceptor: Some(acceptor),
        })
    }

    /// Its address.
    ///
    /// # Panics
    /// If it listens on a socket in the file system.
    pub(crate) fn address(&self) -> SocketAddr {
        match &self.place {
            Place::Tcp(address) => *address,
            Place::Unix(path) => panic!("{} is no address of loopback", path.display()),
        }
    }

    /// The same as a server without a login.
    pub(crate) fn server(&self) -> Server {
        match &self.place {
            Place::Tcp(address) => Server::local(*address),
            Place::Unix(path) => Server {
                address: Address::Unix(path.clone()),
                ..Server::local((Ipv4Addr::LOCALHOST, 0).into())
            },
        }
    }
}

fn refused(place: &str, error: &io::Error) -> Failure {
    Failure::unavailable(format!(
        "The null server on {place} could not be started: {error}."
    ))
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        // The accepting thread checks the flag after the next connection.
        let woken = match &self.place {
            Place::Tcp(address) => TcpStream::connect(address).is_ok(),
            Place::Unix(path) => {
                let woken = UnixStream::connect(path).is_ok();
                // A file that is gone already needs no removal.
                let _ = std::fs::remove_file(path);
                woken
            }
        };
        if let Some(acceptor) = self.acceptor.take().filter(|_| woken) {
            // Fails only if the thread panicked, which has been reported.
            let _ = acceptor.join();
        }
    }
}
