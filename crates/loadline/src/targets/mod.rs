//! Opening what a TARGET names: servers, clusters, child processes, and the way to them.

pub(crate) mod admin;
pub(crate) mod connect;
pub(crate) mod link;
pub(crate) mod servers;
pub(crate) mod tls;
