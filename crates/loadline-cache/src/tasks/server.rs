//! A Redis server.

use loadline_client::multiplexed::{Connection, Dedicated};
use loadline_client::{Client, Error, Request};

use super::remote::Nodes;
use crate::requests;

/// A server: one connection for all tasks, and others for what needs one of its own.
#[derive(Debug)]
pub(super) struct Server {
    client: Client,
    connection: Connection,
}

impl Server {
    pub(super) async fn open(url: &str) -> Result<Self, Error> {
        let client = Client::open(url)?;
        Ok(Self {
            connection: client.multiplexed().await?,
            client,
        })
    }
}

impl Nodes for Server {
    const ARE_SEVERAL: bool = false;
    type Node = ();
    /// That of the next page; `None` after the last one.
    type Cursor = Option<Vec<u8>>;

    fn run<Q: Request + Send>(&self, request: Q) -> impl Future<Output = Q::Output> + Send {
        self.connection.run(request)
    }

    fn node_of(&self, _: &[u8]) -> Option<()> {
        Some(())
    }

    async fn connect(&self, _: &[u8]) -> Result<Dedicated, Error> {
        self.client.dedicated().await
    }

    async fn refresh(&self) -> Result<(), Error> {
        Ok(())
    }

    fn first_page() -> Self::Cursor {
        Some(b"0".to_vec())
    }

    async fn page(
        &self,
        cursor: &mut Self::Cursor,
        pattern: &[u8],
    ) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let Some(current) = cursor.take() else {
            return Ok(None);
        };
        let (next, keys) = self.run(requests::page(&current, pattern)).await?;
        *cursor = (next != b"0").then_some(next);
        Ok(Some(keys))
    }
}
