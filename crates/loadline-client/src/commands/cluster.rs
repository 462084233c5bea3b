//! The nodes of a cluster, as they see it, and its slots.

use super::*;

commands! {
    /// Assigns slots to this node.
    ///
    /// Redis documentation: [`CLUSTER ADDSLOTS`](https://redis.io/docs/latest/commands/cluster-addslots/).
    cluster_add_slots(slots: impl ToArgs) -> () = "CLUSTER" "ADDSLOTS"(slots);
    /// Assigns ranges of slots to this node, given as pairs of the first and last.
    ///
    /// Redis documentation: [`CLUSTER ADDSLOTSRANGE`](https://redis.io/docs/latest/commands/cluster-addslotsrange/).
    cluster_add_slots_range(ranges: impl ToArgs) -> () = "CLUSTER" "ADDSLOTSRANGE"(ranges);
    /// Raises the epoch of this node. Replies with `BUMPED` or `STILL` and the epoch.
    ///
    /// Redis documentation: [`CLUSTER BUMPEPOCH`](https://redis.io/docs/latest/commands/cluster-bumpepoch/).
    cluster_bump_epoch() -> String = "CLUSTER" "BUMPEPOCH"();
    /// Counts the nodes that report this one as failed.
    ///
    /// Redis documentation: [`CLUSTER COUNT-FAILURE-REPORTS`](https://redis.io/docs/latest/commands/cluster-count-failure-reports/).
    cluster_count_failure_reports(node: impl Arg) -> u64
        = "CLUSTER" "COUNT-FAILURE-REPORTS"(node);
    /// Counts the keys of a slot on this node.
    ///
    /// Redis documentation: [`CLUSTER COUNTKEYSINSLOT`](https://redis.io/docs/latest/commands/cluster-countkeysinslot/).
    cluster_count_keys_in_slot(slot: u16) -> u64 = "CLUSTER" "COUNTKEYSINSLOT"(slot);
    /// Takes slots away from this node.
    ///
    /// Redis documentation: [`CLUSTER DELSLOTS`](https://redis.io/docs/latest/commands/cluster-delslots/).
    cluster_del_slots(slots: impl ToArgs) -> () = "CLUSTER" "DELSLOTS"(slots);
    /// Takes ranges of slots away from this node, given as pairs of the first and last.
    ///
    /// Redis documentation: [`CLUSTER DELSLOTSRANGE`](https://redis.io/docs/latest/commands/cluster-delslotsrange/).
    cluster_del_slots_range(ranges: impl ToArgs) -> () = "CLUSTER" "DELSLOTSRANGE"(ranges);
    /// Makes this replica the master, once it has all writes of its master.
    ///
    /// Redis documentation: [`CLUSTER FAILOVER`](https://redis.io/docs/latest/commands/cluster-failover/).
    cluster_failover() -> () = "CLUSTER" "FAILOVER"() + ClusterFailoverOptions;
    /// Takes all slots away from this node.
    ///
    /// Redis documentation: [`CLUSTER FLUSHSLOTS`](https://redis.io/docs/latest/commands/cluster-flushslots/).
    cluster_flush_slots() -> () = "CLUSTER" "FLUSHSLOTS"();
    /// Removes a node from those that this one knows.
    ///
    /// Redis documentation: [`CLUSTER FORGET`](https://redis.io/docs/latest/commands/cluster-forget/).
    cluster_forget(node: impl Arg) -> () = "CLUSTER" "FORGET"(node);
    /// Gets up to `count` keys of a slot on this node.
    ///
    /// Redis documentation: [`CLUSTER GETKEYSINSLOT`](https://redis.io/docs/latest/commands/cluster-getkeysinslot/).
    cluster_get_keys_in_slot<T>(slot: u16, count: u64) -> Vec<T>
        = "CLUSTER" "GETKEYSINSLOT"(slot, count);
    /// Describes the state of the cluster, as lines of `name:value`.
    ///
    /// Redis documentation: [`CLUSTER INFO`](https://redis.io/docs/latest/commands/cluster-info/).
    cluster_info() -> String = "CLUSTER" "INFO"();
    /// Computes the slot of a key on the server. [`slot_of`](crate::cluster::slot_of) computes it here.
    ///
    /// Redis documentation: [`CLUSTER KEYSLOT`](https://redis.io/docs/latest/commands/cluster-keyslot/).
    cluster_key_slot(key: impl Arg) -> u16 = "CLUSTER" "KEYSLOT"(key);
    /// Describes the connections of this node to others, each by a map.
    ///
    /// Redis documentation: [`CLUSTER LINKS`](https://redis.io/docs/latest/commands/cluster-links/).
    cluster_links<T>() -> Vec<T> = "CLUSTER" "LINKS"();
    /// Connects this node to another one.
    ///
    /// Redis documentation: [`CLUSTER MEET`](https://redis.io/docs/latest/commands/cluster-meet/).
    cluster_meet(ip: impl Arg, port: u16) -> () = "CLUSTER" "MEET"(ip, port) + ClusterMeetOptions;
    /// Gets the id of this node.
    ///
    /// Redis documentation: [`CLUSTER MYID`](https://redis.io/docs/latest/commands/cluster-myid/).
    cluster_my_id() -> String = "CLUSTER" "MYID"();
    /// Describes all nodes, each as a line.
    ///
    /// Redis documentation: [`CLUSTER NODES`](https://redis.io/docs/latest/commands/cluster-nodes/).
    cluster_nodes() -> String = "CLUSTER" "NODES"();
    /// Describes the replicas of a master, each as a line.
    ///
    /// Redis documentation: [`CLUSTER REPLICAS`](https://redis.io/docs/latest/commands/cluster-replicas/).
    cluster_replicas(node: impl Arg) -> Vec<String> = "CLUSTER" "REPLICAS"(node);
    /// Makes this node a replica of a master.
    ///
    /// Redis documentation: [`CLUSTER REPLICATE`](https://redis.io/docs/latest/commands/cluster-replicate/).
    cluster_replicate(node: impl Arg) -> () = "CLUSTER" "REPLICATE"(node);
    /// Makes this node forget the cluster.
    ///
    /// Redis documentation: [`CLUSTER RESET`](https://redis.io/docs/latest/commands/cluster-reset/).
    cluster_reset() -> () = "CLUSTER" "RESET"() + ClusterResetOptions;
    /// Writes the configuration of the cluster to the file of this node.
    ///
    /// Redis documentation: [`CLUSTER SAVECONFIG`](https://redis.io/docs/latest/commands/cluster-saveconfig/).
    cluster_save_config() -> () = "CLUSTER" "SAVECONFIG"();
    /// Sets the epoch of a node that is not part of a cluster yet.
    ///
    /// Redis documentation: [`CLUSTER SET-CONFIG-EPOCH`](https://redis.io/docs/latest/commands/cluster-set-config-epoch/).
    cluster_set_config_epoch(epoch: u64) -> () = "CLUSTER" "SET-CONFIG-EPOCH"(epoch);
    /// Changes the state of a slot on this node; which one is an option.
    ///
    /// Redis documentation: [`CLUSTER SETSLOT`](https://redis.io/docs/latest/commands/cluster-setslot/).
    cluster_set_slot(slot: u16) -> () = "CLUSTER" "SETSLOT"(slot) + ClusterSlotOptions;
    /// Describes the shards: their slots and nodes, each by a map.
    ///
    /// Redis documentation: [`CLUSTER SHARDS`](https://redis.io/docs/latest/commands/cluster-shards/).
    cluster_shards<T>() -> Vec<T> = "CLUSTER" "SHARDS"();
}

options! {
    /// The options of [`cluster_failover`].
    ClusterFailoverOptions {
        /// Does not wait for the master, which can be down.
        force() -> R = ("FORCE");
        /// Does not wait for the agreement of the other masters either.
        takeover() -> R = ("TAKEOVER");
    }
    /// The options of [`cluster_meet`].
    ClusterMeetOptions {
        /// The port of the other node for the cluster's own messages.
        bus_port(port: u16) -> R = (port);
    }
    /// The options of [`cluster_reset`].
    ClusterResetOptions {
        /// Keeps the id and epoch of the node, which is the default.
        soft() -> R = ("SOFT");
        /// Gives the node a new id, and sets its epoch to 0.
        hard() -> R = ("HARD");
    }
    /// The options of [`cluster_set_slot`].
    ClusterSlotOptions {
        /// The slot comes from this node.
        importing(node: impl Arg) -> R = ("IMPORTING", node);
        /// The slot goes to this node.
        migrating(node: impl Arg) -> R = ("MIGRATING", node);
        /// The slot belongs to this node.
        node(node: impl Arg) -> R = ("NODE", node);
        /// The slot neither comes nor goes.
        stable() -> R = ("STABLE");
    }
}
