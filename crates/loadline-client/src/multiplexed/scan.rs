//! Scans on tokio.

use super::{Connection, Dedicated};
use crate::cluster::Cluster;
use crate::scan::Walk;
use crate::{Error, FromReply, Scan};

/// What a [`Scan`] finds, an element at a time; a page is asked for when the one before it is used up.
///
/// ```no_run
/// # async fn example(client: loadline_client::Client) -> Result<(), loadline_client::Error> {
/// use loadline_client::Scan;
///
/// let connection = client.multiplexed().await?;
/// let mut members = connection.scan(Scan::<String>::set("friends"));
/// while let Some(member) = members.next().await? {
///     println!("{member}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Scanning<'c, T> {
    over: Over<'c>,
    walk: Walk<T>,
}

#[derive(Debug)]
enum Over<'c> {
    Connection(&'c Connection),
    Cluster(&'c Cluster),
}

impl Connection {
    /// Finds all keys, or all that is in a hash or a set; see [`Scan`]. Others use the connection meanwhile.
    pub fn scan<T: FromReply>(&self, scan: Scan<T>) -> Scanning<'_, T> {
        Scanning {
            over: Over::Connection(self),
            walk: Walk::new(scan),
        }
    }
}

impl Dedicated {
    /// Finds all keys, or all that is in a hash or a set; see [`Scan`].
    pub fn scan<T: FromReply>(&mut self, scan: Scan<T>) -> Scanning<'_, T> {
        self.connection.scan(scan)
    }
}

impl Cluster {
    /// Finds all keys of all masters, or all that is in a hash or a set; see [`Scan`]. Masters are scanned one
    /// after the other, as by [`Cluster::scan_page`].
    pub fn scan<T: FromReply>(&self, scan: Scan<T>) -> Scanning<'_, T> {
        Scanning {
            over: Over::Cluster(self),
            walk: Walk::on_cluster(scan),
        }
    }
}

impl<T: FromReply> Scanning<'_, T> {
    /// The next element; `None` after the last one. A future that is dropped loses nothing.
    ///
    /// # Errors
    /// Why a page cannot be had. The scan goes on where it was, so it can be called again.
    pub async fn next(&mut self) -> Result<Option<T>, Error> {
        loop {
            if let Some(found) = self.walk.next() {
                return Ok(Some(found));
            }
            if self.walk.is_finished() {
                return Ok(None);
            }
            self.page().await?;
        }
    }

    async fn page(&mut self) -> Result<(), Error> {
        let walk = &mut self.walk;
        let answer = match (&self.over, &walk.cursor) {
            (Over::Cluster(cluster), Some(cursor)) => {
                // The walk keeps its own until the page is here, so that a future can be dropped.
                let mut cursor = cursor.clone();
                let keys = cluster.page_of_keys(&mut cursor, walk.scan()).await;
                return walk.took_of_cluster(keys, cursor);
            }
            (Over::Cluster(cluster), None) => cluster.run(walk.question_to_master()).await,
            (Over::Connection(connection), _) => connection.run(walk.question()).await,
        };
        walk.took(answer)
    }
}
