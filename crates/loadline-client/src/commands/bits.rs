//! Bits of strings, and numbers made of them.

use super::*;

words! {
    /// An operation on whole strings of bits.
    BitOperation {
        /// A bit is set if it is set in all of the strings.
        And = "AND",
        /// A bit is set if it is set in any of the strings.
        Or = "OR",
        /// A bit is set if it is set in an odd number of the strings.
        Xor = "XOR",
        /// Every bit of the one string is inverted.
        Not = "NOT",
        /// A bit is set if it is set in the first string and in none of the others. Redis 8.2.
        Diff = "DIFF",
        /// A bit is set if it is set in one of the others and not in the first string. Redis 8.2.
        Diff1 = "DIFF1",
        /// A bit is set if it is set in the first string and in one of the others. Redis 8.2.
        AndOr = "ANDOR",
        /// A bit is set if it is set in exactly one of the strings. Redis 8.2.
        One = "ONE",
    }

    /// The result of an addition that leaves the range of its number.
    Overflow {
        /// Continues at the other end of the range.
        Wrap = "WRAP",
        /// Stops at the end of the range.
        Saturate = "SAT",
        /// Changes nothing, and replies with nil.
        Fail = "FAIL",
    }
}

commands! {
    /// Counts the bits that are set in a string.
    ///
    /// Redis documentation: [`BITCOUNT`](https://redis.io/docs/latest/commands/bitcount/).
    bit_count(key: impl Arg) -> u64 = "BITCOUNT"(key) + BitCountOptions;
    /// Reads and changes numbers of any width within a string, in the order of the options. Replies with a number for
    /// each, or with nil for an addition that failed. An encoding is `"u8"` or `"i16"`; an offset is a number of
    /// bits, or `"#2"` for the third number of this width.
    ///
    /// Redis documentation: [`BITFIELD`](https://redis.io/docs/latest/commands/bitfield/).
    bitfield(key: impl Arg) -> Vec<Option<i64>> = "BITFIELD"(key) + BitfieldOptions;
    /// Reads numbers of any width within a string; see [`bitfield`]. Replies with a number for each.
    ///
    /// Redis documentation: [`BITFIELD_RO`](https://redis.io/docs/latest/commands/bitfield_ro/).
    bitfield_ro(key: impl Arg) -> Vec<i64> = "BITFIELD_RO"(key) + BitfieldReadOptions;
    /// Combines strings bit by bit, and stores the result. Replies with its length in bytes.
    ///
    /// Redis documentation: [`BITOP`](https://redis.io/docs/latest/commands/bitop/).
    bit_op(operation: BitOperation, to: impl Arg, keys: impl ToArgs) -> u64
        = "BITOP"(operation.word(), to, keys);
    /// Finds the first bit that is set, or the first that is not. Replies with its place, or with -1 if there is
    /// none.
    ///
    /// Redis documentation: [`BITPOS`](https://redis.io/docs/latest/commands/bitpos/).
    bit_pos(key: impl Arg, bit: bool) -> i64 = "BITPOS"(key, u32::from(bit)) + BitPosOptions;
    /// Gets one bit of a string. Replies with false beyond its end.
    ///
    /// Redis documentation: [`GETBIT`](https://redis.io/docs/latest/commands/getbit/).
    get_bit(key: impl Arg, offset: u64) -> bool = "GETBIT"(key, offset);
    /// Sets one bit of a string. Replies with the previous bit.
    ///
    /// Redis documentation: [`SETBIT`](https://redis.io/docs/latest/commands/setbit/).
    set_bit(key: impl Arg, offset: u64, bit: bool) -> bool = "SETBIT"(key, offset, u32::from(bit));
}

options! {
    /// The options of [`bit_count`].
    BitCountOptions {
        /// Counts from one byte to another, including both. Negative places count from the end.
        bytes(from: i64, to: i64) -> R = (from, to);
        /// Counts from one bit to another, including both. Negative places count from the end.
        bits(from: i64, to: i64) -> R = (from, to, "BIT");
    }
    /// The options of [`bit_pos`].
    BitPosOptions {
        /// Searches from a byte on. Negative places count from the end.
        from(byte: i64) -> R = (byte);
        /// Searches from one byte to another, including both. Negative places count from the end.
        bytes(from: i64, to: i64) -> R = (from, to);
        /// Searches from one bit to another, including both. Negative places count from the end.
        bits(from: i64, to: i64) -> R = (from, to, "BIT");
    }
    /// The options of [`bitfield`].
    BitfieldOptions {
        /// Reads a number.
        get(encoding: impl Arg, offset: impl Arg) -> R = ("GET", encoding, offset);
        /// Writes a number. Replies with the previous one.
        set(encoding: impl Arg, offset: impl Arg, value: i64) -> R = ("SET", encoding, offset, value);
        /// Adds to a number. Replies with the new one.
        incr_by(encoding: impl Arg, offset: impl Arg, by: i64) -> R = ("INCRBY", encoding, offset, by);
        /// Sets what the additions and writes after it do with a result that does not fit.
        overflow(overflow: Overflow) -> R = ("OVERFLOW", overflow.word());
    }
    /// The options of [`bitfield_ro`].
    BitfieldReadOptions {
        /// Reads a number.
        get(encoding: impl Arg, offset: impl Arg) -> R = ("GET", encoding, offset);
    }
}
