//! HELP: what errors point to must be there.

use std::collections::{BTreeMap, BTreeSet};

use loadline_resp::{Decoder, Limits, OwnedReply};
use loadline_server::ServerConfig;

use crate::support::{LATER, LATER_SUBCOMMANDS, Ours, ReadWrite, Redis, ask, ask_one};

/// The error about an unknown subcommand says where the known ones are listed.
#[test]
fn every_command_with_subcommands_lists_them() {
    let ours = Ours::start(ServerConfig::default());
    let mut stream = ours.connect();
    let known = ask(&mut stream, "COMMAND LIST");
    let names = known
        .lines()
        .filter(|line| !line.starts_with(['*', '$']) && !line.contains('|') && *line != "quit")
        // Without a cluster, Redis refuses its help, too.
        .filter(|line| *line != "cluster")
        // They would leave the connection with messages between its replies.
        .filter(|line| !line.ends_with("subscribe"));
    let mut containers = 0;
    for name in names.map(str::to_uppercase) {
        let refusal = ask(&mut stream, &format!("{name} NO-SUCH-SUBCOMMAND"));
        if !refusal.contains("HELP") {
            continue;
        }
        containers += 1;
        assert!(refusal.contains(&format!("Try {name} HELP.")), "{refusal}");
        let help = ask(&mut stream, &format!("{name} HELP"));
        let lines: Vec<&str> = help
            .lines()
            .map(|line| line.trim_start_matches('+'))
            .collect();
        let first = format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
        assert_eq!(lines[1], first);
        assert_eq!(lines[lines.len() - 2..], ["HELP", "    Prints this help."]);
        for line in &lines[2..] {
            if let Some(sub) = line.split(' ').next().filter(|sub| !sub.is_empty()) {
                let reply = ask(&mut stream, &format!("{name} {sub} a b c d e f g h i j"));
                assert!(
                    !reply.contains("unknown subcommand '"),
                    "{name} {sub}: {reply}"
                );
            }
        }
    }
    assert!(containers >= 6, "{containers} commands with subcommands");
}

/// The reply to a command.
pub(crate) fn decoded(stream: &mut dyn ReadWrite, line: &str) -> OwnedReply {
    let mut stream = stream;
    let text = ask(&mut stream, line);
    let bytes: Vec<u8> = text.chars().map(|letter| letter as u8).collect();
    let mut decoder = Decoder::new(Limits::default());
    let (reply, used) = decoder.decode(&bytes).unwrap().unwrap();
    assert_eq!(used, bytes.len());
    reply.to_owned()
}

pub(crate) fn items(reply: &OwnedReply) -> &[OwnedReply] {
    match reply {
        OwnedReply::Array(items) | OwnedReply::Set(items) => items,
        other => panic!("{other:?} is no array"),
    }
}

/// The keys of a map with their values, in the order of the reply.
fn pairs(reply: &OwnedReply) -> Vec<(String, &OwnedReply)> {
    match reply {
        OwnedReply::Map(pairs) => {
            let pairs = pairs.iter();
            pairs.map(|(key, value)| (text(key), value)).collect()
        }
        list => {
            let pairs = items(list).chunks_exact(2);
            pairs.map(|pair| (text(&pair[0]), &pair[1])).collect()
        }
    }
}

pub(crate) fn text(reply: &OwnedReply) -> String {
    let bytes = reply.as_bytes();
    String::from_utf8_lossy(bytes.unwrap_or_else(|| panic!("{reply:?} is no text"))).into_owned()
}

/// The descriptions of commands and subcommands by their names: arity, flags, first and last key and step, categories, hints and
/// specifications of keys.
fn described(rows: &OwnedReply, found: &mut BTreeMap<String, String>) {
    for row in items(rows).iter().map(items) {
        let mut flags: Vec<String> = items(&row[2]).iter().map(text).collect();
        flags.sort_unstable();
        let categories: Vec<String> = items(&row[6]).iter().map(text).collect();
        let shown = format!(
            "{:?} {flags:?} {:?} {categories:?} {:?}",
            row[1],
            &row[3..6],
            &row[7..9]
        );
        assert!(found.insert(text(&row[0]), shown).is_none());
        described(&row[9], found);
    }
}

/// A reply with its types, to compare and to read.
fn spelled(reply: &OwnedReply) -> String {
    let list = |items: &[OwnedReply]| {
        let items: Vec<String> = items.iter().map(spelled).collect();
        items.join(" ")
    };
    match reply {
        OwnedReply::Bulk(_) => format!("{:?}", text(reply)),
        OwnedReply::Simple(_) => format!("+{}", text(reply)),
        OwnedReply::Array(items) => format!("[{}]", list(items)),
        OwnedReply::Set(items) => format!("~[{}]", list(items)),
        OwnedReply::Map(pairs) => {
            let pairs = pairs.iter();
            let pairs = pairs.map(|(key, value)| list(&[key.clone(), value.clone()]));
            format!("%[{}]", pairs.collect::<Vec<_>>().join(" "))
        }
        other => format!("{other:?}"),
    }
}

/// The fields of commands and subcommands in their order, by the names of the commands.
fn documented(rows: &OwnedReply, found: &mut BTreeMap<String, String>) {
    for (name, fields) in pairs(rows) {
        let fields = pairs(fields);
        let shown = fields.iter().map(|(field, value)| match field.as_str() {
            // Redis keeps the subcommands in an order of its own.
            "subcommands" => format!("{field} by their names"),
            _ => format!("{field} {}", spelled(value)),
        });
        let shown: Vec<String> = shown.collect();
        assert!(shown[0].starts_with("summary "), "{name}: {shown:?}");
        assert!(found.insert(name, shown.join("\n")).is_none());
        if let Some((_, subcommands)) = fields.iter().find(|(field, _)| field == "subcommands") {
            documented(subcommands, found);
        }
    }
}

/// redis-cli and libraries learn from it what commands there are. Commands of later versions have summaries of their own.
#[test]
fn commands_are_described_as_by_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    type Collect = fn(&OwnedReply, &mut BTreeMap<String, String>);
    for (hello, line, collect, least) in [
        ("HELLO 2", "COMMAND INFO", described as Collect, 350),
        ("HELLO 2", "COMMAND DOCS", documented, 350),
        (
            "HELLO 2",
            "COMMAND INFO get CONFIG|Get object",
            described,
            6,
        ),
        (
            "HELLO 2",
            "COMMAND DOCS get CONFIG|Get object nosuch",
            documented,
            6,
        ),
        ("HELLO 3", "COMMAND INFO", described, 350),
        ("HELLO 3", "COMMAND DOCS", documented, 350),
    ] {
        let [mine, theirs] = [&mut one as &mut dyn ReadWrite, &mut other].map(|mut stream| {
            ask(&mut stream, hello);
            let mut found = BTreeMap::new();
            collect(&decoded(stream, line), &mut found);
            found
        });
        let mut wrong = Vec::new();
        for (name, shown) in &mine {
            let upper = name.to_uppercase();
            let is_later =
                LATER.contains(&upper.as_str()) || LATER_SUBCOMMANDS.contains(&upper.as_str());
            assert_ne!(is_later, theirs.contains_key(name), "{name}");
            let has_summary = !shown.starts_with("summary \"\"");
            assert!(has_summary, "{name} has no summary");
            if !is_later && theirs[name] != *shown {
                wrong.push(format!("{name}: {shown}, Redis: {}", theirs[name]));
            }
        }
        assert!(wrong.is_empty(), "{hello} {line}: {wrong:#?}");
        assert!(mine.len() > least, "{line} of {} commands", mine.len());
    }
}

/// The names of commands and subcommands with their arity, and whether they have the flag `denyoom`.
fn limited(rows: &[OwnedReply], found: &mut BTreeMap<String, (usize, bool)>) {
    for row in rows.iter().map(items) {
        let OwnedReply::Integer(arity) = row[1] else {
            panic!("{:?} is no arity", row[1]);
        };
        let is_limited = items(&row[2]).iter().any(|flag| text(flag) == "denyoom");
        let subcommands = items(&row[9]);
        limited(subcommands, found);
        // A command with subcommands cannot be called without one.
        if subcommands.is_empty() {
            let words = usize::try_from(arity.unsigned_abs()).unwrap();
            found.insert(text(&row[0]), (words, is_limited));
        }
    }
}

/// At full memory, those commands are refused that COMMAND INFO flags with `denyoom`, and no others.
#[test]
fn commands_are_refused_at_full_memory_if_they_have_the_flag() {
    let ours = Ours::start(ServerConfig::default());
    let mut operator = ours.connect();
    let mut known = BTreeMap::new();
    limited(items(&decoded(&mut operator, "COMMAND INFO")), &mut known);
    let is_limited = |name: &str| known[name].1;
    // As Redis 8 flags them; the others are compared with redis-server.
    for name in ["hexpire", "hexpireat", "hpexpire", "hpexpireat", "hsetex"] {
        assert!(is_limited(name), "{name}");
    }
    for name in ["hgetex", "hgetdel", "hpersist", "httl"] {
        assert!(!is_limited(name), "{name}");
    }
    ask(&mut operator, "SET k v\r\nCONFIG SET maxmemory 1");
    let mut wrong = Vec::new();
    for (name, (words, is_limited)) in &known {
        if name == "shutdown" {
            continue;
        }
        let mut line: Vec<&str> = name.split('|').collect();
        line.resize(*words, "x");
        let reply = ask_one(&mut ours.connect(), &line.join(" "));
        if reply.starts_with("-OOM") != *is_limited {
            wrong.push(format!("{name}, limited: {is_limited}, {reply:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(known.len() > 330, "{} commands", known.len());
}

#[test]
fn commands_are_listed_as_by_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    let listed = |stream: &mut dyn ReadWrite, line: &str| -> BTreeSet<String> {
        let reply = decoded(stream, line);
        let is_later = |name: &String| {
            let name = name.to_uppercase();
            LATER.contains(&name.as_str()) || LATER_SUBCOMMANDS.contains(&name.as_str())
        };
        let names = items(&reply).iter().map(text);
        names.filter(|name| !is_later(name)).collect()
    };
    let all = listed(&mut one, "COMMAND LIST");
    assert!(all.contains("xgroup|create") && all.contains("get"));
    for line in [
        "COMMAND LIST",
        "COMMAND LIST FILTERBY PATTERN XADD",
        "COMMAND LIST filterby pattern *x*|*s*",
        "COMMAND LIST FILTERBY PATTERN nothing",
        "COMMAND LIST FILTERBY ACLCAT HASH",
        "COMMAND LIST FILTERBY ACLCAT dangerous",
        "COMMAND LIST FILTERBY ACLCAT nothing",
        "COMMAND LIST FILTERBY MODULE nothing",
    ] {
        let mut theirs = listed(&mut other, line);
        theirs.retain(|name| all.contains(name));
        assert_eq!(listed(&mut one, line), theirs, "{line}");
    }
    for line in [
        "COMMAND LIST FILTERBY ACLCAT",
        "COMMAND LIST FILTERBY a b",
        "COMMAND INFO nosuch config|nosuch get|x",
        "COMMAND DOCS nosuch config|nosuch get|x",
        "COMMAND GETKEYS MEMORY STATS",
        "COMMAND GETKEYS MEMORY USAGE k",
        "COMMAND GETKEYS OBJECT",
        "COMMAND GETKEYS OBJECT HELP",
        "COMMAND GETKEYS OBJECT ENCODING",
        "COMMAND GETKEYS OBJECT ENCODING k x",
        "COMMAND GETKEYS OBJECT NOSUCH k",
        "COMMAND GETKEYS XGROUP DESTROY k g",
        "COMMAND GETKEYS SORT_RO k BY w_* GET x_*",
    ] {
        assert_eq!(ask(&mut one, line), ask(&mut other, line), "{line}");
    }
}
