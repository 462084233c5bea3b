//! JSON as values of Lua.

use mlua::{Lua, Table, Value};

use super::super::Fault;
use super::{MOST_LEVELS, Settings};

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
    let value = parser.value(first)?;
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

/// An object or array whose end was not read yet.
struct Open {
    table: Table,
    place: NextMember,
}

/// The place of the next member.
enum NextMember {
    /// In an object, once it was read.
    Key(Option<Vec<u8>>),
    /// In an array, after this many.
    Index(i64),
}

/// A value of which the first tokens were read.
enum Begun {
    Whole(Value),
    /// An object or array with members, and the first token of the value of the first.
    Open(Open, Token),
}

impl Open {
    fn take(&mut self, lua: &Lua, value: Value) -> mlua::Result<()> {
        match &mut self.place {
            NextMember::Key(key) => {
                let key = lua.create_string(key.take().unwrap_or_default())?;
                self.table.raw_set(key, value)
            }
            NextMember::Index(index) => {
                *index += 1;
                self.table.raw_set(*index, value)
            }
        }
    }

    fn end(&self) -> Kind {
        match self.place {
            NextMember::Key(_) => Kind::ObjectEnd,
            NextMember::Index(_) => Kind::ArrayEnd,
        }
    }

    /// What may follow a member.
    fn expected(&self) -> &'static str {
        match self.place {
            NextMember::Key(_) => "comma or object end",
            NextMember::Index(_) => "comma or array end",
        }
    }
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

    /// The value that begins with `token`. Values within values are kept in a list and not on the stack of the thread, since
    /// scripts choose how deep they are.
    fn value(&mut self, mut token: Token) -> Result<Value, Fault> {
        let mut open = Vec::new();
        loop {
            let begun = match token.kind {
                Kind::Text(text) => Begun::Whole(Value::String(self.lua.create_string(text)?)),
                Kind::Number(number) => Begun::Whole(Value::Number(number)),
                Kind::Boolean(flag) => Begun::Whole(Value::Boolean(flag)),
                Kind::Null => Begun::Whole(Value::NULL),
                Kind::ObjectBegin => self.object(open.len())?,
                Kind::ArrayBegin => self.array(open.len())?,
                _ => return Err(self.unexpected("value", &token)),
            };
            let mut value = match begun {
                Begun::Whole(value) => value,
                Begun::Open(within, first) => {
                    open.push(within);
                    token = first;
                    continue;
                }
            };
            token = loop {
                let Some(mut within) = open.pop() else {
                    return Ok(value);
                };
                within.take(self.lua, value)?;
                let next = self.token()?;
                if next.kind == Kind::Comma {
                    let first = self.token()?;
                    let first = self.member(&mut within, first)?;
                    open.push(within);
                    break first;
                }
                if next.kind != within.end() {
                    return Err(self.unexpected(within.expected(), &next));
                }
                value = Value::Table(within.table);
            };
        }
    }

    /// Fails if a value within `depth` others is one too many.
    fn descend(&self, depth: usize) -> Result<(), Fault> {
        let depth = depth + 1;
        if depth > self.settings.decode_depth.min(MOST_LEVELS) {
            let at = self.at;
            return Err(format!(
                "Found too many nested data structures ({depth}) at character {at}"
            )
            .into());
        }
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<Begun, Fault> {
        self.descend(depth)?;
        let (table, place) = (self.lua.create_table()?, NextMember::Key(None));
        let mut object = Open { table, place };
        let first = self.token()?;
        if first.kind == Kind::ObjectEnd {
            return Ok(Begun::Whole(Value::Table(object.table)));
        }
        let first = self.member(&mut object, first)?;
        Ok(Begun::Open(object, first))
    }

    fn array(&mut self, depth: usize) -> Result<Begun, Fault> {
        self.descend(depth)?;
        let (table, place) = (self.lua.create_table()?, NextMember::Index(0));
        let array = Open { table, place };
        let first = self.token()?;
        if first.kind == Kind::ArrayEnd {
            return Ok(Begun::Whole(Value::Table(array.table)));
        }
        Ok(Begun::Open(array, first))
    }

    /// The first token of the value of a member that begins with `first`, after the key if it is one of an object.
    fn member(&mut self, within: &mut Open, first: Token) -> Result<Token, Fault> {
        let NextMember::Key(place) = &mut within.place else {
            return Ok(first);
        };
        let Kind::Text(key) = first.kind else {
            return Err(self.unexpected("object key string", &first));
        };
        *place = Some(key);
        let colon = self.token()?;
        if colon.kind != Kind::Colon {
            return Err(self.unexpected("colon", &colon));
        }
        self.token()
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
        let digits = rest.strip_prefix(b"-").unwrap_or(rest);
        let has_leading_zero = matches!(digits, [b'0', b'0'..=b'9', ..]);
        if has_leading_zero && !self.settings.decodes_invalid {
            return Kind::Error("invalid number");
        }
        let text = str::from_utf8(&rest[..length_of_number(rest)]).unwrap_or_default();
        if let Ok(number) = text.parse() {
            self.at += text.len();
            return Kind::Number(number);
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

/// The length of the longest start of `text` that is a number, as strtod reads it.
fn length_of_number(text: &[u8]) -> usize {
    let digits = |at: usize| {
        let rest = text.get(at..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let is_one_of = |at: usize, bytes: &[u8]| text.get(at).is_some_and(|byte| bytes.contains(byte));
    let begin = usize::from(is_one_of(0, b"+-"));
    let whole = digits(begin);
    let mut end = begin + whole;
    if is_one_of(end, b".") && whole + digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    if end == begin || !is_one_of(end, b"eE") {
        return end;
    }
    let exponent = end + 1 + usize::from(is_one_of(end + 1, b"+-"));
    match digits(exponent) {
        0 => end,
        count => exponent + count,
    }
}
