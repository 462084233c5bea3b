//! DEBUG: the subcommands that the tests of clients use, if the server was started with them enabled.

use std::time::Duration;

use loadline_resp::Protocol;
use loadline_resp::encode;
use loadline_store::{AccessMetric, LastAccess};

use super::digest::Digest;
use super::help::list;
use super::keys::encoding_of;
use super::numbers::{double, unsigned};
use super::refusal::{NO_KEY, Refusal, TOO_LONG, lower, no_such_form};
use super::reload::reload;
use super::table::Sub;
use super::{Call, Keys, Known, LARGEST, Listed, Words, dump, is, listed, sub};
use crate::settings::DebugCommand;
use crate::state::{DATABASES, wall_ms};

const NAME: &str = "DEBUG";

pub(super) const TABLE: &[Listed] = &[listed(NAME, -2, Keys::None, debug)];

/// Listed by DEBUG HELP alone: to COMMAND and to users' rights, DEBUG is one command, as in Redis.
const SUBCOMMANDS: [Sub; 10] = [
    sub(
        "DIGEST",
        2,
        "\nOutput a hex signature representing the current DB content.",
    ),
    sub(
        "DIGEST-VALUE",
        -2,
        "<key> [<key> ...]\nOutput a hex signature of the values of all the specified keys.",
    ),
    sub(
        "ERROR",
        3,
        "<string>\nReturn a Redis protocol error with <string> as message. Useful for clients\nunit tests to simulate Redis errors.",
    ),
    sub(
        "OBJECT",
        3,
        "<key>\nShow low level info about `key` and associated value.",
    ),
    sub(
        "POPULATE",
        -3,
        "<count> [<prefix>] [<size>]\nCreate <count> string keys named key:<num>. If <prefix> is specified then\nit is used instead of the 'key' prefix.",
    ),
    sub(
        "PROTOCOL",
        3,
        "<type>\nReply with a test value of the specified type. <type> can be: string,\ninteger, double, bignum, null, array, set, map, attrib, push, verbatim,\ntrue, false.",
    ),
    sub(
        "RELOAD",
        -2,
        "[option ...]\nSave the RDB on disk and reload it back to memory.",
    ),
    sub(
        "SET-ACTIVE-EXPIRE",
        3,
        "<0|1>\nSetting it to 0 disables expiring keys in background when they are not\naccessed (otherwise the Redis behavior). Setting it to 1 reenables back the\ndefault.",
    ),
    sub(
        "SLEEP",
        3,
        "<seconds>\nStop the server for <seconds>. Decimals allowed.",
    ),
    sub("HELP", 2, "\nPrints this help."),
];

fn debug(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match *words {
        [_, word] if is(word, "HELP") => {
            list(
                call,
                NAME,
                SUBCOMMANDS.iter().map(|sub| (sub.name, sub.help)),
            );
        }
        [_, word] if is(word, "DIGEST") => {
            let databases = &call.shared.databases[..DATABASES];
            let digest = Digest::of_databases(databases, call.now());
            call.reply().simple(&digest.to_string());
        }
        [_, word, ref keys @ ..] if is(word, "DIGEST-VALUE") => {
            call.reply().array(keys.len());
            for key in keys {
                let mut digest = Digest::default();
                digest.add_value(call.store(), key, call.now());
                call.reply().simple(&digest.to_string());
            }
        }
        [_, word, ref options @ ..] if is(word, "POPULATE") && (1..=3).contains(&options.len()) => {
            populate(call, options)?;
        }
        [_, word, text] if is(word, "ERROR") => {
            let is_break = |byte: u8| byte == b'\r' || byte == b'\n';
            let text = text
                .iter()
                .map(|byte| if is_break(*byte) { b' ' } else { *byte });
            // Redis does not count it as an error.
            encode::error(call.out, &text.collect::<Vec<_>>());
        }
        [_, word, key] if is(word, "OBJECT") => object(call, key)?,
        [_, word, kind] if is(word, "PROTOCOL") => protocol(call, kind)?,
        [_, word, ref options @ ..] if is(word, "RELOAD") => reload(call, options)?,
        [_, word, flag] if is(word, "SET-ACTIVE-EXPIRE") => {
            call.shared.expires_actively = double(flag).is_some_and(|number| number != 0.0);
            call.reply().ok();
        }
        [_, word, seconds] if is(word, "SLEEP") => {
            let time = Duration::try_from_secs_f64(double(seconds).unwrap_or(0.0));
            std::thread::sleep(time.unwrap_or_default());
            call.shared.now = wall_ms();
            call.reply().ok();
        }
        _ => return Err(no_such_form(words)),
    }
    Ok(())
}

/// Adds strings `value:NUMBER` at keys `PREFIX:NUMBER` that are not there, cut or filled with zeros to a size unless that is 0.
fn populate(call: &mut Call<'_>, options: Words<'_>) -> Result<(), Refusal> {
    let number = |word| unsigned(word, "ERR value is out of range, must be positive");
    let count = number(options[0])?;
    let prefix = options.get(1).copied().unwrap_or(b"key");
    let size = options.get(2).map_or(Ok(0), |word| number(word))?;
    if size > LARGEST {
        return Err(TOO_LONG.into());
    }
    let before = call.shared.watched.changes;
    for number in 0..count {
        let key = [prefix, format!(":{number}").as_bytes()].concat();
        if call.has(&key) {
            continue;
        }
        let mut value = format!("value:{number}").into_bytes();
        if size > 0 {
            value.resize(size, 0);
        }
        call.put_string(&key, &value, None);
    }
    call.count_as(before, 0);
    call.reply().ok();
    Ok(())
}

/// The fields of Redis 7.0. There is no address.
fn object(call: &mut Call<'_>, key: &[u8]) -> Result<(), Refusal> {
    let (store, now) = (call.store(), call.now());
    let bytes = store.inspect(key, now, |value| value.map(dump::value_bytes));
    let last = store.last_access(key, now);
    let found = encoding_of(call, key).zip(bytes).zip(last);
    let ((encoding, bytes), last) = found.ok_or(NO_KEY)?;
    let lru = lru(call.shared.settings.eviction.access(), last, now);
    let idle = (now / 1_000).wrapping_sub(lru) & LRU_MASK;
    // A place that no value can have.
    call.reply().simple(&format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{bytes} lru:{lru} lru_seconds_idle:{idle}"
    ));
    Ok(())
}

/// The bits of the field `lru` of Redis.
const LRU_MASK: u64 = (1 << 24) - 1;

/// The field `lru` of Redis for a last access: its time in seconds, or its time in minutes before the counter.
fn lru(access: AccessMetric, last: LastAccess, now: u64) -> u64 {
    let second = (now / 1_000).saturating_sub(last.idle_seconds);
    let lru = match access {
        AccessMetric::Time => second,
        AccessMetric::Frequency => (second / 60) << 8 | u64::from(last.frequency),
    };
    lru & LRU_MASK
}

/// Replies with an example of a type of RESP3, or with its form in RESP2.
#[expect(clippy::approx_constant, reason = "the number of Redis")]
fn protocol(call: &mut Call<'_>, kind: &[u8]) -> Result<(), Refusal> {
    let protocol = call.protocol();
    let is_resp3 = protocol == Protocol::Resp3;
    let out = &mut *call.out;
    match lower(kind).as_str() {
        "string" => encode::bulk(out, b"Hello World"),
        "integer" => encode::integer(out, 12_345),
        "double" => encode::double(out, 3.141, protocol),
        "bignum" => encode::big_number(out, b"1234567999999999999999999999999999999", protocol),
        "null" => encode::null(out, protocol),
        "array" => {
            encode::array_header(out, 3);
            (0..3).for_each(|number| encode::integer(out, number));
        }
        "set" => {
            encode::set_header(out, 3, protocol);
            (0..3).for_each(|number| encode::integer(out, number));
        }
        "map" => {
            encode::map_header(out, 3, protocol);
            for number in 0..3 {
                encode::integer(out, number);
                encode::boolean(out, number == 1, protocol);
            }
        }
        "attrib" => {
            if is_resp3 {
                encode::attribute_header(out, 1);
                encode::bulk(out, b"key-popularity");
                encode::array_header(out, 2);
                encode::bulk(out, b"key:123");
                encode::integer(out, 90);
            }
            encode::bulk(out, b"Some real reply following the attribute");
        }
        "push" if !is_resp3 => return Err("ERR RESP2 is not supported by this command".into()),
        "push" => {
            encode::push_header(out, 2, protocol);
            encode::bulk(out, b"server-cpu-usage");
            encode::integer(out, 42);
            encode::bulk(out, b"Some real reply following the push reply");
        }
        "verbatim" => encode::verbatim(out, *b"txt", b"This is a verbatim\nstring", protocol),
        "true" => encode::boolean(out, true, protocol),
        "false" => encode::boolean(out, false, protocol),
        _ => return Err("ERR Wrong protocol type name. Please use one of the following: string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false".into()),
    }
    Ok(())
}

impl Call<'_> {
    /// The error of DEBUG where it is not enabled.
    pub(super) fn unless_debugging(&self, known: &Known) -> Option<Refusal> {
        if known.name != NAME {
            return None;
        }
        let is_enabled = match self.shared.debug_command {
            DebugCommand::No => false,
            DebugCommand::Local => self.session.peer.is_local,
            DebugCommand::Yes => true,
        };
        (!is_enabled).then(|| "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.".into())
    }
}
