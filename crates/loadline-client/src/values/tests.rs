use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;
use crate::ServerError;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Reading {
    sensor: String,
    celsius: f64,
    count: u32,
    on: bool,
    kind: Kind,
    note: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Air,
    Water,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct House {
    name: String,
    rooms: Vec<Room>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Room {
    doors: u8,
}

fn texts<'a>(words: &[&'a str]) -> Vec<Reply<'a>> {
    words
        .iter()
        .map(|word| Reply::Bulk(word.as_bytes()))
        .collect()
}

fn serde<T: DeserializeOwned>(reply: Reply<'_>) -> Result<T, Error> {
    Serde::from_reply(reply).map(|Serde(value)| value)
}

fn failure<T: DeserializeOwned + std::fmt::Debug>(reply: Reply<'_>) -> String {
    serde::<T>(reply).unwrap_err().to_string()
}

const WORDS: [&str; 10] = [
    "sensor", "roof", "celsius", "21.5", "count", "3", "on", "1", "kind", "water",
];

fn reading() -> Reading {
    Reading {
        sensor: "roof".into(),
        celsius: 21.5,
        count: 3,
        on: true,
        kind: Kind::Water,
        note: None,
    }
}

#[test]
fn structure_is_read_from_each_form_of_a_map() {
    let flat = Reply::Array(texts(&WORDS));
    let nested = WORDS.chunks(2).map(|pair| Reply::Array(texts(pair)));
    let nested = Reply::Array(nested.collect());
    let mut pairs: Vec<_> = WORDS
        .chunks(2)
        .map(|pair| {
            (
                Reply::Bulk(pair[0].as_bytes()),
                Reply::Bulk(pair[1].as_bytes()),
            )
        })
        .collect();
    let texts = Reply::Map(pairs.clone());
    pairs[1].1 = Reply::Double(21.5);
    pairs[2].1 = Reply::Integer(3);
    pairs[3].1 = Reply::Boolean(true);
    pairs.push((Reply::Bulk(b"note"), Reply::Null));
    pairs.push((Reply::Bulk(b"unknown"), Reply::Array(vec![])));
    for reply in [flat, nested, texts, Reply::Map(pairs)] {
        assert_eq!(serde::<Reading>(reply).unwrap(), reading());
    }
}

#[test]
fn entries_of_a_stream_and_lists_of_pairs_are_read() {
    let entry = |id| Reply::Array(vec![Reply::Bulk(id), Reply::Array(texts(&WORDS))]);
    let entries = Reply::Array(vec![entry(b"1-1"), entry(b"1-2")]);
    let read: Vec<(String, Reading)> = serde(entries).unwrap();
    assert_eq!(read[1], ("1-2".to_owned(), reading()));

    let expected = vec![("a".to_owned(), 1.5), ("b".to_owned(), 2.0)];
    let pair = |name, score| Reply::Array(vec![Reply::Bulk(name), Reply::Double(score)]);
    let map = vec![
        (Reply::Bulk(b"a"), Reply::Double(1.5)),
        (Reply::Bulk(b"b"), Reply::Integer(2)),
    ];
    for reply in [
        Reply::Array(texts(&["a", "1.5", "b", "2"])),
        Reply::Array(vec![pair(b"a", 1.5), pair(b"b", 2.0)]),
        Reply::Map(map),
    ] {
        assert_eq!(serde::<Vec<(String, f64)>>(reply).unwrap(), expected);
    }
    let numbers = Reply::Array(vec![Reply::Integer(1), Reply::Bulk(b"2"), Reply::Null]);
    assert_eq!(
        serde::<Vec<Option<i64>>>(numbers).unwrap(),
        [Some(1), Some(2), None]
    );
    let any: serde_json::Value = serde(Reply::Map(vec![(Reply::Bulk(b"a"), Reply::Null)])).unwrap();
    assert_eq!(any, serde_json::json!({ "a": null }));
}

#[test]
fn empty_reply_is_none_where_the_whole_is_an_option() {
    for empty in [Reply::Map(vec![]), Reply::Array(vec![]), Reply::Null] {
        assert_eq!(serde::<Option<Reading>>(empty).unwrap(), None);
    }
    let inner = Reply::Array(vec![Reply::Array(vec![])]);
    assert_eq!(
        serde::<Vec<Option<Vec<u8>>>>(inner).unwrap(),
        [Some(vec![])]
    );
    assert_eq!(
        failure::<Reading>(Reply::Map(vec![])),
        "the reply cannot be read: missing field `sensor`"
    );
}

#[test]
fn error_of_a_reply_names_the_path() {
    let rooms = Reply::Array(vec![
        Reply::Array(texts(&["doors", "2"])),
        Reply::Array(texts(&["doors", "two"])),
    ]);
    let house = Reply::Map(vec![
        (Reply::Bulk(b"name"), Reply::Bulk(b"white")),
        (Reply::Bulk(b"rooms"), rooms),
    ]);
    assert_eq!(
        failure::<House>(house),
        "the reply cannot be read at `rooms[1].doors`: invalid value: string \"two\", expected u8"
    );
    assert_eq!(
        failure::<Vec<u8>>(Reply::Array(vec![Reply::Integer(256)])),
        "the reply cannot be read at `[0]`: invalid value: integer `256`, expected u8"
    );
    assert_eq!(
        failure::<BTreeMap<String, i64>>(Reply::Array(texts(&["a"]))),
        "the reply cannot be read: invalid type: an array of an odd number of elements, expected a map"
    );
    assert_eq!(
        failure::<Vec<(String, i64)>>(Reply::Array(texts(&["a", "1", "b"]))),
        "the reply cannot be read at `[1]`: invalid length 1, expected a tuple of size 2"
    );
    assert_eq!(
        failure::<String>(Reply::Null),
        "the reply cannot be read: invalid type: nil, expected a string"
    );
    let long = "x".repeat(10_000);
    assert!(failure::<i64>(Reply::Bulk(long.as_bytes())).len() < 400);
}

#[test]
fn error_within_a_reply_is_the_error_of_the_server() {
    let reply = Reply::Array(vec![Reply::Integer(1), Reply::Error(b"ERR no")]);
    let error = serde::<Vec<i64>>(reply).unwrap_err();
    assert!(matches!(error, Error::Server(error) if error == ServerError::new(b"ERR no")));
}

#[test]
fn json_is_read_and_its_error_names_the_path() {
    let house = House {
        name: "white".into(),
        rooms: vec![Room { doors: 2 }],
    };
    let text = to_json(&house).unwrap();
    assert_eq!(
        Json::<House>::from_reply(Reply::Bulk(text.as_bytes())).unwrap(),
        Json(house)
    );
    let read = |text: &'static str| Json::<House>::from_reply(Reply::Bulk(text.as_bytes()));
    assert_eq!(
        read(r#"{"name": "white", "rooms": [{"doors": -1}]}"#)
            .unwrap_err()
            .to_string(),
        "the reply cannot be read at `rooms[0].doors`: invalid value: integer `-1`, expected u8 at line 1 column 40"
    );
    let trailing = read(r#"{"name": "white", "rooms": []} x"#)
        .unwrap_err()
        .to_string();
    assert_eq!(
        trailing,
        "the reply cannot be read: trailing characters at line 1 column 32"
    );
    assert!(matches!(
        Json::<House>::from_reply(Reply::Null),
        Err(Error::Type { got: "nil", .. })
    ));
    let deep = "[".repeat(1 << 20);
    assert!(Json::<serde_json::Value>::from_reply(Reply::Bulk(deep.as_bytes())).is_err());
}

#[test]
fn fields_are_written_and_read_back() {
    let fields = to_fields(&reading()).unwrap();
    let words: Vec<&str> = fields
        .iter()
        .flat_map(|(field, value)| [field.as_str(), std::str::from_utf8(value).unwrap()])
        .collect();
    assert_eq!(words, WORDS);
    assert_eq!(
        to_fields(&BTreeMap::from([(7, -1.5)])).unwrap(),
        [("7".to_owned(), b"-1.5".to_vec())]
    );
}

#[test]
fn value_that_cannot_be_written_is_refused_with_its_path() {
    let house = House {
        name: "white".into(),
        rooms: vec![],
    };
    assert_eq!(
        to_fields(&house).unwrap_err().to_string(),
        "the value cannot be written at `rooms`: a field holds one text or number, and a list, structure or map is none; \
         `to_json` writes it as text"
    );
    let no_fields = to_fields(&[1, 2]).unwrap_err().to_string();
    assert_eq!(
        no_fields,
        "the value cannot be written: only a structure or a map has fields"
    );
    let error = to_json(&BTreeMap::from([("map", BTreeMap::from([(vec![1], 1)]))])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the value cannot be written at `map`: key must be a string"
    );
}

/// Replies of any shape, a few levels deep.
fn replies() -> impl Strategy<Value = Reply<'static>> {
    const TEXTS: [&[u8]; 6] = [b"", b"1", b"roof", b"rooms", b"\xff", b"OK"];
    let text = (0..TEXTS.len()).prop_map(|place| TEXTS[place]);
    let leaf = prop_oneof![
        text.clone().prop_map(Reply::Bulk),
        text.clone().prop_map(Reply::Simple),
        text.clone().prop_map(Reply::Error),
        text.prop_map(Reply::BigNumber),
        any::<i64>().prop_map(Reply::Integer),
        any::<f64>().prop_map(Reply::Double),
        any::<bool>().prop_map(Reply::Boolean),
        Just(Reply::Null),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Reply::Array),
            prop::collection::vec(inner, 0..4).prop_map(Reply::Set),
            prop::collection::vec(pair, 0..4).prop_map(Reply::Map),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Values that both read are the same, and no reply makes either panic.
    #[test]
    fn any_reply_is_read_as_without_serde_or_refused(reply in replies()) {
        fn same<T: FromReply + DeserializeOwned + PartialEq + std::fmt::Debug>(reply: &Reply<'_>) {
            if let (Ok(plain), Ok(read)) = (T::from_reply(reply.clone()), serde::<T>(reply.clone())) {
                assert_eq!(plain, read);
            }
        }
        same::<i64>(&reply);
        same::<Vec<Option<String>>>(&reply);
        same::<Vec<(String, i64)>>(&reply);
        same::<BTreeMap<String, Vec<bool>>>(&reply);
        let _ = serde::<Reading>(reply.clone());
        let _ = serde::<House>(reply.clone());
        let _ = serde::<serde_json::Value>(reply.clone());
        let _ = Json::<House>::from_reply(reply);
    }
}
