//! Histograms as text: the V2 format of HdrHistogram, deflated, in base64.
//!
//! Encoder and decoder are our own: a record is untrusted input, and the crate's reader allocates the size
//! that a header declares; the crate's writer uses nine bytes per counter for numbers that usually need one.
//! Layout, big endian (HdrHistogram, `AbstractHistogram.encodeIntoByteBuffer`):
//!
//! ```text
//! outer   cookie 1c849314 | u32 length of the zlib stream | zlib stream of the inner part
//! inner   cookie 1c849313 | u32 payload length | u32 offset, 0 | u32 digits, 3
//!         | u64 lowest, 1 | u64 highest | f64 ratio, 1.0 | payload
//! payload zig-zag LEB128 numbers of at most 9 bytes: a count for the next slot, or, where
//!         negative, how many slots in a row are empty; it ends with the last slot in use
//! ```

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::counts::{Counts, SLOTS};
use super::{Histogram, MAX_NS, SIGNIFICANT_DIGITS};
use crate::Error;

const OUTER_COOKIE: u32 = 0x1c84_9314;
const INNER_COOKIE: u32 = 0x1c84_9313;
const INNER_HEADER_BYTES: usize = 40;
/// The longest number of the payload in bytes, which bounds the payload per slot.
const NUMBER_BYTES: usize = 9;
/// The longest text of a histogram, including zlib's worst case.
const TEXT_BYTES: usize = 512 * 1_024;

impl Histogram {
    /// The histogram as text (V2 format, deflated, base64), which HdrHistogram's own tools read.
    #[must_use]
    pub fn encode(&self) -> String {
        let payload = write_counts(&self.counts);
        let deflated = deflate(&payload).expect("a Vec takes all bytes");
        let mut bytes = OUTER_COOKIE.to_be_bytes().to_vec();
        bytes.extend(length(&deflated));
        bytes.extend(deflated);
        STANDARD.encode(bytes)
    }

    /// Decodes the output of [`encode`](Self::encode). Memory is bounded by a few histograms, whatever the
    /// text declares.
    ///
    /// # Errors
    ///
    /// [`Error::Histogram`] if the text is not a histogram or has another range or precision.
    pub fn decode(text: &str) -> Result<Self, Error> {
        if text.len() > TEXT_BYTES {
            return Err(Error::Histogram(
                "it is longer than any histogram of this range",
            ));
        }
        let bytes = STANDARD
            .decode(text)
            .map_err(|_| Error::Histogram("it is not base64"))?;
        let inner = inflate(&bytes)?;
        read_counts(payload(&inner)?)
    }
}

impl Histogram {
    /// A histogram from pairs of a slot and its count, as other programs report them: a time of `ns` nanoseconds
    /// is in slot `1024 * s + (ns >> s)`, where `s` is the number of bits of `ns` above eleven.
    ///
    /// # Errors
    ///
    /// [`Error::Histogram`] for a slot beyond the range, and for more samples than can be counted.
    pub fn of_slots(slots: &[(u64, u64)]) -> Result<Self, Error> {
        let mut histogram = Self::new();
        let mut total = 0_u64;
        for &(slot, count) in slots {
            let slot = usize::try_from(slot).ok().filter(|slot| *slot < SLOTS);
            let slot = slot.ok_or(Error::Histogram("it has a slot beyond its range"))?;
            total = total
                .checked_add(count)
                .filter(|total| *total <= i64::MAX as u64)
                .ok_or(Error::Histogram("it counts more samples than can be"))?;
            if count > 0 {
                histogram.counts.add(slot, count);
            }
        }
        Ok(histogram)
    }
}

/// The payload: the count of every slot up to the last used one.
fn write_counts(counts: &Counts) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut next = 0;
    for (slot, count) in counts.iter() {
        match (slot - next) as i64 {
            0 => {}
            // A single empty slot is a count of zero.
            1 => put_number(&mut payload, 0),
            empty => put_number(&mut payload, -empty),
        }
        put_number(&mut payload, i64::try_from(count).unwrap_or(i64::MAX));
        next = slot + 1;
    }
    payload
}

/// The zlib stream of the inner part around `payload`.
fn deflate(payload: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = ZlibEncoder::new(Vec::new(), Compression::default());
    stream.write_all(&INNER_COOKIE.to_be_bytes())?;
    stream.write_all(&length(payload))?;
    stream.write_all(&0_u32.to_be_bytes())?;
    stream.write_all(&u32::from(SIGNIFICANT_DIGITS).to_be_bytes())?;
    stream.write_all(&1_u64.to_be_bytes())?;
    stream.write_all(&MAX_NS.to_be_bytes())?;
    stream.write_all(&1_f64.to_be_bytes())?;
    stream.write_all(payload)?;
    stream.finish()
}

fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len())
        .expect("no histogram of this range is longer than some hundred KiB")
        .to_be_bytes()
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let mut rest = bytes;
    if take_u32(&mut rest)? != OUTER_COOKIE {
        return Err(Error::Histogram("it is not in the compressed V2 format"));
    }
    if take_u32(&mut rest)? as usize != rest.len() {
        return Err(Error::Histogram("its length is not the length it declares"));
    }
    let most = INNER_HEADER_BYTES + SLOTS * NUMBER_BYTES;
    let mut inner = Vec::new();
    let read = ZlibDecoder::new(rest)
        .take(most as u64 + 1)
        .read_to_end(&mut inner);
    match read {
        Err(_) => Err(Error::Histogram("its compressed part is damaged")),
        Ok(_) if inner.len() > most => Err(Error::Histogram(
            "it is longer than any histogram of this range",
        )),
        Ok(_) => Ok(inner),
    }
}

fn payload(inner: &[u8]) -> Result<&[u8], Error> {
    let mut rest = inner;
    if take_u32(&mut rest)? != INNER_COOKIE {
        return Err(Error::Histogram("its inner part is not in the V2 format"));
    }
    let declared = take_u32(&mut rest)? as usize;
    let offset = take_u32(&mut rest)?;
    let digits = take_u32(&mut rest)?;
    let (lowest, highest) = (take_u64(&mut rest)?, take_u64(&mut rest)?);
    let ratio = f64::from_bits(take_u64(&mut rest)?);
    let ours = offset == 0
        && digits == u32::from(SIGNIFICANT_DIGITS)
        && (lowest, highest) == (1, MAX_NS)
        && ratio.to_bits() == 1_f64.to_bits();
    if !ours {
        return Err(Error::Histogram(
            "it has another range or precision than Loadline's histograms",
        ));
    }
    if declared != rest.len() {
        return Err(Error::Histogram("its length is not the length it declares"));
    }
    Ok(rest)
}

fn read_counts(mut payload: &[u8]) -> Result<Histogram, Error> {
    const BEYOND: Error = Error::Histogram("it has more slots than its range holds");
    let mut histogram = Histogram::new();
    let mut slot = 0_usize;
    while !payload.is_empty() {
        let number = take_number(&mut payload)?;
        let count = match u64::try_from(number) {
            Ok(count) => count,
            Err(_) => {
                let empty = usize::try_from(number.unsigned_abs()).unwrap_or(SLOTS);
                slot = slot
                    .checked_add(empty)
                    .filter(|slot| *slot <= SLOTS)
                    .ok_or(BEYOND)?;
                continue;
            }
        };
        if slot >= SLOTS {
            return Err(BEYOND);
        }
        if histogram
            .count()
            .checked_add(count)
            .is_none_or(|total| total > i64::MAX as u64)
        {
            return Err(Error::Histogram("it counts more samples than can be"));
        }
        if count > 0 {
            histogram.counts.add(slot, count);
        }
        slot += 1;
    }
    Ok(histogram)
}

/// Writes a number for [`take_number`].
fn put_number(bytes: &mut Vec<u8>, number: i64) {
    let mut raw = ((number << 1) ^ (number >> 63)) as u64;
    for _ in 1..NUMBER_BYTES {
        if raw < 0x80 {
            break;
        }
        bytes.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    bytes.push(raw as u8);
}

/// Reads a zig-zag LEB128 number of at most nine bytes; the ninth contributes all eight bits.
fn take_number(bytes: &mut &[u8]) -> Result<i64, Error> {
    let mut raw = 0_u64;
    for place in 0..NUMBER_BYTES {
        let (byte, rest) = bytes
            .split_first()
            .ok_or(Error::Histogram("it ends in the middle of a number"))?;
        *bytes = rest;
        let last = place == NUMBER_BYTES - 1;
        let bits = if last { *byte } else { *byte & 0x7f };
        raw |= u64::from(bits) << (7 * place);
        if last || *byte & 0x80 == 0 {
            break;
        }
    }
    Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
}

fn take_u32(bytes: &mut &[u8]) -> Result<u32, Error> {
    take_array(bytes).map(u32::from_be_bytes)
}

fn take_u64(bytes: &mut &[u8]) -> Result<u64, Error> {
    take_array(bytes).map(u64::from_be_bytes)
}

fn take_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Error> {
    let (array, rest) = bytes
        .split_first_chunk()
        .ok_or(Error::Histogram("it ends in the middle of its header"))?;
    *bytes = rest;
    Ok(*array)
}
