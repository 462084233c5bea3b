//! Operations that are written are read again, and nothing else.

use super::*;
use proptest::prelude::*;

fn both_ways(op: Op<'_>) {
    let mut body = vec![];
    op.encode(&mut body);
    assert_eq!(Op::decode(&body, usize::MAX), Some((op, body.len())));
    for cut in 0..body.len() {
        assert_eq!(
            Op::decode(&body[..cut], usize::MAX),
            None,
            "{op:?} cut at {cut}"
        );
    }
}

#[test]
fn operations_are_read_as_they_were_written() {
    let long = vec![7; 300];
    let kinds = [
        Kind::Put {
            key: b"",
            value: b"",
            expires_at: None,
        },
        Kind::Put {
            key: b"k",
            value: &long,
            expires_at: None,
        },
        Kind::Put {
            key: &long,
            value: b"v",
            expires_at: Some(0),
        },
        Kind::Delete { key: b"key" },
        Kind::Expire {
            key: b"key",
            expires_at: Some(9),
        },
        Kind::Expire {
            key: b"key",
            expires_at: None,
        },
        Kind::SetItem {
            key: b"key",
            index: 7,
            item: b"",
        },
        Kind::InsertItem {
            key: b"key",
            index: 7,
            item: &long,
        },
        Kind::RemoveItems {
            key: b"key",
            count: -2,
            item: b"item",
        },
        Kind::Patch {
            key: b"key",
            offset: 300,
            bytes: &long,
        },
        Kind::Clear,
        Kind::Exchange { other: 15 },
        Kind::Oldest { segment: 7 },
    ];
    for kind in kinds {
        for database in [0, 15, OWN_DATABASE] {
            both_ways(Op { database, kind });
        }
    }
}

#[test]
fn operations_with_elements_are_read_as_they_were_written() {
    let long = vec![7; 300];
    let mut elements = vec![];
    for element in [&b"one"[..], b"", &long, b"2"] {
        Elements::push(&mut elements, element);
    }
    let read: Vec<&[u8]> = Elements::new(&elements).collect();
    assert_eq!(read, [&b"one"[..], b"", &long, b"2"]);
    let kinds = [
        Kind::PutCollection {
            key: &long,
            form: Form::Set,
            is_ordered: false,
            expires_at: Some(7),
            elements: Elements::new(&elements),
        },
        Kind::PutCollection {
            key: b"",
            form: Form::Hash,
            is_ordered: true,
            expires_at: None,
            elements: Elements::new(&elements),
        },
        Kind::Add {
            key: b"key",
            form: Form::List,
            at_front: true,
            elements: Elements::new(&elements),
        },
        Kind::Take {
            key: b"key",
            form: Form::Hash,
            at_front: false,
            elements: Elements::new(&elements),
        },
        Kind::Take {
            key: b"key",
            form: Form::Sorted,
            at_front: false,
            elements: Elements::new(&elements),
        },
        Kind::Add {
            key: b"key",
            form: Form::Sorted,
            at_front: false,
            elements: Elements::new(b"\x01m\x08\0\0\0\0\0\0\xf0\x7f\0\x08\0\0\0\0\0\0\0\x80"),
        },
        Kind::Add {
            key: b"key",
            form: Form::FieldTimes,
            at_front: false,
            elements: Elements::new(b"\x01f\x08\x07\0\0\0\0\0\0\0"),
        },
        Kind::PutCollection {
            key: b"key",
            form: Form::TimedHash,
            is_ordered: true,
            expires_at: None,
            elements: Elements::new(b"\x01f\x01v\x08\xff\xff\xff\xff\xff\xff\xff\xff"),
        },
    ];
    for kind in kinds {
        for database in [0, 15, OWN_DATABASE] {
            both_ways(Op { database, kind });
        }
    }
}

#[test]
fn values_that_are_left_out_count_in_the_body() {
    // A put, a deletion and a put with an expiry, in database 3. The values have 100 bytes.
    let without =
        b"\x31\x03\x64key\x09\0\0\0\x33\x03key\x32\x03\x64\x05\0\0\0\0\0\0\0key\x09\0\0\0";
    let put = |expires_at| Kind::PutLeftOut {
        key: b"key",
        bytes: 100,
        crc: 9,
        expires_at,
    };
    let kinds = [put(None), Kind::Delete { key: b"key" }, put(Some(5))];
    let expected = [106, 111, 225].into_iter().zip(kinds);
    let mut ops = Ops::without_values(without, 225, 100);
    let read: Vec<_> = ops.by_ref().map(|(end, op)| (end, op.kind)).collect();
    assert_eq!(read, expected.collect::<Vec<_>>());
    assert!(ops.is_at_end() && ops.rest().is_empty());
    // Lengths at which no operation ends.
    for bytes in [1, 105, 224, 226] {
        let mut ops = Ops::without_values(without, bytes, 100);
        ops.by_ref().for_each(drop);
        assert!(!ops.is_at_end(), "{bytes}");
    }
}

#[test]
fn operations_that_cannot_be_are_refused() {
    for bytes in [
        // A form that there is not, a hash with a field alone, an element that is not whole.
        &[ADD, 9, 1, 0, b'k'][..],
        &[ADD, 2, 1, 2, b'k', 1, b'f'],
        &[ADD, 1, 1, 1, b'k', 1],
        // A member without a score, a score of another length, and one that is no number.
        &[ADD, 4, 1, 2, b'k', 1, b'm'],
        &[ADD, 4, 1, 4, b'k', 1, b'm', 1, 0],
        &[
            ADD, 4, 1, 11, b'k', 1, b'm', 8, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f,
        ],
        // A field without a time, a time of another length, and a form that is for other operations.
        &[ADD, 7, 1, 2, b'k', 1, b'f'],
        &[ADD, 7, 1, 4, b'k', 1, b'f', 1, 0],
        &[ADD, 6, 1, 0, b'k'],
        &[TAKE, 7, 1, 0, b'k'],
        // A database that there is not, a string that would be too long.
        &[EXCHANGE, 16],
        &[PATCH, 1, 1, 0, 0, 0, 0x20, b'k', b'v'],
    ] {
        assert_eq!(Op::decode(bytes, usize::MAX), None, "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(body: Vec<u8>) {
        let mut ops = Ops::new(&body);
        let read = ops.by_ref().count();
        prop_assert!(read <= body.len());
    }
}
