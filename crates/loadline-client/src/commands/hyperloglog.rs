//! HyperLogLogs: how many different elements there are, within 1 %, in 12 KiB.

use super::*;

commands! {
    /// Adds elements. Replies with whether the estimate changed.
    ///
    /// Redis documentation: [`PFADD`](https://redis.io/docs/latest/commands/pfadd/).
    pf_add(key: impl Arg, elements: impl ToArgs) -> bool = "PFADD"(key, elements);
    /// Estimates the number of different elements in all of the keys together.
    ///
    /// Redis documentation: [`PFCOUNT`](https://redis.io/docs/latest/commands/pfcount/).
    pf_count(keys: impl ToArgs) -> u64 = "PFCOUNT"(keys);
    /// Adds the elements of other keys to a key.
    ///
    /// Redis documentation: [`PFMERGE`](https://redis.io/docs/latest/commands/pfmerge/).
    pf_merge(to: impl Arg, keys: impl ToArgs) -> () = "PFMERGE"(to, keys);
}
