//! Glob patterns of KEYS, SCAN, CONFIG GET and subscriptions.

/// Whether `text` matches a glob of Redis: `*`, `?`, `[a-c]`, `[^x]` and backslash. Backtracking returns only
/// to the last star, so no pattern takes exponential time.
pub(crate) fn glob(pattern: &[u8], text: &[u8]) -> bool {
    // The matcher of Redis ignores the pattern if the text is empty; its callers handle the pattern `*`
    // separately.
    if text.is_empty() {
        return matches!(pattern, b"" | b"*");
    }
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
            continue;
        }
        match single(&pattern[p..], text[t]) {
            Some(length) => {
                p += length;
                t += 1;
            }
            None => {
                let Some((place, reach)) = star else {
                    return false;
                };
                star = Some((place, reach + 1));
                p = place + 1;
                t = reach + 1;
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// The length of the pattern's first element, if that matches `byte`.
fn single(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        b'[' => class(&pattern[1..], byte).map(|length| 1 + length),
        literal => (literal == byte).then_some(1),
    }
}

/// The length of the class at the start of `pattern`, after the opening bracket, if it matches `byte`.
fn class(pattern: &[u8], byte: u8) -> Option<usize> {
    let is_negated = pattern.first() == Some(&b'^');
    let mut at = usize::from(is_negated);
    let mut is_listed = false;
    // A class without a closing bracket extends to the end.
    while at < pattern.len() && pattern[at] != b']' {
        match pattern[at..] {
            [b'\\', escaped, ..] => {
                is_listed |= escaped == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                is_listed |= (from.min(to)..=from.max(to)).contains(&byte);
                at += 3;
            }
            _ => {
                is_listed |= pattern[at] == byte;
                at += 1;
            }
        }
    }
    (is_listed != is_negated).then_some((at + 1).min(pattern.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_as_in_redis() {
        for (pattern, text, wanted) in [
            ("*", "", true),
            ("**", "", false),
            ("", "", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("h?llo", "hello", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-cx]llo", "hxllo", true),
            ("h[a-cx]llo", "h-llo", false),
            ("h[\\]]llo", "h]llo", true),
            ("h[a", "ha", true),
            ("[^", "x", true),
            ("a\\*c", "a*c", true),
            ("a\\*c", "abc", false),
            ("", "a", false),
        ] {
            assert_eq!(
                glob(pattern.as_bytes(), text.as_bytes()),
                wanted,
                "{pattern} on {text}"
            );
        }
        // An exponential matcher would not return from this.
        assert!(!glob("a*".repeat(60).as_bytes(), "a".repeat(59).as_bytes()));
    }
}
