//! From a key to its slot, as the specification of Redis Cluster has it.

/// Number of slots into which a cluster divides its keys.
pub const SLOTS: u16 = 16_384;

/// The slot of a key: CRC16 of its hash tag, or of the whole key where it has none, modulo [`SLOTS`].
///
/// Keys with the same hash tag are in the same slot, so one command or transaction can have them all.
///
/// ```
/// use loadline_client::cluster::slot_of;
///
/// assert_eq!(slot_of(b"123456789"), 12_739);
/// assert_eq!(slot_of(b"{user:7}:name"), slot_of(b"{user:7}:visits"));
/// ```
#[must_use]
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOTS
}

/// The part of a key that decides its slot: the text between the first `{` and the first `}` after it,
/// unless there is nothing between them; otherwise the whole key.
fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else {
        return key;
    };
    let after = &key[open + 1..];
    match after.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(close) => &after[..close],
    }
}

/// CRC16/XMODEM: polynomial 0x1021, starts at zero, nothing reflected, nothing inverted; a byte at a time
/// by a table.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, &byte| {
        let [high, _] = crc.to_be_bytes();
        (crc << 8) ^ TABLE[usize::from(high ^ byte)]
    })
}

/// The effect of each byte on the remainder.
static TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The plain version: the remainder of a division of polynomials, bit by bit.
    fn naive(bytes: &[u8]) -> u16 {
        let mut crc = 0;
        for byte in bytes {
            for bit in (0..8).rev() {
                let carry = (crc >> 15) ^ u16::from(byte >> bit & 1);
                crc = (crc << 1) ^ (carry * 0x1021);
            }
        }
        crc
    }

    #[test]
    fn check_value_of_the_specification_comes_out() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b""), 0);
    }

    /// The slots were asked of a redis-server 7.0 with `CLUSTER KEYSLOT`.
    #[test]
    fn slots_are_those_of_the_server() {
        for (key, slot) in [
            ("foo", 12_182),
            ("bar", 5_061),
            ("hello", 866),
            ("", 0),
            ("somekey", 11_058),
            ("foo{hash_tag}", 2_515),
            ("bar{hash_tag}", 2_515),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn only_the_first_braces_with_something_between_them_are_a_tag() {
        for (key, tag) in [
            ("{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("{}", "{}"),
            ("{", "{"),
            ("}", "}"),
            ("}{", "}{"),
            ("}{a}", "a"),
            ("{a", "{a"),
            ("a}", "a}"),
            ("{ }", " "),
            ("{}{a}", "{}{a}"),
            ("", ""),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
        }
    }

    proptest! {
        #[test]
        fn table_gives_what_the_division_gives(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(crc16(&bytes), naive(&bytes));
        }

        #[test]
        fn every_key_has_a_slot_and_a_tag_of_its_own_bytes(key in prop::collection::vec(prop::sample::select(b"{}ab".as_slice()), 0..12)) {
            prop_assert!(slot_of(&key) < SLOTS);
            let tag = hash_tag(&key);
            prop_assert!(key.windows(tag.len().max(1)).any(|part| part == tag) || tag.is_empty());
        }
    }
}
