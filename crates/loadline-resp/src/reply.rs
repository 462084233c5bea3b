//! A decoded reply, borrowed or owned.

/// A reply of RESP2 or RESP3 whose strings are held as `B`; see [`Reply`] and [`OwnedReply`].
///
/// Doubles are compared as numbers, so a reply that holds NaN is not equal to itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame<B> {
    /// `+`: a short text without line breaks.
    Simple(B),
    /// `-`: an error text, whose first word is by custom its code.
    Error(B),
    /// `:`: a signed number of 64 bits.
    Integer(i64),
    /// `$`: bytes of any kind.
    Bulk(B),
    /// `_`, or `$-1` and `*-1` in RESP2: nothing there.
    Null,
    /// `#`: true or false.
    Boolean(bool),
    /// `,`: a floating-point number, also infinite or NaN.
    Double(f64),
    /// `(`: decimal digits with an optional sign, of any length.
    BigNumber(B),
    /// `!`: an error text that may hold any bytes.
    BlobError(B),
    /// `=`: a text and how to show it.
    Verbatim {
        /// The format in three bytes: `txt` or `mkd`.
        format: [u8; 3],
        /// The text after the format and its colon.
        text: B,
    },
    /// `*`: a sequence.
    Array(Vec<Frame<B>>),
    /// `%`: pairs of key and value in the order of the wire; keys may repeat.
    Map(Vec<(Frame<B>, Frame<B>)>),
    /// `~`: a sequence whose order has no meaning; elements are kept as sent.
    Set(Vec<Frame<B>>),
    /// `>`: out-of-band data that answers no request.
    Push(Vec<Frame<B>>),
    /// `|`: a reply with remarks about it.
    Attribute(Box<Attributed<B>>),
}

/// A reply whose strings borrow from the buffer that it was decoded from.
pub type Reply<'a> = Frame<&'a [u8]>;

/// A reply that owns its strings.
pub type OwnedReply = Frame<Vec<u8>>;

/// A reply together with the attributes that came before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attributed<B> {
    /// The remarks, in the order of the wire.
    pub attributes: Vec<(Frame<B>, Frame<B>)>,
    /// The reply that the remarks are about.
    pub reply: Frame<B>,
}

impl<B: AsRef<[u8]>> Frame<B> {
    /// A copy that owns its strings.
    #[must_use]
    pub fn to_owned(&self) -> OwnedReply {
        self.map(&|text| text.as_ref().to_vec())
    }

    /// The same reply, its strings borrowed from this one.
    #[must_use]
    pub fn borrowed(&self) -> Reply<'_> {
        self.map(&|text| text.as_ref())
    }

    /// The same reply, each string replaced.
    fn map<'f, C>(&'f self, change: &impl Fn(&'f B) -> C) -> Frame<C> {
        let list = |items: &'f [Self]| items.iter().map(|item| item.map(change)).collect();
        let both = |pairs: &'f [(Self, Self)]| {
            let both = |(key, value): &'f (Self, Self)| (key.map(change), value.map(change));
            pairs.iter().map(both).collect()
        };
        match self {
            Self::Simple(text) => Frame::Simple(change(text)),
            Self::Error(text) => Frame::Error(change(text)),
            Self::Integer(number) => Frame::Integer(*number),
            Self::Bulk(bytes) => Frame::Bulk(change(bytes)),
            Self::Null => Frame::Null,
            Self::Boolean(value) => Frame::Boolean(*value),
            Self::Double(number) => Frame::Double(*number),
            Self::BigNumber(digits) => Frame::BigNumber(change(digits)),
            Self::BlobError(text) => Frame::BlobError(change(text)),
            Self::Verbatim { format, text } => Frame::Verbatim {
                format: *format,
                text: change(text),
            },
            Self::Array(items) => Frame::Array(list(items)),
            Self::Map(pairs) => Frame::Map(both(pairs)),
            Self::Set(items) => Frame::Set(list(items)),
            Self::Push(items) => Frame::Push(list(items)),
            Self::Attribute(inner) => Frame::Attribute(Box::new(Attributed {
                attributes: both(&inner.attributes),
                reply: inner.reply.map(change),
            })),
        }
    }

    /// The bytes of a string, error, big number or verbatim text; `None` for every other kind. Attributes
    /// are looked through.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self.without_attributes() {
            Self::Simple(bytes)
            | Self::Error(bytes)
            | Self::Bulk(bytes)
            | Self::BigNumber(bytes)
            | Self::BlobError(bytes)
            | Self::Verbatim { text: bytes, .. } => Some(bytes.as_ref()),
            _ => None,
        }
    }

    /// The text of an error reply of either form; `None` for every other kind.
    #[must_use]
    pub fn error_text(&self) -> Option<&[u8]> {
        match self.without_attributes() {
            Self::Error(text) | Self::BlobError(text) => Some(text.as_ref()),
            _ => None,
        }
    }
}

impl<B> Frame<B> {
    /// The reply itself where this is one with attributes, else this reply.
    #[must_use]
    pub fn without_attributes(&self) -> &Self {
        let mut reply = self;
        while let Self::Attribute(inner) = reply {
            reply = &inner.reply;
        }
        reply
    }

    /// Like [`Frame::without_attributes`], by value.
    #[must_use]
    pub fn into_without_attributes(self) -> Self {
        let mut reply = self;
        while let Self::Attribute(inner) = reply {
            reply = inner.reply;
        }
        reply
    }

    /// Whether this is a null, with or without attributes.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.without_attributes(), Self::Null)
    }

    /// Whether this is an error of either form, with or without attributes. Errors within an aggregate do
    /// not make the aggregate an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(
            self.without_attributes(),
            Self::Error(_) | Self::BlobError(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_looked_through() {
        let attributed = |reply| {
            Reply::Attribute(Box::new(Attributed {
                attributes: vec![(Reply::Simple(b"ttl"), Reply::Integer(1))],
                reply,
            }))
        };
        let twice = attributed(attributed(Reply::Bulk(b"value")));
        assert_eq!(twice.as_bytes(), Some(&b"value"[..]));
        assert_eq!(
            twice.clone().into_without_attributes(),
            Reply::Bulk(b"value")
        );
        assert!(attributed(Reply::Null).is_null());
        assert_eq!(
            attributed(Reply::Error(b"ERR no")).error_text(),
            Some(&b"ERR no"[..])
        );
        assert!(!twice.is_error());
    }

    #[test]
    fn array_of_errors_is_no_error() {
        assert!(!Reply::Array(vec![Reply::Error(b"ERR")]).is_error());
    }
}
