use std::net::TcpListener;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use loadline_resp::Protocol;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConnection, StreamOwned};
use tempfile::TempDir;

use super::*;
use crate::spelling::Server;
use crate::systems::admin::Admin;
use crate::systems::connect::Endpoint;

/// An authority, with a certificate for a server and one for a client, as files.
struct Authority {
    dir: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.pem"), issuer.pem()).unwrap();
        std::fs::write(dir.path().join("ca.key"), issuer.key().serialize_pem()).unwrap();
        Self { dir, issuer }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a certificate and its key.
    fn issue(&self, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()])
            .unwrap()
            .signed_by(&key, &self.issuer)
            .unwrap();
        let (certificate_path, key_path) = (
            self.file(&format!("{name}.pem")),
            self.file(&format!("{name}.key")),
        );
        std::fs::write(&certificate_path, certificate.pem()).unwrap();
        std::fs::write(&key_path, key.serialize_pem()).unwrap();
        (certificate_path, key_path)
    }

    /// A server that answers a greeting and then echoes, on one connection.
    fn serve(&self, asks_for_certificate: bool) -> (Server, JoinHandle<io::Result<()>>) {
        self.serve_as(self.issue("127.0.0.1"), asks_for_certificate)
    }

    /// The same with the given certificate and key.
    fn serve_as(
        &self,
        (certificate, key): (PathBuf, PathBuf),
        asks_for_certificate: bool,
    ) -> (Server, JoinHandle<io::Result<()>>) {
        let files = loadline_server::TlsFiles {
            certificate,
            key,
            authorities: Some(self.file("ca.pem")),
            clients: if asks_for_certificate {
                ClientCertificates::Yes
            } else {
                ClientCertificates::No
            },
        };
        let config = super::server(&files).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server {
            tls: true,
            ..Server::local(listener.local_addr().unwrap())
        };
        (server, thread::spawn(move || echo(&listener, config)))
    }
}

fn echo(listener: &TcpListener, config: Arc<ServerConfig>) -> io::Result<()> {
    let (socket, _) = listener.accept()?;
    let mut stream = StreamOwned::new(
        ServerConnection::new(config).map_err(io::Error::other)?,
        socket,
    );
    let mut buffer = vec![0; 16 << 10];
    let _ = stream.read(&mut buffer)?;
    // PING and CLIENT SETNAME, which are sent together.
    stream.write_all(b"+PONG\r\n+OK\r\n")?;
    loop {
        let bytes = stream.read(&mut buffer)?;
        if bytes == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..bytes])?;
    }
}

fn endpoint(server: Server, files: &TlsFiles) -> Endpoint {
    Endpoint::new(server, Protocol::Resp2, trust(files, &[]).unwrap())
}

/// The echo is not read until every buffer on the path is full and a write is partial; then all bytes must return.
#[test]
fn connection_that_does_not_block_loses_nothing() {
    let authority = Authority::new();
    let (server, thread) = authority.serve(false);
    let trusted = TlsFiles {
        ca: Some(authority.file("ca.pem")),
        ..TlsFiles::default()
    };
    let mut transport = wire::Connect::connect(&endpoint(server, &trusted)).unwrap();
    assert!(!transport.short_read_drains());
    let mut buffer = vec![0; 64 << 10];
    let begun = Instant::now();
    let nothing = transport.read(&mut buffer).unwrap_err();
    assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    // The timeout of a blocking socket has the same error kind.
    let flags = rustix::fs::fcntl_getfl(transport.as_fd()).unwrap();
    assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
    let deadline = begun + Duration::from_secs(30);
    let mut sent: Vec<u8> = Vec::new();
    loop {
        let at = sent.len();
        let piece: Vec<u8> = (at..at + 50_000)
            .map(|index| (index / 251 + index) as u8)
            .collect();
        match transport.write(&piece) {
            Ok(bytes) => sent.extend_from_slice(&piece[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
        assert!(Instant::now() < deadline, "{} bytes fit", sent.len());
    }
    let mut received = Vec::new();
    while received.len() < sent.len() {
        transport.flush().unwrap();
        match transport.read(&mut buffer) {
            Ok(bytes) => received.extend_from_slice(&buffer[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
        assert!(
            Instant::now() < deadline,
            "{} of {} bytes came back",
            received.len(),
            sent.len()
        );
    }
    let differs = received
        .iter()
        .zip(&sent)
        .position(|(one, other)| one != other);
    assert_eq!((received.len(), differs), (sent.len(), None));
    drop(transport);
    let _ = thread.join().unwrap();
}

#[test]
fn only_a_trusted_server_is_talked_to() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (server, thread) = authority.serve(false);
    let error = endpoint(
        server,
        &TlsFiles {
            ca: Some(stranger.file("ca.pem")),
            ..TlsFiles::default()
        },
    )
    .open()
    .unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    assert!(thread.join().unwrap().is_err());
    let (server, thread) = authority.serve(false);
    endpoint(
        server,
        &TlsFiles {
            insecure: true,
            ..TlsFiles::default()
        },
    )
    .open()
    .map(drop)
    .unwrap();
    let _ = thread.join().unwrap();
}

#[test]
fn server_may_ask_who_we_are() {
    let authority = Authority::new();
    let mut files = TlsFiles {
        ca: Some(authority.file("ca.pem")),
        ..TlsFiles::default()
    };
    let (server, thread) = authority.serve(true);
    assert!(endpoint(server, &files).open().is_err());
    assert!(thread.join().unwrap().is_err());
    files.identity = Some(authority.issue("client"));
    let (server, thread) = authority.serve(true);
    endpoint(server, &files).open().map(drop).unwrap();
    let _ = thread.join().unwrap();
}

/// The error and the advice for a refused handshake, including the flag.
#[test]
fn refused_certificate_comes_with_the_flag_that_helps() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let trusting = |authority: &Authority| TlsFiles {
        ca: Some(authority.file("ca.pem")),
        ..TlsFiles::default()
    };
    let own = (authority.file("ca.pem"), authority.file("ca.key"));
    let cases = [
        (authority.issue("127.0.0.1"), false, &stranger, "--tls-ca"),
        // As `openssl req -x509` makes it: self-signed, and an authority.
        (own, false, &authority, "--tls-insecure"),
        (authority.issue("elsewhere"), false, &authority, "host name"),
        (authority.issue("127.0.0.1"), true, &authority, "--tls-cert"),
    ];
    for (identity, asks, trusted, advice) in cases {
        let (server, thread) = authority.serve_as(identity, asks);
        let failure = Admin::open(&endpoint(server, &trusting(trusted))).unwrap_err();
        let text = failure.to_string();
        assert!(text.contains(advice), "{advice}: {text}");
        assert!(thread.join().unwrap().is_err());
    }
}

#[test]
fn files_without_certificates_are_bad_files() {
    let authority = Authority::new();
    let empty = authority.file("empty.pem");
    std::fs::write(&empty, "nothing here").unwrap();
    let identity = |certificate: &Path, key: &Path| Some((certificate.to_owned(), key.to_owned()));
    let (certificate, key) = authority.issue("client");
    for files in [
        TlsFiles {
            ca: Some(empty.clone()),
            ..TlsFiles::default()
        },
        TlsFiles {
            ca: Some(authority.file("missing.pem")),
            ..TlsFiles::default()
        },
        TlsFiles {
            insecure: true,
            identity: identity(&empty, &key),
            ..TlsFiles::default()
        },
        TlsFiles {
            insecure: true,
            identity: identity(&certificate, &empty),
            ..TlsFiles::default()
        },
    ] {
        assert_eq!(
            trust(&files, &[]).unwrap_err().exit(),
            crate::exit::Exit::BadFile
        );
    }
}
