//! Connections over TLS: served as others are, and unable to hold up others.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use loadline_client::commands::{get, set};
use loadline_client::{Client, Error, Tls};
use loadline_server::{ClientCertificates, Listen, ServerConfig, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

use crate::support::{Ours, ask, ask_one};

const HOST: &str = "127.0.0.1";

/// An authority, with a certificate for a server and one for a client, as files.
struct Authority {
    dir: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate whose issuer has its own name for self-signed.
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.pem"), issuer.pem()).unwrap();
        let authority = Self { dir, issuer };
        for name in [HOST, "client"] {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &authority.issuer).unwrap();
            std::fs::write(authority.file(name), certificate.pem()).unwrap();
            let key_file = authority.file(&format!("{name}.key"));
            std::fs::write(key_file, key.serialize_pem()).unwrap();
        }
        authority
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        Arc::new(roots)
    }

    /// A server with two ports, the second of which is encrypted.
    fn start(&self, asks_for_certificate: bool, config: ServerConfig) -> Ours {
        let files = TlsFiles {
            certificate: self.file(HOST),
            key: self.file("127.0.0.1.key"),
            authorities: Some(self.file("ca.pem")),
            clients: if asks_for_certificate {
                ClientCertificates::Yes
            } else {
                ClientCertificates::No
            },
        };
        let tls = loadline_server::Tls {
            config: read(&files).unwrap(),
            files,
            read,
        };
        Ours::start(ServerConfig {
            listen: vec![Listen::Tls((Ipv4Addr::LOCALHOST, 0).into())],
            tls: Some(tls),
            ..config
        })
    }

    /// A connection, which can be read and written in any order.
    fn connect(&self, ours: &Ours) -> StreamOwned<ClientConnection, TcpStream> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let config = builder.with_root_certificates(self.roots());
        let config = Arc::new(config.with_no_client_auth());
        let host = ServerName::try_from(HOST).unwrap();
        StreamOwned::new(ClientConnection::new(config, host).unwrap(), socket(ours))
    }
}

/// The configuration of a server with these files.
fn read(files: &TlsFiles) -> Result<Arc<rustls::ServerConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = match (files.clients, &files.authorities) {
        (ClientCertificates::No, _) => builder.with_no_client_auth(),
        (_, authorities) => {
            let authorities = authorities.as_ref().ok_or("no\nauthorities")?;
            let mut roots = RootCertStore::empty();
            let root = PemObject::from_pem_file(authorities).unwrap();
            roots.add(root).unwrap();
            let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(clients.build().unwrap())
        }
    };
    let certificate = PemObject::from_pem_file(&files.certificate);
    let certificate = certificate.map_err(|error| error.to_string())?;
    let key = PemObject::from_pem_file(&files.key).map_err(|error| error.to_string())?;
    let config = builder.with_single_cert(vec![certificate], key);
    Ok(Arc::new(config.map_err(|error| error.to_string())?))
}

/// A socket to the encrypted port on which no handshake has begun.
fn socket(ours: &Ours) -> TcpStream {
    let socket = TcpStream::connect(ours.encrypted.unwrap()).unwrap();
    let timeout = Some(Duration::from_secs(60));
    socket.set_read_timeout(timeout).unwrap();
    // A program that another test starts shares the socket for a moment, so that its end here sends nothing yet.
    socket.set_nodelay(true).unwrap();
    socket
}

fn client(ours: &Ours, tls: Tls) -> Result<loadline_client::blocking::Connection, Error> {
    let url = format!("rediss://{}", ours.encrypted.unwrap());
    Client::builder().url(&url)?.tls(tls).build().blocking()
}

fn redis_cli(ours: &Ours, authority: &Authority, words: &[&str]) -> Output {
    let port = ours.encrypted.unwrap().port().to_string();
    Command::new("redis-cli")
        .args(["-h", HOST, "-p", &port, "--tls", "--cacert"])
        .arg(authority.file("ca.pem"))
        .args(words)
        .output()
        .expect("this test needs redis-cli; `cargo xtask test --install` installs it")
}

#[test]
fn clients_that_trust_the_server_are_served_and_others_refuse_it() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let ours = authority.start(false, ServerConfig::default());
    let trusting = |authority: &Authority| Tls::trusting_pem(authority.text("ca.pem")).unwrap();
    let mut connection = client(&ours, trusting(&authority)).unwrap();
    let value = "v".repeat(3 << 20);
    connection.run(set("k", value.as_str())).unwrap();
    assert_eq!(connection.run(get::<String>("k")).unwrap(), value);
    let error = client(&ours, trusting(&stranger)).map(drop).unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");

    let output = redis_cli(&ours, &authority, &["strlen", "k"]);
    assert_eq!(output.stdout, b"3145728\n", "{output:?}");
    let output = redis_cli(&ours, &stranger, &["strlen", "k"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("certificate verify failed"), "{output:?}");
    // The port without encryption is as it was, and each port shows the other's data.
    assert_eq!(ask(&mut ours.connect(), "STRLEN k"), ":3145728\r\n");
}

#[test]
fn clients_without_a_certificate_are_refused_where_one_is_required() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let ours = authority.start(true, ServerConfig::default());
    let tls = || Tls::trusting_pem(authority.text("ca.pem")).unwrap();
    client(&ours, tls()).map(drop).unwrap_err();
    let identified = |by: &Authority| {
        let (certificate, key) = (by.text("client"), by.text("client.key"));
        client(&ours, tls().identified_by_pem(certificate, key).unwrap())
    };
    identified(&stranger).map(drop).unwrap_err();
    let mut connection = identified(&authority).unwrap();
    connection.run(set("k", "v")).unwrap();
    assert_eq!(connection.run(get::<String>("k")).unwrap(), "v");
    let output = redis_cli(&ours, &authority, &["get", "k"]);
    assert_ne!(output.stdout, b"v\n", "{output:?}");
    let (certificate, key) = (authority.file("client"), authority.file("client.key"));
    let [certificate, key] = [&certificate, &key].map(|path| path.to_str().unwrap());
    let words = ["--cert", certificate, "--key", key, "get", "k"];
    let output = redis_cli(&ours, &authority, &words);
    assert_eq!(output.stdout, b"v\n", "{output:?}");
}

/// The files are read again by CONFIG SET, also if they have their old names. Connections keep the certificate with which they began.
#[test]
fn certificates_are_read_again_by_config_set() {
    let (old, new) = (Authority::new(), Authority::new());
    let ours = old.start(false, ServerConfig::default());
    let mut plain = ours.connect();
    let certificate = old.file(HOST).display().to_string();
    let asked = "CONFIG GET tls-cert-file tls-auth-clients";
    let shown = format!(
        "*4\r\n$13\r\ntls-cert-file\r\n${}\r\n{certificate}\r\n$16\r\ntls-auth-clients\r\n$2\r\nno\r\n",
        certificate.len()
    );
    assert_eq!(ask(&mut plain, asked), shown);
    let port = ours.encrypted.unwrap().port().to_string();
    assert!(ask(&mut plain, "CONFIG GET tls-port").contains(&port));
    let trusting = |authority: &Authority| Tls::trusting_pem(authority.text("ca.pem")).unwrap();
    let mut before = client(&ours, trusting(&old)).unwrap();
    for name in [HOST, "127.0.0.1.key"] {
        std::fs::copy(new.file(name), old.file(name)).unwrap();
    }
    client(&ours, trusting(&new)).map(drop).unwrap_err();
    assert_eq!(
        ask(
            &mut plain,
            &format!("CONFIG SET tls-cert-file {certificate}")
        ),
        "+OK\r\n"
    );
    client(&ours, trusting(&old)).map(drop).unwrap_err();
    let mut after = client(&ours, trusting(&new)).unwrap();
    before.run(set("k", "v")).unwrap();
    assert_eq!(after.run(get::<String>("k")).unwrap(), "v");

    // What cannot be used changes nothing, neither here nor in the other settings of the command.
    let stranger = Authority::new();
    let key = stranger.file("127.0.0.1.key");
    for line in [
        "CONFIG SET tls-cert-file /nonexistent".to_owned(),
        format!("CONFIG SET timeout 7 tls-key-file {}", key.display()),
        "CONFIG SET timeout 7 tls-auth-clients yes tls-ca-cert-file \"\"".to_owned(),
        "CONFIG SET tls-auth-clients maybe".to_owned(),
        "CONFIG SET tls-port 1".to_owned(),
    ] {
        let reply = ask(&mut plain, &line);
        assert!(
            reply.starts_with("-ERR CONFIG SET failed (possibly related to argument 'tls-"),
            "{line}: {reply}"
        );
    }
    assert_eq!(ask(&mut plain, asked), shown);
    assert!(ask(&mut plain, "CONFIG GET timeout").contains("$1\r\n0\r\n"));
    client(&ours, trusting(&new)).unwrap();
    let asks = format!(
        "CONFIG SET tls-auth-clients yes tls-ca-cert-file {} tls-cert-file {} tls-key-file {}",
        new.file("ca.pem").display(),
        stranger.file(HOST).display(),
        key.display()
    );
    assert_eq!(ask(&mut plain, &asks), "+OK\r\n");
    client(&ours, trusting(&stranger)).map(drop).unwrap_err();
    let (certificate, key) = (new.text("client"), new.text("client.key"));
    let identified = trusting(&stranger)
        .identified_by_pem(certificate, key)
        .unwrap();
    client(&ours, identified).unwrap();
}

/// Replies that fill every buffer wait until the client reads, and arrive whole; commands that come meanwhile too.
#[test]
fn replies_that_no_one_reads_yet_arrive_whole_and_in_order() {
    const COUNT: usize = 100;
    let authority = Authority::new();
    let ours = authority.start(false, ServerConfig::default());
    let mut stream = authority.connect(&ours);
    let value: String = (0..300_000)
        .map(|n| char::from(b'a' + (n % 23) as u8))
        .collect();
    let bytes = value.len();
    let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${bytes}\r\n{value}");
    assert_eq!(ask(&mut stream, &set), "+OK\r\n");
    stream
        .write_all("GET k\r\n".repeat(COUNT).as_bytes())
        .unwrap();
    // Other clients are served meanwhile.
    assert_eq!(ask(&mut authority.connect(&ours), "PING"), "+PONG\r\n");
    let expected = format!("${bytes}\r\n{value}\r\n").repeat(COUNT);
    assert!(ask(&mut stream, "ECHO x") == expected + "$1\r\nx\r\n");
    // Small parts, each a record, and messages of others.
    assert!(ask_one(&mut stream, "SUBSCRIBE c").contains("subscribe"));
    let mut publisher = ours.connect();
    for _ in 0..COUNT {
        let publish = format!("*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n${bytes}\r\n{value}");
        assert_eq!(ask_one(&mut publisher, &publish), ":1\r\n");
    }
    let message = format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n${bytes}\r\n{value}\r\n");
    let mut received = vec![0; message.len()];
    for _ in 0..COUNT {
        stream.read_exact(&mut received).unwrap();
        assert!(received == message.as_bytes());
    }
}

#[test]
fn item_stays_when_the_client_that_waits_for_it_has_gone() {
    let authority = Authority::new();
    let ours = authority.start(false, ServerConfig::default());
    let mut other = ours.connect();
    for round in 0..20 {
        let mut waiting = authority.connect(&ours);
        let request = format!("BLPOP {round} 0\r\n");
        waiting.write_all(request.as_bytes()).unwrap();
        waiting.flush().unwrap();
        while !ask(&mut other, "INFO clients").contains("blocked_clients:1") {}
        waiting.conn.send_close_notify();
        waiting.flush().unwrap();
        drop(waiting);
        assert_eq!(ask(&mut other, &format!("RPUSH {round} item")), ":1\r\n");
        assert_eq!(ask(&mut other, &format!("LLEN {round}")), ":1\r\n");
        while ask(&mut other, "INFO clients").contains("blocked_clients:1") {}
    }
    // A client that sent more before is still there.
    let mut waiting = authority.connect(&ours);
    waiting.write_all(b"BLPOP other 0\r\n").unwrap();
    waiting.flush().unwrap();
    while !ask(&mut other, "INFO clients").contains("blocked_clients:1") {}
    waiting.write_all(b"PING\r\n").unwrap();
    waiting.flush().unwrap();
    assert_eq!(ask(&mut other, "RPUSH other item"), ":1\r\n");
    let mut received = [0; 32];
    waiting.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"*2\r\n$5\r\nother\r\n$4\r\nitem\r\n+PONG\r\n");
}

/// The beginning of a handshake of a client.
fn hello() -> Vec<u8> {
    let authority = Authority::new();
    let ours = authority.start(false, ServerConfig::default());
    let mut session = authority.connect(&ours).conn;
    let mut bytes = Vec::new();
    session.write_tls(&mut bytes).unwrap();
    bytes
}

/// Clients that stop at any place of the handshake are closed, delay no one, and leave others as they are.
#[test]
fn stalled_handshake_ends_and_delays_no_one() {
    const TIMEOUT: Duration = Duration::from_millis(300);
    let authority = Authority::new();
    let config = ServerConfig {
        handshake_timeout: TIMEOUT,
        ..ServerConfig::default()
    };
    let ours = authority.start(false, config);
    let mut idle = authority.connect(&ours);
    assert_eq!(ask(&mut idle, "PING"), "+PONG\r\n");
    let hello = hello();
    let lengths = (0..=hello.len())
        .step_by(hello.len() / 40 + 1)
        .chain([hello.len()]);
    let begun = Instant::now();
    let mut stalled: Vec<TcpStream> = lengths
        .map(|length| {
            let mut socket = socket(&ours);
            socket.write_all(&hello[..length]).unwrap();
            socket
        })
        .collect();
    // One byte after the other does not gain time.
    let mut dripping = socket(&ours);
    let bytes = hello.clone();
    let dripping = thread::spawn(move || {
        let mut bytes = bytes.iter().cycle();
        while dripping.write_all(&[*bytes.next().unwrap_or(&0)]).is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    for _ in 0..100 {
        assert_eq!(ask(&mut idle, "PING"), "+PONG\r\n");
        assert_eq!(ask(&mut authority.connect(&ours), "PING"), "+PONG\r\n");
    }
    for socket in &mut stalled {
        let mut rest = Vec::new();
        // The end, or a reset.
        if let Err(error) = socket.read_to_end(&mut rest) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
    }
    assert!(begun.elapsed() >= TIMEOUT);
    dripping.join().unwrap();
    // Time without commands is no part of a handshake.
    assert_eq!(ask(&mut idle, "PING"), "+PONG\r\n");
    assert!(ask(&mut idle, "INFO clients").contains("connected_clients:1\r\n"));
}

/// What is no TLS, or a record that no handshake needs, ends the connection at once.
#[test]
fn bytes_that_are_no_handshake_end_the_connection() {
    let authority = Authority::new();
    let ours = authority.start(false, ServerConfig::default());
    let endless = |length: u8| {
        // A handshake message of 16 MiB, in records of `length` KiB.
        let mut bytes = Vec::new();
        for number in 0..2_000 / u32::from(length) {
            bytes.extend([22, 3, 3, 4 * length, 0]);
            let begin: &[u8] = if number == 0 {
                &[1, 255, 255, 255]
            } else {
                &[0; 4]
            };
            bytes.extend(begin);
            bytes.extend(vec![0; usize::from(length) * 1_024 - 4]);
        }
        bytes
    };
    for bytes in [
        b"PING\r\n*1\r\n$4\r\nPING\r\n".to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![255; 100_000],
        endless(1),
        endless(15),
    ] {
        let mut socket = socket(&ours);
        // It can end before all is written.
        let _ = socket.write_all(&bytes);
        let mut rest = Vec::new();
        match socket.read_to_end(&mut rest) {
            Ok(_) => assert!(!rest.windows(5).any(|part| part == b"+PONG")),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
    assert_eq!(ask(&mut authority.connect(&ours), "PING"), "+PONG\r\n");
}
