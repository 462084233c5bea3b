//! The request parser against a naive version, and against requests written out.

use proptest::prelude::*;

use crate::{Error, Limits, RequestFault, RequestParser, encode};

type Parsed = (Vec<Vec<Vec<u8>>>, Result<(), Error>);

/// All requests of a stream that arrives in pieces, from a buffer that is handled as a server would.
fn parse(pieces: &[&[u8]], limits: Limits) -> Parsed {
    let mut parser = RequestParser::new(limits);
    let mut buf = Vec::new();
    let mut requests = Vec::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        loop {
            match parser.parse(&buf) {
                Err(error) => return (requests, Err(error)),
                Ok((used, None)) => {
                    buf.drain(..used);
                    break;
                }
                Ok((used, Some(request))) => {
                    assert_eq!(request.len(), request.iter().len());
                    assert_eq!(request.get(request.len()), None);
                    requests.push(request.iter().map(<[u8]>::to_vec).collect());
                    buf.drain(..used);
                }
            }
        }
    }
    (requests, Ok(()))
}

fn fault(bytes: &[u8]) -> String {
    parse(&[bytes], Limits::default())
        .1
        .expect_err("the request is refused")
        .to_string()
}

/// The plain version: everything is there from the start.
fn naive(mut bytes: &[u8], limits: &Limits) -> Parsed {
    let mut requests = Vec::new();
    loop {
        match naive_one(&mut bytes, limits) {
            Ok(Some(args)) if args.is_empty() => {}
            Ok(Some(args)) => requests.push(args),
            Ok(None) => return (requests, Ok(())),
            Err(fault) => return (requests, Err(fault.into())),
        }
    }
}

fn naive_one(bytes: &mut &[u8], limits: &Limits) -> Result<Option<Vec<Vec<u8>>>, RequestFault> {
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes[0] != b'*' {
        let Some(line) = naive_line(bytes, limits, RequestFault::InlineLine)? else {
            return Ok(None);
        };
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        return sdssplitargs(line).map(Some).ok_or(RequestFault::Quotes);
    }
    *bytes = &bytes[1..];
    let Some(line) = naive_line(bytes, limits, RequestFault::MultibulkLine)? else {
        return Ok(None);
    };
    let count = naive_number(&line)
        .filter(|&count| count <= i128::from(i32::MAX))
        .ok_or(RequestFault::MultibulkLength)?;
    let mut args = Vec::new();
    for _ in 0..count {
        match bytes.first() {
            None => return Ok(None),
            Some(b'$') => *bytes = &bytes[1..],
            Some(&other) => return Err(RequestFault::ExpectedBulk(other)),
        }
        let Some(line) = naive_line(bytes, limits, RequestFault::BulkLine)? else {
            return Ok(None);
        };
        let in_limit = |len: &i128| (0..=i128::from(limits.max_bulk_bytes)).contains(len);
        let len = naive_number(&line)
            .filter(in_limit)
            .ok_or(RequestFault::BulkLength)?;
        let len = usize::try_from(len).unwrap();
        let ending = bytes.get(len..).unwrap_or_default();
        if !b"\r\n".starts_with(&ending[..ending.len().min(2)]) {
            return Err(RequestFault::BulkLength);
        }
        if ending.len() < 2 {
            return Ok(None);
        }
        args.push(bytes[..len].to_vec());
        *bytes = &ending[2..];
    }
    Ok(Some(args))
}

fn naive_line(
    bytes: &mut &[u8],
    limits: &Limits,
    unending: RequestFault,
) -> Result<Option<Vec<u8>>, RequestFault> {
    let longest = limits.max_line_bytes + 2;
    match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) if end < longest => {
            let line = bytes[..end].to_vec();
            *bytes = &bytes[end + 1..];
            Ok(Some(line))
        }
        None if bytes.len() < longest => Ok(None),
        _ => Err(unending),
    }
}

fn naive_number(line: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(line.strip_suffix(b"\r")?).ok()?;
    let number: i128 = text.parse().ok()?;
    (number.to_string() == text && number.unsigned_abs() <= u64::MAX.into()).then_some(number)
}

/// A transcription of `sdssplitargs` of Redis 7.0, byte by byte with an index, where NUL ends the line.
fn sdssplitargs(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let at = |place: usize| line.get(place).copied().unwrap_or(0);
    let space = |byte: u8| byte == b' ' || (9..=13).contains(&byte);
    let mut args = Vec::new();
    let mut p = 0;
    loop {
        while at(p) != 0 && space(at(p)) {
            p += 1;
        }
        if at(p) == 0 {
            return Some(args);
        }
        let (mut in_double, mut in_single, mut done) = (false, false, false);
        let mut current = Vec::new();
        while !done {
            if in_double {
                if at(p) == b'\\'
                    && at(p + 1) == b'x'
                    && at(p + 2).is_ascii_hexdigit()
                    && at(p + 3).is_ascii_hexdigit()
                {
                    let digits = std::str::from_utf8(&line[p + 2..p + 4]).unwrap();
                    current.push(u8::from_str_radix(digits, 16).unwrap());
                    p += 3;
                } else if at(p) == b'\\' && at(p + 1) != 0 {
                    p += 1;
                    current.push(escaped(at(p)));
                } else if at(p) == b'"' {
                    if at(p + 1) != 0 && !space(at(p + 1)) {
                        return None;
                    }
                    done = true;
                } else if at(p) == 0 {
                    return None;
                } else {
                    current.push(at(p));
                }
            } else if in_single {
                if at(p) == b'\\' && at(p + 1) == b'\'' {
                    p += 1;
                    current.push(b'\'');
                } else if at(p) == b'\'' {
                    if at(p + 1) != 0 && !space(at(p + 1)) {
                        return None;
                    }
                    done = true;
                } else if at(p) == 0 {
                    return None;
                } else {
                    current.push(at(p));
                }
            } else {
                match at(p) {
                    b' ' | b'\n' | b'\r' | b'\t' | 0 => done = true,
                    b'"' => in_double = true,
                    b'\'' => in_single = true,
                    byte => current.push(byte),
                }
            }
            if at(p) != 0 {
                p += 1;
            }
        }
        args.push(current);
    }
}

fn escaped(byte: u8) -> u8 {
    let escapes = [
        (b'n', b'\n'),
        (b'r', b'\r'),
        (b't', b'\t'),
        (b'b', 8),
        (b'a', 7),
    ];
    let known = escapes.iter().find(|(name, _)| *name == byte);
    known.map_or(byte, |(_, meaning)| *meaning)
}

#[test]
fn refusals_are_in_the_words_of_redis() {
    assert_eq!(fault(b"*x\r\n"), "Protocol error: invalid multibulk length");
    assert_eq!(
        fault(b"*2147483648\r\n"),
        "Protocol error: invalid multibulk length"
    );
    assert_eq!(
        fault(b"*99999999999999999999999\r\n"),
        "Protocol error: invalid multibulk length"
    );
    assert_eq!(
        fault(b"*1\r\n+OK\r\n"),
        "Protocol error: expected '$', got '+'"
    );
    assert_eq!(
        fault(b"*1\r\n$-1\r\n"),
        "Protocol error: invalid bulk length"
    );
    assert_eq!(
        fault(b"*1\r\n$536870913\r\n"),
        "Protocol error: invalid bulk length"
    );
    assert_eq!(
        fault(b"*1\r\n$1\r\nxyz\r\n"),
        "Protocol error: invalid bulk length"
    );
    assert_eq!(
        fault(&[b'x'; 70_000]),
        "Protocol error: too big inline request"
    );
    assert_eq!(
        fault(&[&b"*"[..], &[b'1'; 70_000]].concat()),
        "Protocol error: too big mbulk count string"
    );
    assert_eq!(
        fault(&[&b"*1\r\n$"[..], &[b'1'; 70_000]].concat()),
        "Protocol error: too big bulk count string"
    );
    assert_eq!(
        fault(b"SET \"a\r\n"),
        "Protocol error: unbalanced quotes in request"
    );
    assert_eq!(
        fault(b"SET \"a\"b\r\n"),
        "Protocol error: unbalanced quotes in request"
    );
}

#[test]
fn strangers_may_send_little() {
    let mut parser = RequestParser::new(Limits::default());
    parser.set_authenticated(false);
    assert!(parser.parse(b"*10\r\n").is_ok());
    parser.reset();
    let error = parser
        .parse(b"*11\r\n")
        .expect_err("eleven arguments are too many");
    assert_eq!(
        error.to_string(),
        "Protocol error: unauthenticated multibulk length"
    );
    let error = parser
        .parse(b"*1\r\n$16385\r\n")
        .expect_err("the argument is too long");
    assert_eq!(
        error.to_string(),
        "Protocol error: unauthenticated bulk length"
    );
    assert_eq!(
        parser.parse(b"*1\r\n$16384\r\n").map(|(used, _)| used),
        Ok(0)
    );
    parser.reset();
    parser.set_authenticated(true);
    assert_eq!(parser.parse(b"*11\r\n").map(|(used, _)| used), Ok(0));
}

#[test]
fn empty_requests_are_done_with_at_once() {
    let mut parser = RequestParser::new(Limits::default());
    let (used, request) = parser.parse(b"\r\n\n*0\r\n*-1\r\n*-7\r\n  \r\nPI").unwrap();
    assert_eq!(used, 3 + 4 + 5 + 5 + 4);
    assert!(request.is_none());
    let (used, request) = parser.parse(b"PING\r\n").unwrap();
    assert_eq!(used, 6);
    assert_eq!(&request.expect("it is complete")[0], b"PING");
}

#[test]
fn inline_requests_have_quotes_and_escapes() {
    let args = |line: &str| parse(&[line.as_bytes()], Limits::default()).0.concat();
    assert_eq!(args("SET key value\r\n"), [&b"SET"[..], b"key", b"value"]);
    assert_eq!(
        args("  SET\tkey \"a b\\n\\x41\\\"\"\n"),
        [&b"SET"[..], b"key", b"a b\nA\""]
    );
    assert_eq!(
        args("ECHO 'it\\'s \\n' \"\"\n"),
        [&b"ECHO"[..], b"it's \\n", b""]
    );
    assert_eq!(args("pre\"fix\" x\n"), [&b"prefix"[..], b"x"]);
}

#[test]
fn large_request_is_read_in_pieces_and_forgotten() {
    let args = vec![b"x".to_vec(); 300_000];
    let mut bytes = Vec::new();
    encode::command(&mut bytes, &args);
    let mut parser = RequestParser::new(Limits::default());
    // With a fresh start at every call this would look at 3 * 10^11 bytes.
    for end in (0..bytes.len()).step_by(8) {
        assert_eq!(
            parser
                .parse(&bytes[..end])
                .map(|(used, request)| (used, request.is_none())),
            Ok((0, true))
        );
    }
    let (used, request) = parser.parse(&bytes).unwrap();
    assert_eq!(
        (used, request.map(|request| request.len())),
        (bytes.len(), Some(args.len()))
    );
}

/// Bytes that look like requests often enough.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[*$][0-3]\r\n".prop_map(String::into_bytes),
        2 => "[*$](-[0-9]|[0-9]{1,26})\r?\n".prop_map(String::into_bytes),
        4 => "[$]3\r\n[a-z]{3}\r\n".prop_map(String::into_bytes),
        4 => "[ a-z\"'\\\\x0-9\t]{0,12}\r?\n".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_commands_are_read_back_wherever_they_are_cut(
        commands in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 1..5), 1..4),
    ) {
        let mut bytes = Vec::new();
        for command in &commands {
            encode::command(&mut bytes, command);
        }
        for cut in 0..=bytes.len() {
            let (left, right) = bytes.split_at(cut);
            prop_assert_eq!(parse(&[left, right], Limits::default()), (commands.clone(), Ok(())));
        }
    }

    #[test]
    fn any_bytes_are_read_as_by_the_naive_version(bytes in any_bytes(), size in 1usize..40, tight: bool) {
        let limits = if tight {
            Limits { max_line_bytes: 22, max_bulk_bytes: 10, ..Limits::default() }
        } else {
            Limits::default()
        };
        let expected = naive(&bytes, &limits);
        let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
        prop_assert_eq!(parse(&[&bytes], limits), expected.clone());
        prop_assert_eq!(parse(&pieces, limits), expected);
    }

    #[test]
    fn inline_requests_are_split_as_by_redis(line in "[ a-z\"'\\\\x0-9\t\u{b}\0]{0,16}") {
        let expected = sdssplitargs(line.as_bytes());
        let (requests, end) = parse(&[line.as_bytes(), b"\n"], Limits::default());
        match expected {
            Some(args) => prop_assert_eq!((requests.concat(), end), (args, Ok(()))),
            None => prop_assert_eq!(end, Err(RequestFault::Quotes.into())),
        }
    }
}
