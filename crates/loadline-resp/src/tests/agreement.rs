//! The parsers against the naive versions, on replies and on bytes that proptest makes up.

use proptest::prelude::*;

use super::naive::{self, Check};
use super::splits::skip;
use crate::{Attributed, Decoder, Limits, OwnedReply, Protocol, encode};

/// Small enough that made-up bytes run into every one of them.
const TIGHT: Limits = Limits {
    max_depth: 3,
    max_line_bytes: 24,
    max_bulk_bytes: 20,
    max_aggregate_len: 5,
    max_reply_bytes: 1 << 20,
};

fn any_reply() -> impl Strategy<Value = OwnedReply> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    let text = || {
        prop::collection::vec(
            any::<u8>().prop_filter("one line", |byte| !b"\r\n".contains(byte)),
            0..20,
        )
    };
    let leaf = prop_oneof![
        text().prop_map(OwnedReply::Simple),
        text().prop_map(OwnedReply::Error),
        any::<i64>().prop_map(OwnedReply::Integer),
        bytes().prop_map(OwnedReply::Bulk),
        Just(OwnedReply::Null),
        any::<bool>().prop_map(OwnedReply::Boolean),
        any::<f64>().prop_map(OwnedReply::Double),
        "[+-]?[0-9]{1,30}".prop_map(|digits| OwnedReply::BigNumber(digits.into_bytes())),
        bytes().prop_map(OwnedReply::BlobError),
        (any::<[u8; 3]>(), bytes())
            .prop_map(|(format, text)| OwnedReply::Verbatim { format, text }),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        let items = || prop::collection::vec(inner.clone(), 0..6);
        let pairs = || prop::collection::vec((inner.clone(), inner.clone()), 0..4);
        prop_oneof![
            items().prop_map(OwnedReply::Array),
            items().prop_map(OwnedReply::Set),
            items().prop_map(OwnedReply::Push),
            pairs().prop_map(OwnedReply::Map),
            (pairs(), inner.clone()).prop_map(|(attributes, reply)| {
                OwnedReply::Attribute(Box::new(Attributed { attributes, reply }))
            }),
        ]
    })
}

/// Bytes that look like RESP often enough to get past the first one.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let headers = prop_oneof![
        8 => "[-+:_#,($!=*%~>|][0-9]{0,2}\r\n".prop_map(String::into_bytes),
        2 => "[*%~>|][0-3]\r\n".prop_map(String::into_bytes),
        4 => "[$*_+:#,(-](t|f|inf|nan|-1|[0-9.e-]{0,26})\r{0,2}\n".prop_map(String::into_bytes),
        2 => "[$!=][0-9]{1,2}\r\n([a-z:]{0,24}\r\n)?".prop_map(String::into_bytes),
        1 => "[$*](-1|-5|[?]|[0-9]{19,23})\r\n".prop_map(String::into_bytes),
        1 => Just(b"\r\n".to_vec()),
        1 => Just(b"\n".to_vec()),
        1 => Just(b"\r".to_vec()),
    ];
    let exact = prop::collection::vec(any::<u8>(), 0..8).prop_map(|body| {
        let mut out = Vec::new();
        encode::bulk(&mut out, &body);
        out
    });
    let raw = prop::collection::vec(any::<u8>(), 0..3);
    let piece = prop_oneof![8 => headers, 4 => exact, 1 => raw];
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

/// Comparable also where there is a NaN.
fn shown<T: std::fmt::Debug>(value: &T) -> String {
    format!("{value:?}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_reply_is_read_back(reply in any_reply()) {
        let mut bytes = Vec::new();
        encode::reply(&mut bytes, &reply, Protocol::Resp3);
        let (again, used) = Decoder::new(Limits::default()).decode(&bytes).unwrap().expect("it is complete");
        prop_assert_eq!(shown(&again), shown(&reply));
        prop_assert_eq!(shown(&again.to_owned()), shown(&reply));
        prop_assert_eq!(used, bytes.len());
        let oracle = naive::decode(&bytes, &Limits::default(), Check::Content);
        prop_assert_eq!(shown(&oracle), shown(&Ok::<_, ()>(Some((reply, used)))));
    }

    #[test]
    fn every_prefix_decodes_as_in_the_naive_version(bytes in any_bytes(), step in 1usize..9, tight: bool) {
        let limits = if tight { TIGHT } else { Limits::default() };
        let mut decoder = Decoder::new(limits);
        for end in (0..bytes.len()).step_by(step).chain([bytes.len()]) {
            let expected = naive::decode(&bytes[..end], &limits, Check::Content);
            let found = decoder.decode(&bytes[..end]);
            prop_assert_eq!(shown(&found), shown(&expected));
            if !matches!(found, Ok(None)) {
                break;
            }
        }
    }

    #[test]
    fn skipper_counts_as_the_naive_version(bytes in any_bytes(), size in 1usize..40, tight: bool) {
        let limits = if tight { TIGHT } else { Limits::default() };
        let expected = naive::skip(&bytes, &limits);
        let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
        prop_assert_eq!(skip(&[&bytes], limits), expected.clone());
        prop_assert_eq!(skip(&pieces, limits), expected);
    }

    #[test]
    fn skipper_counts_written_replies(
        replies in prop::collection::vec(any_reply(), 1..6),
        size in 1usize..100,
    ) {
        let mut bytes = Vec::new();
        for reply in &replies {
            encode::reply(&mut bytes, reply, Protocol::Resp3);
        }
        let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
        let (kinds, end) = skip(&pieces, Limits::default());
        prop_assert_eq!(end, Ok(()));
        prop_assert_eq!(kinds.len(), replies.len());
        prop_assert_eq!(kinds, naive::skip(&bytes, &Limits::default()).0);
    }
}
