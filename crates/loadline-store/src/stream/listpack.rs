//! Sizes of elements in the listpacks of Redis.

/// Bytes of an empty listpack: its header and its end.
pub(super) const EMPTY_BYTES: u64 = 7;

/// Bytes of a string, which is stored as an integer if it reads as one.
pub(super) fn bytes(element: &[u8]) -> u64 {
    match integer(element) {
        Some(number) => integer_bytes(number),
        None => {
            let length = element.len() as u64;
            let header = match length {
                0..64 => 1,
                64..4_096 => 2,
                _ => 5,
            };
            with_length(header + length)
        }
    }
}

/// Bytes of an integer.
pub(super) fn integer_bytes(number: i64) -> u64 {
    const I24: std::ops::Range<i64> = -(1 << 23)..1 << 23;
    let size = match number {
        0..128 => 1,
        -4_096..4_096 => 2,
        _ if i16::try_from(number).is_ok() => 3,
        _ if I24.contains(&number) => 4,
        _ if i32::try_from(number).is_ok() => 5,
        _ => 9,
    };
    with_length(size)
}

/// The same with the length that follows an element.
fn with_length(size: u64) -> u64 {
    let length = match size {
        0..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    size + length
}

/// The integer as which Redis stores a string: one without a sign but `-`, without leading zeros.
fn integer(element: &[u8]) -> Option<i64> {
    let digits = element.strip_prefix(b"-").unwrap_or(element);
    let is_canonical = match digits {
        [b'0'] => element.len() == 1,
        [b'1'..=b'9', ..] => digits.len() < 20,
        _ => false,
    };
    is_canonical.then_some(())?;
    std::str::from_utf8(element).ok()?.parse().ok()
}
