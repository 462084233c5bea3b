//! Questions to a sentinel, its answers, and its events.

use loadline_resp::{OwnedReply, encode};

use super::names::Role;
use crate::cluster::Node;
use crate::flags::Flags;
use crate::request::{Cmd, Replies, Request, Requests, Summary, read};
use crate::{Error, cmd};

/// The channels of events that change who the master is.
const CHANNELS: [&str; 6] = [
    "+switch-master",
    "+selected-slave",
    "+failover-state-reconf-slaves",
    "-failover-abort-not-elected",
    "-failover-abort-no-good-slave",
    "-failover-abort-slave-timeout",
];

/// The answer of a sentinel about a name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// Its own name for itself.
    pub(super) id: Option<String>,
    /// The master with the epoch of the failover that made it one; `None` if the sentinel does not know the name.
    pub(super) master: Option<(Node, u64)>,
    /// The other sentinels of the name.
    pub(super) sentinels: Vec<(Option<String>, Node)>,
    /// The replicas that can be used.
    pub(super) replicas: Vec<Node>,
}

/// An event that a sentinel publishes about the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SentinelEvent {
    /// A failover has selected the replica that becomes the master.
    Selected(Node),
    /// The failover does not take place.
    Aborted,
    /// The master can be another one by now.
    Changed,
}

type Reply = Cmd<OwnedReply>;
type Replied = Result<OwnedReply, Error>;

/// The question to a sentinel about a name, in one round trip.
pub(crate) fn question(name: &str, role: Role) -> (Reply, Reply, Reply, Reply, Reply) {
    let ask = |subcommand: &str| {
        let command = cmd("SENTINEL").arg(subcommand);
        command.flags(Flags::READ_ONLY)
    };
    let replicas = match role {
        // A question that costs the sentinel nothing.
        Role::Master => cmd("PING").flags(Flags::READ_ONLY),
        Role::Replica => ask("SLAVES").arg(name),
    };
    (
        ask("GET-MASTER-ADDR-BY-NAME").arg(name),
        ask("MASTER").arg(name),
        ask("SENTINELS").arg(name),
        replicas,
        ask("MYID"),
    )
}

impl Answer {
    /// Reads the replies to the [`question`].
    ///
    /// # Errors
    /// The reason why they cannot be used.
    pub(crate) fn read(
        (address, master, sentinels, replicas, id): (Replied, Replied, Replied, Replied, Replied),
        role: Role,
    ) -> Result<Self, Error> {
        let address = match address? {
            OwnedReply::Array(words) => match words.as_slice() {
                [host, port] => node(&text(host), &text(port)),
                _ => None,
            },
            reply if reply.is_null() => return Ok(Self::default()),
            other => return Err(Error::unfit("an address", &other.borrowed())),
        };
        let unknown = || Error::Sentinel("a sentinel names an address that is none".into());
        let address = address.ok_or_else(unknown)?;
        let about = fields(&master?);
        let epoch = field(&about, "config-epoch").and_then(|epoch| epoch.parse().ok());
        let others = list(sentinels).into_iter().filter_map(|about| {
            let id = field(&about, "runid").filter(|id| !id.is_empty());
            Some((id.map(ToOwned::to_owned), at(&about)?))
        });
        let replicas = match role {
            Role::Master => Vec::new(),
            Role::Replica => list(replicas)
                .into_iter()
                .filter(|about| is_usable(about))
                .filter_map(|about| at(&about))
                .filter(|replica| *replica != address)
                .collect(),
        };
        Ok(Self {
            // Sentinels before Redis 6.2 do not know the question.
            id: id.ok().map(|id| text(&id)),
            master: Some((address, epoch.unwrap_or(0))),
            sentinels: others.collect(),
            replicas,
        })
    }

    pub(super) fn epoch(&self) -> Option<u64> {
        self.master.as_ref().map(|(_, epoch)| *epoch)
    }

    /// Whether this is one of the other sentinels.
    pub(super) fn names(&self, sentinel: &Node) -> bool {
        self.sentinels.iter().any(|(_, node)| node == sentinel)
    }
}

/// Whether a replica answers and has a link to its master, as far as the sentinel knows.
fn is_usable(about: &[(String, String)]) -> bool {
    let flags = field(about, "flags").unwrap_or_default();
    let is_away = |flag: &str| matches!(flag, "s_down" | "o_down" | "disconnected");
    !flags.split(',').any(is_away) && field(about, "master-link-status") == Some("ok")
}

impl SentinelEvent {
    /// Reads a push message about the master of this name.
    pub(crate) fn read(push: &OwnedReply, name: &str) -> Option<Self> {
        let (OwnedReply::Push(parts) | OwnedReply::Array(parts)) = push else {
            return None;
        };
        let [kind, channel, payload] = parts.as_slice() else {
            return None;
        };
        if text(kind) != "message" {
            return None;
        }
        let (channel, payload) = (text(channel), text(payload));
        let words: Vec<&str> = payload.split(' ').collect();
        match (channel.as_str(), words.as_slice()) {
            ("+switch-master", [about, ..]) if *about == name => Some(Self::Changed),
            ("+selected-slave", [_, _, host, port, "@", about, ..]) if *about == name => {
                node(host, port).map(Self::Selected)
            }
            ("+failover-state-reconf-slaves", [_, about, ..]) if *about == name => {
                Some(Self::Changed)
            }
            (abort, [_, about, ..]) if abort.starts_with('-') && *about == name => {
                Some(Self::Aborted)
            }
            _ => None,
        }
    }
}

/// Subscribes to the events. In RESP3 the confirmations are push messages, so that a `PING` behind it has the only reply.
pub(crate) struct Subscribe;

impl Request for Subscribe {
    type Output = Result<OwnedReply, Error>;

    fn commands(&self) -> usize {
        1
    }

    fn encode(&self, out: &mut Requests<'_>) {
        let mut bytes = Vec::new();
        encode::command(&mut bytes, &[&["SUBSCRIBE"], &CHANNELS[..]].concat());
        encode::command(&mut bytes, &["PING"]);
        let summary = Summary {
            commands: 1,
            flags: Flags::READ_ONLY,
            name: "PING",
            wait: std::time::Duration::ZERO,
        };
        out.raw(&bytes, &summary);
    }

    fn decode<R: Replies>(&self, replies: &mut R) -> Self::Output {
        read(replies)
    }
}

/// Entries of a list of servers. Without the right to see it, it is empty.
fn list(reply: Replied) -> Vec<Vec<(String, String)>> {
    match reply {
        Ok(OwnedReply::Array(items)) => items.iter().map(fields).collect(),
        _ => Vec::new(),
    }
}

/// Names and values: a map of RESP3, or a list of both in RESP2.
fn fields(reply: &OwnedReply) -> Vec<(String, String)> {
    match reply {
        OwnedReply::Map(pairs) => {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| (text(name), text(value)))
                .collect()
        }
        OwnedReply::Array(words) => {
            let pairs = words.chunks_exact(2);
            pairs.map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
        }
        _ => Vec::new(),
    }
}

fn field<'a>(about: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = about.iter().find(|(known, _)| known == name)?;
    Some(&found.1)
}

fn at(about: &[(String, String)]) -> Option<Node> {
    node(field(about, "ip")?, field(about, "port")?)
}

fn node(host: &str, port: &str) -> Option<Node> {
    let port = port.parse().ok().filter(|&port| port != 0)?;
    (!host.is_empty()).then(|| Node::new(host, port))
}

fn text(reply: &OwnedReply) -> String {
    String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned()
}
