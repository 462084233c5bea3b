//! The `loadline` binary.
fn main() {}
