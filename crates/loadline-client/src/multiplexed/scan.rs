//! Scans on tokio.

use std::task::Poll;

use super::{Connection, Dedicated};
use crate::cluster::Cluster;
use crate::scan::{Walk, read_page, scan_text};
use crate::{Error, FromReply, Scan};

#[doc = scan_text!(scanning)]
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
    #[doc = scan_text!(connection)]
    /// Others can use the connection at the same time.
    pub fn scan<T: FromReply>(&self, scan: Scan<T>) -> Scanning<'_, T> {
        Scanning {
            over: Over::Connection(self),
            walk: Walk::new(scan),
        }
    }
}

impl Dedicated {
    #[doc = scan_text!(connection)]
    pub fn scan<T: FromReply>(&mut self, scan: Scan<T>) -> Scanning<'_, T> {
        self.connection.scan(scan)
    }
}

impl Cluster {
    #[doc = scan_text!(cluster)]
    pub fn scan<T: FromReply>(&self, scan: Scan<T>) -> Scanning<'_, T> {
        Scanning {
            over: Over::Cluster(self),
            walk: Walk::on_cluster(scan),
        }
    }
}

impl<T: FromReply> Scanning<'_, T> {
    /// Returns the next element, or `None` after the last one. A future that is dropped loses nothing.
    ///
    /// # Errors
    /// The reason why a page cannot be read. The scan continues at the same position, so it can be called again.
    pub async fn next(&mut self) -> Result<Option<T>, Error> {
        let Self { over, walk } = self;
        loop {
            if let Poll::Ready(found) = walk.next() {
                return Ok(found);
            }
            read_page!(&*over, walk, await)?;
        }
    }
}
