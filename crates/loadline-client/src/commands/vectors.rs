//! Vector sets: members with a vector each, found by similarity. Redis 8.0.

use super::*;

commands! {
    /// Adds a member with its vector. Replies with whether it is new.
    ///
    /// Redis documentation: [`VADD`](https://redis.io/docs/latest/commands/vadd/).
    vadd(key: impl Arg, vector: impl ToArgs, member: impl Arg) -> bool
        = "VADD"(key, "VALUES", counted(vector), member) + VectorAddOptions;
    /// Adds a member with its vector, whose dimensions the server reduces to this number by a random projection.
    /// Replies with whether it is new.
    ///
    /// Redis documentation: [`VADD`](https://redis.io/docs/latest/commands/vadd/).
    vadd_reduced(key: impl Arg, dimensions: u64, vector: impl ToArgs, member: impl Arg) -> bool
        = "VADD"(key, "REDUCE", dimensions, "VALUES", counted(vector), member) + VectorAddOptions;
    /// Counts the members. Replies with 0 if the key does not exist.
    ///
    /// Redis documentation: [`VCARD`](https://redis.io/docs/latest/commands/vcard/).
    vcard(key: impl Arg) -> u64 = "VCARD"(key);
    /// Gets the number of dimensions of the vectors.
    ///
    /// Redis documentation: [`VDIM`](https://redis.io/docs/latest/commands/vdim/).
    vdim(key: impl Arg) -> u64 = "VDIM"(key);
    /// Gets the vector of a member, as near as the server keeps it. Replies with nil if there is no such member.
    ///
    /// Redis documentation: [`VEMB`](https://redis.io/docs/latest/commands/vemb/).
    vemb(key: impl Arg, member: impl Arg) -> Option<Vec<f64>> = "VEMB"(key, member);
    /// Gets the attributes of a member, a JSON text. Replies with nil if it has none.
    ///
    /// Redis documentation: [`VGETATTR`](https://redis.io/docs/latest/commands/vgetattr/).
    vget_attr<T>(key: impl Arg, member: impl Arg) -> T = "VGETATTR"(key, member);
    /// Describes a vector set by a map.
    ///
    /// Redis documentation: [`VINFO`](https://redis.io/docs/latest/commands/vinfo/).
    vinfo<T>(key: impl Arg) -> T = "VINFO"(key);
    /// Checks whether there is such a member.
    ///
    /// Redis documentation: [`VISMEMBER`](https://redis.io/docs/latest/commands/vismember/).
    vis_member(key: impl Arg, member: impl Arg) -> bool = "VISMEMBER"(key, member);
    /// Gets the neighbours of a member in the graph, one list for each of its layers.
    ///
    /// Redis documentation: [`VLINKS`](https://redis.io/docs/latest/commands/vlinks/).
    vlinks<T>(key: impl Arg, member: impl Arg) -> Vec<Vec<T>> = "VLINKS"(key, member);
    /// Gets up to `count` different random members.
    ///
    /// Redis documentation: [`VRANDMEMBER`](https://redis.io/docs/latest/commands/vrandmember/).
    vrand_member<T>(key: impl Arg, count: u64) -> Vec<T> = "VRANDMEMBER"(key, count);
    /// Removes a member. Replies with whether it existed.
    ///
    /// Redis documentation: [`VREM`](https://redis.io/docs/latest/commands/vrem/).
    vrem(key: impl Arg, member: impl Arg) -> bool = "VREM"(key, member);
    /// Sets the attributes of a member, a JSON text. Replies with whether there is such a member.
    ///
    /// Redis documentation: [`VSETATTR`](https://redis.io/docs/latest/commands/vsetattr/).
    vset_attr(key: impl Arg, member: impl Arg, json: impl Arg) -> bool
        = "VSETATTR"(key, member, json);
    /// Gets the members nearest to a vector, nearest first.
    ///
    /// Redis documentation: [`VSIM`](https://redis.io/docs/latest/commands/vsim/).
    vsim<T>(key: impl Arg, vector: impl ToArgs) -> Vec<T>
        = "VSIM"(key, "VALUES", counted(vector)) + VectorSearchOptions;
    /// Gets the members nearest to a member, nearest first and itself among them.
    ///
    /// Redis documentation: [`VSIM`](https://redis.io/docs/latest/commands/vsim/).
    vsim_member<T>(key: impl Arg, member: impl Arg) -> Vec<T>
        = "VSIM"(key, "ELE", member) + VectorSearchOptions;
}

options! {
    /// The options of [`vadd`] and [`vadd_reduced`].
    VectorAddOptions {
        /// Looks for neighbours in a thread of its own.
        cas() -> R = ("CAS");
        /// Keeps the vector as it is.
        no_quant() -> R = ("NOQUANT");
        /// Keeps 8 bits of each dimension, as without an option.
        q8() -> R = ("Q8");
        /// Keeps one bit of each dimension.
        bin() -> R = ("BIN");
        /// Sets how many candidates are looked at for links.
        ef(candidates: u64) -> R = ("EF", candidates);
        /// Sets the attributes of the member, a JSON text.
        set_attr(json: impl Arg) -> R = ("SETATTR", json);
        /// Sets the most links of a member to others.
        links(links: u64) -> R = ("M", links);
    }
    /// The options of [`vsim`] and [`vsim_member`].
    VectorSearchOptions {
        /// Replies with the similarity of each member too, from 0 to 1, as a map or a list of pairs.
        with_scores<T>() -> T = ("WITHSCORES");
        /// Gets up to this number of members.
        count(count: u64) -> R = ("COUNT", count);
        /// Gets members up to this distance, from 0 to 1.
        epsilon(distance: f64) -> R = ("EPSILON", distance);
        /// Sets how many candidates are looked at.
        ef(candidates: u64) -> R = ("EF", candidates);
        /// Only members whose attributes match this expression.
        filter(expression: impl Arg) -> R = ("FILTER", expression);
        /// Sets how many candidates the filter looks at.
        filter_ef(candidates: u64) -> R = ("FILTER-EF", candidates);
        /// Compares with every member, which is exact and slow.
        truth() -> R = ("TRUTH");
        /// Searches in the main thread of the server.
        no_thread() -> R = ("NOTHREAD");
    }
}
