//! Names that no sentinel knows, and sentinels that are not there.

use loadline_client::commands::ping;
use loadline_client::sentinel::{Node, Sentinel};
use loadline_client::{Address, Client, Error};

use crate::topology::{runtime, shared};

#[test]
fn unknown_name_is_a_clear_error_and_causes_no_flood_of_connections() {
    let topology = shared();
    let before = topology.sentinels[0].connections_received();
    let url = topology.url().replace("mymaster", "nobody");
    let client = Client::open(&url).unwrap();
    for _ in 0..20 {
        let error = client.blocking().unwrap_err();
        assert!(matches!(error, Error::Sentinel(_)), "{error:?}");
        let said = "no sentinel knows a master named `nobody` (3 of 3 answered)";
        assert_eq!(error.to_string(), said);
        let error = runtime()
            .block_on(client.multiplexed())
            .map(drop)
            .unwrap_err();
        assert_eq!(error.to_string(), said);
    }
    let after = topology.sentinels[0].connections_received();
    // One of the client, and one of this question itself.
    assert!(after - before <= 2, "{} connections", after - before);
}

#[test]
fn sentinels_that_do_not_answer_delay_those_that_do_by_nothing() {
    let topology = shared();
    // A listener that never answers, and an address without one.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().port();
    let seeds = [
        Node::new("127.0.0.1", silent),
        Node::new("127.0.0.1", 1),
        topology.sentinels[2].node(),
    ];
    let sentinel = Sentinel::new("mymaster", seeds);
    let client = Client::builder()
        .address(Address::Sentinel(sentinel))
        .build();
    client.blocking().unwrap().run(ping()).unwrap();
    let alone = Sentinel::new("mymaster", [Node::new("127.0.0.1", 1)]);
    let alone = Client::builder().address(Address::Sentinel(alone)).build();
    let error = alone.blocking().unwrap_err();
    assert!(matches!(
        error,
        Error::Connection {
            maybe_executed: false,
            ..
        }
    ));
    assert!(
        error.to_string().contains("the sentinel at 127.0.0.1:1"),
        "{error}"
    );
}
