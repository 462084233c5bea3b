//! The map of a cluster according to one node, and the choice among several nodes.

use loadline_resp::OwnedReply;

use super::topology::{Node, Topology};
use crate::flags::Flags;
use crate::request::Cmd;
use crate::{Error, cmd};

/// The map according to one node.
#[derive(Debug)]
pub(crate) struct View {
    /// The latest change of the cluster that the node knows of.
    epoch: u64,
    /// The latest change of the slots of its own shard.
    own_epoch: u64,
    pub(crate) topology: Topology,
}

/// The question to a node for its [`View`].
pub(crate) fn question() -> (Cmd<String>, Cmd<OwnedReply>) {
    (
        cmd("CLUSTER INFO").flags(Flags::READ_ONLY),
        cmd("CLUSTER SLOTS").flags(Flags::READ_ONLY),
    )
}

impl View {
    /// Reads the answers of a node.
    ///
    /// # Errors
    /// The reason why they cannot be used.
    pub(crate) fn read(
        (info, slots): (Result<String, Error>, Result<OwnedReply, Error>),
        asked: &Node,
    ) -> Result<Self, Error> {
        let (info, slots) = (info?, slots?);
        let epoch = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name));
            let epoch = value.and_then(|epoch| epoch.trim().parse().ok());
            epoch.unwrap_or(0)
        };
        let topology = Topology::read(&slots, asked)
            .map_err(|what| Error::Cluster(format!("invalid map of slots from {asked}: {what}")))?;
        if topology.covered() == 0 {
            return Err(Error::Cluster(format!(
                "the node {asked} knows of no node that serves a slot"
            )));
        }
        Ok(Self {
            epoch: epoch("cluster_current_epoch:"),
            own_epoch: epoch("cluster_my_epoch:"),
            topology,
        })
    }

    /// The best view: the one with the latest change, among several of these that of the node whose own slots it concerned, and
    /// then the one with the most slots. A node that was cut off from the others has missed later changes. A node that
    /// voted for a replica knows of the change before the replica has taken over, so it can still have the earlier map.
    pub(crate) fn best(views: impl IntoIterator<Item = Self>) -> Option<Self> {
        views
            .into_iter()
            .max_by_key(|view| (view.epoch, view.own_epoch, view.topology.covered()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(epoch: u64, own_epoch: u64, slots: i64) -> View {
        let node = OwnedReply::Array(vec![
            OwnedReply::Bulk(format!("e{epoch}").into()),
            OwnedReply::Integer(1),
        ]);
        let range = OwnedReply::Array(vec![
            OwnedReply::Integer(0),
            OwnedReply::Integer(slots - 1),
            node,
        ]);
        let epochs = format!("cluster_current_epoch:{epoch}\r\ncluster_my_epoch:{own_epoch}\r\n");
        let info = format!("cluster_state:ok\r\n{epochs}");
        let answers = (Ok(info), Ok(OwnedReply::Array(vec![range])));
        View::read(answers, &Node::new("asked", 1)).unwrap()
    }

    #[test]
    fn latest_change_is_believed_of_the_node_that_it_concerns_and_then_the_fullest_map() {
        let best = |views: Vec<View>| {
            let best = View::best(views).unwrap();
            (best.epoch, best.topology.covered())
        };
        let later = vec![view(3, 3, 9), view(4, 1, 5), view(2, 2, 20)];
        assert_eq!(best(later), (4, 5));
        let promoted = vec![view(4, 1, 6), view(4, 4, 5), view(4, 2, 6)];
        assert_eq!(best(promoted), (4, 5));
        assert_eq!(best(vec![view(4, 1, 5), view(4, 1, 6)]), (4, 6));
        assert!(View::best([]).is_none());
    }

    #[test]
    fn node_without_slots_is_no_witness() {
        let answers = (Ok(String::new()), Ok(OwnedReply::Array(vec![])));
        let error = View::read(answers, &Node::new("asked", 1)).unwrap_err();
        assert!(error.to_string().contains("asked:1"), "{error}");
    }
}
