//! Values of all kinds as operations of the log, and back.

use crate::fields::Fields;
use crate::list::List;
use crate::log::op::{self, Elements, Form, Kind, Op};
use crate::sorted::SortedSet;
use crate::stream::{self, Stream, StreamEdit};
use crate::table::Bytes;
use crate::value::{Members, Value, View};

/// Appends the operation that puts a value as it is.
pub(crate) fn encode(
    database: u8,
    key: &[u8],
    value: View<'_>,
    expires_at: Option<u64>,
    body: &mut Vec<u8>,
) {
    let mut elements = vec![];
    let mut push = |element: &[u8]| Elements::push(&mut elements, element);
    let (form, is_ordered) = match value {
        View::String(value) => {
            let kind = Kind::Put {
                key,
                value,
                expires_at,
            };
            return Op { database, kind }.encode(body);
        }
        View::Set(members) => {
            members.iter().for_each(|(member, ())| push(member));
            (Form::Set, members.is_ordered())
        }
        View::Hash(fields) => {
            let is_timed = fields.have_expiries();
            for (field, value) in fields.iter() {
                push(field);
                push(value);
                if is_timed {
                    push(&op::time_element(fields.expires_at(field)));
                }
            }
            let form = if is_timed {
                Form::TimedHash
            } else {
                Form::Hash
            };
            (form, fields.is_ordered())
        }
        View::List(items) => {
            items.iter().for_each(push);
            (Form::List, true)
        }
        View::Sorted(set) => {
            for (member, score) in set.iter() {
                push(member);
                push(&score.to_le_bytes());
            }
            (Form::Sorted, set.is_packed())
        }
        View::Stream(stream) => {
            stream::elements(stream, push);
            (Form::Stream, true)
        }
    };
    let kind = Kind::PutCollection {
        key,
        form,
        is_ordered,
        expires_at,
        elements: Elements::new(&elements),
    };
    Op { database, kind }.encode(body);
}

/// A collection of these elements.
pub(crate) fn value(form: Form, is_ordered: bool, elements: Elements<'_>) -> Value {
    match form {
        Form::Set => {
            let mut members = Members::new();
            for member in elements {
                members.insert(member, ());
            }
            if !is_ordered {
                members.relax();
            }
            Value::Set(members)
        }
        // Times alone are no value, and are not read as one.
        Form::Hash | Form::TimedHash | Form::FieldTimes => {
            let mut fields = Fields::new();
            match form {
                Form::TimedHash => set_timed_fields(&mut fields, elements),
                _ => set_fields(&mut fields, elements),
            }
            if !is_ordered {
                fields.relax();
            }
            Value::Hash(fields)
        }
        Form::List => {
            let mut items = List::new();
            elements.for_each(|item| items.push_back(item));
            Value::List(items)
        }
        Form::Sorted => {
            let mut set = SortedSet::new();
            if !is_ordered {
                set.unpack();
            }
            set_scores(&mut set, elements);
            Value::Sorted(set)
        }
        Form::Stream => Value::Stream(Box::new(
            Stream::from_elements(elements).unwrap_or_default(),
        )),
    }
}

/// Does to a value what an operation says. One of another kind stays as it is.
pub(crate) fn perform(value: &mut Value, kind: &Kind<'_>) {
    match (value, *kind) {
        (Value::Set(members), Kind::Add { elements, .. }) => {
            elements.for_each(|member| add_member(members, member));
        }
        (Value::Set(members), Kind::Take { elements, .. }) => {
            for member in elements {
                members.remove(member);
            }
        }
        (
            Value::Hash(fields),
            Kind::Add {
                form: Form::FieldTimes,
                elements,
                ..
            },
        ) => set_times(fields, elements),
        (Value::Hash(fields), Kind::Add { elements, .. }) => set_fields(fields, elements),
        (Value::Hash(fields), Kind::Take { elements, .. }) => {
            for field in elements {
                fields.remove(field);
            }
        }
        (
            Value::List(items),
            Kind::Add {
                at_front, elements, ..
            },
        ) => elements.for_each(|item| match at_front {
            true => items.push_front(item),
            false => items.push_back(item),
        }),
        (
            Value::List(items),
            Kind::Take {
                at_front, elements, ..
            },
        ) => {
            for _ in elements {
                match at_front {
                    true => items.pop_front(),
                    false => items.pop_back(),
                };
            }
        }
        (Value::List(items), Kind::SetItem { index, item, .. }) => {
            items.set(index as usize, item);
        }
        (Value::List(items), Kind::InsertItem { index, item, .. }) => {
            items.insert(index as usize, item);
        }
        (Value::List(items), Kind::RemoveItems { count, item, .. }) => {
            items.remove_equal(count, item);
        }
        (Value::Sorted(set), Kind::Add { elements, .. }) => set_scores(set, elements),
        (Value::Sorted(set), Kind::Take { elements, .. }) => {
            for member in elements {
                set.remove(member);
            }
        }
        (Value::Stream(stream), Kind::EditStream { edit, .. }) => {
            if let Some(edit) = StreamEdit::decode(edit) {
                stream.perform(&edit);
            }
        }
        (Value::String(string), Kind::Patch { offset, bytes, .. }) => {
            patch(string, offset as usize, bytes);
        }
        _ => {}
    }
}

/// Writes `bytes` into a string from `offset` on. Zeros fill the gap behind a shorter one.
pub(crate) fn patch(string: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if string.len() < end {
        string.resize(end, 0);
    }
    string[offset..end].copy_from_slice(bytes);
}

/// Adds a member. A set in order holds whole numbers, the least one first.
fn add_member(members: &mut Members, member: &[u8]) {
    let number = |member: &[u8]| std::str::from_utf8(member).ok()?.parse::<i64>().ok();
    match number(member) {
        Some(added) if members.is_ordered() => {
            let is_behind = |other: &[u8]| number(other).is_some_and(|other| other > added);
            members.insert_sorted(member, (), is_behind);
        }
        _ => {
            members.insert(member, ());
        }
    }
}

fn set_fields(fields: &mut Fields, mut elements: Elements<'_>) {
    while let (Some(field), Some(value)) = (elements.next(), elements.next()) {
        fields.insert(field, Bytes::from(value));
    }
}

fn set_timed_fields(fields: &mut Fields, mut elements: Elements<'_>) {
    while let (Some(field), Some(value), Some(at)) =
        (elements.next(), elements.next(), elements.next())
    {
        fields.insert(field, Bytes::from(value));
        fields.set_expiry(field, op::time(at).flatten());
    }
}

fn set_times(fields: &mut Fields, mut elements: Elements<'_>) {
    while let (Some(field), Some(at)) = (elements.next(), elements.next()) {
        fields.set_expiry(field, op::time(at).flatten());
    }
}

fn set_scores(set: &mut SortedSet, mut elements: Elements<'_>) {
    while let (Some(member), Some(score)) = (elements.next(), elements.next()) {
        if let Some(score) = op::score(score) {
            set.insert(member, score);
        }
    }
}
