//! The request parser: cut or whole, it reads the same requests, and those are read again after writing. The reader of
//! short heads finds the first of them or nothing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loadline_resp::{Error, Limits, RequestParser, encode, head};

type Parsed = (Vec<Vec<Vec<u8>>>, Result<(), Error>);

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, bytes) = input;
    let whole = parse(std::iter::once(bytes));
    assert_eq!(whole, parse(bytes.chunks(usize::from(cut) + 1)));

    let mut words = Vec::new();
    if head::words(bytes, usize::from(cut), |_, word| words.push(word.to_vec())).is_some() {
        assert_eq!(whole.0.first(), Some(&words));
    }

    let mut written = Vec::new();
    for request in &whole.0 {
        let before = written.len();
        encode::command(&mut written, request);
        assert_eq!(written.len() - before, encode::command_len(request));
    }
    assert_eq!(parse(std::iter::once(&written[..])), (whole.0, Ok(())));
});

fn parse<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Parsed {
    let mut parser = RequestParser::new(Limits::default());
    let mut buf = Vec::new();
    let mut requests = Vec::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        loop {
            let (used, request) = match parser.parse(&buf) {
                Ok(parsed) => parsed,
                Err(error) => return (requests, Err(error)),
            };
            let waits = request.is_none();
            requests.extend(request.map(|request| request.iter().map(<[u8]>::to_vec).collect()));
            buf.drain(..used);
            if waits {
                break;
            }
        }
    }
    (requests, Ok(()))
}
