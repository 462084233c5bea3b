//! Encrypted connections: TLS trust, TLS under the wire loop, and the certificates of `loadline serve`.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use loadline_client::{Tls, TlsStream};
use loadline_load::wire;
use loadline_server::ClientCertificates;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};

use crate::exit::Failure;
use crate::plan::TlsFiles;

/// The TLS trust of encrypted connections, from these files. Behind a link, the certificate may also be for one of
/// `hosts`: the servers that the link leads to.
///
/// # Errors
/// A bad file; or, if the system's certificates are requested, that there are none.
pub(crate) fn trust(files: &TlsFiles, hosts: &[&str]) -> Result<Tls, Failure> {
    let provider = Arc::new(ring::default_provider());
    let verifier = if files.insecure {
        None
    } else {
        let roots = Arc::new(roots(files.ca.as_deref())?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(broken)?;
        Some(verifier)
    };
    let hosts = hosts.iter().map(|host| ServerName::try_from(*host));
    let verifier = Verifier {
        provider: Arc::clone(&provider),
        verifier,
        hosts: hosts
            .filter_map(|host| Some(host.ok()?.to_owned()))
            .collect(),
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(broken)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let config = match &files.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(|error| unfit(certificate, key, error))?,
    };
    Ok(Tls::with_config(Arc::new(config)))
}

/// The configuration of a server with these certificates.
///
/// # Errors
/// A bad file, a key that does not belong to the certificate, or clients that need a certificate without an authority for it.
pub(crate) fn server(files: &loadline_server::TlsFiles) -> Result<Arc<ServerConfig>, Failure> {
    let (certificate, key) = (files.certificate.as_path(), files.key.as_path());
    let authorities = match (files.clients, &files.authorities) {
        (ClientCertificates::No, _) => None,
        (_, Some(file)) => Some(file),
        (_, None) => {
            return Err(Failure::usage(
                "Clients need a certificate, but the authority that signs it is not named.\n\
                 Name its file with --tls-ca-cert-file, or do without certificates of clients with --tls-auth-clients no.",
            ));
        }
    };
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(broken)?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let roots = Arc::new(roots(Some(authorities))?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            let verifier = if files.clients == ClientCertificates::Optional {
                verifier.allow_unauthenticated()
            } else {
                verifier
            };
            builder.with_client_cert_verifier(verifier.build().map_err(broken)?)
        }
    };
    let config = builder
        .with_single_cert(certificates(certificate)?, private_key(key)?)
        .map_err(|error| unfit(certificate, key, error))?;
    Ok(Arc::new(config))
}

fn broken(error: impl fmt::Display) -> Failure {
    Failure::bad_file(format!("TLS cannot be set up: {error}."))
}

/// The failure of a certificate and a key that were read, and refused together.
fn unfit(certificate: &Path, key: &Path, error: rustls::Error) -> Failure {
    let rustls::Error::InconsistentKeys(_) = error else {
        return broken(error);
    };
    let [certificate, key] = [certificate, key].map(Path::display);
    Failure::bad_file(format!(
        "{key}: is not the key of the certificate in {certificate}."
    ))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Failure> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| {
        Failure::bad_file(format!(
            "{}: cannot read a private key in PEM format: {error}.",
            path.display()
        ))
    })
}

/// A non-blocking TLS connection of the wire loop.
#[derive(Debug)]
pub(crate) struct TlsTransport(pub(crate) Box<TlsStream<TcpStream>>);

impl wire::Transport for TlsTransport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        AsFd::as_fd(self.0.get_ref())
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }

    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }

    fn short_read_drains(&self) -> bool {
        false
    }

    fn flush(&mut self) -> io::Result<bool> {
        match self.0.flush() {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    let from_system = || {
        let found = rustls_native_certs::load_native_certs();
        if found.certs.is_empty() {
            return Err(Failure::unavailable(
                "This system has no root certificates; name a file with --tls-ca, or use --tls-insecure.",
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
            "{place} contains no valid root certificate."
        )));
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let unreadable = |error| {
        Failure::bad_file(format!(
            "{}: cannot read its certificates: {error}.",
            path.display()
        ))
    };
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(unreadable)?;
    if found.is_empty() {
        return Err(Failure::bad_file(format!(
            "{}: contains no certificate in PEM format.",
            path.display()
        )));
    }
    Ok(found)
}

/// Checks a certificate by the roots of trust, for the name that was connected to or one of `hosts`.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// `None` for `--tls-insecure`: any certificate is accepted, but its owner must hold the key.
    verifier: Option<Arc<WebPkiServerVerifier>>,
    hosts: Vec<ServerName<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(verifier) = &self.verifier else {
            return Ok(ServerCertVerified::assertion());
        };
        let verify = |name| verifier.verify_server_cert(certificate, between, name, ocsp, now);
        let others = self.hosts.iter().map(verify);
        others.fold(verify(name), Result::or)
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
            &self.provider.signature_verification_algorithms,
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
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests;
