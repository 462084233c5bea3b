//! The operations of a sweep: every one with every codec.

use loadline_load::keys::KeyDist;
use loadline_load::pacing::Pacing;
use loadline_load::values::{ValueData, ValueSize};

use super::chosen;
use crate::args::{CodecArg, ModesArgs, OpArg};
use crate::codec::{self, Codec};
use crate::exit::Failure;
use crate::plan::{Case, Length};
use crate::units;
use crate::workload::{self, Definition};

const DEFAULT_KEYS: u64 = 10_000;
const MOST_KEYS: u64 = 10_000_000;
const DEFAULT_VALUE_BYTES: u64 = 64;
/// Where values are objects.
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
    let named = workload::named(name, 1).filter(Definition::is_one_call);
    named.ok_or_else(|| {
        let possible: Vec<&str> = workload::NAMES
            .into_iter()
            .filter(|name| workload::named(name, 1).is_some_and(|one| one.is_one_call()))
            .collect();
        Failure::usage(format!(
            "--workload {name}: call modes take built-in workloads of one command on one key: {}.",
            possible.join(", ")
        ))
    })
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
        return Err(Failure::usage(format!(
            "--keys {keys}: at most {MOST_KEYS} in a sweep, because they are loaded for every operation and codec."
        )));
    }
    if value_size.max() > LARGEST_VALUE_BYTES {
        return Err(Failure::usage(format!(
            "--value-size {}: at most 1MiB in a sweep, because calls with many values are held in memory.",
            units::value_size_text(&value_size)
        )));
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
        _ => Err(Failure::usage(format!(
            "--value-size {}: with a codec, all objects have the same size, at least {} bytes as JSON.",
            units::value_size_text(size),
            codec::SMALLEST_BYTES
        ))),
    }
}
