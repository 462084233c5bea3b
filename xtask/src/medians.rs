//! Statistics belong to loadline-measure: a median computed elsewhere is found by its usual spellings.
//! Two copies once took different middle values, and two commands printed different medians of the
//! same runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::say;

/// Directories with Rust sources.
pub(crate) const ROOTS: [&str; 4] = ["crates", "xtask", "peers", "fuzz"];
/// The crate that computes medians, and the files that name the patterns.
const EXEMPT: [&str; 2] = ["crates/loadline-measure/src", "xtask/src/medians.rs"];

/// Checks every source file outside of loadline-measure.
///
/// # Errors
///
/// If a file computes its own median, or cannot be read.
pub(crate) fn check() -> anyhow::Result<()> {
    let mut faults = 0;
    for root in ROOTS {
        for file in sources(Path::new(root))? {
            if EXEMPT.iter().any(|exempt| file.starts_with(exempt)) {
                continue;
            }
            let text = fs::read_to_string(&file)
                .with_context(|| format!("`{}` could not be read", file.display()))?;
            for (number, what) in medians(&text) {
                faults += 1;
                say(&format!(
                    "medians: {}:{number}: {what}; use loadline_measure::quantile::median instead",
                    file.display()
                ));
            }
        }
    }
    if faults > 0 {
        bail!("{faults} lines compute a median outside of loadline-measure");
    }
    Ok(())
}

/// The Rust files below `dir`, build output left out.
pub(crate) fn sources(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries =
        fs::read_dir(dir).with_context(|| format!("`{}` could not be listed", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The lines of `text` that compute a median, counted from 1, and the reasons.
fn medians(text: &str) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(index, line)| Some((index + 1, fault(line)?)))
        .collect()
}

fn fault(line: &str) -> Option<String> {
    let code = line.split("//").next().unwrap_or_default();
    if code.contains("select_nth_unstable") {
        return Some("`select_nth_unstable` selects an order statistic".to_owned());
    }
    if ["fn median(", "fn median<", "fn quantile_of"]
        .iter()
        .any(|name| code.contains(name))
    {
        return Some("a function of its own for a median or quantile".to_owned());
    }
    middle_index(code).map(|index| format!("`{index}` takes the middle of a list"))
}

/// An index into the middle, such as `[n / 2]` or `.get(n / 2)`. A range such as `[..n / 2]` is a half.
fn middle_index(code: &str) -> Option<String> {
    let spellings = [("/ 2]", '[', ""), ("/ 2)", '(', ".get")];
    spellings.into_iter().find_map(|(end, bracket, before)| {
        let (head, _) = code.split_once(end)?;
        let open = opening(head, bracket)?;
        let index = &head[open + 1..];
        let is_index = head[..open].ends_with(before)
            && !head[..open].ends_with([' ', '&', '(', '=', '#', '['])
            && !["..", ",", ";"].iter().any(|other| index.contains(other));
        is_index.then(|| format!("{before}{bracket}{index}{end}"))
    })
}

/// Position of the bracket that is still open at the end of `head`.
fn opening(head: &str, bracket: char) -> Option<usize> {
    let closing = if bracket == '[' { ']' } else { ')' };
    let mut depth = 0;
    for (at, character) in head.char_indices().rev() {
        if character == closing {
            depth += 1;
        } else if character == bracket && depth == 0 {
            return Some(at);
        } else if character == bracket {
            depth -= 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_spellings_of_a_median_are_found() {
        for line in [
            "    times[times.len() / 2]",
            "    ratios.get(ratios.len() / 2).copied()",
            "    let middle = sorted[(count - 1) / 2];",
            "    *waits.select_nth_unstable(middle).1",
            "fn median(values: &[f64]) -> f64 {",
            "        count if count % 2 == 1 => values[count / 2],",
        ] {
            assert!(fault(line).is_some(), "{line}");
        }
        assert_eq!(
            medians("fn a() {\n    times[rounds / 2]\n}\n"),
            [(2, "`[rounds / 2]` takes the middle of a list".to_owned())]
        );
    }

    #[test]
    fn halves_and_calls_pass() {
        for line in [
            "    replies.write_all(&buf[..bytes / 2])",
            "    let half = vec![0; bytes / 2];",
            "    let mut pairs = Vec::with_capacity(items.len() / 2);",
            "    blocks.drain(..blocks.len() / 2);",
            "    let ratio = quantile::median(&ratios);",
            "    // the median is values[n / 2]",
            "    let arms = [count, count / 2];",
        ] {
            assert_eq!(fault(line), None, "{line}");
        }
    }
}
