//! The rights of users: which command, keys and channels are denied to them.

use super::describe::{access_of, keys_of};
use super::refusal::Refusal;
use super::table::Known;
use super::{Call, Words, client, find_of, fits, pubsub};
use crate::acl::{Denial, Entry, Selector, User};
use crate::catalogue::KeyAccess;
use crate::commands::glob;

/// What a command is denied for: the kind, and the word that names it.
type Denied<'w> = (Denial, &'w [u8]);

/// A command with what it accesses.
struct Wish<'w> {
    /// The place of its row in the catalogue.
    place: usize,
    argument: Option<&'w [u8]>,
    /// Keys with their places among the words.
    keys: Vec<(usize, &'w [u8], KeyAccess)>,
    /// Channels with their places among the words.
    channels: Vec<(usize, &'w [u8])>,
    /// Whether the channels are patterns.
    are_patterns: bool,
}

impl<'w> Wish<'w> {
    fn new(known: &Known, words: Words<'w>) -> Self {
        let keys = keys_of(words).unwrap_or_default();
        let keys = keys.into_iter().enumerate().map(|(number, key)| {
            let at = words.iter().position(|word| std::ptr::eq(*word, key));
            (at.unwrap_or(0), key, access_of(known, words, number))
        });
        let channels = match known.name {
            "SUBSCRIBE" | "SSUBSCRIBE" | "PSUBSCRIBE" => &words[1..],
            "PUBLISH" | "SPUBLISH" => &words[1..2],
            _ => &[],
        };
        Self {
            place: known.item.place,
            argument: words.get(1).copied(),
            keys: keys.collect(),
            channels: (1..).zip(channels.iter().copied()).collect(),
            are_patterns: known.name == "PSUBSCRIBE",
        }
    }

    /// What a selector denies, with the place of the word.
    fn denied_by(&self, selector: &Selector) -> Option<(Denial, usize)> {
        if !selector.may_run(self.place, self.argument) {
            return Some((Denial::Command, 0));
        }
        let is_open = |key: &[u8], access: KeyAccess| {
            let (reads, writes) = (access.reads(), access.writes());
            let fits = |known: &&crate::acl::KeyPattern| {
                (known.reads || !reads) && (known.writes || !writes)
            };
            let mut known = selector.patterns.iter().filter(fits);
            selector.all_keys || known.any(|known| glob(&known.pattern, key))
        };
        let mut keys = self.keys.iter();
        if let Some((at, ..)) = keys.find(|(_, key, access)| !is_open(key, *access)) {
            return Some((Denial::Key, *at));
        }
        let is_open = |channel: &[u8]| {
            selector.all_channels
                || selector
                    .channels
                    .iter()
                    .any(|known| match self.are_patterns {
                        true => known == channel,
                        false => glob(known, channel),
                    })
        };
        let mut channels = self.channels.iter();
        let denied = channels.find(|(_, channel)| !is_open(channel))?;
        Some((Denial::Channel, denied.0))
    }
}

/// What a user must not do of a command.
pub(super) fn denied<'w>(user: &User, known: &Known, words: Words<'w>) -> Option<Denied<'w>> {
    if user.is_free() || known.item.has("no_auth") {
        return None;
    }
    let wish = Wish::new(known, words);
    let mut worst = (Denial::Command, 0);
    for selector in &user.selectors {
        worst = worst.max(wish.denied_by(selector)?);
    }
    Some((worst.0, words[worst.1]))
}

/// Whether a user can execute a command and read all keys.
fn may_read_all(user: &User, known: &Known, words: Words<'_>) -> bool {
    let wish = Wish::new(known, words);
    let reads_all = |one: &Selector| {
        let mut patterns = one.patterns.iter();
        one.all_keys || patterns.any(|known| known.reads && known.pattern == b"*")
    };
    let mut selectors = user.selectors.iter();
    selectors.any(|one| wish.denied_by(one).is_none() && reads_all(one))
}

impl Call<'_> {
    /// The user of the client; `None` where it has to authenticate first.
    pub(super) fn user(&self) -> Option<&User> {
        let acl = &self.shared.acl;
        let may_begin = self.session.authenticated || acl.is_open();
        acl.user(&self.session.user).filter(|_| may_begin)
    }

    /// Whether the client can execute a command and read all keys.
    pub(super) fn may_read_all(&self, words: Words<'_>) -> bool {
        let user = || self.user().zip(find_of(words));
        self.shared.acl.is_plain()
            || user().is_some_and(|(user, known)| may_read_all(user, known, words))
    }

    /// Whether nothing of a command is denied to the client. A user with limits cannot call one with too few or too many words.
    pub(super) fn may_call(&self, known: &Known, words: Words<'_>) -> bool {
        let fits = || fits(known.arity, words.len());
        let may = |user: &User| user.is_free() || fits() && denied(user, known, words).is_none();
        self.shared.acl.is_plain() || self.user().is_some_and(may)
    }

    /// What the client must not do of a command, which is noted in the log.
    pub(super) fn denial(
        &mut self,
        known: &Known,
        words: Words<'_>,
        context: &'static str,
    ) -> Option<Denial> {
        if self.shared.acl.is_plain() {
            return None;
        }
        let (denial, object) = denied(self.user()?, known, words)?;
        let object = match denial {
            Denial::Command => known.item.name.as_bytes().to_vec(),
            _ => object.to_vec(),
        };
        let user = self.session.user.clone();
        self.note_denial(denial, context, (object, user));
        Some(denial)
    }

    /// Adds an entry about the client to the log.
    pub(super) fn note_denial(
        &mut self,
        denial: Denial,
        context: &'static str,
        (object, user): (Vec<u8>, Vec<u8>),
    ) {
        let mut client = client::line(self, &self.session.peer);
        client.truncate(client.trim_end().len());
        let entry = Entry {
            count: 1,
            denial,
            context,
            object,
            user,
            at_ms: self.now(),
            client,
        };
        let most = self.shared.settings.acllog_max_len;
        self.shared.acl.log.add(entry, most);
    }

    /// The context of a denial for the log.
    pub(super) fn context(&self) -> &'static str {
        match self.session.queue {
            Some(_) => "multi",
            None => "toplevel",
        }
    }

    /// The error of a command that this client cannot call now.
    #[cold]
    pub(super) fn restriction(&mut self, known: &Known, words: Words<'_>) -> Option<Refusal> {
        let is_for_all = known.item.has("no_auth");
        if self.user().is_none() && !is_for_all {
            return Some("NOAUTH Authentication required.".into());
        }
        let context = self.context();
        if let Some(denial) = self.denial(known, words, context) {
            let object = match denial {
                Denial::Key => "access one of the keys used as arguments".to_owned(),
                Denial::Channel => "access one of the channels used as arguments".to_owned(),
                Denial::Command | Denial::Login => {
                    format!("run the '{}' command", known.item.name)
                }
            };
            return Some(format!("NOPERM this user has no permissions to {object}").into());
        }
        let is_subscriber = pubsub::is_subscriber(self.session);
        if is_subscriber && !pubsub::is_for_subscribers(known.name) {
            return Some(pubsub::refusal_of(known.item.name));
        }
        None
    }
}

/// The reply of ACL DRYRUN.
pub(super) fn dry_run(user: &User, words: Words<'_>) -> Result<Option<Vec<u8>>, Refusal> {
    let not_found = || Refusal::from([b"ERR Command '", words[0], b"' not found"]);
    let known = find_of(words).ok_or_else(not_found)?;
    let name = known.item.name;
    if !fits(known.arity, words.len()) {
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    let begin = b"This user has no permissions to ";
    Ok(
        denied(user, known, words).map(|(denial, word)| match denial {
            Denial::Key => [begin, &b"access the '"[..], word, b"' key"].concat(),
            Denial::Channel => [begin, &b"access the '"[..], word, b"' channel"].concat(),
            Denial::Command | Denial::Login => {
                [begin, &b"run the '"[..], name.as_bytes(), b"' command"].concat()
            }
        }),
    )
}
