//! Listpacks: a sequence of elements, each followed by its own length.
//!
//! ```text
//! total bytes (4, little endian) | elements (2, 65535 for more) | elements | 0xFF
//! element: type and length | bytes or number | length of the first two, 7 bits per byte, lowest bits last
//! ```

use super::super::numbers::integer;

const HEADER_BYTES: usize = 6;
const END: u8 = 0xFF;

const STRING_6: u8 = 0x80;
const INTEGER_13: u8 = 0xC0;
const STRING_12: u8 = 0xE0;
const STRING_32: u8 = 0xF0;
const INTEGER_16: u8 = 0xF1;
const INTEGER_24: u8 = 0xF2;
const INTEGER_32: u8 = 0xF3;
const INTEGER_64: u8 = 0xF4;

/// A listpack under construction.
#[derive(Debug, Default)]
pub(super) struct Listpack {
    elements: Vec<u8>,
    count: usize,
}

impl Listpack {
    /// Whether adding an element keeps the total within `bytes`. An empty listpack accepts any element.
    pub(super) fn has_room(&self, element: &[u8], bytes: usize) -> bool {
        const MOST_OVERHEAD: usize = 10;
        let whole = HEADER_BYTES + self.elements.len() + MOST_OVERHEAD + element.len() + 1;
        self.count == 0 || whole <= bytes
    }

    pub(super) fn push(&mut self, element: &[u8]) {
        let begin = self.elements.len();
        match integer(element) {
            Ok(number) => self.put_number(number),
            Err(_) => self.put_bytes(element),
        }
        let length = self.elements.len() - begin;
        self.elements.extend_from_slice(&back_length(length));
        self.count += 1;
    }

    /// Returns the encoded listpack.
    pub(super) fn finish(self) -> Vec<u8> {
        let bytes = HEADER_BYTES + self.elements.len() + 1;
        let mut out = Vec::with_capacity(bytes);
        out.extend_from_slice(&(bytes as u32).to_le_bytes());
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(&self.elements);
        out.push(END);
        out
    }

    fn put_number(&mut self, number: i64) {
        let out = &mut self.elements;
        let bytes = number.to_le_bytes();
        let (kind, width) = match number {
            0..=127 => return out.push(bytes[0]),
            -4_096..=4_095 => {
                out.push(INTEGER_13 | (bytes[1] & 0x1F));
                return out.push(bytes[0]);
            }
            -32_768..=32_767 => (INTEGER_16, 2),
            -8_388_608..=8_388_607 => (INTEGER_24, 3),
            -2_147_483_648..=2_147_483_647 => (INTEGER_32, 4),
            _ => (INTEGER_64, 8),
        };
        out.push(kind);
        out.extend_from_slice(&bytes[..width]);
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        let out = &mut self.elements;
        let length = (bytes.len() as u32).to_le_bytes();
        match bytes.len() {
            0..64 => out.push(STRING_6 | length[0]),
            64..4_096 => out.extend_from_slice(&[STRING_12 | length[1], length[0]]),
            _ => {
                out.push(STRING_32);
                out.extend_from_slice(&length);
            }
        }
        out.extend_from_slice(bytes);
    }
}

/// The encoded length that follows an element.
fn back_length(length: usize) -> Vec<u8> {
    let places = match length {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    let mut out = Vec::with_capacity(places);
    for place in (0..places).rev() {
        let bits = (length >> (7 * place)) as u8 & 0x7F;
        out.push(if out.is_empty() { bits } else { bits | 0x80 });
    }
    out
}

/// Passes the elements of a listpack to `show`; `None` if it is malformed.
pub(super) fn read(pack: &[u8], mut show: impl FnMut(&[u8]) -> Option<()>) -> Option<()> {
    let bytes = u32::from_le_bytes(*pack.first_chunk()?) as usize;
    let count = u16::from_le_bytes(*pack.get(4..)?.first_chunk()?);
    if bytes != pack.len() {
        return None;
    }
    let (mut rest, mut seen) = (pack.get(HEADER_BYTES..)?, 0);
    while *rest.first()? != END {
        let (length, element) = Element::read(rest)?;
        match element {
            Element::Number(number) => show(number.to_string().as_bytes())?,
            Element::Bytes(bytes) => show(bytes)?,
        }
        let (_, behind) = rest.split_at_checked(length)?;
        rest = behind.strip_prefix(back_length(length).as_slice())?;
        seen += 1;
    }
    let is_counted = count == u16::MAX || usize::from(count) == seen;
    (rest.len() == 1 && is_counted).then_some(())
}

/// An element that borrows from the listpack.
enum Element<'p> {
    Number(i64),
    Bytes(&'p [u8]),
}

impl<'p> Element<'p> {
    /// Reads the first element and returns its size without the trailing length.
    fn read(pack: &'p [u8]) -> Option<(usize, Self)> {
        let (&first, rest) = pack.split_first()?;
        let number = |width: usize| {
            let bytes = rest.get(..width)?;
            Some((1 + width, Self::Number(signed(bytes))))
        };
        let string = |header: usize, length: usize| {
            let end = header.checked_add(length)?;
            Some((end, Self::Bytes(pack.get(header..end)?)))
        };
        match first {
            0..0x80 => Some((1, Self::Number(first.into()))),
            0x80..0xC0 => string(1, usize::from(first & 0x3F)),
            0xC0..0xE0 => {
                let number = i64::from(first & 0x1F) << 8 | i64::from(*rest.first()?);
                let number = if number >= 1 << 12 {
                    number - (1 << 13)
                } else {
                    number
                };
                Some((2, Self::Number(number)))
            }
            0xE0..0xF0 => string(
                2,
                usize::from(first & 0x0F) << 8 | usize::from(*rest.first()?),
            ),
            STRING_32 => string(5, u32::from_le_bytes(*rest.first_chunk()?) as usize),
            INTEGER_16 => number(2),
            INTEGER_24 => number(3),
            INTEGER_32 => number(4),
            INTEGER_64 => number(8),
            _ => None,
        }
    }
}

/// A signed little-endian number of at most eight bytes.
pub(super) fn signed(bytes: &[u8]) -> i64 {
    let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut whole = [if is_negative { 0xFF } else { 0 }; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(whole)
}
