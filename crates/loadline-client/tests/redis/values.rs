//! Values of types with serde on a real server, in both versions of the protocol.

use loadline_client::commands::{get, hgetall, hset, mget, set, xadd, xrange, zadd, zrange};
use loadline_client::{Error, Json, Protocol, Serde, to_fields, to_json};
use serde::{Deserialize, Serialize};

use crate::server::Redis;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Reading {
    sensor: String,
    celsius: f64,
    on: bool,
    note: Option<String>,
}

#[test]
fn structure_comes_back_from_hashes_streams_and_json_in_both_protocols() {
    let redis = Redis::start();
    let reading = Reading {
        sensor: "roof".into(),
        celsius: -0.1,
        on: true,
        note: None,
    };
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let client = redis.builder().protocol(Some(protocol)).build();
        let mut connection = client.blocking().unwrap();
        connection
            .run(hset("hash", to_fields(&reading).unwrap()))
            .unwrap();
        let stored = connection.run(hgetall::<Serde<Reading>>("hash")).unwrap();
        assert_eq!(stored.0, reading);
        let none = connection.run(hgetall::<Serde<Option<Reading>>>("none"));
        assert_eq!(none.unwrap(), Serde(None));
        let wrong = connection.run(hgetall::<Serde<std::collections::BTreeMap<String, u8>>>(
            "hash",
        ));
        assert!(
            matches!(&wrong, Err(Error::Decode { path, .. }) if &**path == "sensor"),
            "{wrong:?}"
        );

        connection
            .run(xadd("stream", to_fields(&reading).unwrap()))
            .unwrap();
        let entries = connection.run(xrange::<Serde<Reading>>("stream", "-", "+"));
        assert_eq!(entries.unwrap().pop().unwrap().1.0, reading);

        connection
            .run(set("json", to_json(&reading).unwrap()))
            .unwrap();
        let stored = connection.run(get::<Json<Reading>>("json")).unwrap();
        assert_eq!(stored.0, reading);
        let some = connection.run(mget::<Option<Json<Reading>>>(["json", "none"]));
        assert_eq!(some.unwrap(), [Some(Json(reading.clone())), None]);

        connection
            .run(zadd("set", [(1.5, "a"), (2.0, "b")]))
            .unwrap();
        let scores = zrange::<String>("set", 0, -1).with_scores();
        let scores = connection.run(scores.read_as::<Serde<Vec<(String, f32)>>>());
        let expected = vec![("a".to_owned(), 1.5), ("b".to_owned(), 2.0)];
        assert_eq!(scores.unwrap(), Serde(expected));
    }
}
