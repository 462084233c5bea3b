//! Encrypted connections: what is trusted, and a TLS stream that blocks or does not, as its socket
//! does.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use loadline_load::wire;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use crate::exit::Failure;
use crate::plan::TlsFiles;

/// What all encrypted connections of a run share.
#[derive(Debug, Clone)]
pub(crate) struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// Reads certificates and keys.
    ///
    /// # Errors
    /// A bad file; or, where the system's certificates are wanted, that there are none.
    pub(crate) fn new(files: &TlsFiles) -> Result<Self, Failure> {
        let provider = Arc::new(ring::default_provider());
        let broken =
            |error: rustls::Error| Failure::bad_file(format!("TLS cannot be set up: {error}."));
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(broken)?;
        let builder = if files.insecure {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(TrustAnything(provider)))
        } else {
            let roots = Arc::new(roots(files.ca.as_deref())?);
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|error| Failure::bad_file(format!("TLS cannot be set up: {error}.")))?;
            builder.with_webpki_verifier(verifier)
        };
        let config = match &files.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let unreadable = |error| {
                    Failure::bad_file(format!(
                        "{}: there is no private key in PEM form: {error}.",
                        key.display()
                    ))
                };
                let private = PrivateKeyDer::from_pem_file(key).map_err(unreadable)?;
                builder
                    .with_client_auth_cert(certificates(certificate)?, private)
                    .map_err(broken)?
            }
        };
        Ok(Self(Arc::new(config)))
    }

    /// Encrypts `socket`, whose other end must prove to be `host`. The handshake blocks as long as
    /// the socket's timeouts let it.
    ///
    /// # Errors
    /// What the socket, or the check of the certificate, said.
    pub(crate) fn connect(&self, host: &str, mut socket: TcpStream) -> io::Result<TlsStream> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let mut session =
            ClientConnection::new(Arc::clone(&self.0), name).map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(TlsStream { session, socket })
    }
}

/// A TCP connection under TLS.
#[derive(Debug)]
pub(crate) struct TlsStream {
    session: ClientConnection,
    socket: TcpStream,
}

impl TlsStream {
    /// The socket underneath.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends what is encrypted already; `true` when nothing is left.
    fn send(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Read for TlsStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A peer that closes without saying so within TLS has closed all the same.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            self.session.read_tls(&mut self.socket)?;
            self.session
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            // An answer within TLS, such as to a change of keys; what does not fit now goes with the next write.
            self.send()?;
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        // The session takes no more than its buffer holds, and nothing while that is full.
        let taken = self.session.writer().write(buf)?;
        let all_sent = self.send()?;
        match taken {
            0 if !buf.is_empty() && !all_sent => Err(io::ErrorKind::WouldBlock.into()),
            0 if !buf.is_empty() => self.session.writer().write(buf),
            taken => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.send()? {
            Ok(())
        } else {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }
}

impl wire::Transport for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        AsFd::as_fd(&self.socket)
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Read::read(self, buf)
    }

    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Write::write(self, buf)
    }

    fn short_read_drains(&self) -> bool {
        false
    }

    fn flush(&mut self) -> io::Result<bool> {
        self.send()
    }
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    let from_system = || {
        let found = rustls_native_certs::load_native_certs();
        if found.certs.is_empty() {
            return Err(Failure::unavailable(
                "This system has no certificates to check a server's against; name a file with --tls-ca, or use --tls-insecure.",
            ));
        }
        Ok(found.certs)
    };
    let trusted = ca.map_or_else(from_system, certificates)?;
    let (added, _) = roots.add_parsable_certificates(trusted);
    if added == 0 {
        let place = ca.map_or_else(
            || "the system's store".into(),
            |path| path.display().to_string(),
        );
        return Err(Failure::bad_file(format!(
            "There is no certificate in {place} that can be a root of trust."
        )));
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let unreadable = |error| {
        Failure::bad_file(format!(
            "{}: the certificates in it cannot be read: {error}.",
            path.display()
        ))
    };
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(unreadable)?;
    if found.is_empty() {
        return Err(Failure::bad_file(format!(
            "{}: there is no certificate in PEM form in it.",
            path.display()
        )));
    }
    Ok(found)
}

/// For `--tls-insecure`: any certificate will do, but its owner must hold the key.
#[derive(Debug)]
struct TrustAnything(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
