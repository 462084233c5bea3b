//! The functions that account for a difference between two profiles.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::callgrind::Profile;
use super::tree::under_timers;

/// Functions that a record keeps. The rest execute next to nothing.
const KEPT: usize = 300;

/// The work of one function per operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionWork {
    /// The name of the function, or its address if the program has no symbols.
    pub(crate) name: String,
    /// The file name of the program or library that contains it; empty if unknown.
    #[serde(default)]
    pub(crate) object: String,
    /// Instructions per operation of the function itself.
    pub(crate) own: f64,
    /// Instructions per operation of the function and all that it calls. Recursive calls count several times.
    pub(crate) inclusive: f64,
}

/// The work of one function on two sides, per operation and without the functions that it calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionDifference {
    /// The name of the function, or its address if the program has no symbols.
    pub name: String,
    /// The file name of the program or library that contains it; empty if unknown.
    pub object: String,
    /// Instructions per operation of the first side.
    pub a: f64,
    /// Instructions per operation of the second side.
    pub b: f64,
}

impl FunctionDifference {
    /// Instructions per operation that the second side executes in addition; negative if it executes fewer.
    #[must_use]
    pub fn added(&self) -> f64 {
        self.b - self.a
    }

    /// Whether the function is known by its address only, because the program has no symbols.
    #[must_use]
    pub fn is_address(&self) -> bool {
        self.name.starts_with("0x")
    }
}

/// The functions of `profile`, a pass of `ops` operations, that execute most instructions, without what they execute
/// for timers.
#[must_use]
pub fn per_operation(profile: &Profile, ops: u64) -> Vec<FunctionWork> {
    let ops = ops.max(1) as f64;
    let mut functions: Vec<FunctionWork> = profile
        .functions
        .iter()
        .zip(under_timers(profile))
        .map(|(function, timers)| FunctionWork {
            name: function.name.clone(),
            object: file_name(&function.object).to_owned(),
            own: (function.own as f64 - timers.own).max(0.0) / ops,
            inclusive: (function.inclusive as f64 - timers.whole).max(0.0) / ops,
        })
        .filter(|function| function.own > 0.0)
        .collect();
    functions.sort_by(|one, other| {
        let by_work = other.own.total_cmp(&one.own);
        by_work.then_with(|| one.name.cmp(&other.name))
    });
    functions.truncate(KEPT);
    functions
}

/// The `most` functions that differ most between two sides, the largest difference first. A function is matched by
/// its name: two builds of a server lie at different paths.
#[must_use]
pub fn differences(a: &[FunctionWork], b: &[FunctionWork], most: usize) -> Vec<FunctionDifference> {
    let mut found: HashMap<&str, FunctionDifference> = HashMap::new();
    for (is_first, functions) in [(true, a), (false, b)] {
        for function in functions {
            let entry = found
                .entry(&function.name)
                .or_insert_with(|| FunctionDifference {
                    name: function.name.clone(),
                    object: function.object.clone(),
                    a: 0.0,
                    b: 0.0,
                });
            if is_first {
                entry.a += function.own;
            } else {
                entry.b += function.own;
            }
        }
    }
    let mut all: Vec<FunctionDifference> = found.into_values().collect();
    all.retain(|function| function.added() != 0.0);
    all.sort_by(|one, other| {
        let by_size = other.added().abs().total_cmp(&one.added().abs());
        by_size.then_with(|| one.name.cmp(&other.name))
    });
    all.truncate(most);
    all
}

fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::super::callgrind::Function;
    use super::*;

    fn profile(functions: &[(&str, &str, u64)]) -> Profile {
        let functions = functions.iter().map(|(name, object, own)| Function {
            name: (*name).to_owned(),
            object: (*object).to_owned(),
            own: *own,
            ..Function::default()
        });
        Profile {
            functions: functions.collect(),
            ..Profile::default()
        }
    }

    #[test]
    fn largest_difference_comes_first() {
        let a = profile(&[
            ("call", "/a/redis", 1_000),
            ("same", "/a/redis", 500),
            ("gone", "/a/redis", 300),
        ]);
        let b = profile(&[
            ("call", "/b/redis", 2_400),
            ("same", "/b/redis", 1_000),
            ("slowlogPush", "/b/redis", 10_000),
        ]);
        // Twice as many operations on the second side.
        let (a, b) = (per_operation(&a, 10), per_operation(&b, 20));
        let found = differences(&a, &b, 10);
        let rows: Vec<(&str, f64)> = found
            .iter()
            .map(|function| (function.name.as_str(), function.added()))
            .collect();
        assert_eq!(
            rows,
            [("slowlogPush", 500.0), ("gone", -30.0), ("call", 20.0)]
        );
        assert_eq!(found[0].object, "redis");
        assert_eq!(differences(&a, &b, 1).len(), 1);
    }
}
