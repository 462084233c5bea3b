//! `loadline link`: a path with latency and faults between a client and a server.

use std::net::ToSocketAddrs;
use std::path::Path;
use std::time::Duration;

use loadline_link::address::Address;
use loadline_link::fault::Fault;
use loadline_link::l4::Route;
use loadline_link::script::{Action, Again, Counts, Part, Scope, Script, Step, Trigger};
use loadline_link::shape::Shape;

use super::path::{self, PathShape};
use crate::args::{LinkArg, LinkArgs};
use crate::exit::Failure;
use crate::units::{self, nanoseconds};

/// The flag of a fault, for messages.
const FLAG: &str = "--fault";
/// The name that stands for all commands.
const ANY: &str = "any";
const EXPECTED: &str = "expected KIND[@WHEN][+TIME], such as `freeze@10s+2s` or `cut-reply@INCR:5`";
const KINDS: &str = "expected cut, reset, half-open, black-hole, freeze, refuse, slow-close=T, delay=T, cut-reply or reply=TEXT";

/// A path, resolved.
#[derive(Debug)]
pub(crate) struct LinkPlan {
    pub(crate) route: Route,
    pub(crate) shape: Shape,
    pub(crate) script: Script,
}

impl LinkPlan {
    /// Resolves the arguments. `seed` is used unless one is typed.
    ///
    /// # Errors
    /// A usage error, or that a host has no address.
    pub(crate) fn resolve(args: &LinkArgs, seed: u64) -> Result<Self, Failure> {
        let seed = args.seed.unwrap_or(seed);
        let latency = args
            .latency
            .as_deref()
            .map_or(Ok(Duration::ZERO), path::latency)?;
        let (jitter, bandwidth) = (args.path.jitter.as_deref(), args.path.bandwidth.as_deref());
        let shape = PathShape::resolve(jitter, bandwidth, LinkArg::L4)?;
        let steps = args.fault.iter().map(|text| step(text));
        let script = Script {
            seed,
            steps: steps.collect::<Result<_, _>>()?,
        };
        script
            .check()
            .map_err(|error| Failure::usage(format!("{FLAG}: {error}.")))?;
        Ok(Self {
            route: Route {
                listen: address("--listen", &args.listen)?,
                upstream: address("--to", &args.to)?,
            },
            shape: shape.with_latency(latency, seed),
            script,
        })
    }
}

/// Reads `HOST:PORT` or `unix:///PATH`.
fn address(flag: &str, text: &str) -> Result<Address, Failure> {
    if let Some(path) = text.strip_prefix("unix://") {
        return Ok(Path::new(path).into());
    }
    if !text.contains(':') {
        let why = "expected an address and a port, such as `127.0.0.1:6379`, or `unix:///PATH`";
        return Err(Failure::invalid(flag, "address", text, why));
    }
    let unavailable = |why: String| Failure::unavailable(format!("{flag}: {text}: {why}."));
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| unavailable(error.to_string()))?;
    let first = found.next().map(Address::Tcp);
    first.ok_or_else(|| unavailable("the host name has no address".into()))
}

/// Reads `KIND[@WHEN][+TIME]`.
fn step(text: &str) -> Result<Step, Failure> {
    let invalid = |why: String| Failure::invalid(FLAG, "fault", text, why);
    let time = |time: &str| units::duration(time).map_err(invalid);
    // A text that is a reply can contain anything, and the other parts cannot.
    let (kind, when, lasts) = match text.rsplit_once('@') {
        Some((kind, rest)) => match rest.split_once('+') {
            Some((when, lasts)) => (kind, Some(when), Some(time(lasts)?)),
            None => (kind, Some(rest), None),
        },
        None => match text.split_once('+').filter(|_| !text.starts_with("reply=")) {
            Some((kind, lasts)) => (kind, None, Some(time(lasts)?)),
            None => (text, None, None),
        },
    };
    let when = when.map_or(Ok(at_start()), |when| trigger(when).map_err(invalid))?;
    let (action, is_for_all) = action(kind).map_err(invalid)?;
    let by_message = matches!(when.counts, Counts::Messages(_));
    let fits = matches!(&action, Action::Fault(fault) if fault.fits_a_connection());
    let scope = match fits && by_message && !is_for_all {
        true => Scope::Connection,
        false => Scope::Path,
    };
    Ok(Step {
        when,
        action,
        scope,
        lasts,
    })
}

fn at_start() -> Trigger {
    Trigger {
        counts: Counts::Time,
        first: 0,
        again: Again::Never,
        times: None,
    }
}

/// Reads a time or `NAME:N`, each with `/` or `~` before the distance.
fn trigger(text: &str) -> Result<Trigger, String> {
    let (counts, number) = match text.split_once(':') {
        Some((ANY, number)) => (Counts::Messages(Vec::new()), number),
        Some(("", _)) => return Err(EXPECTED.into()),
        Some((name, number)) => (Counts::Messages(vec![name.to_uppercase()]), number),
        None => (Counts::Time, text),
    };
    let (distance, again): (_, fn(u64) -> Again) = match number.split_at_checked(1) {
        Some(("/", distance)) => (distance, Again::Every),
        Some(("~", distance)) => (distance, Again::About),
        _ => (number, |_| Again::Never),
    };
    let first = match counts {
        Counts::Time => nanoseconds(units::duration(distance)?),
        Counts::Messages(_) => units::positive_count(distance)?,
    };
    Ok(Trigger {
        counts,
        first,
        again: again(first),
        times: None,
    })
}

/// Reads `KIND[=VALUE]`, and whether the fault is one of all connections.
fn action(text: &str) -> Result<(Action, bool), String> {
    let (kind, value) = match text.split_once('=') {
        Some((kind, value)) => (kind, Some(value)),
        None => (text, None),
    };
    let fault = match (kind, value) {
        ("cut", None | Some("all")) => Fault::Cut,
        ("reset", None | Some("all")) => Fault::Reset,
        ("half-open", None | Some("all")) => Fault::HalfOpen,
        ("black-hole", None | Some("all")) => Fault::BlackHole,
        ("freeze", None | Some("all")) => Fault::Freeze,
        ("refuse", None) => Fault::Refuse,
        ("slow-close", Some(delay)) => Fault::SlowClose {
            delay: units::duration(delay)?,
        },
        ("delay", Some(delay)) => Fault::Delay {
            delay: units::duration(delay)?,
        },
        ("cut-reply", None) => return Ok((Action::CutReply, false)),
        ("reply", Some(text)) => {
            let part = Part {
                text: format!("{text}\r\n"),
                times: 1,
            };
            let answer = Action::Answer {
                parts: vec![part],
                close_after: None,
            };
            return Ok((answer, false));
        }
        _ => return Err(KINDS.into()),
    };
    Ok((Action::Fault(fault), value == Some("all")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Step {
        step(text).unwrap()
    }

    #[test]
    fn faults_are_read_with_their_moments() {
        let second = 1_000_000_000;
        for (text, first, again, scope, lasts) in [
            ("refuse", 0, Again::Never, Scope::Path, None),
            ("freeze+2s", 0, Again::Never, Scope::Path, Some(2)),
            ("reset@10s", 10 * second, Again::Never, Scope::Path, None),
            (
                "freeze@/10s+2s",
                10 * second,
                Again::Every(10 * second),
                Scope::Path,
                Some(2),
            ),
            (
                "refuse@~1s+3s",
                second,
                Again::About(second),
                Scope::Path,
                Some(3),
            ),
            ("half-open@incr:5", 5, Again::Never, Scope::Connection, None),
            (
                "freeze=all@any:1k+1s",
                1_000,
                Again::Never,
                Scope::Path,
                Some(1),
            ),
            ("delay=50ms@GET:/7", 7, Again::Every(7), Scope::Path, None),
        ] {
            let step = read(text);
            let lasts = lasts.map(Duration::from_secs);
            let seen = (step.when.first, step.when.again, step.scope, step.lasts);
            assert_eq!(seen, (first, again, scope, lasts), "{text}");
        }
        assert_eq!(
            read("cut@incr:1").when.counts,
            Counts::Messages(vec!["INCR".into()])
        );
        assert_eq!(read("cut@any:1").when.counts, Counts::Messages(Vec::new()));
        let Action::Answer { parts, .. } = read("reply=-ERR a@b + c@SET:2").action else {
            panic!("it is a reply");
        };
        assert_eq!(parts[0].text, "-ERR a@b + c\r\n");
    }

    #[test]
    fn faults_that_cannot_be_are_refused_with_a_reason() {
        for (text, reason) in [
            ("explode@1s", "expected cut"),
            ("delay@1s", "slow-close=T"),
            ("refuse=all", "expected cut"),
            ("freeze@10", "number with a unit"),
            ("freeze@INCR:0", "at least 1"),
            ("freeze@:5", "such as `freeze@10s+2s`"),
            ("freeze@10s+2", "number with a unit"),
        ] {
            let failure = step(text).unwrap_err().to_string();
            assert!(failure.contains(reason), "{text}: {failure}");
        }
    }
}
