//! Scans on tokio.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::{Connection, Dedicated};
use crate::cluster::Cluster;
use crate::cluster::Cursor;
use crate::scan::scan_text;
use crate::scan::walk::{ScanReply, Walk, read_page};
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
///
/// It is a `Stream` too, which goes on after an error as `next` does:
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(async {
/// # let url = &include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/server.rs"));
/// # let connection = loadline_client::Client::open(url)?.multiplexed().await?;
/// # connection.run(loadline_client::commands::sadd("friends", ["Ada", "Bob"])).await?;
/// use futures_util::TryStreamExt;
/// use loadline_client::Scan;
///
/// let members = connection.scan(Scan::<String>::set("friends"));
/// let members: Vec<String> = members.try_collect().await?;
/// assert_eq!(members.len(), 2);
/// # Ok::<(), loadline_client::Error>(())
/// # }).unwrap();
/// ```
pub struct Scanning<'c, T> {
    over: Over<'c>,
    walk: Walk<T>,
    /// The page that the `Stream` waits for.
    reading: Option<Reading<'c, T>>,
}

type Reading<'c, T> = Pin<Box<dyn Future<Output = Page<T>> + Send + 'c>>;

/// An answer to the question for a page.
enum Page<T> {
    Reply(ScanReply<T>),
    OfCluster(Result<Vec<T>, Error>, Cursor),
}

#[derive(Clone, Copy, Debug)]
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
            reading: None,
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
            reading: None,
        }
    }
}

impl<T: FromReply> Scanning<'_, T> {
    /// Returns the next element, or `None` after the last one. A future that is dropped loses nothing.
    ///
    /// # Errors
    /// The reason why a page cannot be read. The scan continues at the same position, so it can be called again.
    pub async fn next(&mut self) -> Result<Option<T>, Error> {
        loop {
            if let Poll::Ready(found) = self.walk.next() {
                return Ok(found);
            }
            if let Some(reading) = &mut self.reading {
                let page = reading.await;
                self.took(page)?;
                continue;
            }
            let Self { over, walk, .. } = self;
            read_page!(&*over, walk, await)?;
        }
    }

    fn took(&mut self, page: Page<T>) -> Result<(), Error> {
        self.reading = None;
        match page {
            Page::Reply(reply) => self.walk.took(reply),
            Page::OfCluster(keys, cursor) => self.walk.took_of_cluster(keys, cursor),
        }
    }
}

impl<'c, T: FromReply + Send + 'c> Scanning<'c, T> {
    /// Asks for the next page in a future that does not borrow the scan.
    fn read(&self) -> Reading<'c, T> {
        match (self.over, self.walk.cursor()) {
            (Over::Cluster(cluster), Some(mut cursor)) => {
                let scan = self.walk.scan().clone();
                Box::pin(async move {
                    let keys = cluster.page_of_keys(&mut cursor, &scan).await;
                    Page::OfCluster(keys, cursor)
                })
            }
            (Over::Cluster(cluster), None) => {
                let question = self.walk.question_to_master();
                Box::pin(async move { Page::Reply(cluster.run(question).await) })
            }
            (Over::Connection(connection), _) => {
                let question = self.walk.question();
                Box::pin(async move { Page::Reply(connection.run(question).await) })
            }
        }
    }
}

// No future is pinned in it but those in boxes.
impl<T> Unpin for Scanning<'_, T> {}

impl<'c, T: FromReply + Send + 'c> Stream for Scanning<'c, T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Poll::Ready(found) = self.walk.next() {
                return Poll::Ready(found.map(Ok));
            }
            let mut reading = self.reading.take().unwrap_or_else(|| self.read());
            let Poll::Ready(page) = reading.as_mut().poll(cx) else {
                self.reading = Some(reading);
                return Poll::Pending;
            };
            if let Err(error) = self.took(page) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Scanning<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanning")
            .field("over", &self.over)
            .field("walk", &self.walk)
            .finish_non_exhaustive()
    }
}
