//! Users, passwords, databases and certificates.

use loadline_client::commands::{get, ping, set};
use loadline_client::{Client, Error, Password, Protocol};

use crate::server::{Redis, runtime};

#[test]
fn users_and_passwords() {
    let redis = Redis::start_with(&[
        "--requirepass",
        "secret",
        "--user",
        "me",
        "on",
        ">mine",
        "~*",
        "+@all",
    ]);
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let builder = || redis.builder().protocol(Some(protocol));
        let refused = builder().build().blocking().unwrap_err();
        // RESP2 asks with PING, and gets to know it there.
        assert!(matches!(refused, Error::Login { .. }), "{refused}");
        let wrong = builder().password(Password::new("guess")).build();
        let refused = wrong.blocking().unwrap_err();
        assert!(!refused.to_string().contains("guess"), "{refused}");
        assert!(!format!("{wrong:?}").contains("guess"));
        let mut by_password = builder()
            .password(Password::new("secret"))
            .build()
            .blocking()
            .unwrap();
        by_password.run(ping()).unwrap();
        let by_user = builder()
            .login("me", Password::new("mine"))
            .database(2)
            .build();
        by_user.blocking().unwrap().run(set("k", 1)).unwrap();
        runtime().block_on(async {
            let refused = wrong.multiplexed().await.unwrap_err();
            assert!(matches!(refused, Error::Login { .. }), "{refused}");
            let connection = by_user.multiplexed().await.unwrap();
            assert_eq!(connection.run(get::<i64>("k")).await.unwrap(), 1);
        });
    }
}

#[test]
fn a_database_that_is_not_there_is_refused() {
    let redis = Redis::start();
    let refused = redis.builder().database(99).build().blocking().unwrap_err();
    assert!(
        matches!(refused, Error::Login { step: "SELECT", .. }),
        "{refused}"
    );
}

#[test]
fn nobody_there_is_said_at_once() {
    let url = format!("redis://127.0.0.1:{}", crate::server::free_port());
    let client = Client::open(&url).unwrap();
    let refused = client.blocking().unwrap_err();
    assert!(matches!(
        refused,
        Error::Connection {
            maybe_executed: false,
            ..
        }
    ));
    let refused = runtime().block_on(client.multiplexed()).unwrap_err();
    assert!(matches!(
        refused,
        Error::Connection {
            maybe_executed: false,
            ..
        }
    ));
}

#[cfg(feature = "tls")]
mod tls {
    use std::io::Write;

    use loadline_client::Tls;
    use rcgen::CertifiedKey;

    use super::*;
    use crate::server::free_port;

    #[test]
    fn certificates_are_checked_and_everything_works_encrypted() {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let file = |text: String| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file
        };
        let (certificate, key) = (file(cert.pem()), file(signing_key.serialize_pem()));
        let port = free_port();
        let redis = Redis::start_with(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            certificate.path().to_str().unwrap(),
            "--tls-key-file",
            key.path().to_str().unwrap(),
            "--tls-auth-clients",
            "no",
        ]);
        redis.ask("PING");
        let url = format!("rediss://localhost:{port}");
        let unknown = Client::open(&url).unwrap();
        assert!(
            unknown.blocking().is_err(),
            "a self-signed certificate was trusted"
        );
        let trusting = Tls::trusting([cert.der().clone()]).unwrap();
        let client = Client::builder().url(&url).unwrap().tls(trusting).build();
        crate::examples::tls::run(&url, Some(certificate.path())).unwrap();
        assert!(redis.ask("GET example:secret").contains("end to end"));
        let large = "x".repeat(1 << 20);
        let mut connection = client.blocking().unwrap();
        connection.run(set("large", &large)).unwrap();
        assert_eq!(connection.run(get::<String>("large")).unwrap(), large);
        runtime().block_on(async {
            assert!(unknown.multiplexed().await.is_err());
            let connection = client.multiplexed().await.unwrap();
            let tasks: Vec<_> = (0..20)
                .map(|n| {
                    let (connection, large) = (connection.clone(), large.clone());
                    tokio::spawn(async move {
                        let key = format!("k{n}");
                        connection.run(set(&key, &large)).await.unwrap();
                        connection.run(get::<String>(&key)).await.unwrap() == large
                    })
                })
                .collect();
            for task in tasks {
                assert!(task.await.unwrap());
            }
        });
    }
}
