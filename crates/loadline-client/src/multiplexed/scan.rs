//! Scans on tokio.

use std::task::Poll;

use super::{Connection, Dedicated};
use crate::cluster::Cluster;
use crate::scan::{Walk, read_page, scan_text};
use crate::{Error, FromReply, Scan};

#[doc = scan_text!(scanning)]
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(async {
/// # let url = &include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/server.rs"));
/// # let client = loadline_client::Client::open(url)?;
/// use loadline_client::Scan;
///
/// let connection = client.multiplexed().await?;
/// # connection.run(loadline_client::commands::sadd("friends", ["Ada"])).await?;
/// # let mut found = Vec::new();
/// let mut members = connection.scan(Scan::<String>::set("friends"));
/// while let Some(member) = members.next().await? {
///     println!("{member}");
/// #   found.push(member);
/// }
/// # assert_eq!(found, ["Ada"]);
/// # Ok::<(), loadline_client::Error>(())
/// # }).unwrap();
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
