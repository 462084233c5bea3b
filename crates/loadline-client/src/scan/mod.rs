//! Scans: all keys, or all elements of a hash or set, page by page. No socket, no clock.
//!
//! The plain version: ask with cursor zero, and with the cursor of each answer, until that is zero again. A
//! cursor is a position in the hash table of the server that gave it, and every start of a server orders its
//! tables differently. So if another server answers, because the first one was restarted or a replica took over,
//! the cursor has no meaning, and keys would be missing without an error. Therefore each page is read in one
//! transaction with the identity of the server, and another server is scanned from its beginning.

pub(crate) mod walk;

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;

use crate::facts;
use crate::flags::Flags;
use crate::{Cmd, Command, Error, FromReply, ToArgs, cmd};

/// The default number of elements that a server looks at for a page.
const COUNT: u64 = 100;

/// A search for keys, or for the elements of a hash or set. The `scan` method of any connection runs it.
///
/// An element that exists for the whole scan is found at least once, also if the connection breaks, the server
/// is restarted with its data, a replica takes over, or slots of a cluster move. It can be found more than once.
/// An element that is added or removed during the scan can be found or not. Only one page is in memory, about
/// [`Scan::count`] elements; a collection that the server holds in compact form (by default up to 512 elements)
/// is one page.
///
/// Each page is read together with `INFO server`, whose `run_id` identifies a start of a server. For users without
/// the right to run `INFO` there is [`Scan::unchecked`].
///
/// ```
/// # let url = &include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/server.rs"));
/// # let client = loadline_client::Client::open(url)?;
/// # use loadline_client::commands::{hset, set};
/// use loadline_client::Scan;
///
/// let mut connection = client.blocking()?;
/// # connection.run((set("user:1", "Ada"), set("session:1", "Ada"), hset("visits", [("home", 3)])));
/// for key in connection.scan(Scan::<String>::keys().matching("user:*").count(1000)) {
///     println!("{}", key?);
/// }
/// for pair in connection.scan(Scan::<(String, i64)>::hash("visits")) {
///     let (page, visits) = pair?;
///     println!("{page}: {visits}");
/// }
/// # let keys = Scan::<String>::keys().matching("user:*").count(1000);
/// # let keys: Result<Vec<_>, _> = connection.scan(keys).collect();
/// # assert_eq!(keys?, ["user:1"]);
/// # let pairs: Result<Vec<_>, _> = connection.scan(Scan::<(String, i64)>::hash("visits")).collect();
/// # assert_eq!(pairs?, [("home".to_owned(), 3)]);
/// # Ok::<(), loadline_client::Error>(())
/// ```
pub struct Scan<T> {
    what: What,
    pattern: Option<Bytes>,
    of_type: Option<Bytes>,
    count: u64,
    checked: bool,
    element: PhantomData<fn() -> T>,
}

#[derive(Clone, Debug)]
enum What {
    Keys,
    Within { name: &'static str, key: Bytes },
}

impl<T: FromReply> Scan<T> {
    /// All keys of the database, or of all masters of a cluster (`SCAN`).
    #[must_use]
    pub fn keys() -> Self {
        Self::of(What::Keys)
    }

    /// The members of a set (`SSCAN`).
    #[must_use]
    pub fn set(key: impl Into<Bytes>) -> Self {
        Self::within("SSCAN", key.into())
    }

    /// Finds only keys, fields or members that match this pattern, such as `user:*`. The server also looks at the
    /// others, so a page can be empty.
    #[must_use]
    pub fn matching(mut self, pattern: impl Into<Bytes>) -> Self {
        self.pattern = Some(pattern.into());
        self
    }

    /// Finds only keys whose value has this type, such as `string` or `hash`. Only for [`Scan::keys`]; the server
    /// refuses it for others.
    #[must_use]
    pub fn of_type(mut self, name: impl Into<Bytes>) -> Self {
        self.of_type = Some(name.into());
        self
    }

    /// The number of elements that the server looks at for a page, during which it serves no other client.
    /// Default 100, at least 1.
    #[must_use]
    pub fn count(mut self, count: u64) -> Self {
        self.count = count.max(1);
        self
    }

    /// Leaves out `INFO server`, for users without the right to run it. A restart of the server or a failover is
    /// not noticed then, and elements can be missing. A scan of the keys of a cluster asks all the same.
    #[must_use]
    pub fn unchecked(mut self) -> Self {
        self.checked = false;
        self
    }

    fn within(name: &'static str, key: Bytes) -> Self {
        Self::of(What::Within { name, key })
    }

    fn of(what: What) -> Self {
        Self {
            what,
            pattern: None,
            of_type: None,
            count: COUNT,
            checked: true,
            element: PhantomData,
        }
    }

    /// The page at a cursor, its elements read as this type.
    pub(crate) fn page<U: FromReply>(
        &self,
        cursor: u64,
    ) -> Command<impl ToArgs + use<T, U>, (u64, Vec<U>)> {
        let (name, key) = match &self.what {
            What::Keys => ("SCAN", None),
            What::Within { name, key } => (*name, Some(key.clone())),
        };
        let meta = facts::lookup(name);
        let pattern = self.pattern.clone().map(|pattern| ("MATCH", pattern));
        let of_type = self.of_type.clone().map(|name| ("TYPE", name));
        Command::new(meta, (key, cursor, pattern, "COUNT", self.count, of_type))
    }
}

impl<F: FromReply, V: FromReply> Scan<(F, V)> {
    /// The fields of a hash with their values (`HSCAN`).
    #[must_use]
    pub fn hash(key: impl Into<Bytes>) -> Self {
        Self::within("HSCAN", key.into())
    }
}

impl<M: FromReply> Scan<(M, f64)> {
    /// The members of a sorted set with their scores, in no order (`ZSCAN`).
    #[must_use]
    pub fn sorted_set(key: impl Into<Bytes>) -> Self {
        Self::within("ZSCAN", key.into())
    }
}

impl<T> Clone for Scan<T> {
    fn clone(&self) -> Self {
        Self {
            what: self.what.clone(),
            pattern: self.pattern.clone(),
            of_type: self.of_type.clone(),
            ..*self
        }
    }
}

impl<T> fmt::Debug for Scan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan")
            .field("what", &self.what)
            .field("pattern", &self.pattern)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

/// The parts of the documentation that scans on tokio and scans for one thread share.
macro_rules! scan_text {
    (connection) => {
        "Finds all keys, or all elements of a hash or set; see [`Scan`]."
    };
    (cluster) => {
        "Finds all keys of all masters, or all elements of a hash or set; see [`Scan`]. Masters are scanned one
after the other, as by [`Cluster::scan_page`]."
    };
    (scanning) => {
        "The elements that a [`Scan`] finds. The next page is read when the previous one is used up."
    };
}
pub(crate) use scan_text;

/// Asks a server for its identity.
pub(crate) fn who() -> Cmd<String> {
    cmd("INFO server").flags(Flags::READ_ONLY)
}

/// The identity of a start of a server.
///
/// # Errors
/// [`Error::Type`] if the text does not have it.
pub(crate) fn run_id(info: &str) -> Result<String, Error> {
    let id = info.lines().find_map(|line| line.strip_prefix("run_id:"));
    id.map(str::to_owned).ok_or(Error::Type {
        expected: "INFO with a run_id, by which a scan notices that another server answers",
        got: "a text without a run_id",
    })
}
