//! A Redis Cluster.

use loadline_client::cluster::{Cluster, Cursor, Node};
use loadline_client::multiplexed::Dedicated;
use loadline_client::{Error, Request};

use super::remote::Nodes;
use crate::requests::PAGE_KEYS;

impl Nodes for Cluster {
    const ARE_SEVERAL: bool = true;
    type Node = Node;
    type Cursor = Cursor;

    fn run<Q: Request + Send>(&self, request: Q) -> impl Future<Output = Q::Output> + Send {
        self.run(request)
    }

    fn node_of(&self, key: &[u8]) -> Option<Node> {
        self.master_of(key)
    }

    async fn connect(&self, key: &[u8]) -> Result<Dedicated, Error> {
        self.dedicated(key).await
    }

    async fn refresh(&self) -> Result<(), Error> {
        self.refresh().await
    }

    fn first_page() -> Cursor {
        Cursor::start()
    }

    async fn page(
        &self,
        cursor: &mut Cursor,
        pattern: &[u8],
    ) -> Result<Option<Vec<Vec<u8>>>, Error> {
        if cursor.is_finished() {
            return Ok(None);
        }
        self.scan_page(cursor, pattern, PAGE_KEYS).await.map(Some)
    }
}
