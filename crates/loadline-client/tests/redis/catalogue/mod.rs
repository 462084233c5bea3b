//! Every command and every option against a real redis-server, and against what that server says about its own
//! commands: none is missing, none is misspelt, the keys are where the server finds them.

mod recent;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use loadline_client::commands::*;
use loadline_client::{
    Arg, Cmd, Error, Flags, FromReply, OwnedReply, Protocol, Reply, RetryPolicy, blocking, cmd,
};

use self::rows::{Row, about_the_cluster, about_the_server, ending, fill, keyed, ordered};
use crate::server::Redis;

/// A call on each kind of server, and whether it came out as expected.
fn tried(redis: &Redis, rows: &[Row], prepare: impl Fn(&mut blocking::Connection)) {
    let mut wrong = Vec::new();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let client = redis.builder().protocol(Some(protocol)).build();
        for row in rows {
            let mut connection = client.blocking().unwrap();
            prepare(&mut connection);
            let outcome = (row.run)(&mut connection);
            let as_expected = match &outcome {
                Ok(_) => row.refusal.is_empty(),
                Err(error) => !row.refusal.is_empty() && error.to_string().contains(row.refusal),
            };
            if !as_expected {
                wrong.push(format!("{protocol:?} {}: {outcome:?}", row.line()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A server that can load modules and a list of users.
fn equipped() -> (Redis, tempfile::NamedTempFile) {
    let mut users = tempfile::NamedTempFile::new().unwrap();
    writeln!(users, "user default on nopass ~* &* +@all").unwrap();
    let path = users.path().display().to_string();
    let redis = Redis::start_with(&["--aclfile", &path, "--enable-module-command", "yes"]);
    (redis, users)
}

/// Waits until the server writes no file in the background, during which it refuses to write another.
fn wait_for_files(c: &mut blocking::Connection) {
    loop {
        let info = c.run(info("persistence")).unwrap();
        let busy = ["rdb_bgsave_in_progress:1", "aof_rewrite_in_progress:1"];
        if !busy.iter().any(|state| info.contains(state)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn every_command_of_keys_works_with_every_option() {
    let redis = Redis::start();
    let mut connection = redis.client().blocking().unwrap();
    fill(&mut connection);
    tried(&redis, &keyed(&mut connection), fill);
}

#[test]
fn every_command_of_ordered_data_works_with_every_option() {
    tried(&Redis::start(), &ordered(), fill);
}

#[test]
fn every_command_about_the_server_works_with_every_option() {
    let (redis, _users) = equipped();
    let mut connection = redis.client().blocking().unwrap();
    fill(&mut connection);
    tried(&redis, &about_the_server(&mut connection), |c| {
        fill(c);
        wait_for_files(c);
    });
}

#[test]
fn every_command_about_the_cluster_works_with_every_option() {
    let redis = Redis::start_with(&["--cluster-enabled", "yes"]);
    tried(&redis, &about_the_cluster(), |c| {
        let ranges = cluster_add_slots_range([(100, 110), (7001, 7001)]);
        c.run((cluster_flush_slots(), ranges)).1.unwrap();
    });
}

#[test]
fn shutdown_breaks_the_connection() {
    let redis = Redis::start();
    let mut connection = redis.client().blocking().unwrap();
    let ended = connection.run(shutdown().no_save().now().force());
    assert!(matches!(ended, Err(Error::Connection { .. })), "{ended:?}");
}

// ---- What the server says about its commands ----

/// A reply to `COMMAND DOCS` or `COMMAND INFO`.
#[derive(Clone, Debug)]
enum Said {
    Text(String),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

impl FromReply for Said {
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        let text = |reply: &Reply<'_>| {
            let bytes = reply.as_bytes().unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        Ok(match reply {
            Reply::Array(items) | Reply::Set(items) => Self::List(
                items
                    .into_iter()
                    .map(Self::from_reply)
                    .collect::<Result<_, _>>()?,
            ),
            Reply::Map(pairs) => Self::Map(
                pairs
                    .into_iter()
                    .map(|(name, value)| Ok((text(&name), Self::from_reply(value)?)))
                    .collect::<Result<_, Error>>()?,
            ),
            other => Self::Text(text(&other)),
        })
    }
}

impl Said {
    fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(pairs) => pairs
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    fn pairs(&self) -> &[(String, Self)] {
        match self {
            Self::Map(pairs) => pairs,
            _ => &[],
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    /// Whether a list has this text.
    fn has(&self, text: &str) -> bool {
        self.items().iter().any(|item| item.text() == text)
    }
}

/// Whether the server advises against a command, or keeps it for itself.
fn is_out_of_use(docs: &Said) -> bool {
    docs.get("doc_flags")
        .is_some_and(|flags| flags.has("deprecated") || flags.has("syscmd"))
}

/// The documentation of every command and subcommand that is in use, by its name.
fn documented(c: &mut blocking::Connection) -> BTreeMap<String, Said> {
    let docs = c.run(command_docs::<Said>(())).unwrap();
    let mut found = BTreeMap::new();
    for (name, docs) in docs.pairs() {
        let subs = docs.get("subcommands").map_or(&[][..], Said::pairs);
        let all = subs.iter().filter(|(name, _)| !name.ends_with("|help"));
        let own = subs.is_empty().then_some((name, docs));
        let all = all.map(|(name, docs)| (name, docs)).chain(own);
        for (name, docs) in all.filter(|(_, docs)| !is_out_of_use(docs)) {
            found.insert(name.clone(), docs.clone());
        }
    }
    found
}

/// The words that a command takes literally.
fn tokens(docs: &Said, found: &mut BTreeSet<String>) {
    for arg in docs.get("arguments").map_or(&[][..], Said::items) {
        if let Some(token) = arg.get("token") {
            // `MIGRATE` has an empty one, for no key.
            found.extend(Some(token.text().to_ascii_uppercase()).filter(|token| !token.is_empty()));
        }
        tokens(arg, found);
    }
}

/// Commands without a function, and what replaces them.
const ELSEWHERE: &[(&str, &str)] = &[
    ("asking", "the cluster client sends it"),
    ("auth", "the handshake sends it"),
    ("client|reply", "replies are what the client counts on"),
    ("client|setinfo", "client_name names the application"),
    ("discard", "a transaction is one request, sent whole"),
    ("evalsha", "Script"),
    ("evalsha_ro", "Script"),
    ("exec", "atomic"),
    ("expire", "expire, in milliseconds"),
    ("expireat", "expire_at, in milliseconds"),
    ("expiretime", "expire_time, in milliseconds"),
    ("hello", "the handshake sends it"),
    ("hexpire", "hexpire, in milliseconds"),
    ("hexpireat", "hexpire_at, in milliseconds"),
    ("hexpiretime", "hexpire_time, in milliseconds"),
    ("httl", "hpttl, in milliseconds"),
    ("monitor", "its replies answer no request"),
    ("multi", "atomic"),
    ("psetex", "set with expire"),
    ("psubscribe", "PubSub"),
    ("psync", "for replicas"),
    ("punsubscribe", "PubSub"),
    ("quit", "dropping the connection"),
    ("reset", "the pool sends it"),
    ("script|debug", "it needs a protocol of its own"),
    ("select", "the handshake sends it"),
    ("setex", "set with expire"),
    ("setnx", "set with nx"),
    ("ssubscribe", "PubSub"),
    ("subscribe", "PubSub"),
    ("sunsubscribe", "PubSub"),
    ("sync", "for replicas"),
    ("ttl", "pttl, in milliseconds"),
    ("unsubscribe", "PubSub"),
];

/// Words of the server's descriptions that no function sends, by command.
const UNUSED_TOKENS: &[(&str, &str)] = &[
    // Milliseconds say the same.
    ("getex", "EX"),
    ("getex", "EXAT"),
    ("set", "EX"),
    ("set", "EXAT"),
    // A byte is the default unit.
    ("bitcount", "BYTE"),
    ("bitpos", "BYTE"),
    // The older name of `REPLICA`.
    ("client|kill", "SLAVE"),
    // It is what the command does without `~`.
    ("xadd", "="),
    ("xtrim", "="),
    // A pipeline moves several keys.
    ("migrate", "KEYS"),
];

/// Whether a function sends a command that is newer than the oldest server with documentation.
fn is_recent(name: &str) -> bool {
    let sources = [
        include_str!("../../../src/commands/hash_fields.rs"),
        include_str!("../../../src/commands/recent.rs"),
    ];
    let upper = name.to_ascii_uppercase();
    let sent = match upper.split_once('|') {
        Some((name, sub)) => format!("= \"{name}\" \"{sub}\"("),
        None => format!("= \"{upper}\"("),
    };
    sources.iter().any(|source| source.contains(&sent))
}

fn all_rows(c: &mut blocking::Connection) -> Vec<Row> {
    fill(c);
    let mut rows = keyed(c);
    rows.extend(ordered());
    rows.extend(about_the_server(c));
    rows.extend(about_the_cluster());
    rows.extend(ending());
    rows
}

#[test]
fn no_command_and_no_option_of_the_server_is_forgotten_or_invented() {
    let redis = Redis::start();
    let mut c = redis
        .builder()
        .protocol(Some(Protocol::Resp3))
        .build()
        .blocking()
        .unwrap();
    let rows = all_rows(&mut c);
    let mut wrong = Vec::new();
    for (name, docs) in documented(&mut c) {
        let mine: Vec<&Row> = rows
            .iter()
            .filter(|row| row.names().contains(&name))
            .collect();
        let elsewhere = ELSEWHERE.iter().any(|(known, _)| *known == name);
        if (mine.is_empty() && !is_recent(&name)) != elsewhere {
            wrong.push(format!(
                "{name}: {} calls, elsewhere: {elsewhere}",
                mine.len()
            ));
        }
        let mut expected = BTreeSet::new();
        tokens(&docs, &mut expected);
        let parts = name.split('|').count();
        let sent: BTreeSet<String> = mine
            .iter()
            .flat_map(|row| row.words().into_iter().skip(parts))
            .collect();
        let upper: BTreeSet<String> = sent.iter().map(|word| word.to_ascii_uppercase()).collect();
        for token in expected
            .iter()
            .filter(|token| !mine.is_empty() && !upper.contains(*token))
        {
            if !UNUSED_TOKENS.contains(&(&name, token)) {
                wrong.push(format!("{name}: no option sends {token}"));
            }
        }
        // The calls above write every value in small letters, so that capitals are options.
        let is_option =
            |word: &&String| word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase());
        for word in sent.iter().filter(is_option) {
            if !expected.contains(word) && !LITERALS.contains(&(&name, word)) {
                wrong.push(format!("{name}: the server knows no option {word}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A command that the server has and does not document would be missing above.
#[test]
fn every_command_of_the_server_is_documented() {
    let redis = Redis::start();
    let mut c = redis.client().blocking().unwrap();
    let listed: BTreeSet<String> = c.run(command_list()).unwrap().into_iter().collect();
    let resp3 = redis.builder().protocol(Some(Protocol::Resp3)).build();
    let docs = resp3
        .blocking()
        .unwrap()
        .run(command_docs::<Said>(()))
        .unwrap();
    let mut documented = BTreeSet::new();
    for (name, docs) in docs.pairs() {
        let subs = docs.get("subcommands").map_or(&[][..], Said::pairs);
        documented.extend(subs.iter().map(|(name, _)| name.clone()));
        documented.insert(name.clone());
    }
    assert_eq!(listed, documented);
    assert!(!is_recent("hexpiretimes") && is_recent("hpexpire") && is_recent("client|no-touch"));
}

/// Words that the server takes literally and describes as values.
const LITERALS: &[(&str, &str)] = &[
    ("bitop", "AND"),
    ("bitop", "OR"),
    ("bitop", "XOR"),
    ("bitop", "NOT"),
    ("client|kill", "YES"),
    ("client|kill", "NO"),
];

/// Every function and option appears in the tables above.
#[test]
fn every_function_and_every_option_is_called() {
    let sources = [
        include_str!("../../../src/commands/acl.rs"),
        include_str!("../../../src/commands/bits.rs"),
        include_str!("../../../src/commands/cluster.rs"),
        include_str!("../../../src/commands/connection.rs"),
        include_str!("../../../src/commands/functions.rs"),
        include_str!("../../../src/commands/geo.rs"),
        include_str!("../../../src/commands/hashes.rs"),
        include_str!("../../../src/commands/hyperloglog.rs"),
        include_str!("../../../src/commands/keys.rs"),
        include_str!("../../../src/commands/lists.rs"),
        include_str!("../../../src/commands/pubsub.rs"),
        include_str!("../../../src/commands/scripting.rs"),
        include_str!("../../../src/commands/server.rs"),
        include_str!("../../../src/commands/sets.rs"),
        include_str!("../../../src/commands/sorted_sets.rs"),
        include_str!("../../../src/commands/streams.rs"),
        include_str!("../../../src/commands/strings.rs"),
    ];
    let calls = include_str!("rows.rs");
    let name_of = |line: &str| {
        let end = line.find(['(', '<'])?;
        let name = &line[..end];
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        is_name.then(|| name.to_owned())
    };
    let (mut functions, mut options) = (0, 0);
    for source in sources {
        for line in source.lines() {
            let indent = line.len() - line.trim_start().len();
            let line = line.trim_start();
            let Some(name) = name_of(line.strip_prefix("pub fn ").unwrap_or(line)) else {
                continue;
            };
            let called = |prefix: &str| {
                ["(", "::<"]
                    .iter()
                    .any(|end| calls.contains(&format!("{prefix}{name}{end}")))
            };
            if indent == 4 && !line.starts_with("pub fn")
                || indent == 0 && line.starts_with("pub fn")
            {
                functions += 1;
                assert!(called("        "), "{name} is not called");
            } else if indent == 8 && line.contains(") -> ") {
                options += 1;
                assert!(called("."), "the option {name} is not used");
            }
        }
    }
    assert!(
        functions > 300 && options > 100,
        "{functions} functions, {options} options"
    );
}

/// The keys by which a cluster routes a call are those that the server finds in it.
#[test]
fn keys_are_where_the_server_finds_them() {
    let redis = Redis::start();
    let mut c = redis.client().blocking().unwrap();
    let rows = all_rows(&mut c);
    let mut wrong = Vec::new();
    for row in &rows {
        let found = keys_by_the_server(&mut c, row);
        let words: Vec<&[u8]> = row.cmd.words().collect();
        let name = String::from_utf8_lossy(words[0]);
        let by_name = cmd::<OwnedReply>(&name).arg(&words[1..]);
        for keys in [row.cmd.routing_keys(), by_name.routing_keys()] {
            // The second key of `SORT` is found by the server alone, which refuses it if its slot is another one.
            let stored = words[0] == b"SORT" && found.len() == 2 && keys.len() == 1;
            // A sharded channel is routed as a key is.
            let channel = words[0] == b"SPUBLISH";
            if !(keys == found || stored && keys[0] == found[0] || channel) {
                wrong.push(format!(
                    "{}: {keys:?}, the server finds {found:?}",
                    row.line()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The keys that the server finds in a call.
fn keys_by_the_server(c: &mut blocking::Connection, row: &Row) -> Vec<bytes::Bytes> {
    let words: Vec<&[u8]> = row.cmd.words().collect();
    match c.run(command_get_keys::<bytes::Bytes>(&words[..])) {
        Ok(keys) => keys,
        // It wants an argument of the command that it looks at.
        Err(_) if words.len() == 1 => Vec::new(),
        Err(error) if error.to_string().contains("no key arguments") => Vec::new(),
        Err(error) => panic!("{}: {error}", row.line()),
    }
}

/// A call can be sent again exactly if its words alone say so, and is a read where the server says so.
#[test]
fn repeatable_commands_agree_with_the_server() {
    let redis = Redis::start();
    let rows = all_rows(&mut redis.client().blocking().unwrap());
    let mut wrong = unlike_the_server(&redis, &rows.iter().collect::<Vec<_>>());
    for row in &rows {
        let meta = row.cmd.meta();
        let words: Vec<&[u8]> = row.cmd.words().collect();
        let by_name = cmd::<OwnedReply>(&String::from_utf8_lossy(words[0]))
            .arg(&words[1..])
            .meta();
        for policy in [RetryPolicy::ReadOnly, RetryPolicy::Idempotent] {
            let (mine, named) = (policy.allows(meta.flags), policy.allows(by_name.flags));
            if mine != named {
                wrong.push(format!(
                    "{}: {policy:?} {mine}, by its name {named}",
                    row.line()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Calls that read or block, and do not by what the server says, or the reverse.
fn unlike_the_server(redis: &Redis, rows: &[&Row]) -> Vec<String> {
    let resp3 = redis.builder().protocol(Some(Protocol::Resp3)).build();
    let mut c = resp3.blocking().unwrap();
    let flags = flags_of_commands(&mut c);
    let mut wrong = Vec::new();
    for row in rows {
        let meta = row.cmd.meta();
        let [long, short] = row.names();
        let said = flags.get(&long).or_else(|| flags.get(&short)).unwrap();
        let reads = meta.flags.contains(Flags::READ_ONLY);
        let has_keys = !row.cmd.routing_keys().is_empty();
        if has_keys && reads != said.contains("readonly") {
            wrong.push(format!(
                "{}: a read: {reads}, the server says {said:?}",
                row.line()
            ));
        }
        let waits = said.contains("blocking") || short.starts_with("wait");
        if meta.flags.contains(Flags::BLOCKS) && !waits {
            wrong.push(format!("{}: it does not block", row.line()));
        }
    }
    wrong
}

/// The flags of every command and subcommand, by its name.
fn flags_of_commands(c: &mut blocking::Connection) -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    let mut todo = c.run(command_info::<Said>(())).unwrap();
    while let Some(command) = todo.pop() {
        let parts = command.items();
        let flags = parts[2].items().iter().map(|flag| flag.text().to_owned());
        found.insert(parts[0].text().to_ascii_lowercase(), flags.collect());
        todo.extend(parts[9].items().iter().cloned());
    }
    found
}

/// A command has a type that can be written down.
#[test]
fn commands_can_be_stored_cloned_and_shown() {
    struct Stored {
        one: Cmd<Option<String>>,
        many: Vec<Cmd<()>>,
    }
    fn built(key: impl Arg) -> Cmd<Option<String>> {
        set(key, "secret").nx().get::<String>().encoded()
    }
    let kept = set("s", 1).option(Some("KEEPTTL"));
    assert_eq!(kept.meta().flags, Flags::NONE, "its effect is not known");
    let redis = Redis::start();
    let mut c = redis.client().blocking().unwrap();
    c.run(kept).unwrap();
    let stored = Stored {
        one: built("s"),
        many: vec![set("s", 1).encoded(), set("t", 2).keep_ttl().encoded()],
    };
    let copy = stored.one.clone();
    let shown = format!("{copy:?} {:?}", set("s", "secret").nx());
    assert!(
        shown.contains("SET") && !shown.contains("secret"),
        "{shown}"
    );
    for result in c.run(&stored.many) {
        result.unwrap();
    }
    assert_eq!(c.run(copy).unwrap().as_deref(), Some("1"));
    let words: Vec<&[u8]> = stored.one.words().collect();
    assert_eq!(words, [&b"SET"[..], b"s", b"secret", b"NX", b"GET"]);
}
