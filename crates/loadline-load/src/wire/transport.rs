//! The event loop's view of a connection: a non-blocking byte stream with a descriptor.

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

    /// Reads the available bytes.
    ///
    /// # Errors
    /// `WouldBlock` if there are none; zero bytes mean that the peer has closed.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;

    /// Writes as much as fits.
    ///
    /// # Errors
    /// `WouldBlock` if nothing fits now.
    fn write(&mut self, buf: &[u8]) -> io::Result<usize>;

    /// Whether a read that did not fill its buffer has emptied the stream, so that the next bytes cause a new
    /// edge. True for plain sockets, false if a layer in between buffers.
    fn short_read_drains(&self) -> bool {
        true
    }

    /// Flushes what an earlier write left in a layer in between; `true` if nothing is left.
    ///
    /// # Errors
    /// Those of a write.
    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Makes [`read_waiting`](Self::read_waiting) wait for at most `longest`. `false` if the reads of this
    /// stream cannot wait; the caller then waits on the descriptor.
    fn prepare_waiting(&mut self, longest: Duration) -> bool {
        let _ = longest;
        false
    }

    /// Reads the available bytes, and waits for them if there are none.
    ///
    /// # Errors
    /// Those of [`read`](Self::read); `WouldBlock` if nothing arrived in time.
    fn read_waiting(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read(buf)
    }
}

/// Sockets of the operating system: each call specifies whether it waits, so that a socket can do both.
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
/// non-blocking.
pub trait Connect: Sync {
    /// Opens a connection.
    ///
    /// # Errors
    /// The error of the operating system or the handshake.
    fn connect(&self) -> io::Result<Box<dyn Transport>>;
}

impl<C: Connect + ?Sized> Connect for &C {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        (**self).connect()
    }
}

/// Separates the replies on one connection.
pub trait Framing: Send {
    /// Processes all of `bytes`, the next bytes of the stream, and counts the replies that end in them.
    ///
    /// # Errors
    /// A sentence that describes the fault; the connection must then be closed.
    fn feed(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(), String>;

    /// The first reply in `bytes`, if it is complete: its length and its content.
    ///
    /// # Errors
    /// Those of [`feed`](Self::feed).
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
            // On a busy machine the writer can wake up after the end of the read.
            match ours.read_waiting(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => break done.unwrap(),
            }
        };
        assert_eq!(&buffer[..bytes], b"late");

        // A peer that does not read must not block a write forever.
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
    fn socket_waits_only_in_the_read_that_says_so() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        check(ours, theirs);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        check(ours, listener.accept().unwrap().0);
    }
}
