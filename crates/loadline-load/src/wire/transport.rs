//! What the event loop needs of a connection: a non-blocking byte stream with a descriptor.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags};

use crate::reply::{Reply, Tally};

/// A non-blocking byte stream. Errors of kind `WouldBlock` mean "not now".
pub trait Transport: Send {
    /// The descriptor to wait on.
    fn as_fd(&self) -> BorrowedFd<'_>;

    /// Reads what is there.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there; zero bytes mean that the peer has closed.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;

    /// Writes as much as fits.
    ///
    /// # Errors
    /// `WouldBlock` when nothing fits now.
    fn write(&mut self, buf: &[u8]) -> io::Result<usize>;

    /// Whether a read that did not fill its buffer has emptied the stream, so that the next bytes
    /// raise a new edge. True of plain sockets, false where a layer in between buffers.
    fn short_read_drains(&self) -> bool {
        true
    }

    /// Passes on what an earlier write left in a layer in between; `true` when nothing is left.
    ///
    /// # Errors
    /// As of a write.
    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Makes [`read_waiting`](Self::read_waiting) wait, for `longest` at most. `false` where the reads
    /// of this stream cannot wait; it is then waited for through its descriptor.
    fn prepare_waiting(&mut self, longest: Duration) -> bool {
        let _ = longest;
        false
    }

    /// Reads what is there, and waits for it where nothing is.
    ///
    /// # Errors
    /// As of [`read`](Self::read); `WouldBlock` when nothing came in time.
    fn read_waiting(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read(buf)
    }
}

/// Sockets of the operating system: each call states by itself whether it waits, so that a socket can do both.
macro_rules! sockets {
    ($($socket:ty),+) => {
        $(impl Transport for $socket {
            fn as_fd(&self) -> BorrowedFd<'_> {
                AsFd::as_fd(self)
            }

            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                receive(&*self, buf, RecvFlags::DONTWAIT)
            }

            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                send(&*self, buf)
            }

            fn prepare_waiting(&mut self, longest: Duration) -> bool {
                self.set_read_timeout(Some(longest)).is_ok() && self.set_nonblocking(false).is_ok()
            }

            fn read_waiting(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                receive(&*self, buf, RecvFlags::empty())
            }
        })+
    };
}

sockets!(TcpStream, UnixStream);

fn receive(socket: impl AsFd, buf: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, buf, flags)?.0)
}

fn send(socket: impl AsFd, buf: &[u8]) -> io::Result<usize> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(rustix::net::send(socket, buf, flags)?)
}

/// Opens connections that are ready for commands: connected, encrypted, authenticated, greeted, and
/// set to non-blocking.
pub trait Connect: Sync {
    /// Opens one.
    ///
    /// # Errors
    /// What the operating system or the handshake said.
    fn connect(&self) -> io::Result<Box<dyn Transport>>;
}

impl<C: Connect + ?Sized> Connect for &C {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        (**self).connect()
    }
}

/// Tells replies apart on one connection.
pub trait Framing: Send {
    /// Takes all of `bytes`, the next bytes of the stream, and counts the replies that end in them.
    ///
    /// # Errors
    /// A sentence saying what is wrong with the stream; the connection is then of no more use.
    fn feed(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(), String>;

    /// The first reply in `bytes`, if it is complete: its length and what it says.
    ///
    /// # Errors
    /// As of [`feed`](Self::feed).
    fn first<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<(usize, Reply<'b>)>, String>;
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;
    use std::time::Instant;

    use super::*;

    const LONGEST: Duration = Duration::from_millis(200);

    fn check(mut ours: impl Transport, mut theirs: impl Write + Send + 'static) {
        let mut buffer = [0; 16];
        assert!(ours.prepare_waiting(LONGEST));
        let begun = Instant::now();
        let nothing = ours.read(&mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        let nothing = ours.read_waiting(&mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        assert!(begun.elapsed() >= LONGEST / 2, "{:?}", begun.elapsed());

        let writer = thread::spawn(move || {
            thread::sleep(LONGEST / 10);
            theirs.write_all(b"late").unwrap();
            theirs
        });
        let bytes = loop {
            // A busy machine may wake the writer later than the read waits.
            match ours.read_waiting(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => break done.unwrap(),
            }
        };
        assert_eq!(&buffer[..bytes], b"late");

        // A peer that does not read must not stop a write for good.
        let kept = writer.join().unwrap();
        let full = loop {
            if let Err(error) = ours.write(&[0; 64 << 10]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        drop(kept);
    }

    #[test]
    fn a_socket_waits_only_in_the_read_that_says_so() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        check(ours, theirs);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        check(ours, listener.accept().unwrap().0);
    }
}
