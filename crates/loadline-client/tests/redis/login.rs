//! Users, passwords, databases and certificates.

use loadline_client::cmd;
use loadline_client::commands::{acl_who_am_i, client_id, get, ping, set};
use loadline_client::{
    Client, ConnectionEvent, ConnectionEvents, Credentials, Error, Password, Protocol,
};

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

/// A token that is replaced while connections use it, at a server that ends what the old one opened.
#[test]
fn connection_that_is_lost_logs_in_with_the_present_token() {
    let redis = Redis::start_with(&["--user", "app", "on", ">token-1", "~*", "+@all"]);
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        redis.ask("ACL SETUSER app resetpass >token-1");
        let credentials = Credentials::new(Some("app".into()), Password::new("token-1"));
        let shown = format!("{credentials:?}");
        assert!(shown.contains("app") && !shown.contains("token"), "{shown}");
        let client = redis
            .builder()
            .protocol(Some(protocol))
            .credentials(credentials.clone())
            .build();
        assert!(!format!("{client:?}").contains("token"));
        let mut blocking = client.blocking().unwrap();
        let runtime = runtime();
        let shared = runtime.block_on(client.multiplexed()).unwrap();
        assert_eq!(blocking.run(acl_who_am_i()).unwrap(), "app");
        redis.ask("ACL SETUSER app resetpass >token-2");
        // Open connections stay logged in until the server closes them.
        redis.ask("CLIENT KILL USER app");
        credentials.replace(Password::new("token-2"));
        assert_eq!(blocking.run(acl_who_am_i()).unwrap(), "app");
        let who = runtime.block_on(shared.run(acl_who_am_i())).unwrap();
        assert_eq!(who, "app");
        credentials.replace_login(Some("app".into()), Password::new("guess"));
        redis.ask("CLIENT KILL USER app");
        let refused = client.blocking().unwrap_err();
        assert!(matches!(refused, Error::Login { .. }), "{refused}");
        assert!(!refused.to_string().contains("guess"), "{refused}");
    }
}

/// Logins with a token and refused ones, as the server has logged and counted them.
fn auths(redis: &Redis) -> u64 {
    let stats = redis.ask("INFO commandstats");
    let line = stats
        .lines()
        .find_map(|line| line.trim().strip_prefix("cmdstat_auth:calls="));
    let count = line.and_then(|line| line.split(',').next());
    count.map_or(0, |count| count.parse().unwrap())
}

/// The connections stay the same ones: they are logged in as another user, and the first is deleted only after that.
#[test]
fn open_connections_log_in_again_when_credentials_are_replaced() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let redis = Redis::start_with(&["--user", "app", "on", ">token-1", "~*", "+@all"]);
        redis.ask("ACL SETUSER other on >token-3 ~* +@all");
        let credentials = Credentials::new(Some("app".into()), Password::new("token-1"));
        let events = ConnectionEvents::new(100);
        let client = redis
            .builder()
            .protocol(Some(protocol))
            .credentials(credentials.clone())
            .events(events.clone())
            .build();
        let mut blocking = client.blocking().unwrap();
        let runtime = runtime();
        let shared = runtime.block_on(client.multiplexed()).unwrap();
        let ids = |blocking: &mut loadline_client::blocking::Connection| {
            let shared = runtime.block_on(shared.run(client_id()));
            let own = blocking.run(client_id());
            (own.unwrap(), shared.unwrap())
        };
        let before = (ids(&mut blocking), auths(&redis));
        // The same user with another token: once per connection, and not with each request.
        redis.ask("ACL SETUSER app >token-2 <token-1");
        credentials.replace(Password::new("token-2"));
        ids(&mut blocking);
        assert_eq!(
            (ids(&mut blocking), auths(&redis)),
            (before.0, before.1 + 2)
        );
        // In a transaction the login waits for its end.
        let _: () = blocking.run(cmd("MULTI")).unwrap();
        credentials.replace_login(Some("other".into()), Password::new("token-3"));
        let _: String = blocking.run(cmd("ACL").arg("WHOAMI")).unwrap();
        let within: Vec<String> = blocking.run(cmd("EXEC")).unwrap();
        assert_eq!(within, ["app"]);
        assert_eq!(blocking.run(acl_who_am_i()).unwrap(), "other");
        let who = runtime.block_on(shared.run(acl_who_am_i())).unwrap();
        assert_eq!(who, "other");
        // This ends all connections of that user.
        redis.ask("ACL DELUSER app");
        assert_eq!(ids(&mut blocking), before.0);
        // Refused credentials leave a connection as it was, and are tried once.
        credentials.replace(Password::new("guess"));
        assert_eq!(blocking.run(acl_who_am_i()).unwrap(), "other");
        assert_eq!(blocking.run(acl_who_am_i()).unwrap(), "other");
        let mut refusals = 0;
        while let Some(event) = events.try_next() {
            match event {
                ConnectionEvent::LoginRefused { error, .. } => {
                    assert!(error.to_string().contains("WRONGPASS"), "{error}");
                    assert!(!error.to_string().contains("guess"), "{error}");
                    refusals += 1;
                }
                ConnectionEvent::Connected { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(refusals, 1);
    }
}

/// Without a request, the keepalive brings the new login.
#[test]
fn quiet_connection_logs_in_again_with_its_keepalive() {
    let redis = Redis::start_with(&["--user", "app", "on", ">token-1", "~*", "+@all"]);
    let credentials = Credentials::new(Some("app".into()), Password::new("token-1"));
    let client = redis
        .builder()
        .credentials(credentials.clone())
        .keepalive(Some(std::time::Duration::from_millis(20)))
        // A slow answer must not end the connection: the next one would log in by its handshake.
        .response_timeout(Some(std::time::Duration::from_secs(60)))
        .build();
    let runtime = runtime();
    let shared = runtime.block_on(client.multiplexed()).unwrap();
    let before = auths(&redis);
    redis.ask("ACL SETUSER app >token-2 <token-1");
    credentials.replace(Password::new("token-2"));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while auths(&redis) == before {
        assert!(std::time::Instant::now() < deadline, "it does not log in");
        runtime.block_on(async { tokio::time::sleep(std::time::Duration::from_millis(5)).await });
    }
    let who = runtime.block_on(shared.run(acl_who_am_i())).unwrap();
    assert_eq!((who.as_str(), auths(&redis)), ("app", before + 1));
}

#[test]
fn database_that_is_not_there_is_refused() {
    let redis = Redis::start();
    let refused = redis.builder().database(99).build().blocking().unwrap_err();
    assert!(
        matches!(refused, Error::Login { step: "SELECT", .. }),
        "{refused}"
    );
}

#[test]
fn absent_server_is_reported_at_once() {
    let port = crate::port::Port::reserve();
    let url = format!("redis://127.0.0.1:{port}");
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
    use crate::port::Port;

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
        let port = Port::reserve();
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

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    /// A server that asks its clients for a certificate.
    #[test]
    fn client_identifies_itself_by_a_certificate_in_pem() {
        use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

        // A certificate with the name of its authority would be taken for one that signed itself.
        let named = |name: &str| {
            let mut params = CertificateParams::new([name.to_owned()]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params
        };
        let mut params = named("authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(params, authority_key);
        let signed = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let params = named(name);
            (
                params.signed_by(&key, &issuer).unwrap().pem(),
                key.serialize_pem(),
            )
        };
        let (server, client) = (signed("localhost"), signed("client"));
        let files = [file(&server.0), file(&server.1), file(&authority.pem())];
        let [certificate, key, ca] = files.each_ref().map(|file| file.path().to_str().unwrap());
        let port = Port::reserve();
        let redis = Redis::start_with(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            certificate,
            "--tls-key-file",
            key,
            "--tls-ca-cert-file",
            ca,
            "--tls-auth-clients",
            "yes",
        ]);
        redis.ask("PING");
        let url = format!("rediss://localhost:{port}");
        let open = |tls| Client::builder().url(&url).unwrap().tls(tls).build();
        let trusting = Tls::trusting_pem(authority.pem()).unwrap();
        assert!(
            open(trusting.clone()).blocking().is_err(),
            "a client without a certificate"
        );
        let identified = trusting.identified_by_pem(&client.0, &client.1).unwrap();
        let client_of = open(identified);
        client_of.blocking().unwrap().run(set("k", 1)).unwrap();
        runtime().block_on(async {
            let connection = client_of.multiplexed().await.unwrap();
            assert_eq!(connection.run(get::<i64>("k")).await.unwrap(), 1);
        });
        for wrong in [
            Tls::trusting_pem("no certificate"),
            Tls::trusting_pem(&client.1),
            Tls::default().identified_by_pem(&client.0, "no key"),
            Tls::default().identified_by_pem(&client.0, &server.1),
        ] {
            assert!(matches!(wrong, Err(Error::Tls(_))), "{wrong:?}");
        }
    }
}
