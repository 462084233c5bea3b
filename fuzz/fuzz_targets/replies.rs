//! The decoder and the skipper on the same bytes: cut or whole, they give the same, and what the decoder
//! accepts the skipper counts. What was decoded is written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loadline_fuzz::TIGHT;
use loadline_resp::{Decoder, Error, Limits, Protocol, ReplyKind, Skipper, encode};

type Skips = (Vec<(ReplyKind, Vec<u8>)>, Result<(), Error>);

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (cut, tight, bytes) = input;
    let limits = if tight { TIGHT } else { Limits::default() };
    let piece_bytes = usize::from(cut) + 1;

    let whole = skip(std::iter::once(bytes), limits);
    assert_eq!(whole, skip(bytes.chunks(piece_bytes), limits));

    let (kinds, end) = decode(bytes, limits);
    assert_eq!(kinds, whole.0[..kinds.len()]);
    match end {
        // Content that is not what its type promises is seen by the decoder alone.
        Err(Error::Malformed(_)) => {}
        end => assert_eq!((kinds.len(), end), (whole.0.len(), whole.1)),
    }
    grow(bytes, piece_bytes, limits);
});

fn skip<'a>(mut pieces: impl Iterator<Item = &'a [u8]>, limits: Limits) -> Skips {
    let mut skipper = Skipper::new(limits);
    let mut kinds = Vec::new();
    let end = pieces.try_for_each(|piece| {
        skipper.feed(piece, |reply| {
            kinds.push((reply.kind, reply.error.to_vec()));
        })
    });
    (kinds, end)
}

fn decode(mut bytes: &[u8], limits: Limits) -> Skips {
    let mut decoder = Decoder::new(limits);
    let mut kinds = Vec::new();
    loop {
        let (reply, used) = match decoder.decode(bytes) {
            Ok(Some(decoded)) => decoded,
            Ok(None) => return (kinds, Ok(())),
            Err(error) => return (kinds, Err(error)),
        };
        let mut written = Vec::new();
        encode::reply(&mut written, &reply, Protocol::Resp3);
        let (again, written_bytes) = Decoder::new(Limits::default())
            .decode(&written)
            .expect("it is RESP")
            .expect("it is complete");
        assert_eq!(written_bytes, written.len());
        let mut twice = Vec::new();
        encode::reply(&mut twice, &again, Protocol::Resp3);
        assert_eq!(written, twice);
        kinds.extend(skip(std::iter::once(&bytes[..used]), limits).0);
        bytes = &bytes[used..];
    }
}

/// The first reply of a buffer that grows is the same as that of the whole buffer.
fn grow(bytes: &[u8], piece_bytes: usize, limits: Limits) {
    let shown = |result| format!("{result:?}");
    let expected = Decoder::new(limits).decode(bytes);
    let mut decoder = Decoder::new(limits);
    for end in (0..bytes.len()).step_by(piece_bytes).chain([bytes.len()]) {
        let found = decoder.decode(&bytes[..end]);
        if !matches!(found, Ok(None)) || end == bytes.len() {
            assert_eq!(shown(found), shown(expected));
            return;
        }
    }
}
