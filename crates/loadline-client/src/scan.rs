//! Scans: all keys, or all that is in a hash or a set, page by page. No socket, no clock.
//!
//! The plain version: ask with cursor zero, and with the cursor of each answer, until that is zero again. The
//! cursor is a place in the hash table of the server that gave it, whose order is drawn anew with every start
//! of a server. So where another server answers than before, because it was restarted or a replica took over,
//! the cursor means nothing, and keys would be missing without a word. Therefore each page comes in one
//! transaction with what the server says of itself, and another server is scanned from its beginning.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;

use crate::cluster::Cursor;
use crate::flags::{Flags, Keys, Meta};
use crate::{Cmd, Command, Error, FromReply, Request, ToArgs, atomic, cmd};

/// How many elements a server looks at for a page, unless it is told.
const COUNT: u64 = 100;

/// What to look through, and what for. `scan` of any connection runs it.
///
/// What is there from the beginning of a scan to its end is found at least once, also where the connection
/// breaks meanwhile, where the server is restarted with its data or a replica takes over, and where slots of
/// a cluster move. It may be found more than once; what comes or goes meanwhile may be found or not. No more
/// is held than one page, which is about [`Scan::count`] elements; collections that a server holds in compact
/// form (512 elements at most by default) come as one page.
///
/// For that, each page is asked for together with `INFO server`, whose `run_id` tells one server from another;
/// see [`Scan::unchecked`] for a user who may not ask that.
///
/// ```no_run
/// # let client = loadline_client::Client::open("redis://localhost")?;
/// use loadline_client::Scan;
///
/// let mut connection = client.blocking()?;
/// for key in connection.scan(Scan::<String>::keys().matching("user:*").count(1000)) {
///     println!("{}", key?);
/// }
/// for pair in connection.scan(Scan::<(String, i64)>::hash("visits")) {
///     let (page, visits) = pair?;
///     println!("{page}: {visits}");
/// }
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

    /// Only keys, fields or members that match this pattern: `user:*`. The server looks at the others too, so
    /// a page may be empty.
    #[must_use]
    pub fn matching(mut self, pattern: impl Into<Bytes>) -> Self {
        self.pattern = Some(pattern.into());
        self
    }

    /// Only keys whose value is of this type: `string`, `hash`. It is for [`Scan::keys`] alone; of others the
    /// server says that it is wrong.
    #[must_use]
    pub fn of_type(mut self, name: impl Into<Bytes>) -> Self {
        self.of_type = Some(name.into());
        self
    }

    /// How many elements the server looks at for a page, which nobody else is served during; default 100, and
    /// at least 1.
    #[must_use]
    pub fn count(mut self, count: u64) -> Self {
        self.count = count.max(1);
        self
    }

    /// Does not ask who answers, for a user who may not run `INFO`. A server that was restarted, or a replica
    /// that took over, is not noticed then, and what it holds may be missing. A scan of the keys of a cluster
    /// asks all the same.
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

/// A scan that is under way.
#[derive(Debug)]
pub(crate) struct Walk<T> {
    scan: Scan<T>,
    found: std::vec::IntoIter<T>,
    at: u64,
    /// The server that gave the cursor, if it was asked.
    server: Option<String>,
    finished: bool,
    /// How far a scan of the keys of a cluster has come.
    pub(crate) cursor: Option<Cursor>,
}

/// What a server answers to the question for a page: nil only where a watched key has changed.
type Answer<T> = Result<Option<(Result<(u64, Vec<T>), Error>, Vec<Result<String, Error>>)>, Error>;

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

    /// The next element of the page that is here.
    pub(crate) fn next(&mut self) -> Option<T> {
        self.found.next()
    }

    /// Whether nothing is left to ask.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// The question for the next page, to a server that stands for itself.
    pub(crate) fn question(&self) -> impl Request<Output = Answer<T>> + use<T> {
        self.ask(Flags::READ_ONLY)
    }

    /// The same to the master of the key. Replicas take turns, and none knows the cursor of another.
    pub(crate) fn question_to_master(&self) -> impl Request<Output = Answer<T>> + use<T> {
        self.ask(Flags::IDEMPOTENT)
    }

    fn ask(&self, flags: Flags) -> impl Request<Output = Answer<T>> + use<T> {
        let who = self.scan.checked.then(|| who().flags(flags));
        atomic((self.scan.page::<T>(self.at), Vec::from_iter(who)))
    }

    /// Takes what was answered.
    ///
    /// # Errors
    /// What went wrong; the place is the same.
    pub(crate) fn took(&mut self, answer: Answer<T>) -> Result<(), Error> {
        let Some((page, who)) = answer? else {
            return Ok(());
        };
        let (next, found) = page?;
        let server = who.into_iter().next().transpose()?;
        let server = server.map(|info| run_id(&info)).transpose()?;
        let other = self.at != 0 && server != self.server;
        self.server = server;
        self.found = found.into_iter();
        // What another server has found at a cursor that is not its own is there, but no cursor to go on from.
        self.at = if other { 0 } else { next };
        self.finished = next == 0 && !other;
        Ok(())
    }

    /// Takes the keys of a page of a cluster, and how far the scan has come with it.
    ///
    /// # Errors
    /// Why there is no page.
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

/// Asks a server who it is.
pub(crate) fn who() -> Cmd<String> {
    cmd("INFO server").flags(Flags::READ_ONLY)
}

/// What tells one start of a server from another.
///
/// # Errors
/// [`Error::Type`] where a server does not say it.
pub(crate) fn run_id(info: &str) -> Result<String, Error> {
    let id = info.lines().find_map(|line| line.strip_prefix("run_id:"));
    id.map(str::to_owned).ok_or(Error::Type {
        expected: "an INFO with the run_id by which a scan notices that another server answers",
        got: "a text without one",
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

    fn page(next: u64, found: &[&str], server: &str) -> Answer<String> {
        let found = found.iter().map(ToString::to_string).collect();
        let info = format!("# Server\r\nredis_version:7.0.15\r\nrun_id:{server}\r\n");
        Ok(Some((Ok((next, found)), vec![Ok(info)])))
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
        assert_eq!(walk.next().as_deref(), Some("a"));
        assert!(!walk.is_finished());
        walk.took(page(0, &[], "one")).unwrap();
        assert_eq!((walk.next(), walk.is_finished()), (None, true));
    }

    #[test]
    fn another_server_is_scanned_from_its_beginning() {
        let mut walk = Walk::new(Scan::keys());
        walk.took(page(5, &["a"], "one")).unwrap();
        // The end of another server's table is not the end of the scan.
        walk.took(page(0, &["b"], "two")).unwrap();
        assert_eq!(walk.next().as_deref(), Some("b"));
        assert!(!walk.is_finished());
        assert_eq!(walk.at, 0);
        walk.took(page(0, &["c"], "three")).unwrap();
        assert!(walk.is_finished(), "it began there, and ends there");
    }

    #[test]
    fn an_error_leaves_the_scan_where_it_was() {
        let mut walk = Walk::new(Scan::<String>::keys());
        walk.took(page(5, &[], "one")).unwrap();
        let nameless = Ok(Some((Ok((9, Vec::new())), vec![Ok(String::new())])));
        let error = walk.took(nameless).unwrap_err().to_string();
        assert!(error.contains("run_id"), "{error}");
        assert_eq!((walk.at, walk.is_finished()), (5, false));
    }
}
