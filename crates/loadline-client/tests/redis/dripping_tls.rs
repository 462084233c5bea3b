//! Timeouts of blocking connections hold against TLS peers that write byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use loadline_client::commands::get;
use loadline_client::{Client, Error};

use crate::deadlines::{DRIP, PATIENCE};
use crate::fake::serve;

fn drip(stream: &mut TcpStream, bytes: impl IntoIterator<Item = u8>) {
    for byte in bytes {
        if stream.write_all(&[byte]).is_err() {
            return;
        }
        std::thread::sleep(DRIP);
    }
}

#[test]
fn handshake_of_tls_that_comes_byte_by_byte_is_given_up_in_time() {
    let address = serve(|mut stream, _| {
        // The header of a record of 16 KiB, and then its content.
        let record = [22, 3, 3, 0x40, 0].into_iter();
        drip(&mut stream, record.chain(std::iter::repeat_n(0, 1 << 14)));
    });
    let url = format!(
        "rediss://localhost:{}?connect_timeout=300ms",
        address.port()
    );
    let trusting = loadline_client::Tls::trusting([certificate().0]).unwrap();
    let client = Client::builder().url(&url).unwrap().tls(trusting).build();
    let begun = Instant::now();
    let error = client.blocking().unwrap_err();
    assert!(!error.maybe_executed(), "{error}");
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

pub(crate) type Certificate = (
    rustls::pki_types::CertificateDer<'static>,
    rustls::pki_types::PrivateKeyDer<'static>,
);

pub(crate) fn certificate() -> Certificate {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    (made.cert.der().clone(), key.into())
}

pub(crate) fn server_config(
    certificate: rustls::pki_types::CertificateDer<'static>,
    key: rustls::pki_types::PrivateKeyDer<'static>,
) -> rustls::ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap()
}

/// Forwards to a server, and returns its replies byte by byte once `drips` is true.
fn dripping_proxy(server: SocketAddr, drips: Arc<AtomicBool>) -> SocketAddr {
    serve(move |client, _| {
        let server = TcpStream::connect(server).unwrap();
        let (mut requests, mut to_server) =
            (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut requests, &mut to_server));
        let (mut replies, mut client, mut buf) = (server, client, [0; 4096]);
        while let Ok(read) = replies.read(&mut buf)
            && read > 0
        {
            if drips.load(Ordering::Relaxed) {
                drip(&mut client, buf[..read].iter().copied());
            } else if client.write_all(&buf[..read]).is_err() {
                return;
            }
        }
    })
}

#[test]
fn encrypted_reply_that_comes_byte_by_byte_is_given_up_in_time() {
    let (certificate, key) = certificate();
    let config = Arc::new(server_config(certificate.clone(), key));
    let server = serve(move |mut stream, _| {
        let mut session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut tls = rustls::Stream::new(&mut session, &mut stream);
        let (mut buf, mut reply) = ([0; 4096], crate::fake::HELLO.to_vec());
        while tls.read(&mut buf).is_ok_and(|read| read > 0) && tls.write_all(&reply).is_ok() {
            reply = [b"$1000\r\n".to_vec(), vec![b'x'; 1000], b"\r\n".to_vec()].concat();
        }
    });
    let drips = Arc::new(AtomicBool::new(false));
    let proxy = dripping_proxy(server, Arc::clone(&drips));
    let url = format!(
        "rediss://localhost:{}?response_timeout=1s&retry=never",
        proxy.port()
    );
    let trusting = loadline_client::Tls::trusting([certificate]).unwrap();
    let client = Client::builder().url(&url).unwrap().tls(trusting).build();
    let mut connection = client.blocking().unwrap();
    assert_eq!(connection.run(get::<String>("k")).unwrap().len(), 1000);
    drips.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    let error = connection.run(get::<String>("k")).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}
