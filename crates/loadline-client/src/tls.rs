//! Encrypted connections by rustls.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::Error;
use crate::conn::attempt::{advised, hung_up};

/// The certificates that TLS trusts: those of the system, or a configuration of rustls.
#[derive(Clone, Default)]
pub struct Tls(Option<Arc<ClientConfig>>);

impl Tls {
    /// Trusts these certificates (in DER form) and those they signed, and no others.
    ///
    /// # Errors
    /// [`Error::Tls`] for an invalid certificate.
    pub fn trusting<'a>(
        certificates: impl IntoIterator<Item = CertificateDer<'a>>,
    ) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates {
            roots.add(certificate.into_owned()).map_err(broken)?;
        }
        config(roots).map(|config| Self(Some(config)))
    }

    /// Trusts the certificates in this PEM text, such as the content of `ca.pem`, and those they signed, and no others.
    ///
    /// # Errors
    /// [`Error::Tls`] for a text without a certificate, or with an invalid one.
    pub fn trusting_pem(text: impl AsRef<[u8]>) -> Result<Self, Error> {
        Self::trusting(certificates(text.as_ref())?)
    }

    /// The same with a certificate of the client, for servers that ask for one (`tls-auth-clients`). Both are PEM
    /// texts: the certificate with those that lead to its authority, and its private key.
    ///
    /// ```no_run
    /// use loadline_client::{Client, Error, Tls};
    ///
    /// # fn read(_: &str) -> Vec<u8> { Vec::new() }
    /// let tls = Tls::trusting_pem(read("ca.pem"))?.identified_by_pem(read("client.pem"), read("client.key"))?;
    /// let client = Client::builder().url("rediss://cache.example")?.tls(tls).build();
    /// # drop(client);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Tls`] for texts that are not a certificate and its key.
    pub fn identified_by_pem(
        self,
        certificate: impl AsRef<[u8]>,
        key: impl AsRef<[u8]>,
    ) -> Result<Self, Error> {
        let config = match self.0 {
            Some(config) => config,
            None => config(system_roots()?)?,
        };
        let chain = certificates(certificate.as_ref())?;
        let key = PrivateKeyDer::from_pem_slice(key.as_ref())
            .map_err(|error| unreadable("private key", &error))?;
        let identity =
            CertifiedKey::from_der(chain, key, config.crypto_provider()).map_err(broken)?;
        let mut config = ClientConfig::clone(&config);
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(identity));
        Ok(Self(Some(Arc::new(config))))
    }

    /// Uses a configuration of rustls.
    #[must_use]
    pub fn with_config(config: Arc<ClientConfig>) -> Self {
        Self(Some(config))
    }

    /// A session with the server that has this name.
    pub(crate) fn session(&self, host: &str) -> Result<ClientConnection, Error> {
        let config = match &self.0 {
            Some(config) => Arc::clone(config),
            None => config(system_roots()?)?,
        };
        let name = ServerName::try_from(host.to_owned()).map_err(|error| {
            Error::Tls(format!(
                "the host is not a valid name for a certificate: {error}"
            ))
        })?;
        ClientConnection::new(config, name).map_err(broken)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Some(_) => "Tls(a configuration of the caller's)",
            None => "Tls(the system's certificates)",
        })
    }
}

/// The certificates of a PEM text, of which there must be one.
fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| unreadable("certificate", &error))?;
    if found.is_empty() {
        return Err(unreadable("certificate", &pem::Error::NoItemsFound));
    }
    Ok(found)
}

fn unreadable(what: &str, error: &pem::Error) -> Error {
    Error::Tls(format!("the {what} cannot be read as PEM: {error}"))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "it is handed to map_err, which passes by value"
)]
fn broken(error: rustls::Error) -> Error {
    Error::Tls(error.to_string())
}

/// The reason why a handshake failed, with the likely cause if the server does not speak TLS. Such a server answers
/// with something else, hangs up, or waits for the end of what it takes for a command.
pub(crate) fn explained(error: io::Error) -> io::Error {
    const LIKELY: &str = "a server that expects no TLS does that, and its URL begins with redis://";
    let answer = error.get_ref().and_then(|inner| inner.downcast_ref());
    let no_tls = matches!(answer, Some(rustls::Error::InvalidMessage(_)));
    let kind = error.kind();
    if kind == io::ErrorKind::TimedOut || hung_up(kind) || no_tls {
        let what = format!("the handshake of TLS failed: {error}");
        return advised(io::Error::new(kind, what), LIKELY);
    }
    error
}

fn config(roots: RootCertStore) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(broken)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn system_roots() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(Error::Tls("the system has no certificates to trust".into()));
    }
    Ok(roots)
}

/// A TLS session over a socket. It blocks if the socket does.
///
/// A read or write of a socket that does not block fails with `WouldBlock` where nothing can be done now;
/// [`flush`](Write::flush) sends what a write has left behind.
#[derive(Debug)]
pub struct TlsStream<S> {
    pub(crate) session: ClientConnection,
    pub(crate) socket: S,
}

impl<S> TlsStream<S> {
    /// The socket below.
    #[must_use]
    pub fn get_ref(&self) -> &S {
        &self.socket
    }
}

impl<S: Read + Write> TlsStream<S> {
    /// Encrypts a socket. The first reads and writes do the handshake.
    pub(crate) fn new(session: ClientConnection, socket: S) -> Self {
        Self { session, socket }
    }

    /// Continues the handshake until it is complete.
    ///
    /// # Errors
    /// The error of the socket, including `WouldBlock`, or of the check of the certificate.
    #[cfg(feature = "tokio")]
    pub(crate) fn shake_hands(&mut self) -> io::Result<()> {
        while self.session.is_handshaking() {
            self.send()?;
            if self.session.wants_read() && self.session.is_handshaking() {
                self.receive()?;
            }
        }
        self.send()
    }

    /// Goes on with the handshake by one system call.
    ///
    /// # Errors
    /// The error of the socket, including `WouldBlock`, or of the check of the certificate.
    pub(crate) fn step(&mut self) -> io::Result<()> {
        if self.session.wants_write() {
            return self.session.write_tls(&mut self.socket).map(drop);
        }
        self.receive()
    }

    /// Reads with at most one system call; `WouldBlock` if that brought no whole record.
    pub(crate) fn read_some(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(read) = self.read_plaintext(buf) {
            return read;
        }
        self.receive_and_answer()?;
        let none = Err(io::ErrorKind::WouldBlock.into());
        self.read_plaintext(buf).unwrap_or(none)
    }

    /// Takes bytes as far as the session's buffer has room, and writes with one system call.
    pub(crate) fn write_some(&mut self, buf: &[u8]) -> io::Result<usize> {
        let taken = self.session.writer().write(buf)?;
        match self.session.write_tls(&mut self.socket) {
            Err(error) if taken == 0 => Err(error),
            // The next call meets the same error if it lasts.
            _ => Ok(taken),
        }
    }

    /// Reads bytes that are decrypted already; `None` if there are none.
    fn read_plaintext(&mut self, buf: &mut [u8]) -> Option<io::Result<usize>> {
        match self.session.reader().read(buf) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            // A peer that closes the socket without a TLS message has closed it all the same.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Some(Ok(0)),
            done => Some(done),
        }
    }

    fn receive_and_answer(&mut self) -> io::Result<()> {
        self.receive()?;
        // An answer of TLS itself, such as to a change of keys. What does not fit goes with the next write.
        match self.send() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Sends the bytes that are encrypted already.
    ///
    /// # Errors
    /// The error of the socket, including `WouldBlock`.
    pub(crate) fn send(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether there are decrypted bytes that were not read.
    pub(crate) fn has_plaintext(&mut self) -> bool {
        let state = self.session.process_new_packets();
        state.is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
    }

    fn receive(&mut self) -> io::Result<()> {
        if self.session.read_tls(&mut self.socket)? == 0 && self.session.is_handshaking() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.session
            .process_new_packets()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(())
    }
}

impl<S: Read + Write> Read for TlsStream<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(read) = self.read_plaintext(buf) {
                return read;
            }
            self.receive_and_answer()?;
        }
    }
}

impl<S: Read + Write> Write for TlsStream<S> {
    /// Takes bytes while the buffer of the session has room. Bytes that were taken may still have to be sent.
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let taken = self.session.writer().write(buf)?;
        match self.send() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && taken > 0 => Ok(taken),
            Err(error) => Err(error),
            Ok(()) if taken == 0 && !buf.is_empty() => self.session.writer().write(buf),
            Ok(()) => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}
