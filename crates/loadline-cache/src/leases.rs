//! Leases: what a process takes before it loads a value, and what every other change of the key ends.
//!
//! The lease of a key is another key of the server, in the same slot, whose value is a token. The value that was loaded is
//! written only if the token is still there, as with the leases of memcached. A script compares and writes; a server without
//! scripts does the same with WATCH, which takes one more round trip.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use loadline_client::cluster::slot_of;
use loadline_client::commands::Script;
use loadline_client::{Cmd, Error as ClientError, OwnedReply, ServerError, cmd};

use crate::{Error, requests};

/// The error of a store without leases.
pub(crate) const CANNOT_LEASE: Error =
    Error::Settings("only a Redis server or a cluster has leases that processes share");

/// Puts a value, or removes the lease only, if the lease has the expected token, or any.
const WRITE: &str = "\
if ARGV[1] ~= '' and redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[2])
if ARGV[3] then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
elseif ARGV[2] then redis.call('SET', KEYS[1], ARGV[2]) end
return 1";

static DIGEST: LazyLock<String> = LazyLock::new(|| Script::new(WRITE).digest().to_owned());

/// A key after its lease was [asked for](crate::KeyValue::lease).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leased {
    /// The token of the lease: the caller's own, or that of another one. `None` if the lease has ended meanwhile.
    pub token: Option<Vec<u8>>,
    /// The value of the key.
    pub value: Option<Vec<u8>>,
}

/// A write to a store that processes share. It ends the lease of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeasedWrite<'a> {
    /// Puts a value.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// The time for which it stays. `None`: no expiry.
        ttl: Option<Duration>,
        /// The token that the lease must have. `None`: any.
        token: Option<&'a [u8]>,
    },
    /// Removes the value.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Leaves the value as it is, and removes the lease if it has this token.
    Release {
        /// The key.
        key: &'a [u8],
        /// The token.
        token: &'a [u8],
    },
}

impl<'a> LeasedWrite<'a> {
    pub(crate) fn key(&self) -> &'a [u8] {
        match self {
            Self::Put { key, .. } | Self::Delete { key } | Self::Release { key, .. } => key,
        }
    }

    pub(crate) fn token(&self) -> Option<&'a [u8]> {
        match self {
            Self::Put { token, .. } => *token,
            Self::Release { token, .. } => Some(token),
            Self::Delete { .. } => None,
        }
    }

    /// One request for the write. `whole` sends the code of the script along.
    pub(crate) fn command(&self, whole: bool) -> Cmd<i64> {
        let (key, lease) = (self.key(), lease_key(self.key()));
        let (value, ttl) = match self {
            Self::Delete { .. } => return cmd("DEL").arg(key).arg(&lease[..]),
            Self::Release { .. } => (None, None),
            Self::Put { value, ttl, .. } => (Some(value), *ttl),
        };
        let script = match whole {
            true => cmd("EVAL").arg(WRITE),
            false => cmd("EVALSHA").arg(&DIGEST[..]),
        };
        let script = script.arg(2).arg(key).arg(&lease[..]);
        let script = script.arg(self.token().unwrap_or_default()).arg(value);
        script.arg(ttl.map(requests::to_ms))
    }

    /// The requests of a transaction for the write, once the token was compared.
    pub(crate) fn steps(&self) -> Vec<Cmd<OwnedReply>> {
        let key = self.key();
        let end = cmd("DEL").arg(&lease_key(key)[..]);
        match self {
            Self::Put { value, ttl, .. } => vec![end, requests::put(key, value, *ttl)],
            Self::Delete { .. } => vec![end, cmd("DEL").arg(key)],
            Self::Release { .. } => vec![end],
        }
    }
}

/// The key of the lease of `key`, in the slot of `key`.
pub(crate) fn lease_key(key: &[u8]) -> Vec<u8> {
    let slot = slot_of(key);
    let tagged = |tag: &[u8], rest: &[u8]| [b"lease:{", tag, b"}", rest].concat();
    let own_tag = || [b"lease:", key].concat();
    let first = match key.contains(&b'{') {
        true => own_tag(),
        false => tagged(key, b""),
    };
    if slot_of(&first) == slot {
        return first;
    }
    // A brace in the key is in the way: a number with the same slot is the tag.
    let numbers = (0..u64::MAX).map(|number| number.to_string());
    let keys = numbers.map(|number| tagged(number.as_bytes(), key));
    keys.into_iter()
        .find(|key| slot_of(key) == slot)
        .unwrap_or(first)
}

/// The requests for leases, and for what the keys have once they are taken.
pub(crate) type Requests = (Vec<Cmd<Option<Vec<u8>>>>, Vec<Cmd<Pair>>);
/// A token and a value.
type Pair = Vec<Option<Vec<u8>>>;
type Replies<T> = Vec<Result<T, ClientError>>;

pub(crate) fn requests(keys: &[&[u8]], token: &[u8], ttl: Duration) -> Requests {
    let leases: Vec<Vec<u8>> = keys.iter().map(|key| lease_key(key)).collect();
    let take = |lease: &Vec<u8>| requests::put(lease, token, Some(ttl)).arg("NX");
    let read = |(lease, key): (&Vec<u8>, &&[u8])| cmd("MGET").arg(&lease[..]).arg(*key);
    (
        leases.iter().map(take).collect(),
        leases.iter().zip(keys).map(read).collect(),
    )
}

/// Reads the replies to [`requests()`].
pub(crate) fn leased(
    token: &[u8],
    (taken, read): (Replies<Option<Vec<u8>>>, Replies<Pair>),
) -> Result<Vec<Leased>, Error> {
    let both = taken.into_iter().zip(read).map(|(taken, read)| {
        let is_own = taken?.is_some();
        let mut read = read?.into_iter();
        let (current, value) = (read.next().flatten(), read.next().flatten());
        let token = match is_own {
            true => Some(token.to_vec()),
            false => current,
        };
        Ok(Leased { token, value })
    });
    both.collect()
}

/// Writes under way.
pub(crate) struct Writing<'w> {
    writes: &'w [LeasedWrite<'w>],
    has_no_scripts: &'w AtomicBool,
    happened: Vec<bool>,
    /// Those to be sent next, and whether with the code of the script.
    next: Vec<usize>,
    whole: bool,
    /// Those to be done without scripts.
    unscripted: Vec<usize>,
}

impl<'w> Writing<'w> {
    /// `has_no_scripts` remembers that the server refuses them.
    pub(crate) fn new(writes: &'w [LeasedWrite<'w>], has_no_scripts: &'w AtomicBool) -> Self {
        let is_sent = |place: &usize| {
            let is_removal = matches!(writes[*place], LeasedWrite::Delete { .. });
            is_removal || !has_no_scripts.load(Relaxed)
        };
        let (next, unscripted) = (0..writes.len()).partition(is_sent);
        Self {
            writes,
            has_no_scripts,
            happened: vec![false; writes.len()],
            next,
            whole: false,
            unscripted,
        }
    }

    /// The next requests, each with the key of its write; none at the end.
    pub(crate) fn requests(&self) -> Vec<(&'w [u8], Cmd<i64>)> {
        let writes = self.next.iter().map(|place| &self.writes[*place]);
        writes
            .map(|write| (write.key(), write.command(self.whole)))
            .collect()
    }

    /// Takes the replies to them.
    ///
    /// # Errors
    /// The first one that is not about scripts.
    pub(crate) fn take(&mut self, replies: Replies<i64>) -> Result<(), Error> {
        for (place, reply) in std::mem::take(&mut self.next).into_iter().zip(replies) {
            match reply {
                Ok(reply) => {
                    // A removal replies with the number of keys, and happens without any.
                    let is_removal = matches!(self.writes[place], LeasedWrite::Delete { .. });
                    self.happened[place] = reply != 0 || is_removal;
                }
                Err(error) if error.is_server_code("NOSCRIPT") && !self.whole => {
                    self.next.push(place);
                }
                Err(ClientError::Server(error)) if refuses_scripts(&error) => {
                    self.has_no_scripts.store(true, Relaxed);
                    self.unscripted.push(place);
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.whole = true;
        Ok(())
    }

    /// The next write to be done without scripts.
    pub(crate) fn unscripted(&mut self) -> Option<(usize, LeasedWrite<'w>)> {
        let place = self.unscripted.pop()?;
        Some((place, self.writes[place]))
    }

    pub(crate) fn set(&mut self, place: usize, has_happened: bool) {
        self.happened[place] = has_happened;
    }

    /// Which writes have happened.
    pub(crate) fn happened(self) -> Vec<bool> {
        self.happened
    }
}

/// Whether the server has no scripts, or the user must not call them.
fn refuses_scripts(error: &ServerError) -> bool {
    error.code() == "NOPERM" || error.text().contains("unknown command")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_is_in_the_slot_of_its_key() {
        let keys: [&[u8]; 9] = [
            b"p:1",
            b"p:{7}:a",
            b"p:{7",
            b"p:7}",
            b"p:{}7",
            b"}{",
            b"{a}b}",
            b"",
            b"p:{a}{b}",
        ];
        let leases = keys.map(lease_key);
        for (key, lease) in keys.iter().zip(&leases) {
            assert_eq!(slot_of(lease), slot_of(key), "{lease:?}");
        }
        assert_eq!(
            leases[..2],
            [b"lease:{p:1}".to_vec(), b"lease:p:{7}:a".to_vec()]
        );
    }
}
