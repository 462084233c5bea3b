//! The project's own checks as code.
fn main() {}
