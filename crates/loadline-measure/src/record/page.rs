//! The page about the record (`docs/record.md`), compared with the types that are written.
//!
//! Each object of the record has a section there, headed by its paths, with a table of its fields. The fields
//! of a type are read from the deserializer that serde derives, which requests each of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, Error};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::Record;

const PAGE: &str = include_str!("../../../../docs/record.md");
/// A text that all fields with a custom format accept.
const TEXT: &str = "p99<2ms";
/// The only value whose fields cannot be requested: a range of value sizes.
const SPREAD: (&str, [&str; 3]) = ("cases[].scenario.value_bytes", ["min", "max", "dist"]);

/// A name that earlier versions wrote and that can still be read, with its type.
const FORMER: (&str, &str) = ("Tally", "late");

/// The fields of each object, by the path of the object; the path of the record itself is empty.
type Objects = BTreeMap<String, BTreeSet<String>>;

/// A placeholder for any value at `path`, which records the requested fields.
struct Asked<'o> {
    path: String,
    objects: &'o mut Objects,
}

impl<'o> Asked<'o> {
    fn at(&mut self, step: &str) -> Asked<'_> {
        let dot = if self.path.is_empty() || step.starts_with('[') {
            ""
        } else {
            "."
        };
        Asked {
            path: format!("{}{dot}{step}", self.path),
            objects: self.objects,
        }
    }
}

/// The entries of an object, or the single entry of a map.
struct Entries<'o> {
    object: Asked<'o>,
    names: Vec<&'static str>,
    current: &'static str,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some(name) = self.names.pop() else {
            return Ok(None);
        };
        self.current = name;
        seed.deserialize(BorrowedStrDeserializer::new(name))
            .map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.object.at(self.current))
    }
}

/// The single element of a list.
struct Element<'o>(Option<Asked<'o>>);

impl<'de> SeqAccess<'de> for Element<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let list = self.0.take();
        list.map(|mut list| seed.deserialize(list.at("[]")))
            .transpose()
    }
}

impl<'de> Deserializer<'de> for Asked<'_> {
    type Error = Error;

    /// A number, which all number fields accept.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u64(1)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(true)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(TEXT)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(TEXT)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Element(Some(self)))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Entries {
            object: self,
            names: vec!["*"],
            current: "",
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let mut names = fields.to_vec();
        names.retain(|field| (name, *field) != FORMER);
        let written = names.iter().map(ToString::to_string).collect();
        self.objects.insert(self.path.clone(), written);
        visitor.visit_map(Entries {
            object: self,
            names,
            current: "",
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(BorrowedStrDeserializer::new(variants[0]))
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char bytes byte_buf unit unit_struct newtype_struct tuple tuple_struct identifier ignored_any
    }
}

/// The objects described on the page: a section is headed by paths in backticks, and the first column of its
/// table lists the fields.
fn described() -> Objects {
    let mut objects = Objects::new();
    for section in PAGE.split("\n## ").skip(1) {
        let (heading, text) = section.split_once('\n').expect("a section has a text");
        let words = |line: &str| -> Vec<String> {
            line.split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect()
        };
        let rows = text.lines().filter(|line| line.starts_with("| `"));
        let fields: BTreeSet<String> = rows
            .filter_map(|row| words(row.split('|').nth(1)?).into_iter().next())
            .collect();
        for path in words(heading) {
            objects.insert(
                if path == "record" {
                    String::new()
                } else {
                    path
                },
                fields.clone(),
            );
        }
    }
    objects
}

#[test]
fn page_describes_exactly_the_fields_that_are_written() {
    let mut written = Objects::new();
    Record::deserialize(Asked {
        path: String::new(),
        objects: &mut written,
    })
    .unwrap();
    written.insert(SPREAD.0.to_owned(), SPREAD.1.map(str::to_owned).into());
    let mut described = described();
    // The plan belongs to the program that resolves it and is compared there.
    assert!(described.remove("run.plan").is_some());
    described.retain(|path, _| !path.starts_with("run.plan."));
    for (path, fields) in &written {
        assert_eq!(
            described.get(path),
            Some(fields),
            "{path:?} in docs/record.md"
        );
    }
    let paths = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(paths(&described), paths(&written));
}
