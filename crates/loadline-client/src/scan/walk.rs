//! A running scan.

use std::task::Poll;

use super::{Scan, What, run_id, who};
use crate::cluster::Cursor;
use crate::flags::Flags;
use crate::{Error, FromReply, Request, atomic};

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
    fn scan_ends_with_the_cursor_zero_of_the_server_that_it_is_of() {
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
    fn error_leaves_the_scan_where_it_was() {
        let mut walk = Walk::new(Scan::<String>::keys());
        walk.took(page(5, &[], "one")).unwrap();
        let nameless = Ok(Some((Ok((9, Vec::new())), vec![Ok(String::new())])));
        let error = walk.took(nameless).unwrap_err().to_string();
        assert!(error.contains("run_id"), "{error}");
        assert_eq!((walk.at, walk.finished), (5, false));
    }
}
