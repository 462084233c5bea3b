//! `HyperLogLogs`: estimates of how many different elements were added, in strings of at most 12 KiB.

mod estimate;
mod sketch;
mod sparse;

use loadline_store::{Edit, Value, View};

use super::refusal::{Refusal, WRONG_TYPE};
use super::strings::bytes_of;
use super::{ALL, Call, Effect, Keys, Listed, ONE, Words, is, listed};
use sketch::{Encoding, Raised};

pub(super) const TABLE: &[Listed] = &[
    listed("PFADD", -2, ONE, pfadd),
    listed("PFCOUNT", -2, ALL, pfcount),
    listed("PFMERGE", -2, Keys::TargetAndSources, pfmerge),
    listed("PFDEBUG", 3, Keys::At(2, 2, 1), pfdebug),
    listed("PFSELFTEST", 1, Keys::None, pfselftest),
];

/// Bytes of the header of a sketch.
const HEADER: usize = 16;
/// Number of registers of a sketch.
const REGISTERS: usize = 1 << 14;

/// The sketch is not what its header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Corrupt;

const NO_SKETCH: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";

impl From<Corrupt> for Refusal {
    fn from(_: Corrupt) -> Self {
        "INVALIDOBJ Corrupted HLL object detected".into()
    }
}

fn fresh() -> Value {
    Value::String(sketch::empty())
}

/// The encoding of the sketch at `key`; `None` if there is no key.
fn encoding(call: &Call<'_>, key: &[u8]) -> Result<Option<Encoding>, Refusal> {
    let encoding = call.store().inspect(key, call.now(), |value| match value {
        None => Ok(None),
        Some(View::String(bytes)) => sketch::encoding(bytes)
            .map(Some)
            .ok_or_else(|| NO_SKETCH.into()),
        Some(_) => Err(WRONG_TYPE.into()),
    });
    if encoding.is_err() {
        // No other look at the value follows, and this is a use of the key, as in Redis.
        call.finds(key);
    }
    encoding
}

fn most_sparse(call: &Call<'_>) -> usize {
    usize::try_from(call.shared.settings.hll_sparse_max_bytes).unwrap_or(usize::MAX)
}

fn pfadd(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (key, elements) = (words[1], &words[2..]);
    let before = encoding(call, key)?;
    let most_sparse = most_sparse(call);
    if before.is_some() {
        call.store().make_growing(key, call.now());
    }
    let mut corrupt = None;
    let mut add = |bytes: &mut Vec<u8>, places: &mut Vec<usize>| {
        let mut changed = usize::from(before.is_none());
        for element in elements {
            let (register, value) = estimate::place(element);
            match sketch::raise(bytes, register, value, most_sparse) {
                Ok(Raised::No) => {}
                Ok(Raised::Sparse) => changed += 1,
                Ok(Raised::Dense(place)) => {
                    changed += 1;
                    places.push(place);
                }
                // Members added before stay, as in Redis.
                Err(error) => {
                    corrupt = Some(error);
                    break;
                }
            }
        }
        if changed > 0 {
            sketch::outdate_estimate(bytes);
        }
        changed
    };
    let changed = if before == Some(Encoding::Dense) {
        let (changed, _) = call.change_part(
            key,
            fresh,
            |value| {
                let (bytes, mut places) = (bytes_of(value)?, Vec::new());
                let changed = add(bytes, &mut places);
                // A register can end in the byte behind the one in which it begins.
                let pairs = places.iter().map(|place| {
                    let end = bytes.len().min(place + 2);
                    (*place, bytes[*place..end].to_vec())
                });
                let header = (0, bytes[..HEADER].to_vec());
                let parts: Vec<(usize, Vec<u8>)> = pairs.chain([header]).collect();
                Ok(Effect::of(changed > 0, (changed, parts)))
            },
            |(_, parts), note| {
                for (place, bytes) in parts {
                    note(Edit::Write(*place, bytes));
                }
            },
        )?;
        changed
    } else {
        call.change(key, fresh, |value| {
            let changed = add(bytes_of(value)?, &mut Vec::new());
            Ok(Effect::of(changed > 0, changed))
        })?
    };
    call.count_elements(changed);
    match corrupt {
        Some(error) => Err(error.into()),
        None => {
            call.reply().flag(changed > 0);
            Ok(())
        }
    }
}

fn pfcount(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    if let [_, key] = words {
        return count_one(call, key);
    }
    let mut registers = [0; REGISTERS];
    for key in &words[1..] {
        merge_key(call, key, &mut registers)?;
    }
    let mut histogram = [0; estimate::VALUES];
    for value in registers {
        histogram[usize::from(value)] += 1;
    }
    let count = estimate::estimate(&histogram);
    call.reply().integer(count as i64);
    Ok(())
}

/// Raises `registers` to those of the sketch at `key`, and returns its encoding.
fn merge_key(
    call: &mut Call<'_>,
    key: &[u8],
    registers: &mut [u8; REGISTERS],
) -> Result<Option<Encoding>, Refusal> {
    let encoding = encoding(call, key)?;
    call.show(key, |value, _| match value {
        Some(View::String(bytes)) => sketch::merge_into(registers, bytes),
        _ => Ok(()),
    })?;
    Ok(encoding)
}

/// Replies with the estimate of one sketch, which is kept in it.
fn count_one(call: &mut Call<'_>, key: &[u8]) -> Result<(), Refusal> {
    if encoding(call, key)?.is_none() {
        call.reply().count(0);
        return Ok(());
    }
    let found = call.show_again(key, |value, _| match value {
        Some(View::String(bytes)) => match sketch::known_estimate(bytes) {
            Some(count) => Ok((count, true)),
            None => sketch::count(bytes).map(|count| (count, false)),
        },
        _ => Ok((0, true)),
    });
    let (count, is_known) = found?;
    // While the log takes no changes, the data stays as it is.
    if !is_known && !call.shared.is_stuck() {
        call.store().make_growing(key, call.now());
        call.change_part(
            key,
            fresh,
            |value| {
                let bytes = bytes_of(value)?;
                sketch::set_estimate(bytes, count);
                Ok(Effect::Changed(bytes[..HEADER].to_vec()))
            },
            |header, note| note(Edit::Write(0, header)),
        )?;
    }
    call.reply().integer(count as i64);
    Ok(())
}

fn pfmerge(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let mut registers = [0; REGISTERS];
    let mut is_dense = false;
    for key in &words[1..] {
        is_dense |= merge_key(call, key, &mut registers)? == Some(Encoding::Dense);
    }
    let most_sparse = most_sparse(call);
    call.store().make_growing(words[1], call.now());
    call.change(words[1], fresh, |value| {
        let bytes = bytes_of(value)?;
        if is_dense {
            sketch::make_dense(bytes)?;
        }
        for (register, value) in registers.iter().enumerate() {
            if *value > 0 {
                sketch::raise(bytes, register, *value, most_sparse)?;
            }
        }
        sketch::outdate_estimate(bytes);
        Ok(Effect::Changed(()))
    })?;
    call.reply().ok();
    Ok(())
}

fn pfdebug(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (what, key) = (words[1], words[2]);
    let encoding = encoding(call, key)?.ok_or("ERR The specified key does not exist")?;
    if is(what, "ENCODING") {
        let name = match encoding {
            Encoding::Dense => "dense",
            Encoding::Sparse => "sparse",
        };
        call.reply().simple(name);
    } else if is(what, "TODENSE") {
        let was_sparse = make_dense(call, key, encoding)?;
        call.reply().flag(was_sparse);
    } else if is(what, "GETREG") {
        make_dense(call, key, encoding)?;
        let mut registers = [0; REGISTERS];
        merge_key(call, key, &mut registers)?;
        let mut reply = call.reply();
        reply.array(REGISTERS);
        registers
            .iter()
            .for_each(|register| reply.integer(i64::from(*register)));
    } else if is(what, "DECODE") {
        decode(call, key, encoding)?;
    } else {
        return Err([b"ERR Unknown PFDEBUG subcommand '", what, b"'"].into());
    }
    Ok(())
}

/// Makes a sketch dense, and returns whether it was not.
fn make_dense(call: &mut Call<'_>, key: &[u8], encoding: Encoding) -> Result<bool, Refusal> {
    if encoding == Encoding::Dense {
        return Ok(false);
    }
    call.change(key, fresh, |value| {
        sketch::make_dense(bytes_of(value)?)?;
        Ok(Effect::Changed(()))
    })?;
    Ok(true)
}

/// Replies with the runs of a sparse sketch.
fn decode(call: &mut Call<'_>, key: &[u8], encoding: Encoding) -> Result<(), Refusal> {
    if encoding != Encoding::Sparse {
        return Err("ERR HLL encoding is not sparse".into());
    }
    call.show_again(key, |value, reply| {
        let Some(View::String(bytes)) = value else {
            return;
        };
        let runs = sparse::runs(&bytes[HEADER..]).map_while(Result::ok);
        let shown: Vec<String> = runs.map(|run| run.to_string()).collect();
        reply.bulk(shown.join(" ").as_bytes());
    });
    Ok(())
}

/// Compares estimates of both encodings with what was added.
fn pfselftest(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    const CHECKED: [u64; 4] = [10, 1_000, 10_000, 100_000];
    /// Four standard errors, as in Redis.
    const MOST_WRONG: f64 = 4.0 * 1.04 / 128.0;
    for most_sparse in [0, 3_000] {
        let mut sketch = sketch::empty();
        for number in 1..=CHECKED[3] {
            let (register, value) = estimate::place(&number.to_le_bytes());
            sketch::raise(&mut sketch, register, value, most_sparse)?;
            if !CHECKED.contains(&number) {
                continue;
            }
            let count = sketch::count(&sketch)?;
            let wrong = count.abs_diff(number) as f64 / number as f64;
            if wrong > MOST_WRONG {
                return Err(
                    format!("TESTFAILED {count} elements estimated, {number} added").into(),
                );
            }
        }
    }
    call.reply().ok();
    Ok(())
}
