//! Workloads: built-in ones, those from a file, and commands from the command line.

mod builtin;
mod bundle;
mod catalog;
mod file;
mod job;
mod template;

use std::collections::BTreeSet;

use loadline_client::Keys;
use loadline_load::keys::KeyDist;
use loadline_load::values::{ValueData, ValueSize};
use loadline_load::workload::{Command, Digits, Number, Part};

use catalog::Gives;
use template::Template;

pub(crate) use builtin::{NAMES, bare, load_of, named, operation, over_strings};
pub(crate) use bundle::{Bundle, left_out};
pub(crate) use catalog::Family;
pub(crate) use file::from_file;
pub(crate) use job::{Calls, Job, OpenJob, OpenSocket, Site};

/// Key numbers that are wide enough for everything, where the key space grows.
const GROWING_KEYS: u64 = u64::MAX;
/// Keys where each is one string.
const STRING_KEYS: u64 = 100_000;
/// Keys where each is a hash of some fields.
const HASH_KEYS: u64 = 10_000;
/// Keys where each holds a hundred elements.
const COLLECTION_KEYS: u64 = 1_000;
/// Elements that a collection is loaded with.
pub(crate) const ELEMENTS: u64 = 100;
/// Bytes of a value, unless the workload says otherwise.
const VALUE_BYTES: u64 = 64;
/// Reason for not guessing what to load.
const MIXED_FAMILIES: &str = "the commands work on values of several kinds, so what to load before cannot be guessed; \
                              write a TOML file with a `setup` (docs/workloads.md).";

/// A workload: its operations, the data that it needs, and its defaults.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    /// Its name.
    pub(crate) name: String,
    /// The data it works on: workloads of one space share their keys, and load them once.
    pub(crate) space: String,
    /// Commands, by weight.
    pub(crate) operations: Vec<Operation>,
    /// Command that is sent once for every key before.
    pub(crate) load: Option<Operation>,
    /// Default number of keys.
    pub(crate) keys: u64,
    /// Default key distribution.
    pub(crate) key_dist: KeyDist,
    /// Default size of values.
    pub(crate) value_size: ValueSize,
    /// Differences from commands that are sent over and over.
    pub(crate) rules: Rules,
}

/// Differences of a case from commands that are sent over and over.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    /// Sent once per key before each block; not measured.
    pub(crate) before: Option<Operation>,
    /// Whether its operations remove keys: a block touches every key at most once, and a reply of zero is a
    /// miss.
    pub(crate) consumes: bool,
    /// Job that performs it in place of the load generator.
    pub(crate) job: Option<&'static dyn Job>,
    /// Whether every value that it reads is checked, even without `--verify`.
    pub(crate) verify: bool,
    /// Default content of values.
    pub(crate) value_data: ValueData,
    /// The bundle that it is a case of. Such a case is left out, with a sentence about it, where a target
    /// cannot do it.
    pub(crate) bundle: Option<&'static Bundle>,
}

impl Rules {
    /// Whether its operations can be sent over and over on any connection: nothing is prepared, nothing
    /// is used up.
    pub(crate) fn is_plain(&self) -> bool {
        self.job.is_none() && self.before.is_none() && !self.consumes
    }

    /// Redis commands that are sent in addition to those of the operations, in capitals.
    fn further_commands(&self) -> impl Iterator<Item = &'static str> {
        self.job.into_iter().flat_map(|job| job.needs()).copied()
    }
}

/// One or more commands that are sent together and counted as one operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operation {
    name: String,
    weight: u32,
    templates: Vec<Template>,
    /// Whether a nil reply is a miss; `None` to derive it from the command.
    reads: Option<bool>,
}

/// The data that a user-defined workload needs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Load {
    /// Derived from the commands that read.
    Guessed,
    /// Nothing.
    Nothing,
    /// Written by this operation, sent once per key.
    Given(Operation),
}

/// A command for a subject in this process.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Its name in capitals.
    pub(crate) command: &'static str,
    /// The arguments, each as its parts.
    pub(crate) arguments: Vec<Vec<Part>>,
}

/// A workload in the form that the load generator sends.
#[derive(Debug, Clone)]
pub(crate) struct Compiled {
    /// The commands of the mix.
    pub(crate) commands: Vec<Command>,
    /// Command that is sent once for every key before, with the keys in sequence.
    pub(crate) load: Option<Command>,
    /// Command that is sent once for every key before each block, with the keys in sequence.
    pub(crate) before: Option<Command>,
}

impl Operation {
    /// An operation of the commands in `lines`.
    ///
    /// # Errors
    /// A sentence that names the line.
    pub(crate) fn parse<S: AsRef<str>>(lines: impl IntoIterator<Item = S>) -> Result<Self, String> {
        let templates = lines
            .into_iter()
            .map(|line| {
                Template::parse(line.as_ref()).map_err(|why| format!("`{}`: {why}", line.as_ref()))
            })
            .collect::<Result<Vec<_>, _>>()?;
        if templates.is_empty() {
            return Err("an operation needs at least one command.".into());
        }
        let mut drawn = false;
        for template in &templates {
            for number in template.numbers() {
                if number == Number::SameKey && !drawn {
                    return Err(format!(
                        "`{}`: {{samekey}} and {{samenumber}} repeat the last key, but no key precedes them.",
                        template.text()
                    ));
                }
                drawn |= matches!(number, Number::Key | Number::NewKey);
            }
        }
        let name = templates
            .iter()
            .map(|template| template.known().name)
            .collect::<Vec<_>>()
            .join("+");
        Ok(Self {
            name,
            weight: 1,
            templates,
            reads: None,
        })
    }

    /// The same, with a nil reply or a zero as a miss.
    #[must_use]
    pub(crate) fn reading(self) -> Self {
        Self {
            reads: Some(true),
            ..self
        }
    }

    /// The same with another weight.
    #[must_use]
    pub(crate) fn weighing(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its share in the mix, relative to the other weights.
    pub(crate) fn weight(&self) -> u32 {
        self.weight
    }

    /// The lines it was made of.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.templates.iter().map(Template::text)
    }

    /// Whether its reply is a whole value that can be checked against its key.
    pub(crate) fn returns_value(&self) -> bool {
        matches!(&self.templates[..], [template] if template.known().gives == Gives::Value)
    }

    /// Whether a nil reply is a miss.
    pub(crate) fn reads(&self) -> bool {
        let can_miss =
            || matches!(&self.templates[..], [template] if template.known().gives.can_miss());
        self.reads.unwrap_or_else(can_miss)
    }

    fn compile(&self, prefix: &str, key_digits: Digits, value_size: &ValueSize) -> Command {
        let mut parts = Vec::new();
        for template in &self.templates {
            template.write(
                template::Shape {
                    prefix,
                    key_digits,
                    value_size,
                },
                &mut parts,
            );
        }
        Command {
            name: self.name.clone(),
            weight: self.weight,
            parts,
            replies: u32::try_from(self.templates.len())
                .expect("an operation is typed by hand or has a hundred commands"),
            reads: self.reads(),
            returns_payload: self.returns_value(),
        }
    }
}

impl Definition {
    /// A user-defined workload with a data space of its own.
    ///
    /// # Errors
    /// A sentence that says why the data to load cannot be derived.
    pub(crate) fn custom(
        name: String,
        space: String,
        operations: Vec<Operation>,
        load: Load,
    ) -> Result<Self, String> {
        let families = families_of(&operations);
        let load = match load {
            Load::Nothing => None,
            Load::Given(operation) => Some(operation),
            Load::Guessed if !reads(&operations) => None,
            Load::Guessed => match families[..] {
                // EXISTS, TTL and their like take anything.
                [] => Some(builtin::load_of(Family::Text)),
                [family] => Some(builtin::load_of(family)),
                _ => return Err(MIXED_FAMILIES.into()),
            },
        };
        let keys = match families[..] {
            [] | [Family::Text] => STRING_KEYS,
            [Family::Hash] => HASH_KEYS,
            _ => COLLECTION_KEYS,
        };
        Ok(Self {
            name,
            space,
            operations,
            load,
            keys,
            key_dist: KeyDist::Uniform,
            value_size: ValueSize::Fixed(VALUE_BYTES),
            rules: Rules::default(),
        })
    }

    /// A workload of the commands given with `--command`, each with an optional weight.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn from_commands(commands: &[String]) -> Result<Self, String> {
        let operations = commands
            .iter()
            .map(|command| weighted(command))
            .collect::<Result<Vec<_>, _>>()?;
        let name = operations
            .iter()
            .map(Operation::name)
            .collect::<Vec<_>>()
            .join(", ");
        Self::custom(name, "command".into(), operations, Load::Guessed)
    }

    /// Whether it is one command with one key, its first argument: only such a command can be called
    /// one by one as well as in scripts over many keys.
    pub(crate) fn is_one_call(&self) -> bool {
        let [operation] = &self.operations[..] else {
            return false;
        };
        matches!(&operation.templates[..], [template] if template.known().keys == Keys::First)
    }

    /// Whether its operations read existing data.
    pub(crate) fn reads(&self) -> bool {
        reads(&self.operations)
    }

    /// The command that does the same for many keys, if Redis has one.
    pub(crate) fn for_many_keys(&self) -> Option<&'static str> {
        match self.name.as_str() {
            "get" => Some("MGET"),
            "set" => Some("MSET"),
            _ => None,
        }
    }

    /// Whether every value that it reads can be checked.
    pub(crate) fn can_be_verified(&self) -> bool {
        self.operations.iter().any(Operation::returns_value)
    }

    /// Whether its operations carry values, so that their size matters.
    pub(crate) fn carries_values(&self) -> bool {
        self.templates().any(Template::carries_values)
    }

    /// Everything that it sends, also to load its keys.
    fn templates(&self) -> impl Iterator<Item = &Template> {
        self.operations
            .iter()
            .chain(&self.load)
            .chain(&self.rules.before)
            .flat_map(|operation| &operation.templates)
    }

    /// One command of each kind that it sends, with keys under `prefix`.
    pub(crate) fn samples(&self, prefix: &str) -> impl Iterator<Item = Vec<Vec<u8>>> {
        self.templates()
            .map(move |template| template.sample(prefix))
    }

    /// The Redis commands that it needs, in capitals.
    pub(crate) fn needs(&self) -> Vec<String> {
        let templates = self.templates();
        let names: BTreeSet<&str> = templates
            .map(|template| template.known().name)
            .chain(self.rules.further_commands())
            .collect();
        names.into_iter().map(Into::into).collect()
    }

    /// The Redis commands that its operations consist of, in capitals; what loads its keys is not sent
    /// in a block.
    pub(crate) fn sends(&self) -> Vec<String> {
        let templates = self
            .operations
            .iter()
            .flat_map(|operation| &operation.templates);
        let names: BTreeSet<&str> = templates.map(|template| template.known().name).collect();
        names.into_iter().map(Into::into).collect()
    }

    /// The Redis commands that a server sees while its blocks run: those of its operations, and those
    /// that prepare for them; in capitals.
    pub(crate) fn executes(&self) -> Vec<String> {
        let before = self
            .rules
            .before
            .iter()
            .flat_map(|before| &before.templates);
        let names = before.map(|template| template.known().name);
        let mut all = self.sends();
        all.extend(names.chain(self.rules.further_commands()).map(Into::into));
        all
    }

    /// The calls of each operation, and of the load, with keys under `prefix`.
    pub(crate) fn calls(&self, prefix: &str, keys: u64) -> (Vec<Vec<Call>>, Option<Vec<Call>>) {
        let digits = self.key_digits(keys);
        let calls = |operation: &Operation| {
            let call = |template: &Template| Call {
                command: template.known().name,
                arguments: template.call_arguments(prefix, digits),
            };
            operation.templates.iter().map(call).collect()
        };
        (
            self.operations.iter().map(calls).collect(),
            self.load.as_ref().map(calls),
        )
    }

    /// The width of key numbers.
    fn key_digits(&self, keys: u64) -> Digits {
        let inserts = self
            .operations
            .iter()
            .flat_map(|operation| &operation.templates)
            .any(Template::inserts);
        Digits::holding(if inserts { GROWING_KEYS } else { keys })
    }

    /// The form sent over the wire, with keys under `prefix`.
    pub(crate) fn compile(&self, prefix: &str, keys: u64, value_size: &ValueSize) -> Compiled {
        let digits = self.key_digits(keys);
        let compile = |operation: &Operation| operation.compile(prefix, digits, value_size);
        Compiled {
            commands: self.operations.iter().map(compile).collect(),
            load: self.load.as_ref().map(compile),
            before: self.rules.before.as_ref().map(compile),
        }
    }
}

/// An operation from the command line: `3:GET {key}` or `GET {key}`.
fn weighted(command: &str) -> Result<Operation, String> {
    let parsed = |line: &str| Operation::parse([line]);
    match command.split_once(':') {
        Some((weight, line))
            if !weight.is_empty() && weight.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            let weight = weight_of(weight.parse().ok())?;
            Ok(parsed(line)?.weighing(weight))
        }
        _ => parsed(command),
    }
}

/// A valid weight in a mix.
fn weight_of(weight: Option<u64>) -> Result<u32, String> {
    let possible = |weight: &u32| (1..=1_000_000).contains(weight);
    weight
        .and_then(|weight| u32::try_from(weight).ok())
        .filter(possible)
        .ok_or_else(|| "a weight is a whole number from 1 to 1,000,000.".into())
}

/// Whether any of the operations reads existing data.
fn reads(operations: &[Operation]) -> bool {
    operations
        .iter()
        .flat_map(|operation| &operation.templates)
        .any(|template| template.known().gives.reads())
}

/// The kinds of values that the operations work on, each once.
fn families_of(operations: &[Operation]) -> Vec<Family> {
    let mut families = Vec::new();
    for template in operations.iter().flat_map(|operation| &operation.templates) {
        let family = template.known().family;
        if family != Family::Any && !families.contains(&family) {
            families.push(family);
        }
    }
    families
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(commands: &[&str]) -> Result<Definition, String> {
        Definition::from_commands(&commands.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    fn load_lines(definition: &Definition) -> Vec<&str> {
        definition.load.iter().flat_map(Operation::lines).collect()
    }

    #[test]
    fn weights_stand_in_front() {
        let mix = from(&["3:GET {key}", "SET {key} {value} EX 60"]).unwrap();
        assert_eq!(mix.name, "GET, SET");
        assert_eq!(
            mix.operations
                .iter()
                .map(Operation::weight)
                .collect::<Vec<_>>(),
            [3, 1]
        );
        assert_eq!(mix.needs(), ["GET", "SET"]);
        for wrong in [
            "0:GET {key}",
            "99999999999999999999:GET {key}",
            "1000001:GET {key}",
        ] {
            assert!(from(&[wrong]).unwrap_err().contains("weight"), "{wrong}");
        }
    }

    #[test]
    fn read_data_are_loaded_before() {
        assert_eq!(
            load_lines(&from(&["GET {key}", "TTL {key}"]).unwrap()),
            ["SET {key} {value}"]
        );
        assert_eq!(
            load_lines(&from(&["EXISTS {key}"]).unwrap()),
            ["SET {key} {value}"]
        );
        assert!(
            load_lines(&from(&["HGETALL {key}"]).unwrap())[0]
                .starts_with("HSET {key} field:00000000 {value} field:00000001")
        );
        assert_eq!(from(&["SET {key} {value}"]).unwrap().load, None);
        assert!(
            from(&["GET {key}", "LLEN {key}"])
                .unwrap_err()
                .contains("setup")
        );
    }

    #[test]
    fn operation_repeats_only_keys_that_it_drew() {
        assert!(
            Operation::parse(["GET {samekey}"])
                .unwrap_err()
                .contains("no key precedes")
        );
        let pair = Operation::parse(["HGETALL {key}", "HSET {samekey} {field} {value}"]).unwrap();
        assert_eq!(pair.name(), "HGETALL+HSET");
        assert!(!pair.returns_value());
    }

    #[test]
    fn replies_and_misses_are_known() {
        let compiled = from(&["GET {key}", "SET {key} {value} NX"])
            .unwrap()
            .compile("p:", 100, &ValueSize::Fixed(8));
        let flags: Vec<_> = compiled
            .commands
            .iter()
            .map(|command| (command.reads, command.returns_payload, command.replies))
            .collect();
        assert_eq!(flags, [(true, true, 1), (false, false, 1)]);
    }
}
