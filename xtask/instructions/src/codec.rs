//! Requests and replies as bytes.

use std::hint::black_box;

use anyhow::Context;
use loadline_resp::{Decoder, Limits, RequestParser, Skipper, encode};

use crate::{KEYS, Measured, VALUE, distinct, keys};

/// Elements of a long request or reply.
const ELEMENTS: usize = 100;

pub(crate) fn run() -> anyhow::Result<Vec<Measured>> {
    let keys = keys();
    let mut out = Vec::with_capacity(64 << 10);
    for key in &keys {
        out.clear();
        encode_set(&mut out, key);
    }
    let request = out.clone();
    for _ in 0..KEYS {
        out.clear();
        encode_mget(&mut out, &keys[..ELEMENTS]);
    }
    let long_request = out.clone();

    let mut reply = Vec::new();
    encode::bulk(&mut reply, VALUE);
    let mut long_reply = Vec::new();
    encode::array_header(&mut long_reply, ELEMENTS as u64);
    let replies = reply.repeat(ELEMENTS);
    long_reply.extend(&replies);

    let mut decoder = Decoder::new(Limits::default());
    let mut parser = RequestParser::new(Limits::default());
    let mut skipper = Skipper::new(Limits::default());
    for _ in 0..KEYS {
        decode_string(&mut decoder, &reply).context("a string was not decoded")?;
        decode_array(&mut decoder, &long_reply).context("an array was not decoded")?;
        parse_set(&mut parser, &request).context("a request was not parsed")?;
        parse_mget(&mut parser, &long_request).context("a long request was not parsed")?;
        let skipped = skip_strings(&mut skipper, &replies);
        anyhow::ensure!(skipped == ELEMENTS, "{skipped} replies were skipped");
    }
    Ok(vec![
        Measured::new(&encode_set, 1),
        Measured::new(&encode_mget, 1),
        Measured::new(&decode_string, 1),
        Measured::new(&decode_array, 1),
        Measured::new(&parse_set, 1),
        Measured::new(&parse_mget, 1),
        Measured::new(&skip_strings, ELEMENTS as u64),
    ])
}

#[inline(never)]
fn encode_set(out: &mut Vec<u8>, key: &str) {
    distinct("encode_set");
    encode::command(out, &[b"SET", key.as_bytes(), VALUE]);
}

#[inline(never)]
fn encode_mget(out: &mut Vec<u8>, keys: &[String]) {
    distinct("encode_mget");
    encode::array_header(out, keys.len() as u64 + 1);
    encode::bulk(out, b"MGET");
    for key in keys {
        encode::bulk(out, key.as_bytes());
    }
}

#[inline(never)]
fn decode_string(decoder: &mut Decoder, bytes: &[u8]) -> Option<usize> {
    distinct("decode_string");
    decode(decoder, bytes)
}

#[inline(never)]
fn decode_array(decoder: &mut Decoder, bytes: &[u8]) -> Option<usize> {
    distinct("decode_array");
    decode(decoder, bytes)
}

#[inline(always)]
fn decode(decoder: &mut Decoder, bytes: &[u8]) -> Option<usize> {
    let (reply, used) = decoder.decode(bytes).ok()??;
    black_box(reply);
    Some(used)
}

#[inline(never)]
fn parse_set(parser: &mut RequestParser, bytes: &[u8]) -> Option<usize> {
    distinct("parse_set");
    parse(parser, bytes)
}

#[inline(never)]
fn parse_mget(parser: &mut RequestParser, bytes: &[u8]) -> Option<usize> {
    distinct("parse_mget");
    parse(parser, bytes)
}

#[inline(always)]
fn parse(parser: &mut RequestParser, bytes: &[u8]) -> Option<usize> {
    let (used, request) = parser.parse(bytes).ok()?;
    black_box(request?);
    Some(used)
}

#[inline(never)]
fn skip_strings(skipper: &mut Skipper, bytes: &[u8]) -> usize {
    distinct("skip_strings");
    let mut skipped = 0;
    let fed = skipper.feed(bytes, |_| skipped += 1);
    if fed.is_err() { 0 } else { skipped }
}
