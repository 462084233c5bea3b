//! Commands of parts of Redis that the server does not have: replicas, modules and the cluster. They reply as Redis does without
//! these, so that tools that ask find out.

use super::refusal::{Refusal, no_such_form};
use super::{Call, Keys, Listed, Words, is, listed, sub};

pub(super) const TABLE: &[Listed] = &[
    listed("REPLICAOF", 3, Keys::None, replicaof),
    listed("SLAVEOF", 3, Keys::None, replicaof),
    listed("FAILOVER", -1, Keys::None, |_, _| {
        Err("ERR FAILOVER requires connected replicas.".into())
    }),
    listed("MODULE", -2, Keys::None, module).with(&[sub(
        "LIST",
        2,
        "\nReturn a list of loaded modules.",
    )]),
];

pub(super) const CLUSTER: &[Listed] = &[
    listed("CLUSTER", -2, Keys::None, no_cluster).with(&[
        sub("ADDSLOTS", -3, ""),
        sub("ADDSLOTSRANGE", -4, ""),
        sub("BUMPEPOCH", 2, ""),
        sub("COUNT-FAILURE-REPORTS", 3, ""),
        sub("COUNTKEYSINSLOT", 3, ""),
        sub("DELSLOTS", -3, ""),
        sub("DELSLOTSRANGE", -4, ""),
        sub("FAILOVER", -2, ""),
        sub("FLUSHSLOTS", 2, ""),
        sub("FORGET", 3, ""),
        sub("GETKEYSINSLOT", 4, ""),
        sub("INFO", 2, ""),
        sub("KEYSLOT", 3, ""),
        sub("LINKS", 2, ""),
        sub("MEET", -4, ""),
        sub("MYID", 2, ""),
        sub("NODES", 2, ""),
        sub("REPLICAS", 3, ""),
        sub("REPLICATE", 3, ""),
        sub("RESET", -2, ""),
        sub("SAVECONFIG", 2, ""),
        sub("SET-CONFIG-EPOCH", 3, ""),
        sub("SETSLOT", -4, ""),
        sub("SHARDS", 2, ""),
        sub("SLAVES", 3, ""),
        sub("SLOTS", 2, ""),
    ]),
    listed("ASKING", 1, Keys::None, no_cluster),
    listed("READONLY", 1, Keys::None, no_cluster),
    listed("READWRITE", 1, Keys::None, no_cluster),
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
