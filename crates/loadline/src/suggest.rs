//! Suggestions for mistyped words.

/// The one of `known` that `typed` is most like: at most one character in three is wrong or out of place.
pub(crate) fn closest<'k>(
    typed: &str,
    known: impl IntoIterator<Item = &'k str>,
) -> Option<&'k str> {
    let typed = typed.to_ascii_lowercase();
    let most = typed.chars().count() / 3;
    known
        .into_iter()
        .map(|word| (strsim::damerau_levenshtein(&typed, word), word))
        .filter(|(wrong, _)| *wrong <= most)
        .min_by_key(|(wrong, _)| *wrong)
        .map(|(_, word)| word)
}

/// The end of a sentence about `typed`, where one of `known` was probably meant: `; did you mean `get`?`.
pub(crate) fn hint<'k>(typed: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    closest(typed, known).map_or_else(String::new, |word| format!("; did you mean `{word}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_suggested() {
        let known = ["get", "set", "getset-70-30", "mget", "embedded"];
        for (typed, meant) in [
            ("gte", Some("get")),
            ("SET", Some("set")),
            ("getset-70-3", Some("getset-70-30")),
            ("embeded", Some("embedded")),
            ("nonsense", None),
            ("", None),
        ] {
            assert_eq!(closest(typed, known), meant, "{typed}");
        }
        assert_eq!(hint("embeded", known), "; did you mean `embedded`?");
        assert_eq!(hint("x", known), "");
    }
}
