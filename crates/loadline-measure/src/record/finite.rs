//! Numbers that JSON can represent.

use serde::Serializer;

/// Rejects values that JSON cannot represent: `serde_json` would write null, and the record could not be read
/// back.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
pub(crate) fn finite<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() {
        serializer.serialize_f64(*value)
    } else {
        Err(serde::ser::Error::custom(format!(
            "{value} is not a number that JSON can carry"
        )))
    }
}
