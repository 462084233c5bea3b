//! Black-box tests: the real binary, a directory of its own, and what a user sees.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

mod children;
mod dry_run;
mod modes;
mod redaction;
mod report;
mod run;
mod serve;
mod truth;
mod usage;
mod util;
