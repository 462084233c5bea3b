//! Sentinels with a password and certificates of their own, which name the master by its host name.

use std::io::Write;

use loadline_client::commands::incr;
use loadline_client::sentinel::{Node, Sentinel};
use loadline_client::{Address, Client, Error, Password, Tls};
use tempfile::NamedTempFile;

use crate::topology::{NAME, Server};

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn sentinels_have_their_own_password_and_tls() {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, private) = (
        file(&key.cert.pem()),
        file(&key.signing_key.serialize_pem()),
    );
    let path = |file: &NamedTempFile| file.path().to_str().unwrap().to_owned();
    let mut master = Server::new(&["--requirepass", "of-the-master"], None);
    master.start();
    let config = format!(
        "sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n\
         sentinel monitor {NAME} localhost {} 1\nsentinel auth-pass {NAME} of-the-master\n",
        master.port()
    );
    let mut sentinel = Server::new(&["--sentinel"], Some(config));
    let tls_port = Server::new(&[], None);
    sentinel.add_args(&[
        "--requirepass",
        "of-the-sentinel",
        "--tls-auth-clients",
        "no",
    ]);
    sentinel.add_args(&["--tls-port", &tls_port.port().to_string()]);
    sentinel.add_args(&[
        "--tls-cert-file",
        &path(&certificate),
        "--tls-key-file",
        &path(&private),
    ]);
    sentinel.add_args(&["--tls-ca-cert-file", &path(&certificate)]);
    sentinel.start();
    let seed = Node::new("localhost", tls_port.port());
    let named = Sentinel::new(NAME, [seed]).encrypted(false, true);
    let client = |sentinel: Sentinel| {
        let builder = Client::builder().address(Address::Sentinel(sentinel));
        builder.password(Password::new("of-the-master")).build()
    };
    let trusted = Tls::trusting([key.cert.der().clone()]).unwrap();
    let named = named.tls(trusted);
    let error = client(named.clone()).blocking().unwrap_err();
    assert!(matches!(error, Error::Sentinel(_)), "{error:?}");
    assert!(error.to_string().contains("NOAUTH"), "{error}");
    let wrong = named.clone().login(None, Password::new("of-the-master"));
    let error = client(wrong).blocking().unwrap_err();
    assert!(error.to_string().contains("WRONGPASS"), "{error}");
    let right = named.login(None, Password::new("of-the-sentinel"));
    let count: i64 = client(right).blocking().unwrap().run(incr("n")).unwrap();
    assert_eq!(count, 1);
}
