//! Scans: all keys, or all elements of a hash or set, page by page. No socket, no clock.
//!
//! The plain version: ask with cursor zero, and with the cursor of each answer, until that is zero again. A
//! cursor is a position in the hash table of the server that gave it, and every start of a server orders its
//! tables differently. So if another server answers, because the first one was restarted or a replica took over,
//! the cursor has no meaning, and keys would be missing without an error. Therefore each page is read in one
//! transaction with the identity of the server, and another server is scanned from its beginning.

use std::fmt;
use std::marker::PhantomData;
use std::task::Poll;

use bytes::Bytes;

use crate::cluster::Cursor;
use crate::flags::{Flags, Keys, Meta};
use crate::{Cmd, Command, Error, FromReply, Request, ToArgs, atomic, cmd};

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
        let (name, keys, key) = match &self.what {
            What::Keys => ("SCAN", Keys::None, None),
            What::Within { name, key } => (*name, Keys::First, Some(key.clone())),
        };
        let meta = Meta {
            name,
            flags: Flags::READ_ONLY,
            keys,
        };
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

/// The state of a running scan.
#[derive(Debug)]
pub(crate) struct Walk<T> {
    scan: Scan<T>,
    found: std::vec::IntoIter<T>,
    at: u64,
    /// The identity of the server that gave the cursor, if it was asked.
    server: Option<String>,
    finished: bool,
    /// The position of a scan of the keys of a cluster.
    cursor: Option<Cursor>,
}

/// The reply to the question for a page. Nil only if a watched key has changed, and none is watched.
pub(crate) type ScanReply<T> =
    Result<Option<(Result<(u64, Vec<T>), Error>, Vec<Result<String, Error>>)>, Error>;

impl<T: FromReply> Walk<T> {
    pub(crate) fn new(scan: Scan<T>) -> Self {
        Self {
            scan,
            found: Vec::new().into_iter(),
            at: 0,
            server: None,
            finished: false,
            cursor: None,
        }
    }

    /// On a cluster, where the keys are on many nodes.
    pub(crate) fn on_cluster(scan: Scan<T>) -> Self {
        let cursor = matches!(scan.what, What::Keys).then(Cursor::start);
        Self {
            cursor,
            ..Self::new(scan)
        }
    }

    pub(crate) fn scan(&self) -> &Scan<T> {
        &self.scan
    }

    /// The next element, if it is here, or `None` after the last one.
    pub(crate) fn next(&mut self) -> Poll<Option<T>> {
        match self.found.next() {
            None if !self.finished => Poll::Pending,
            found => Poll::Ready(found),
        }
    }

    /// A copy of the position of a scan of the keys of a cluster. The walk keeps its own until the page is
    /// here, so that a future can be dropped.
    pub(crate) fn cursor(&self) -> Option<Cursor> {
        self.cursor.clone()
    }

    /// The question for the next page, to a single server.
    pub(crate) fn question(&self) -> impl Request<Output = ScanReply<T>> + use<T> {
        self.ask(Flags::READ_ONLY)
    }

    /// The same to the master of the key. Requests go to replicas in turn, and a replica does not know the cursor
    /// of another one.
    pub(crate) fn question_to_master(&self) -> impl Request<Output = ScanReply<T>> + use<T> {
        self.ask(Flags::IDEMPOTENT)
    }

    fn ask(&self, flags: Flags) -> impl Request<Output = ScanReply<T>> + use<T> {
        let who = self.scan.checked.then(|| who().flags(flags));
        atomic((self.scan.page::<T>(self.at), Vec::from_iter(who)))
    }

    /// Takes a reply.
    ///
    /// # Errors
    /// The error of the request; the position is unchanged.
    pub(crate) fn took(&mut self, answer: ScanReply<T>) -> Result<(), Error> {
        let Some((page, who)) = answer? else {
            return Ok(());
        };
        let (next, found) = page?;
        let server = who.into_iter().next().transpose()?;
        let server = server.map(|info| run_id(&info)).transpose()?;
        let other = self.at != 0 && server != self.server;
        self.server = server;
        self.found = found.into_iter();
        // The elements exist, but the cursor of another server is no position to continue from.
        self.at = if other { 0 } else { next };
        self.finished = next == 0 && !other;
        Ok(())
    }

    /// Takes the keys of a page of a cluster, and the new position.
    ///
    /// # Errors
    /// The reason why there is no page.
    pub(crate) fn took_of_cluster(
        &mut self,
        keys: Result<Vec<T>, Error>,
        cursor: Cursor,
    ) -> Result<(), Error> {
        self.finished = cursor.is_finished();
        self.cursor = Some(cursor);
        self.found = keys?.into_iter();
        Ok(())
    }
}

/// Asks for the next page. `await` as the last argument makes it asynchronous.
macro_rules! read_page {
    ($over:expr, $walk:expr $(, $await:tt)?) => {{
        let cursor = $walk.cursor();
        match ($over, cursor) {
            (Over::Cluster(cluster), Some(mut cursor)) => {
                let keys = cluster.page_of_keys(&mut cursor, $walk.scan())$(.$await)?;
                $walk.took_of_cluster(keys, cursor)
            }
            (Over::Cluster(cluster), None) => {
                let reply = cluster.run($walk.question_to_master())$(.$await)?;
                $walk.took(reply)
            }
            (Over::Connection(connection), _) => {
                let reply = connection.run($walk.question())$(.$await)?;
                $walk.took(reply)
            }
        }
    }};
}
pub(crate) use read_page;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Requests;

    fn wire(request: &impl Request) -> String {
        let mut out = Vec::new();
        request.encode(&mut Requests::new(&mut out, false));
        let text = String::from_utf8(out).unwrap();
        let words = text
            .split("\r\n")
            .filter(|word| !word.starts_with(['*', '$']));
        words.collect::<Vec<_>>().join(" ").trim().to_owned()
    }

    fn page(next: u64, found: &[&str], server: &str) -> ScanReply<String> {
        let found = found.iter().map(ToString::to_string).collect();
        let info = format!("# Server\r\nredis_version:7.0.15\r\nrun_id:{server}\r\n");
        Ok(Some((Ok((next, found)), vec![Ok(info)])))
    }

    /// The elements that are here.
    fn found(walk: &mut Walk<String>) -> Vec<String> {
        let ready = std::iter::from_fn(|| match walk.next() {
            Poll::Ready(found) => found,
            Poll::Pending => None,
        });
        ready.collect()
    }

    #[test]
    fn each_kind_has_its_command_and_its_options() {
        let keys = Scan::<String>::keys()
            .matching("a*")
            .of_type("hash")
            .count(0);
        assert_eq!(
            wire(&keys.page::<String>(7)),
            "SCAN 7 MATCH a* COUNT 1 TYPE hash"
        );
        let hash = Scan::<(String, u64)>::hash("h");
        assert_eq!(
            wire(&Walk::new(hash.clone()).question()),
            "MULTI HSCAN h 0 COUNT 100 INFO server EXEC"
        );
        assert_eq!(
            wire(&Walk::new(hash.unchecked()).question()),
            "MULTI HSCAN h 0 COUNT 100 EXEC"
        );
        let set = Scan::<String>::set("s");
        assert_eq!(wire(&set.page::<String>(0)), "SSCAN s 0 COUNT 100");
        let sorted = Scan::<(String, f64)>::sorted_set("z");
        assert_eq!(wire(&sorted.page::<String>(0)), "ZSCAN z 0 COUNT 100");
    }

    #[test]
    fn a_scan_ends_with_the_cursor_zero_of_the_server_that_it_is_of() {
        let mut walk = Walk::new(Scan::keys());
        walk.took(page(5, &["a", "b"], "one")).unwrap();
        assert_eq!(found(&mut walk), ["a", "b"]);
        assert!(!walk.finished);
        walk.took(page(0, &[], "one")).unwrap();
        assert!(walk.next() == Poll::Ready(None) && walk.finished);
    }

    #[test]
    fn another_server_is_scanned_from_its_beginning() {
        let mut walk = Walk::new(Scan::keys());
        walk.took(page(5, &["a"], "one")).unwrap();
        // The end of another server's table is not the end of the scan.
        walk.took(page(0, &["b"], "two")).unwrap();
        assert_eq!(found(&mut walk), ["b"]);
        assert_eq!(walk.at, 0);
        walk.took(page(0, &["c"], "three")).unwrap();
        assert!(walk.finished, "it began there, and ends there");
    }

    #[test]
    fn an_error_leaves_the_scan_where_it_was() {
        let mut walk = Walk::new(Scan::<String>::keys());
        walk.took(page(5, &[], "one")).unwrap();
        let nameless = Ok(Some((Ok((9, Vec::new())), vec![Ok(String::new())])));
        let error = walk.took(nameless).unwrap_err().to_string();
        assert!(error.contains("run_id"), "{error}");
        assert_eq!((walk.at, walk.finished), (5, false));
    }
}
