//! From values to the arguments of commands.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;

use bytes::Bytes;
use loadline_resp::{Protocol, encode};

/// The most bytes of a 64-bit number as text.
const INTEGER_BYTES: usize = 20;

/// Takes arguments and writes them, in the form of the wire, to the end of a buffer.
#[derive(Debug)]
pub struct ArgWriter<'b> {
    out: &'b mut Vec<u8>,
    written: usize,
}

impl<'b> ArgWriter<'b> {
    pub(crate) fn new(out: &'b mut Vec<u8>) -> Self {
        Self { out, written: 0 }
    }

    /// Appends one argument.
    // See `Command::encode`.
    #[inline(always)]
    pub fn arg(&mut self, bytes: &[u8]) {
        self.written += 1;
        let len = bytes.len();
        // Nearly all arguments are this short, and their header is put together without a division loop.
        if len < 10 {
            self.out
                .extend_from_slice(&[b'$', b'0' + len as u8, b'\r', b'\n']);
        } else if len < 100 {
            let (tens, ones) = ((len / 10) as u8, (len % 10) as u8);
            self.out
                .extend_from_slice(&[b'$', b'0' + tens, b'0' + ones, b'\r', b'\n']);
        } else {
            encode::bulk(self.out, bytes);
            return;
        }
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Appends a number in decimal digits.
    pub fn integer(&mut self, magnitude: u64, negative: bool) {
        let mut text = [0; INTEGER_BYTES + 1];
        let mut start = text.len();
        let mut rest = magnitude;
        loop {
            start -= 1;
            text[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if negative {
            start -= 1;
            text[start] = b'-';
        }
        self.arg(&text[start..]);
    }

    /// Appends a number in the fewest digits that read back the same; `inf` and `-inf` are what they are
    /// for Redis.
    pub fn double(&mut self, number: f64) {
        self.written += 1;
        encode::double(self.out, number, Protocol::Resp2);
    }

    /// Arguments written so far.
    pub(crate) fn written(&self) -> usize {
        self.written
    }
}

/// The words of a command in the form of the wire, its name first. They must come from this client's own
/// encoder, so they are always complete.
#[derive(Clone, Debug)]
pub(crate) struct Words<'w> {
    rest: &'w [u8],
    left: usize,
}

impl<'w> Words<'w> {
    pub(crate) fn new(wire: &'w [u8]) -> Self {
        let mut args = Self {
            rest: wire,
            left: 0,
        };
        args.left = args.header();
        args
    }

    /// The words of an encoded command whose header is not written yet.
    pub(crate) fn without_header(encoded: &'w [u8], count: usize) -> Self {
        Self {
            rest: encoded,
            left: count,
        }
    }

    /// Reads `*3\r\n` or `$3\r\n`.
    #[inline]
    fn header(&mut self) -> usize {
        let digits = self.rest[1..].iter().take_while(|&&byte| byte != b'\r');
        let (len, count) = digits.fold((0, 0), |(len, count), digit| {
            (10 * len + usize::from(digit - b'0'), count + 1)
        });
        self.rest = &self.rest[count + 3..];
        len
    }
}

impl<'w> Iterator for Words<'w> {
    type Item = &'w [u8];

    fn next(&mut self) -> Option<&'w [u8]> {
        self.left = self.left.checked_sub(1)?;
        let len = self.header();
        let (arg, rest) = self.rest.split_at(len);
        self.rest = &rest[2..];
        Some(arg)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Words<'_> {}

/// Something that is exactly one argument: a key, a value, a number.
///
/// `u8` is none, so that `Vec<u8>` and `&[u8]` can be one argument and not many.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not one argument of a command",
    label = "a key or value is needed here: text, bytes or a number",
    note = "a list is no single argument; to store a value of another type, encode it as text or bytes first, as `to_json` of the feature `serde` does"
)]
pub trait Arg: ToArgs {
    /// Appends the argument; an implementation must write exactly one.
    fn write_arg(&self, out: &mut ArgWriter<'_>);
}

/// Something that is any number of arguments: one, or a list, tuple, map or option of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be written as arguments of a command",
    label = "text, bytes, a number, or a list, tuple, map or option of them is needed here",
    note = "implement `ToArgs` for a type of your own to write it as several arguments, or use `to_fields` of the feature `serde`"
)]
pub trait ToArgs {
    /// Number of arguments that [`ToArgs::write_args`] will write.
    fn count(&self) -> usize;
    /// Appends the arguments.
    fn write_args(&self, out: &mut ArgWriter<'_>);
}

/// One argument is also a list of one.
macro_rules! one_argument {
    ($([$($generics:tt)*] $type:ty, $self:ident, $out:ident => $write:expr;)*) => {$(
        impl<$($generics)*> Arg for $type {
            #[inline(always)]
            fn write_arg(&$self, $out: &mut ArgWriter<'_>) {
                $write;
            }
        }

        impl<$($generics)*> ToArgs for $type {
            #[inline]
            fn count(&self) -> usize {
                1
            }

            #[inline(always)]
            fn write_args(&self, out: &mut ArgWriter<'_>) {
                self.write_arg(out);
            }
        }
    )*};
}

one_argument! {
    [] str, self, out => out.arg(self.as_bytes());
    [] String, self, out => out.arg(self.as_bytes());
    [] [u8], self, out => out.arg(self);
    [const N: usize] [u8; N], self, out => out.arg(self);
    [] Vec<u8>, self, out => out.arg(self);
    [] Bytes, self, out => out.arg(self);
    [] Cow<'_, str>, self, out => out.arg(self.as_bytes());
    [] Cow<'_, [u8]>, self, out => out.arg(self);
    [] u16, self, out => out.integer(u64::from(*self), false);
    [] u32, self, out => out.integer(u64::from(*self), false);
    [] u64, self, out => out.integer(*self, false);
    [] usize, self, out => out.integer(*self as u64, false);
    [] i16, self, out => out.integer(u64::from(self.unsigned_abs()), *self < 0);
    [] i32, self, out => out.integer(u64::from(self.unsigned_abs()), *self < 0);
    [] i64, self, out => out.integer(self.unsigned_abs(), *self < 0);
    [] isize, self, out => out.integer(self.unsigned_abs() as u64, *self < 0);
    [] f32, self, out => out.arg(self.to_string().as_bytes());
    [] f64, self, out => out.double(*self);
}

/// Pointers are what they point to.
macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        impl<T: Arg + ?Sized> Arg for $pointer {
            #[inline(always)]
            fn write_arg(&self, out: &mut ArgWriter<'_>) {
                (**self).write_arg(out);
            }
        }

        impl<T: ToArgs + ?Sized> ToArgs for $pointer {
            #[inline(always)]
            fn count(&self) -> usize {
                (**self).count()
            }

            #[inline(always)]
            fn write_args(&self, out: &mut ArgWriter<'_>) {
                (**self).write_args(out);
            }
        }
    )*};
}

pointers!(&T, Box<T>, Arc<T>);

/// Collections are their elements, in their own order.
macro_rules! collections {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<T: ToArgs, $($generics)*> ToArgs for $type {
            fn count(&self) -> usize {
                self.iter().map(ToArgs::count).sum()
            }

            fn write_args(&self, out: &mut ArgWriter<'_>) {
                self.iter().for_each(|item| item.write_args(out));
            }
        }
    )*};
}

collections! {
    [] [T];
    [const N: usize] [T; N];
    [] Vec<T>;
    [] BTreeSet<T>;
    [S: BuildHasher] HashSet<T, S>;
    [] Option<T>;
}

/// Maps are field, value, field, value.
macro_rules! maps {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<K: ToArgs, V: ToArgs, $($generics)*> ToArgs for $type {
            fn count(&self) -> usize {
                self.iter().map(|(key, value)| key.count() + value.count()).sum()
            }

            fn write_args(&self, out: &mut ArgWriter<'_>) {
                for (key, value) in self {
                    key.write_args(out);
                    value.write_args(out);
                }
            }
        }
    )*};
}

maps! {
    [S: BuildHasher] HashMap<K, V, S>;
    [] BTreeMap<K, V>;
}

/// No arguments.
impl ToArgs for () {
    fn count(&self) -> usize {
        0
    }

    fn write_args(&self, _: &mut ArgWriter<'_>) {}
}

/// Tuples are their parts, one after the other.
macro_rules! tuples {
    ($($($part:ident),+;)*) => {$(
        #[expect(non_snake_case, reason = "the parts are named after their types")]
        impl<$($part: ToArgs),+> ToArgs for ($($part,)+) {
            #[inline]
            fn count(&self) -> usize {
                let ($($part,)+) = self;
                0 $(+ $part.count())+
            }

            #[inline(always)]
            fn write_args(&self, out: &mut ArgWriter<'_>) {
                let ($($part,)+) = self;
                $($part.write_args(out);)+
            }
        }
    )*};
}

tuples! {
    A;
    A, B;
    A, B, C;
    A, B, C, D;
    A, B, C, D, E;
    A, B, C, D, E, F;
    A, B, C, D, E, F, G;
    A, B, C, D, E, F, G, H;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(args: impl ToArgs) -> String {
        let mut out = Vec::new();
        let mut writer = ArgWriter::new(&mut out);
        args.write_args(&mut writer);
        assert_eq!(writer.written(), args.count());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn bytes_are_one_argument_and_lists_are_many() {
        assert_eq!(written(b"ab".as_slice()), "$2\r\nab\r\n");
        assert_eq!(written(vec!["a", "b"]), "$1\r\na\r\n$1\r\nb\r\n");
        assert_eq!(
            written(("k", [1i64, -2])),
            "$1\r\nk\r\n$1\r\n1\r\n$2\r\n-2\r\n"
        );
        assert_eq!(
            written(BTreeMap::from([("f", 0.5)])),
            "$1\r\nf\r\n$3\r\n0.5\r\n"
        );
        assert_eq!(written((None::<&str>, ())), "");
    }

    #[test]
    fn every_length_has_its_header() {
        for len in [0, 1, 9, 10, 99, 100, 101, 12345] {
            let bytes = vec![b'x'; len];
            let mut expected = Vec::new();
            encode::bulk(&mut expected, &bytes);
            assert_eq!(written(bytes).into_bytes(), expected);
        }
    }

    #[test]
    fn ends_of_the_integers_fit() {
        assert_eq!(written(i64::MIN), "$20\r\n-9223372036854775808\r\n");
        assert_eq!(written(u64::MAX), "$20\r\n18446744073709551615\r\n");
        assert_eq!(written(0u32), "$1\r\n0\r\n");
    }
}
