//! Several cases under one name of `--workload`.

use super::Definition;

/// Cases that are measured together, with settings of their own.
#[derive(Debug)]
pub(crate) struct Bundle {
    /// Its name in `--workload`, and the suite in a record.
    pub(crate) name: &'static str,
    /// Its cases, in the order in which they are measured.
    pub(crate) cases: fn() -> Vec<Definition>,
    /// The limits that its cases are meant to keep, each with the case in front: `get.p99<10ms`.
    pub(crate) limits: &'static [&'static str],
}

impl Bundle {
    /// Its cases, each of which refers to it.
    pub(crate) fn definitions(&'static self) -> Vec<Definition> {
        let mut cases = (self.cases)();
        for case in &mut cases {
            case.rules.bundle = Some(self);
        }
        cases
    }

    /// The limits of the cases with the given `names`.
    pub(crate) fn limits_of(&self, names: &[&str]) -> Vec<&'static str> {
        let is_there = |limit: &&str| {
            let case = limit.split('.').next().unwrap_or_default();
            names.contains(&case)
        };
        self.limits.iter().copied().filter(is_there).collect()
    }
}

/// The sentence about the cases that `target` cannot do, each with the commands that it lacks; `None`
/// if it can do all.
pub(crate) fn left_out<'c>(
    target: &str,
    cases: impl IntoIterator<Item = (&'c str, Vec<String>)>,
) -> Option<String> {
    let (mut names, mut commands) = (Vec::new(), Vec::new());
    for (name, lacks) in cases {
        if !lacks.is_empty() {
            names.push(name);
            commands.extend(lacks);
        }
    }
    commands.sort_unstable();
    commands.dedup();
    (!names.is_empty()).then(|| {
        format!(
            "{target} has no {}: {} left out.",
            commands.join(" and no "),
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_out_cases_are_one_sentence() {
        let lacks = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        assert_eq!(
            left_out(
                "embedded",
                [
                    ("set", lacks(&[])),
                    ("xadd", lacks(&["XADD"])),
                    ("stream", lacks(&["XADD", "XREAD"])),
                ]
            ),
            Some("embedded has no XADD and no XREAD: xadd, stream left out.".to_owned())
        );
        assert_eq!(left_out("embedded", [("set", lacks(&[]))]), None);
    }
}
