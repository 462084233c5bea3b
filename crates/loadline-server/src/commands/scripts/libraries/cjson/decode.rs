//! JSON as values of Lua.

use mlua::{Lua, Value};

use super::super::Fault;
use super::Settings;

pub(super) fn decode(lua: &Lua, text: &[u8], settings: &Settings) -> Result<Value, Fault> {
    // Text of two or four bytes a character has a zero byte in front.
    if let [first, second, ..] = text
        && (*first == 0 || *second == 0)
    {
        return Err("JSON parser does not support UTF-16 or UTF-32".into());
    }
    let mut parser = Parser {
        lua,
        text,
        at: 0,
        settings,
    };
    let first = parser.token()?;
    let value = parser.value(first, 0)?;
    let end = parser.token()?;
    if end.kind != Kind::End {
        return Err(parser.unexpected("the end", &end));
    }
    Ok(value)
}

#[derive(Debug, PartialEq)]
enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    /// Text that is no token, with the reason.
    Error(&'static str),
}

impl Kind {
    /// The name of the token in errors of the library.
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::Text(_) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Error(why) => why,
        }
    }
}

struct Token {
    kind: Kind,
    at: usize,
}

struct Parser<'t> {
    lua: &'t Lua,
    text: &'t [u8],
    at: usize,
    settings: &'t Settings,
}

impl Parser<'_> {
    fn unexpected(&self, expected: &str, found: &Token) -> Fault {
        let (name, at) = (found.kind.name(), found.at + 1);
        format!("Expected {expected} but found {name} at character {at}").into()
    }

    fn value(&mut self, token: Token, depth: usize) -> Result<Value, Fault> {
        match token.kind {
            Kind::Text(text) => Ok(Value::String(self.lua.create_string(text)?)),
            Kind::Number(number) => Ok(Value::Number(number)),
            Kind::Boolean(flag) => Ok(Value::Boolean(flag)),
            Kind::Null => Ok(Value::NULL),
            Kind::ObjectBegin => self.object(self.deeper(depth)?),
            Kind::ArrayBegin => self.array(self.deeper(depth)?),
            _ => Err(self.unexpected("value", &token)),
        }
    }

    fn deeper(&self, depth: usize) -> Result<usize, Fault> {
        let depth = depth + 1;
        if depth > self.settings.decode_depth {
            let at = self.at;
            return Err(format!(
                "Found too many nested data structures ({depth}) at character {at}"
            )
            .into());
        }
        Ok(depth)
    }

    fn object(&mut self, depth: usize) -> Result<Value, Fault> {
        let object = self.lua.create_table()?;
        let mut token = self.token()?;
        if token.kind == Kind::ObjectEnd {
            return Ok(Value::Table(object));
        }
        loop {
            let Kind::Text(key) = token.kind else {
                return Err(self.unexpected("object key string", &token));
            };
            let colon = self.token()?;
            if colon.kind != Kind::Colon {
                return Err(self.unexpected("colon", &colon));
            }
            let first = self.token()?;
            let value = self.value(first, depth)?;
            object.raw_set(self.lua.create_string(key)?, value)?;
            let next = self.token()?;
            match next.kind {
                Kind::ObjectEnd => return Ok(Value::Table(object)),
                Kind::Comma => token = self.token()?,
                _ => return Err(self.unexpected("comma or object end", &next)),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, Fault> {
        let array = self.lua.create_table()?;
        let mut token = self.token()?;
        if token.kind == Kind::ArrayEnd {
            return Ok(Value::Table(array));
        }
        for place in 1.. {
            let value = self.value(token, depth)?;
            array.raw_set(place, value)?;
            let next = self.token()?;
            match next.kind {
                Kind::ArrayEnd => break,
                Kind::Comma => token = self.token()?,
                _ => return Err(self.unexpected("comma or array end", &next)),
            }
        }
        Ok(Value::Table(array))
    }

    fn token(&mut self) -> Result<Token, Fault> {
        let rest = &self.text[self.at..];
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().take_while(|byte| blank(byte)).count();
        let at = self.at;
        let Some(first) = self.text.get(at) else {
            return Ok(Token {
                kind: Kind::End,
                at,
            });
        };
        let single = match first {
            b'{' => Some(Kind::ObjectBegin),
            b'}' => Some(Kind::ObjectEnd),
            b'[' => Some(Kind::ArrayBegin),
            b']' => Some(Kind::ArrayEnd),
            b':' => Some(Kind::Colon),
            b',' => Some(Kind::Comma),
            _ => None,
        };
        let kind = match (single, first) {
            (Some(kind), _) => {
                self.at += 1;
                kind
            }
            (None, b'"') => return Ok(self.string(at)),
            (None, b'-' | b'0'..=b'9') => self.number(),
            (None, _) => self.word(),
        };
        Ok(Token { kind, at })
    }

    /// `true`, `false`, `null`, and numbers that JSON does not have.
    fn word(&mut self) -> Kind {
        let rest = &self.text[self.at..];
        for (word, kind) in [
            ("true", Kind::Boolean(true)),
            ("false", Kind::Boolean(false)),
            ("null", Kind::Null),
        ] {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return kind;
            }
        }
        if !self.settings.decodes_invalid {
            return Kind::Error("invalid token");
        }
        self.invalid_number()
            .unwrap_or(Kind::Error("invalid token"))
    }

    /// Infinity and NaN, in any case.
    fn invalid_number(&mut self) -> Option<Kind> {
        let rest = &self.text[self.at..];
        let (sign, word) = match rest {
            [b'-', word @ ..] => (-1.0, word),
            [b'+', word @ ..] => (1.0, word),
            word => (1.0, word),
        };
        for (name, number) in [
            ("infinity", f64::INFINITY),
            ("inf", f64::INFINITY),
            ("nan", f64::NAN),
        ] {
            let start = word.get(..name.len()).unwrap_or_default();
            if start.eq_ignore_ascii_case(name.as_bytes()) {
                self.at += rest.len() - word.len() + name.len();
                return Some(Kind::Number(sign * number));
            }
        }
        None
    }

    fn number(&mut self) -> Kind {
        let rest = &self.text[self.at..];
        if self.settings.decodes_invalid
            && let Some(kind) = self.invalid_number()
        {
            return kind;
        }
        let is_part = |byte: &&u8| matches!(**byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
        let longest = rest.iter().take_while(is_part).count();
        let digits = rest.strip_prefix(b"-").unwrap_or(rest);
        let has_leading_zero = matches!(digits, [b'0', b'0'..=b'9', ..]);
        if has_leading_zero && !self.settings.decodes_invalid {
            return Kind::Error("invalid number");
        }
        // As strtod: the longest start that is a number.
        for length in (1..=longest).rev() {
            let text = std::str::from_utf8(&rest[..length]).unwrap_or("");
            if let Ok(number) = text.parse() {
                self.at += length;
                return Kind::Number(number);
            }
        }
        Kind::Error("invalid number")
    }

    fn string(&mut self, at: usize) -> Token {
        let failed = |place: usize, why| Token {
            kind: Kind::Error(why),
            at: place,
        };
        let mut out = Vec::new();
        self.at += 1;
        loop {
            let Some(byte) = self.text.get(self.at) else {
                return failed(self.at, "unexpected end of string");
            };
            match byte {
                b'"' => break,
                b'\\' => {
                    if let Err(why) = self.escape(&mut out) {
                        return failed(self.at, why);
                    }
                }
                byte => {
                    out.push(*byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        Token {
            kind: Kind::Text(out),
            at,
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), &'static str> {
        let byte = match self.text.get(self.at + 1) {
            Some(b'u') => return self.unicode(out),
            Some(b'b') => 0x08,
            Some(b'f') => 0x0C,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            _ => return Err("invalid escape code"),
        };
        out.push(byte);
        self.at += 2;
        Ok(())
    }

    /// `\uXXXX`, or two of them for one character beyond 16 bits.
    fn unicode(&mut self, out: &mut Vec<u8>) -> Result<(), &'static str> {
        const WRONG: &str = "invalid unicode escape code";
        let unit = |at: usize| {
            let digits = self.text.get(at..at + 6)?;
            let digits = digits.strip_prefix(b"\\u")?;
            let digits = std::str::from_utf8(digits).ok()?;
            u16::from_str_radix(digits, 16).ok()
        };
        let first = unit(self.at).ok_or(WRONG)?;
        let units = match first {
            0xD800..0xDC00 => vec![first, unit(self.at + 6).ok_or(WRONG)?],
            _ => vec![first],
        };
        for character in char::decode_utf16(units.iter().copied()) {
            let character = character.map_err(|_| WRONG)?;
            let mut bytes = [0; 4];
            out.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
        }
        self.at += 6 * units.len();
        Ok(())
    }
}
