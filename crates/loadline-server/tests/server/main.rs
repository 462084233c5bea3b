//! Our server on a real socket: compared with a real redis-server, under foreign tools, and among hostile
//! clients.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

mod acl;
mod ages;
mod as_redis;
mod blocking;
mod busy;
mod clients;
mod counts;
mod debug;
mod encrypted;
mod eviction;
mod functions;
mod getkeys;
mod hash_fields;
mod help;
mod hostile;
mod migrate;
mod monitor;
mod notifications;
mod places;
mod pubsub;
mod random;
mod scan;
mod scripts;
mod support;
mod survival;
mod tools;
mod tracking;
mod transactions;
