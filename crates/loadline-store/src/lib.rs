//! A sharded in-memory keyspace with expiry, usable as a library.
