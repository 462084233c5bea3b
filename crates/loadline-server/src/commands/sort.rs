//! SORT: the elements of a list, a set or a sorted set in a requested order.

use std::cmp::Ordering;

use loadline_store::{Entry, List, Value, View};

use super::numbers::{double, integer};
use super::refusal::{Refusal, SYNTAX, WRONG_TYPE};
use super::{Call, Keys, Listed, Words, is, listed};

pub(super) const TABLE: &[Listed] = &[
    listed("SORT", -2, Keys::Sort, |call, words| {
        sort(call, words, true)
    }),
    listed("SORT_RO", -2, Keys::OneAndPatterns, |call, words| {
        sort(call, words, false)
    }),
];

#[derive(Debug, Default)]
struct Options<'w> {
    descending: bool,
    /// Compares bytes instead of numbers. Without STORE, Redis uses its locale and stops at a zero byte; this
    /// server always compares all bytes.
    alpha: bool,
    start: i64,
    /// Negative for all.
    count: Option<i64>,
    by: Option<&'w [u8]>,
    get: Vec<&'w [u8]>,
    store: Option<&'w [u8]>,
}

impl<'w> Options<'w> {
    /// Reads the options. BY and GET need the right to read all keys.
    fn parse(words: &[&'w [u8]], may_store: bool, reads_all: bool) -> Result<Self, Refusal> {
        let mut options = Self::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if is(word, "ASC") || is(word, "DESC") {
                options.descending = is(word, "DESC");
            } else if is(word, "ALPHA") {
                options.alpha = true;
            } else if is(word, "LIMIT") && rest.len() >= 2 {
                let mut number = || integer(rest.next().ok_or(SYNTAX)?);
                options.start = number()?;
                options.count = Some(number()?);
            } else if is(word, "STORE") && may_store && rest.len() >= 1 {
                options.store = rest.next().copied();
            } else if is(word, "BY") && rest.len() >= 1 {
                options.by = rest.next().copied();
                if !reads_all && options.by.is_some_and(|by| by.contains(&b'*')) {
                    return Err(
                        "ERR BY option of SORT denied due to insufficient ACL permissions.".into(),
                    );
                }
            } else if is(word, "GET") && rest.len() >= 1 {
                if !reads_all {
                    return Err(
                        "ERR GET option of SORT denied due to insufficient ACL permissions.".into(),
                    );
                }
                options.get.extend(rest.next());
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(options)
    }

    /// The part of `length` elements that LIMIT selects.
    fn range(&self, length: usize) -> std::ops::Range<usize> {
        let start = usize::try_from(self.start).unwrap_or(0).min(length);
        let count = self.count.and_then(|count| usize::try_from(count).ok());
        let end = count.map_or(length, |count| start.saturating_add(count).min(length));
        start..end
    }
}

fn sort(call: &mut Call<'_>, words: Words<'_>, may_store: bool) -> Result<(), Refusal> {
    let mut options = Options::parse(&words[2..], may_store, call.may_read_all(words))?;
    let (mut elements, is_set) = elements(call, words[1])?;
    // A pattern without a star disables sorting.
    let mut is_sorted = options.by.is_none_or(|by| by.contains(&b'*'));
    if !is_sorted && is_set && (options.store.is_some() || call.shared.monitors.is_script) {
        // What is stored, and what a script does, must not depend on the order of a set in memory.
        is_sorted = true;
        options.alpha = true;
        options.by = None;
    }
    if is_sorted {
        elements = in_order(call, elements, &options)?;
    } else if options.descending && !is_set {
        elements.reverse();
    }
    let range = options.range(elements.len());
    let result = fetch(call, &elements[range], &options.get);
    match options.store {
        None => {
            let mut reply = call.reply();
            reply.array(result.len());
            result.iter().for_each(|item| reply.maybe(item.as_deref()));
        }
        Some(target) => store(call, target, &result),
    }
    Ok(())
}

/// The elements at `key`, and whether they come from a set.
fn elements(call: &mut Call<'_>, key: &[u8]) -> Result<(Vec<Vec<u8>>, bool), Refusal> {
    call.show(key, |value, _| match value {
        Some(View::List(items)) => Ok((items.iter().map(<[u8]>::to_vec).collect(), false)),
        Some(View::Set(members)) => Ok((
            members.iter().map(|(member, ())| member.to_vec()).collect(),
            true,
        )),
        Some(View::Sorted(set)) => Ok((
            set.iter().map(|(member, _)| member.to_vec()).collect(),
            false,
        )),
        Some(_) => Err(WRONG_TYPE.into()),
        None => Ok((Vec::new(), false)),
    })
}

/// The sort key of an element.
#[derive(Debug)]
enum Weight {
    Number(f64),
    Bytes(Option<Vec<u8>>),
}

fn in_order(
    call: &mut Call<'_>,
    elements: Vec<Vec<u8>>,
    options: &Options<'_>,
) -> Result<Vec<Vec<u8>>, Refusal> {
    let mut weighted = Vec::with_capacity(elements.len());
    for element in elements {
        let weight = match options.by {
            Some(pattern) => named_by(call, pattern, &element),
            None => Some(element.clone()),
        };
        let weight = if options.alpha {
            Weight::Bytes(weight)
        } else {
            let number = weight.as_deref().map_or(Some(0.0), double);
            Weight::Number(number.ok_or("ERR One or more scores can't be converted into double")?)
        };
        weighted.push((weight, element));
    }
    weighted.sort_by(|(weight, element), (other_weight, other)| {
        let order = match (weight, other_weight) {
            // Ties are broken by the bytes, so that the order is deterministic.
            (Weight::Number(one), Weight::Number(other_number)) => one
                .partial_cmp(other_number)
                .unwrap_or(Ordering::Equal)
                .then_with(|| element.cmp(other)),
            (Weight::Bytes(one), Weight::Bytes(other)) => one.cmp(other),
            _ => Ordering::Equal,
        };
        if options.descending {
            order.reverse()
        } else {
            order
        }
    });
    Ok(weighted.into_iter().map(|(_, element)| element).collect())
}

/// The value of the key or hash field that `pattern` names, with `element` in place of the star.
fn named_by(call: &mut Call<'_>, pattern: &[u8], element: &[u8]) -> Option<Vec<u8>> {
    if pattern == b"#" {
        return Some(element.to_vec());
    }
    let star = pattern.iter().position(|byte| *byte == b'*')?;
    let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = behind.windows(2).position(|pair| pair == b"->");
    let field = arrow
        .map(|at| &behind[at + 2..])
        .filter(|field| !field.is_empty());
    let behind = match (field, arrow) {
        (Some(_), Some(at)) => &behind[..at],
        _ => behind,
    };
    let key = [before, element, behind].concat();
    call.show(&key, |value, _| match (value, field) {
        (Some(View::Hash(fields)), Some(field)) => fields.get(field).map(|value| value.to_vec()),
        (Some(View::String(bytes)), None) => Some(bytes.to_vec()),
        _ => None,
    })
}

/// The elements, or the values that GET requests for each of them.
fn fetch(call: &mut Call<'_>, elements: &[Vec<u8>], get: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    if get.is_empty() {
        return elements.iter().cloned().map(Some).collect();
    }
    let mut result = Vec::with_capacity(elements.len() * get.len());
    for element in elements {
        for pattern in get {
            result.push(named_by(call, pattern, element));
        }
    }
    result
}

fn store(call: &mut Call<'_>, target: &[u8], result: &[Option<Vec<u8>>]) {
    if result.is_empty() {
        call.remove(target);
    } else {
        let mut items = List::new();
        for item in result {
            items.push_back(item.as_deref().unwrap_or_default());
        }
        call.put(target, Entry::lasting(Value::List(items)));
    }
    call.count_elements(result.len());
    call.reply().count(result.len());
}
