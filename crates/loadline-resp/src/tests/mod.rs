//! Tests of the parsers against each other: a corpus split at every byte, and naive versions under
//! proptest.

mod agreement;
mod corpus;
mod naive;
mod requests;
mod splits;
