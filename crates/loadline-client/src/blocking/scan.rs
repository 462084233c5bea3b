//! Scans for one thread.

use std::task::Poll;

use super::{Cluster, Connection};
use crate::scan::scan_text;
use crate::scan::walk::{Walk, read_page};
use crate::{Error, FromReply, Scan};

#[doc = scan_text!(scanning)]
///
/// After an error, `next` can be called again and reads the page once more. The iterator ends after the last page,
/// and never because of an error.
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
    #[doc = scan_text!(connection)]
    pub fn scan<T: FromReply>(&mut self, scan: Scan<T>) -> Scanning<'_, T> {
        Scanning {
            over: Over::Connection(self),
            walk: Walk::new(scan),
        }
    }
}

impl Cluster {
    #[doc = scan_text!(cluster)]
    pub fn scan<T: FromReply>(&mut self, scan: Scan<T>) -> Scanning<'_, T> {
        Scanning {
            over: Over::Cluster(self),
            walk: Walk::on_cluster(scan),
        }
    }
}

impl<T: FromReply> Iterator for Scanning<'_, T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self { over, walk } = self;
        loop {
            if let Poll::Ready(found) = walk.next() {
                return found.map(Ok);
            }
            if let Err(error) = read_page!(&mut *over, walk) {
                return Some(Err(error));
            }
        }
    }
}
