//! Encrypted connections by rustls, for the event loop.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustls::{ServerConfig, ServerConnection};

/// Bytes of plaintext that one read of the socket can bring: what is left of a record, and the next one.
const RECORD_BYTES: usize = 2 * (16 << 10);

/// The certificates of encrypted connections.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The content of `files`.
    pub config: Arc<ServerConfig>,
    /// The files, which are read again when CONFIG SET names one of them.
    pub files: TlsFiles,
    /// Reads the files, or returns the reason why they cannot be used.
    pub read: fn(&TlsFiles) -> Result<Arc<ServerConfig>, String>,
}

/// The files of certificates, in PEM format.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate, with those between it and its authority.
    pub certificate: PathBuf,
    /// The private key of that certificate.
    pub key: PathBuf,
    /// The authorities of the certificates of clients.
    pub authorities: Option<PathBuf>,
    /// The clients that need a certificate.
    pub clients: ClientCertificates,
}

/// The clients of encrypted connections that need a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    /// None, and they are not asked for one.
    No,
    /// All.
    #[default]
    Yes,
    /// None, but a certificate is verified if there is one.
    Optional,
}

impl ClientCertificates {
    /// All values with their names in Redis, in its order.
    pub const NAMES: [(&str, Self); 3] = [
        ("no", Self::No),
        ("yes", Self::Yes),
        ("optional", Self::Optional),
    ];
}

/// A socket with its session of TLS. Neither blocks.
///
/// The session holds at most 64 KiB of a handshake, one incomplete record, and 64 KiB of encrypted output.
#[derive(Debug)]
pub(crate) struct Encrypted {
    socket: TcpStream,
    session: ServerConnection,
    since: Instant,
    /// Decrypted bytes that were not read.
    plaintext_bytes: usize,
    /// Whether the peer has ended its direction.
    has_ended: bool,
}

impl Encrypted {
    /// Begins a session. The first reads and [sends](Self::send) do the handshake.
    ///
    /// # Errors
    /// A configuration that rustls does not accept.
    pub(crate) fn new(socket: TcpStream, config: Arc<ServerConfig>) -> io::Result<Self> {
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Self {
            socket,
            session,
            since: Instant::now(),
            plaintext_bytes: 0,
            has_ended: false,
        })
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    pub(crate) fn is_overdue(&self, timeout: Duration) -> bool {
        self.is_handshaking() && self.since.elapsed() > timeout
    }

    pub(crate) fn has_more(&self) -> bool {
        self.has_plaintext() || self.has_ended
    }

    fn has_plaintext(&self) -> bool {
        self.plaintext_bytes > 0
    }

    /// Reads until the socket or the buffer has nothing more.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let mut filled = 0;
        loop {
            if self.has_plaintext() {
                let bytes = self.session.reader().read(&mut buffer[filled..]);
                let bytes = bytes.map_err(errno)?;
                filled += bytes;
                self.plaintext_bytes -= bytes;
            }
            if self.has_ended || self.has_plaintext() || filled + RECORD_BYTES > buffer.len() {
                return Ok(filled);
            }
            match self.receive() {
                Ok(()) => {}
                Err(Errno::AGAIN) if filled > 0 => return Ok(filled),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Decrypts what one read of the socket brings.
    fn receive(&mut self) -> Result<(), Errno> {
        // A peer that closes the socket without a message of TLS has closed it all the same.
        self.has_ended = self.session.read_tls(&mut self.socket).map_err(errno)? == 0;
        match self.session.process_new_packets() {
            Ok(state) => {
                self.plaintext_bytes = state.plaintext_bytes_to_read();
                self.has_ended |= state.peer_has_closed();
                Ok(())
            }
            Err(_) => {
                // The peer learns the reason if the socket takes it.
                let _ = self.send();
                Err(Errno::PROTO)
            }
        }
    }

    pub(crate) fn write(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let mut taken = 0;
        for part in parts {
            // The writer of rustls has no errors but for a full buffer, which takes nothing.
            let bytes = self.session.writer().write(part).map_err(errno)?;
            taken += bytes;
            if bytes < part.len() {
                break;
            }
        }
        match self.send() {
            Ok(()) | Err(Errno::AGAIN) if taken > 0 => Ok(taken),
            Ok(()) => Err(Errno::AGAIN),
            Err(errno) => Err(errno),
        }
    }

    pub(crate) fn send(&mut self) -> Result<(), Errno> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno(error)),
            }
        }
        Ok(())
    }

    /// Whether the peer has gone. What it sent before is kept, up to a record.
    pub(crate) fn is_abandoned(&mut self) -> bool {
        if self.has_plaintext() || self.has_ended {
            return self.has_ended;
        }
        match self.receive() {
            Ok(()) => self.has_ended,
            Err(errno) => errno != Errno::AGAIN && errno != Errno::INTR,
        }
    }

    /// Tells the peer that no more bytes follow.
    pub(crate) fn say_goodbye(&mut self) {
        self.session.send_close_notify();
        // The end of the socket follows, and says the same.
        let _ = self.send();
    }
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        self.say_goodbye();
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "it is handed to map_err, which passes by value"
)]
fn errno(error: io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::WouldBlock => Errno::AGAIN,
        _ => Errno::from_io_error(&error).unwrap_or(Errno::IO),
    }
}
