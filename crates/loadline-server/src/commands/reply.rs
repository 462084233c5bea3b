//! Replies of commands, encoded directly into the output of their connection.

use loadline_resp::encode::Sink as _;
use loadline_resp::{Protocol, encode};

use super::numbers::{Digits, double_text, whole};
use crate::buffer::Output;

/// Writes replies in the protocol of a connection.
#[derive(Debug)]
pub(super) struct Reply<'o> {
    pub(super) out: &'o mut Output,
    pub(super) protocol: Protocol,
}

impl Reply<'_> {
    pub(super) fn simple(&mut self, text: &str) {
        encode::simple(self.out, text.as_bytes());
    }

    pub(super) fn ok(&mut self) {
        self.out.put(b"+OK\r\n");
    }

    pub(super) fn integer(&mut self, number: i64) {
        encode::integer(self.out, number);
    }

    /// Writes an integer whose digits are there already.
    pub(super) fn digits(&mut self, digits: &Digits) {
        self.out.put_parts(&[b":", digits.as_ref(), b"\r\n"]);
    }

    pub(super) fn count(&mut self, count: usize) {
        self.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Writes 1 for true and 0 for false.
    pub(super) fn flag(&mut self, flag: bool) {
        self.integer(i64::from(flag));
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        encode::bulk(self.out, bytes);
    }

    /// Appends replies that are already encoded.
    pub(super) fn encoded(&mut self, replies: &[u8]) {
        self.out.put(replies);
    }

    /// Writes the bytes, or nil for `None`.
    pub(super) fn maybe(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Writes a double as Redis 7.0 does; a bulk string in RESP2.
    pub(super) fn double(&mut self, number: f64) {
        if let (Protocol::Resp2, Some(number)) = (self.protocol, whole(number)) {
            return self.bulk(Digits::new(number).as_ref());
        }
        let text = double_text(number);
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => self.encoded(format!(",{text}\r\n").as_bytes()),
        }
    }

    /// Writes the double, or nil for `None`.
    pub(super) fn maybe_double(&mut self, number: Option<f64>) {
        match number {
            Some(number) => self.double(number),
            None => self.null(),
        }
    }

    /// Writes a multi-line text.
    pub(super) fn text(&mut self, text: &str) {
        encode::verbatim(self.out, *b"txt", text.as_bytes(), self.protocol);
    }

    pub(super) fn null(&mut self) {
        encode::null(self.out, self.protocol);
    }

    pub(super) fn null_array(&mut self) {
        encode::null_array(self.out, self.protocol);
    }

    /// The header of an array; its elements must follow.
    pub(super) fn array(&mut self, len: usize) {
        encode::array_header(self.out, len as u64);
    }

    /// The header of a set; its elements must follow.
    pub(super) fn set(&mut self, len: usize) {
        encode::set_header(self.out, len as u64, self.protocol);
    }

    /// The header of a map; a key and a value must follow for each pair.
    pub(super) fn map(&mut self, pairs: usize) {
        encode::map_header(self.out, pairs as u64, self.protocol);
    }
}
