//! Commands of parts of Redis that the server does not have: replicas, modules and the cluster. They reply as Redis does without
//! these, so that tools that ask find out.

use super::refusal::{Refusal, no_such_form};
use super::{Call, Known, Words, is, other, sub};

pub(super) const TABLE: &[Known] = &[
    other("REPLICAOF", 3, replicaof),
    other("SLAVEOF", 3, replicaof),
    other("FAILOVER", -1, |_, _| {
        Err("ERR FAILOVER requires connected replicas.".into())
    }),
    other("MODULE", -2, module).with(&[sub("LIST", 2, "\nReturn a list of loaded modules.")]),
    other("CLUSTER", -2, no_cluster).with(&[
        sub("INFO", 2, "\nReturn information about the cluster."),
        sub("MYID", 2, "\nReturn the node id."),
        sub("NODES", 2, "\nReturn cluster configuration seen by node."),
        sub(
            "SHARDS",
            2,
            "\nReturn information about slot range mappings and the nodes associated with them.",
        ),
        sub(
            "SLOTS",
            2,
            "\nReturn information about slots range mappings.",
        ),
    ]),
    other("ASKING", 1, no_cluster),
    other("READONLY", 1, no_cluster),
    other("READWRITE", 1, no_cluster),
];

fn replicaof(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    if !is(words[1], "NO") || !is(words[2], "ONE") {
        return Err("ERR this server has no replication".into());
    }
    call.reply().ok();
    Ok(())
}

fn module(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    if !is(words[1], "LIST") {
        return Err(no_such_form(words));
    }
    call.reply().array(0);
    Ok(())
}

fn no_cluster(_: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    Err("ERR This instance has cluster support disabled".into())
}
