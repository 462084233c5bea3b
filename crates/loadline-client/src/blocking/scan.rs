//! Scans for one thread.

use super::{Cluster, Connection};
use crate::scan::Walk;
use crate::{Error, FromReply, Scan};

/// What a [`Scan`] finds, an element at a time; a page is asked for when the one before it is used up.
///
/// After an error it goes on where it was, so `next` can be called again: the last page is asked for once more.
/// It ends after the last page, and never by an error.
#[derive(Debug)]
pub struct Scanning<'c, T> {
    over: Over<'c>,
    walk: Walk<T>,
}

#[derive(Debug)]
enum Over<'c> {
    Connection(&'c mut Connection),
    Cluster(&'c mut Cluster),
}

impl Connection {
    /// Finds all keys, or all that is in a hash or a set; see [`Scan`].
    pub fn scan<T: FromReply>(&mut self, scan: Scan<T>) -> Scanning<'_, T> {
        Scanning {
            over: Over::Connection(self),
            walk: Walk::new(scan),
        }
    }
}

impl Cluster {
    /// Finds all keys of all masters, or all that is in a hash or a set; see [`Scan`]. Masters are scanned one
    /// after the other, as by [`Cluster::scan_page`].
    pub fn scan<T: FromReply>(&mut self, scan: Scan<T>) -> Scanning<'_, T> {
        Scanning {
            over: Over::Cluster(self),
            walk: Walk::on_cluster(scan),
        }
    }
}

impl<T: FromReply> Scanning<'_, T> {
    fn page(&mut self) -> Result<(), Error> {
        let walk = &mut self.walk;
        let answer = match (&mut self.over, walk.cursor.take()) {
            (Over::Cluster(cluster), Some(mut cursor)) => {
                let keys = cluster.page_of_keys(&mut cursor, walk.scan());
                return walk.took_of_cluster(keys, cursor);
            }
            (Over::Cluster(cluster), None) => cluster.run(walk.question_to_master()),
            (Over::Connection(connection), _) => connection.run(walk.question()),
        };
        walk.took(answer)
    }
}

impl<T: FromReply> Iterator for Scanning<'_, T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.walk.next() {
                return Some(Ok(found));
            }
            if self.walk.is_finished() {
                return None;
            }
            if let Err(error) = self.page() {
                return Some(Err(error));
            }
        }
    }
}
