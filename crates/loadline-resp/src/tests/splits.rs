//! Every reply of the corpus, cut at every byte.

use super::naive::Skips;
use super::{corpus, naive};
use crate::{Decoder, Error, Limits, Protocol, Reply, ReplyKind, Skipper, encode};

/// Feeds the pieces, and gives the kinds with error texts, and the first error.
pub(super) fn skip(pieces: &[&[u8]], limits: Limits) -> Skips {
    let mut skipper = Skipper::new(limits);
    let mut kinds = Vec::new();
    let end = pieces.iter().try_for_each(|piece| {
        skipper.feed(piece, |reply| {
            kinds.push((reply.kind, reply.error.to_vec()));
        })
    });
    (kinds, end)
}

#[test]
fn corpus_means_what_it_says() {
    let mut decoder = Decoder::new(Limits::default());
    for (bytes, meaning) in corpus::replies() {
        let (reply, used) = decoder
            .decode(bytes)
            .unwrap()
            .expect("the reply is complete");
        // NaN is not equal to itself, but its text is.
        assert_eq!(format!("{reply:?}"), format!("{meaning:?}"));
        assert_eq!(used, bytes.len());
        assert_eq!(format!("{:?}", reply.to_owned()), format!("{meaning:?}"));
    }
}

#[test]
fn reply_that_grows_is_decoded_with_its_last_byte() {
    let mut decoder = Decoder::new(Limits::default());
    for (bytes, meaning) in corpus::replies() {
        for step in 1..=bytes.len() {
            for end in (step..bytes.len()).step_by(step) {
                assert_eq!(
                    decoder.decode(&bytes[..end]),
                    Ok(None),
                    "{}",
                    bytes.escape_ascii()
                );
            }
            let with_next = [bytes, b"+next\r\n"].concat();
            let (reply, used) = decoder
                .decode(&with_next)
                .unwrap()
                .expect("the reply is complete");
            assert_eq!(format!("{reply:?}"), format!("{meaning:?}"));
            assert_eq!(used, bytes.len());
        }
    }
}

#[test]
fn replies_are_counted_wherever_they_are_cut() {
    for (bytes, _) in corpus::replies() {
        let (kinds, _) = naive::skip(bytes, &Limits::default());
        assert_eq!(kinds.len(), 1, "{}", bytes.escape_ascii());
        let stream = [bytes, b":1\r\n", bytes].concat();
        let expected = [
            kinds[0].clone(),
            (ReplyKind::Value, Vec::new()),
            kinds[0].clone(),
        ];
        for cut in 0..=stream.len() {
            let (left, right) = stream.split_at(cut);
            assert_eq!(
                skip(&[left, right], Limits::default()),
                (expected.to_vec(), Ok(())),
                "{}",
                bytes.escape_ascii()
            );
        }
        let single: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(
            skip(&single, Limits::default()),
            (expected.to_vec(), Ok(()))
        );
    }
}

#[test]
fn replies_can_be_stepped_through() {
    let stream: Vec<u8> = corpus::replies()
        .iter()
        .flat_map(|(bytes, _)| bytes.iter().copied())
        .collect();
    let mut skipper = Skipper::new(Limits::default());
    let mut rest = &stream[..];
    for (bytes, _) in corpus::replies() {
        let (used, reply) = skipper.next(rest).unwrap();
        assert_eq!(
            (used, reply.is_some()),
            (bytes.len(), true),
            "{}",
            bytes.escape_ascii()
        );
        rest = &rest[used..];
    }
    assert_eq!(skipper.next(rest), Ok((0, None)));
    assert!(skipper.is_between_replies());
}

#[test]
fn refused_bytes_are_refused_at_every_split() {
    let limits = Limits::default();
    for bytes in corpus::refused() {
        let expected = naive::decode(bytes, &limits, naive::Check::Content)
            .expect_err("the bytes are not RESP");
        assert_eq!(
            Decoder::new(limits).decode(bytes),
            Err(expected),
            "{}",
            bytes.escape_ascii()
        );
        let mut decoder = Decoder::new(limits);
        let found = (1..=bytes.len()).find_map(|end| decoder.decode(&bytes[..end]).err());
        assert_eq!(found, Some(expected), "{}", bytes.escape_ascii());
        let framing = naive::skip(bytes, &limits);
        for cut in 0..=bytes.len() {
            let (left, right) = bytes.split_at(cut);
            assert_eq!(
                skip(&[left, right], limits),
                framing,
                "{}",
                bytes.escape_ascii()
            );
        }
    }
}

#[test]
fn corpus_is_written_as_it_was_read() {
    // A carriage return in a simple string is read but never written.
    let kept = |reply: &Reply<'_>| !matches!(reply, Reply::Simple(text) if text.contains(&b'\r'));
    for (bytes, meaning) in corpus::replies()
        .into_iter()
        .filter(|(_, reply)| kept(reply))
    {
        let mut written = Vec::new();
        encode::reply(&mut written, &meaning, Protocol::Resp3);
        let (again, used) = Decoder::new(Limits::default())
            .decode(&written)
            .unwrap()
            .expect("the reply is complete");
        assert_eq!(
            format!("{again:?}"),
            format!("{meaning:?}"),
            "{}",
            bytes.escape_ascii()
        );
        assert_eq!(used, written.len());
    }
}

#[test]
fn replies_for_resp2_have_only_its_types() {
    for (bytes, meaning) in corpus::replies() {
        let mut written = Vec::new();
        encode::reply(&mut written, &meaning, Protocol::Resp2);
        let (again, _) = Decoder::new(Limits::default())
            .decode(&written)
            .unwrap()
            .expect("the reply is complete");
        assert_resp2(&again, bytes);
    }
}

fn assert_resp2(reply: &Reply<'_>, bytes: &[u8]) {
    match reply {
        Reply::Array(items) => items.iter().for_each(|item| assert_resp2(item, bytes)),
        Reply::Simple(_) | Reply::Error(_) | Reply::Integer(_) | Reply::Bulk(_) | Reply::Null => {}
        other => panic!("{other:?} is not of RESP2, from {}", bytes.escape_ascii()),
    }
}

#[test]
fn long_errors_are_cut_and_have_a_code() {
    let line = [&b"-LOADING "[..], &[b'x'; 1000], b"\r\n"].concat();
    let blob = [&b"!1009\r\n"[..], &line[1..]].concat();
    let blob = &blob[..blob.len() - 2];
    let blob = [blob, b"y\r\n"].concat();
    for bytes in [line, blob] {
        for size in [1, 7, 2000] {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            let (kinds, end) = skip(&pieces, Limits::default());
            assert_eq!(end, Ok(()));
            assert_eq!(kinds.len(), 1);
            assert_eq!(
                (kinds[0].0, kinds[0].1.len()),
                (ReplyKind::Error, crate::ERROR_TEXT_BYTES)
            );
        }
        let mut skipper = Skipper::new(Limits::default());
        let (_, reply) = skipper.next(&bytes).unwrap();
        assert_eq!(
            reply.expect("the error is complete").error_code(),
            b"LOADING"
        );
    }
}

/// The size of a reply is the same wherever it is cut.
#[test]
fn limit_of_a_reply_holds_wherever_it_is_cut() {
    let limits = |max_reply_bytes| Limits {
        max_reply_bytes,
        ..Limits::default()
    };
    let replies: [&[u8]; 5] = [
        b"*2\r\n+simple\r\n-error\r\n",
        b"*2\r\n:12345\r\n$3\r\nabc\r\n",
        b"%1\r\n+a\r\n(123456789012345678901\r\n",
        b">2\r\n,1.5\r\n+message\r\n",
        b"*1\r\n=7\r\ntxt:abc\r\n",
    ];
    for bytes in replies {
        let fits = |most: &u64| Decoder::new(limits(*most)).decode(bytes).is_ok();
        let size = (0..10_000).find(fits).unwrap();
        for cut in 1..bytes.len() {
            let (begin, end) = bytes.split_at(cut);
            let shown = bytes.escape_ascii();
            let whole = skip(&[begin, end], limits(size));
            assert_eq!(whole.1, Ok(()), "{shown}, {size} bytes, cut at {cut}");
            let limit = size - 1;
            let refused = skip(&[begin, end], limits(limit)).1;
            let expected = Err(Error::ReplyTooLarge { limit });
            assert_eq!(refused, expected, "{shown}, cut at {cut}");
        }
    }
}

#[test]
fn limits_are_inclusive() {
    let limits = Limits {
        max_depth: 2,
        max_line_bytes: 4,
        max_bulk_bytes: 3,
        max_aggregate_len: 1,
        max_reply_bytes: 1 << 20,
    };
    let allowed: [&[u8]; 6] = [
        b"+1234\r\n",
        b"$3\r\n123\r\n",
        b"*1\r\n*0\r\n",
        b"%1\r\n_\r\n_\r\n",
        b"|0\r\n*0\r\n",
        b"-1234\r\n",
    ];
    for bytes in allowed {
        assert!(
            Decoder::new(limits).decode(bytes).unwrap().is_some(),
            "{}",
            bytes.escape_ascii()
        );
        assert_eq!(
            skip(&[bytes, bytes], limits).1,
            Ok(()),
            "{}",
            bytes.escape_ascii()
        );
    }
    let refused: [(&[u8], Error); 7] = [
        (b"+12345\r\n", Error::LineTooLong { limit: 4 }),
        (b"+12345", Error::LineTooLong { limit: 4 }),
        (b"$4\r\n", Error::BulkTooLong { bytes: 4, limit: 3 }),
        (b"$4\r\n1234\r\n", Error::BulkTooLong { bytes: 4, limit: 3 }),
        (b"*2\r\n", Error::AggregateTooLong { len: 2, limit: 1 }),
        (b"*1\r\n*1\r\n*0\r\n", Error::TooDeep { limit: 2 }),
        (b"|0\r\n|0\r\n|0\r\n", Error::TooDeep { limit: 2 }),
    ];
    for (bytes, error) in refused {
        // Enough bytes follow that the skipper's short cuts would apply.
        let long = [bytes, b"+1\r\n+1\r\n+1\r\n"].concat();
        assert_eq!(
            Decoder::new(limits).decode(&long),
            Err(error),
            "{}",
            bytes.escape_ascii()
        );
        assert_eq!(
            skip(&[&long], limits).1,
            Err(error),
            "{}",
            bytes.escape_ascii()
        );
        let single: Vec<&[u8]> = long.chunks(1).collect();
        assert_eq!(
            skip(&single, limits).1,
            Err(error),
            "{}",
            bytes.escape_ascii()
        );
    }
}
