//! Run ids.
//!
//! The keys of a run are found by its id alone, and everything under it is removed. The id therefore has a format
//! that the keys of other programs do not have by chance.

use rand::RngExt;

/// Length of a run id, in characters of base 32 without letters that resemble digits.
const CHARS: usize = 8;
/// The number of random characters; the others are a checksum.
const DRAWN: usize = 6;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A new random run id: six random characters and two of a checksum, with at least one digit and one letter among
/// them, which neither a word nor a date has.
pub(crate) fn new_run_id() -> String {
    let mut rng = rand::rng();
    loop {
        let drawn: [u8; DRAWN] =
            std::array::from_fn(|_| ALPHABET[rng.random_range(0..ALPHABET.len())]);
        let checks = checks(&drawn).expect("all characters are of the alphabet");
        let id: String = drawn.into_iter().chain(checks).map(char::from).collect();
        if is_run_id(&id) {
            return id;
        }
    }
}

/// Whether `text` has the format of a run id.
pub(crate) fn is_run_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == CHARS
        && bytes.iter().any(u8::is_ascii_digit)
        && bytes.iter().any(u8::is_ascii_lowercase)
        && checks(&bytes[..DRAWN]).is_some_and(|checks| checks == bytes[DRAWN..])
}

/// The checksum of `drawn`: the high bits of its number times a large odd one. `None` for characters that no run
/// id has.
fn checks(drawn: &[u8]) -> Option<[u8; CHARS - DRAWN]> {
    let number = drawn.iter().try_fold(0_u32, |number, byte| {
        let digit = ALPHABET.iter().position(|known| known == byte)?;
        Some(number << 5 | u32::try_from(digit).ok()?)
    })?;
    let check = number.wrapping_mul(0x9E37_79B1) >> 22;
    let character = |digit: u32| ALPHABET[(digit & 31) as usize];
    Some([character(check >> 5), character(check)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_are_recognized() {
        for _ in 0..1_000 {
            let id = new_run_id();
            assert!(is_run_id(&id), "{id}");
        }
        for id in ["3k9fz0cd", "abcde7t4"] {
            assert!(is_run_id(id), "{id}");
        }
        for other in [
            "database",
            "sessions",
            "profiles",
            "20261122",
            "3f2a91bc",
            "deadbeef",
            "3k9fz0cc",
            "abcdefrb",
            "3K9FZ0CD",
            "3k9fz0c",
            "3k9fz0cdd",
            "",
            "3k9fz0c\u{e9}",
        ] {
            assert!(!is_run_id(other), "{other}");
        }
    }

    /// One in a thousand names of the same characters, such as abbreviated hashes, passes.
    #[test]
    fn names_of_the_same_characters_seldom_pass() {
        let passed = (0..100_000_u32)
            .filter(|number| is_run_id(&format!("{:08x}", number.wrapping_mul(0x85EB_CA6B))))
            .count();
        assert!((1..=200).contains(&passed), "{passed} of 100,000");
    }
}
