//! A command line with placeholders for keys and values, and its form on the wire.

use std::io::Write;

use loadline_client::Keys;
use loadline_load::values::ValueSize;
use loadline_load::workload::{Digits, Number, Part};
use loadline_resp::{Limits, RequestParser, encode};

use super::catalog::{self, Known};

/// The placeholders, for messages.
const PLACEHOLDERS: &str = "{key} {samekey} {newkey} {number} {samenumber} {prefix} {value} {member} {field} {score} {int}";
/// Members of a set or sorted set, unless the placeholder says otherwise.
pub(crate) const MEMBERS: u64 = 100;
/// Fields of a hash, unless the placeholder says otherwise.
pub(crate) const FIELDS: u64 = 10;
/// Bound of scores and integers, unless the placeholder says otherwise.
const SCORES: u64 = 1_000_000;
/// The largest bound of a placeholder: what fits eight digits.
const LARGEST_BOUND: u64 = 100_000_000;

/// One command with places for what changes from operation to operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template {
    text: String,
    known: Known,
    arguments: Vec<Vec<Piece>>,
}

/// A piece of an argument.
#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(Vec<u8>),
    /// The prefix of all keys of the case.
    Prefix,
    Number(Number),
    /// A whole value.
    Value,
}

/// Values that the bytes of a command depend on in addition to its template.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a> {
    /// The prefix of all keys, up to the number.
    pub(crate) prefix: &'a str,
    /// The width of key numbers.
    pub(crate) key_digits: Digits,
    /// The sizes of values.
    pub(crate) value_size: &'a ValueSize,
}

impl Template {
    /// Reads a command line, split into arguments as redis-cli splits it, and checks that it keeps to
    /// keys of its own run.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let words = split(text)?;
        let name = String::from_utf8_lossy(&words[0]).to_ascii_uppercase();
        let known = catalog::find(&words[0])
            .ok_or_else(|| format!("{name} is not supported in a workload (docs/workloads.md lists the supported commands)."))?;
        if known.keys == Keys::Streams
            && words.iter().any(|word| word.eq_ignore_ascii_case(b"BLOCK"))
        {
            return Err("XREAD with BLOCK is not supported: the reply would wait for another client, so its time would be meaningless.".into());
        }
        let arguments = words
            .iter()
            .map(|word| pieces(word))
            .collect::<Result<Vec<_>, _>>()?;
        let keys = known
            .keys_among(&words[1..])
            .ok_or_else(|| format!("{name} lacks its key."))?;
        for key in keys {
            if pieces(&key)?.first() != Some(&Piece::Prefix) {
                let word = String::from_utf8_lossy(&key);
                return Err(format!(
                    "{name} touches `{word}`, which is not a key of this run; write {{key}} or {{prefix}}NAME instead."
                ));
            }
        }
        Ok(Self {
            text: text.trim().to_owned(),
            known,
            arguments,
        })
    }

    /// The line as it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The command that it sends.
    pub(crate) fn known(&self) -> Known {
        self.known
    }

    /// Whether it inserts keys.
    pub(crate) fn inserts(&self) -> bool {
        self.numbers().any(|number| number == Number::NewKey)
    }

    /// Whether it carries values.
    pub(crate) fn carries_values(&self) -> bool {
        self.arguments
            .iter()
            .flatten()
            .any(|piece| *piece == Piece::Value)
    }

    /// The numbers that it draws, in order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = Number> {
        self.arguments
            .iter()
            .flatten()
            .filter_map(|piece| match piece {
                Piece::Number(number) => Some(*number),
                _ => None,
            })
    }

    /// The arguments after the name, for a subject that is called: each as parts that make it up.
    pub(crate) fn call_arguments(&self, prefix: &str, key_digits: Digits) -> Vec<Vec<Part>> {
        let part = |piece: &Piece| match piece {
            Piece::Text(text) => Part::Literal(text.clone()),
            Piece::Prefix => Part::Literal(prefix.as_bytes().to_vec()),
            Piece::Number(number) => Part::Number(*number, digits_of(*number, key_digits)),
            Piece::Value => Part::Payload,
        };
        self.arguments[1..]
            .iter()
            .map(|argument| argument.iter().map(part).collect())
            .collect()
    }

    /// Its words with a key, a number and a value of the shortest form.
    pub(crate) fn sample(&self, prefix: &str) -> Vec<Vec<u8>> {
        let bytes = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Prefix => prefix.as_bytes().to_vec(),
            Piece::Number(_) => b"0".to_vec(),
            Piece::Value => b"x".to_vec(),
        };
        let arguments = self.arguments.iter();
        let words = arguments.map(|pieces| pieces.iter().flat_map(bytes).collect());
        words.collect()
    }

    /// Appends what goes over the wire.
    pub(crate) fn write(&self, shape: Shape<'_>, parts: &mut Vec<Part>) {
        let mut wire = Wire { parts, shape };
        encode::array_header(wire.literal(), self.arguments.len() as u64);
        for argument in &self.arguments {
            wire.argument(argument);
        }
    }
}

/// Writes the length header of a value in RESP.
pub(crate) fn value_header(out: &mut Vec<u8>, bytes: usize) {
    write!(out, "${bytes}\r\n").expect("a vector takes everything");
}

/// Parts of a command in the making; neighbouring literals grow together.
struct Wire<'a, 'p> {
    parts: &'p mut Vec<Part>,
    shape: Shape<'a>,
}

impl Wire<'_, '_> {
    fn literal(&mut self) -> &mut Vec<u8> {
        if !matches!(self.parts.last(), Some(Part::Literal(_))) {
            self.parts.push(Part::Literal(Vec::new()));
        }
        match self.parts.last_mut() {
            Some(Part::Literal(bytes)) => bytes,
            _ => unreachable!("a literal was pushed where there was none"),
        }
    }

    fn argument(&mut self, pieces: &[Piece]) {
        if pieces == [Piece::Value] {
            match fixed(self.shape.value_size) {
                Some(bytes) => {
                    value_header(self.literal(), bytes);
                    self.parts.push(Part::Payload);
                }
                None => self.parts.push(Part::SizedPayload(value_header)),
            }
        } else {
            let bytes = pieces.iter().map(|piece| self.length(piece)).sum();
            value_header(self.literal(), bytes);
            for piece in pieces {
                self.piece(piece);
            }
        }
        self.literal().extend_from_slice(b"\r\n");
    }

    fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Text(text) => self.literal().extend_from_slice(text),
            Piece::Prefix => {
                let prefix = self.shape.prefix.as_bytes();
                self.literal().extend_from_slice(prefix);
            }
            Piece::Number(number) => {
                let digits = self.digits(*number);
                self.parts.push(Part::Number(*number, digits));
            }
            Piece::Value => unreachable!("a value is an argument of its own, as `pieces` checks"),
        }
    }

    fn length(&self, piece: &Piece) -> usize {
        match piece {
            Piece::Text(text) => text.len(),
            Piece::Prefix => self.shape.prefix.len(),
            Piece::Number(number) => self.digits(*number).width(),
            Piece::Value => 0,
        }
    }

    fn digits(&self, number: Number) -> Digits {
        digits_of(number, self.shape.key_digits)
    }
}

/// The width that a number is written in.
fn digits_of(number: Number, key_digits: Digits) -> Digits {
    match number {
        Number::Below(bound) => Digits::holding(bound),
        _ => key_digits,
    }
}

/// The size of values in bytes, if all have the same.
fn fixed(size: &ValueSize) -> Option<usize> {
    match *size {
        ValueSize::Fixed(bytes) => Some(bytes as usize),
        ValueSize::Range(low, high) | ValueSize::Zipf(low, high) => {
            (low == high).then_some(low as usize)
        }
    }
}

/// Splits a line into arguments with the quotes and escapes of redis-cli.
fn split(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let line = text.trim();
    if line.is_empty() {
        return Err("a command is missing.".into());
    }
    if line.contains(['\n', '\0']) || line.starts_with('*') {
        return Err("a command is one line of text, such as SET {key} {value} EX 60.".into());
    }
    let mut parser = RequestParser::new(Limits::default());
    match parser.parse(format!("{line}\r\n").as_bytes()) {
        Ok((_, Some(request))) => Ok(request.iter().map(<[u8]>::to_vec).collect()),
        Ok((_, None)) => Err("a command is missing.".into()),
        Err(error) => Err(format!(
            "the command cannot be split into arguments: {error}."
        )),
    }
}

/// The pieces of one argument. Braces around anything but a lower-case word (and a bound) are text,
/// so that JSON can be written as it is.
fn pieces(word: &[u8]) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = word;
    let mut text = Vec::new();
    while let Some((&first, after)) = rest.split_first() {
        match placeholder(rest) {
            Some((name, bound, length)) => {
                flush(&mut text, &mut pieces);
                pieces.extend(resolve(name, bound)?);
                rest = &rest[length..];
            }
            None => {
                text.push(first);
                rest = after;
            }
        }
    }
    flush(&mut text, &mut pieces);
    let shown = String::from_utf8_lossy(word);
    if pieces.iter().skip(1).any(|piece| *piece == Piece::Prefix) {
        return Err(format!(
            "`{shown}`: a key must be at the start of its argument, so that it has the prefix of this run."
        ));
    }
    if pieces.len() > 1 && pieces.contains(&Piece::Value) {
        return Err(format!(
            "`{shown}`: {{value}} must be an argument of its own."
        ));
    }
    Ok(pieces)
}

fn flush(text: &mut Vec<u8>, pieces: &mut Vec<Piece>) {
    if !text.is_empty() {
        pieces.push(Piece::Text(std::mem::take(text)));
    }
}

/// The placeholder at the head of `text`: its name, its bound, and how long it is.
fn placeholder(text: &[u8]) -> Option<(&str, Option<&str>, usize)> {
    let inner = text.strip_prefix(b"{")?;
    let end = inner.iter().position(|&byte| byte == b'}')?;
    let inner = std::str::from_utf8(&inner[..end]).ok()?;
    let (name, bound) = match inner.split_once(':') {
        Some((name, bound)) => (name, Some(bound)),
        None => (inner, None),
    };
    let is_word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
    is_word.then_some((name, bound, end + 2))
}

fn resolve(name: &str, bound: Option<&str>) -> Result<Vec<Piece>, String> {
    let numbered = |text: &str, bound| {
        vec![
            Piece::Text(text.into()),
            Piece::Number(Number::Below(bound)),
        ]
    };
    let bounded = |default| match bound {
        None => Ok(default),
        Some(text) => crate::units::positive_count(text)
            .ok()
            .filter(|bound| *bound <= LARGEST_BOUND)
            .ok_or_else(|| format!("{{{name}:{text}}}: the bound must be a count from 1 to 100M.")),
    };
    let pieces = match name {
        "member" => numbered("member:", bounded(MEMBERS)?),
        "field" => numbered("field:", bounded(FIELDS)?),
        "score" => vec![Piece::Number(Number::Below(bounded(SCORES)?))],
        // Redis takes no integer with zeros in front, and numbers have a fixed width here.
        "int" => numbered("1", bounded(SCORES)?),
        _ if bound.is_some() => {
            return Err(format!(
                "{{{name}}} takes no bound; the placeholders are {PLACEHOLDERS}."
            ));
        }
        "key" => vec![Piece::Prefix, Piece::Number(Number::Key)],
        "samekey" => vec![Piece::Prefix, Piece::Number(Number::SameKey)],
        "newkey" => vec![Piece::Prefix, Piece::Number(Number::NewKey)],
        "number" => vec![Piece::Number(Number::Key)],
        "samenumber" => vec![Piece::Number(Number::SameKey)],
        "prefix" => vec![Piece::Prefix],
        "value" => vec![Piece::Value],
        _ => {
            return Err(format!(
                "unknown placeholder {{{name}}}; the placeholders are {PLACEHOLDERS}."
            ));
        }
    };
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The parts of a command, written down as people read them.
    fn wire(text: &str, value_size: &ValueSize) -> String {
        let mut parts = Vec::new();
        let shape = Shape {
            prefix: "loadline:r:s:",
            key_digits: Digits::Eight,
            value_size,
        };
        Template::parse(text).unwrap().write(shape, &mut parts);
        let shown = parts.iter().map(|part| match part {
            Part::Literal(bytes) => String::from_utf8(bytes.clone())
                .unwrap()
                .replace("\r\n", " "),
            Part::Number(number, digits) => format!("<{number:?} {}>", digits.width()),
            Part::Payload => "<payload>".into(),
            Part::SizedPayload(header) => {
                let mut bytes = Vec::new();
                header(&mut bytes, 7);
                format!("<sized {}>", String::from_utf8(bytes).unwrap().trim_end())
            }
        });
        shown.collect()
    }

    #[test]
    fn command_becomes_its_bytes() {
        for (text, value_size, wanted) in [
            (
                "SET {key} {value} EX 60",
                ValueSize::Fixed(64),
                "*5 $3 SET $21 loadline:r:s:<Key 8> $64 <payload> $2 EX $2 60 ",
            ),
            (
                "HSET {key}:h {field} {value}",
                ValueSize::Range(1, 9),
                "*4 $4 HSET $23 loadline:r:s:<Key 8>:h $14 field:<Below(10) 8> <sized $7> ",
            ),
            (
                "INCRBY {samekey} {int:9}",
                ValueSize::Fixed(1),
                "*3 $6 INCRBY $21 loadline:r:s:<SameKey 8> $9 1<Below(9) 8> ",
            ),
            ("PING", ValueSize::Fixed(1), "*1 $4 PING "),
        ] {
            assert_eq!(wire(text, &value_size), wanted);
        }
    }

    #[test]
    fn quotes_and_json_are_kept() {
        assert_eq!(
            wire(r#"SET {prefix}a '{"a": {"b":1}}'"#, &ValueSize::Fixed(1)),
            "*3 $3 SET $14 loadline:r:s:a $14 {\"a\": {\"b\":1}} "
        );
        assert_eq!(
            wire(r#"ECHO "a b\x01""#, &ValueSize::Fixed(1)),
            "*2 $4 ECHO $4 a b\x01 "
        );
    }

    #[test]
    fn placeholders_take_bounds() {
        let template = Template::parse("ZADD {key} {score:500} {member:1k}").unwrap();
        assert_eq!(
            template.numbers().collect::<Vec<_>>(),
            [Number::Key, Number::Below(500), Number::Below(1_000)]
        );
        assert!(
            Template::parse("HSET {newkey} {field} {value}")
                .unwrap()
                .inserts()
        );
    }

    #[test]
    fn unsafe_or_unclear_templates_are_refused() {
        for (text, reason) in [
            ("", "missing"),
            ("FLUSHALL", "not supported"),
            ("config set maxmemory 1", "not supported"),
            ("EVAL x 1 {key}", "not supported"),
            ("GET", "lacks its key"),
            ("GET foo", "not a key of this run"),
            ("GET x{key}", "at the start"),
            ("MSET {key} {value} other {value}", "not a key of this run"),
            ("PUBLISH news {value}", "not a key of this run"),
            ("XREAD BLOCK 0 STREAMS {key} $", "BLOCK is not supported"),
            ("SET {key} x{value}", "argument of its own"),
            ("SET {key} {vaule}", "unknown placeholder {vaule}"),
            ("SET {key:5} {value}", "takes no bound"),
            ("SADD {key} {member:0}", "bound must be"),
            ("SADD {key} {member:1G}", "bound must be"),
            ("SET {key} 'x", "split into arguments"),
            ("*1\r\n$8\r\nFLUSHALL", "one line"),
            ("GET {key}\nFLUSHALL", "one line"),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_panic(text in "\\PC{0,40}", name in "GET|MSET|XREAD", tail in "[{}a-z:0-9 'x\"\\\\]{0,40}") {
            for text in [text, format!("{name} {tail}")] {
                let _ = Template::parse(&text);
            }
        }

        /// The parts add up to one well-formed request, whatever is typed.
        #[test]
        fn wire_form_is_one_request(tail in "( [a-z0-9]{0,3}(\\{key\\}|\\{value\\}|\\{member\\}|\\{score\\})?){0,6}") {
            let Ok(template) = Template::parse(&format!("SET {{key}}{tail}")) else { return Ok(()) };
            let (mut parts, size) = (Vec::new(), ValueSize::Fixed(5));
            template.write(Shape { prefix: "loadline:r:s:", key_digits: Digits::Sixteen, value_size: &size }, &mut parts);
            let mut bytes = Vec::new();
            for part in &parts {
                match part {
                    Part::Literal(literal) => bytes.extend_from_slice(literal),
                    Part::Number(_, digits) => bytes.extend(std::iter::repeat_n(b'7', digits.width())),
                    Part::Payload => bytes.extend_from_slice(b"\r\n\0$*"),
                    Part::SizedPayload(_) => prop_assert!(false, "the size is fixed"),
                }
            }
            let mut parser = RequestParser::new(Limits::default());
            let (used, request) = parser.parse(&bytes).unwrap();
            prop_assert_eq!(request.map(|request| request.len()), Some(template.arguments.len()));
            prop_assert_eq!(used, bytes.len());
            prop_assert!(parts.windows(2).all(|pair| !matches!(pair, [Part::Literal(_), Part::Literal(_)])));
        }
    }
}
