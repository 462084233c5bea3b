//! The server for the tests of an application.

use loadline_client::commands::{blpop, get, incr, ping, set, watch};
use loadline_client::testing::{FakeServer, ok, text};
use loadline_client::{Client, Error, OwnedReply, Protocol, Scan, atomic};

use crate::server::runtime;

#[test]
fn fake_server_answers_every_kind_of_connection_as_its_closure_says() {
    let mut count = 0;
    let server = FakeServer::start(move |command| match &command[0][..] {
        b"SET" => ok(),
        b"INCR" => {
            count += 1;
            OwnedReply::Integer(count)
        }
        b"GET" if command[1] == "none" => OwnedReply::Null,
        b"GET" => text("value"),
        b"BLPOP" => OwnedReply::Array(vec![text("jobs"), text("a job")]),
        b"SSCAN" => OwnedReply::Array(vec![
            text("0"),
            OwnedReply::Array(vec![text("a"), text("b")]),
        ]),
        b"INFO" => text("run_id:fake\r\n"),
        _ => OwnedReply::Error(b"ERR unexpected".to_vec()),
    })
    .unwrap();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let builder = Client::builder().url(server.url()).unwrap();
        let client = builder
            .protocol(Some(protocol))
            .client_name("me")
            .database(3)
            .build();
        let mut c = client.blocking().unwrap();
        assert_eq!(c.protocol(), protocol);
        c.run(ping()).unwrap();
        c.run(set("k", 1)).unwrap();
        assert_eq!(c.run(get::<Option<String>>("none")).unwrap(), None);
        let (value, refused) = c.run((get::<String>("k"), watch("k")));
        assert_eq!(
            (value.unwrap(), refused.is_ok()),
            ("value".to_owned(), true)
        );
        let (first, second) = c.run(atomic((incr("n"), incr("n")))).unwrap().unwrap();
        assert_eq!(first.unwrap() + 1, second.unwrap());
        runtime().block_on(async {
            let shared = client.multiplexed().await.unwrap();
            let mut members = shared.scan(Scan::<String>::set("set"));
            assert_eq!(members.next().await.unwrap().as_deref(), Some("a"));
            let mut own = client.dedicated().await.unwrap();
            let job = own
                .run(blpop::<String>("jobs", std::time::Duration::MAX))
                .await;
            assert_eq!(job.unwrap(), Some(("jobs".into(), "a job".into())));
            let unknown = shared
                .run(loadline_client::cmd::<()>("NOSUCH").arg("x"))
                .await;
            assert!(unknown.unwrap_err().is_server_code("ERR"));
        });
    }
    let recorded = server.commands();
    assert_eq!(recorded[0], ["SET", "k", "1"]);
    assert!(
        recorded
            .iter()
            .all(|command| command[0] != "PING" && command[0] != "MULTI")
    );
}

#[test]
fn write_that_the_fake_server_never_answers_is_not_sent_again() {
    let server = FakeServer::start(|_| OwnedReply::Integer(1)).unwrap();
    let mut connection = Client::open(server.url()).unwrap().blocking().unwrap();
    assert_eq!(connection.run(incr("n")).unwrap(), 1);
    server.disconnect();
    drop(server);
    let lost = connection.run(incr("n"));
    assert!(
        matches!(lost, Err(Error::Connection { .. } | Error::Timeout { .. })),
        "{lost:?}"
    );
}
