//! The operations of a sweep: every one with every codec.

use loadline_load::keys::KeyDist;
use loadline_load::pacing::Pacing;
use loadline_load::values::{ValueData, ValueSize};

use super::chosen;
use crate::args::{CodecArg, ModesArgs, OpArg};
use crate::codec::{self, Codec};
use crate::exit::Failure;
use crate::plan::{Case, Length, unknown_workload};
use crate::units;
use crate::workload::{self, Definition};

const DEFAULT_KEYS: u64 = 10_000;
const MOST_KEYS: u64 = 10_000_000;
const DEFAULT_VALUE_BYTES: u64 = 64;
/// Default size if values are objects.
pub(super) const DEFAULT_OBJECT_BYTES: u64 = 512;
const LARGEST_VALUE_BYTES: u64 = 1 << 20;

/// Every operation with every codec.
pub(super) fn cases(args: &ModesArgs) -> Result<Vec<Case>, Failure> {
    let names: Vec<String> = if args.workload.is_empty() {
        let ops = chosen(&args.op, &[OpArg::Get, OpArg::Set]);
        ops.iter()
            .map(|op| match op {
                OpArg::Get => "get".into(),
                OpArg::Set => "set".into(),
            })
            .collect()
    } else {
        args.workload.clone()
    };
    let mut codecs: Vec<Option<Codec>> = Vec::new();
    for codec in &args.codec {
        let codec = match codec {
            CodecArg::Raw => None,
            CodecArg::Json => Some(Codec::Json),
            CodecArg::Msgpack => Some(Codec::Msgpack),
            CodecArg::Protobuf => Some(Codec::Protobuf),
        };
        if !codecs.contains(&codec) {
            codecs.push(codec);
        }
    }
    if codecs.is_empty() {
        codecs.push(None);
    }
    let mut cases: Vec<Case> = Vec::new();
    for name in &names {
        let definition = definition(name)?;
        if cases
            .iter()
            .any(|case| case.workload.name == definition.name)
        {
            continue;
        }
        for codec in &codecs {
            cases.push(case(args, definition.clone(), *codec)?);
        }
    }
    Ok(cases)
}

fn definition(name: &str) -> Result<Definition, Failure> {
    let one_call = |name: &&str| workload::named(name, 1).is_some_and(|one| one.is_one_call());
    let possible = || workload::NAMES.into_iter().filter(one_call);
    match workload::named(name, 1) {
        Some(definition) if definition.is_one_call() => Ok(definition),
        Some(_) => Err(Failure::invalid(
            "--workload",
            "workload",
            name,
            format!(
                "expected one command on one key: {}",
                possible().collect::<Vec<_>>().join(", ")
            ),
        )),
        None => Err(unknown_workload(name, possible(), "")),
    }
}

fn case(args: &ModesArgs, mut workload: Definition, codec: Option<Codec>) -> Result<Case, Failure> {
    let keys = args.keys.unwrap_or(DEFAULT_KEYS.min(workload.keys));
    let with_codec = args.codec.iter().any(|codec| *codec != CodecArg::Raw);
    let default_bytes = if with_codec {
        DEFAULT_OBJECT_BYTES
    } else {
        DEFAULT_VALUE_BYTES
    };
    let value_size = args
        .value_size
        .clone()
        .unwrap_or(ValueSize::Fixed(default_bytes));
    if keys > MOST_KEYS {
        let why = format!(
            "at most {MOST_KEYS} in a sweep, because they are loaded for every operation and codec"
        );
        return Err(Failure::invalid("--keys", "count", keys, why));
    }
    if value_size.max() > LARGEST_VALUE_BYTES {
        let why = "at most 1MiB in a sweep, because calls with many values are held in memory";
        let text = units::value_size_text(&value_size);
        return Err(Failure::invalid("--value-size", "size", text, why));
    }
    let mut name = workload.name.clone();
    if let Some(codec) = codec {
        check_objects(&workload, &value_size)?;
        name = format!("{name} ({codec})");
        workload.space = format!("{}-{codec}", workload.space);
    }
    if args.hash_tag {
        workload.space = format!("{{one}}:{}", workload.space);
    }
    Ok(Case {
        name,
        workload,
        connections: 1,
        threads: 1,
        pipeline: 1,
        batch: None,
        pacing: Pacing::Closed,
        length: Length::Ops(1),
        keys,
        key_dist: KeyDist::Uniform,
        value_size,
        value_data: ValueData::Random,
        verify: false,
        codec,
        durability: None,
    })
}

/// Whether the values of a workload can be objects of this size.
fn check_objects(workload: &Definition, size: &ValueSize) -> Result<(), Failure> {
    if workload.for_many_keys().is_none() {
        return Err(Failure::usage(format!(
            "--codec: only get and set support objects as values, not {}.",
            workload.name
        )));
    }
    match size {
        ValueSize::Fixed(bytes) if *bytes >= codec::SMALLEST_BYTES => Ok(()),
        _ => Err(Failure::invalid(
            "--value-size",
            "size",
            units::value_size_text(size),
            format!(
                "with a codec, all objects have the same size, at least {} bytes as JSON",
                codec::SMALLEST_BYTES
            ),
        )),
    }
}
