//! The replies that options change.

use crate::FromReply;

/// A reply that an option can turn into nil.
pub trait OrNil {
    /// The same reply, or nil.
    type OrNil: FromReply;
}

impl OrNil for () {
    type OrNil = Option<()>;
}

impl OrNil for String {
    type OrNil = Option<Self>;
}

impl<T: FromReply> OrNil for Option<T> {
    type OrNil = Self;
}

/// A list of members, to which an option adds the scores.
pub trait Scored {
    /// Pairs of members and scores.
    type WithScores: FromReply;
}

impl<T: FromReply> Scored for Vec<T> {
    type WithScores = Vec<(T, f64)>;
}
