//! Answers that are nearly right in little memory: Redis 8, or the module RedisBloom.

use super::*;

commands! {
    /// Adds an item to a Bloom filter. Replies with whether it is new.
    ///
    /// Redis documentation: [`BF.ADD`](https://redis.io/docs/latest/commands/bf.add/).
    bf_add(key: impl Arg, item: impl Arg) -> bool = "BF.ADD"(key, item);
    /// Counts the items of a Bloom filter.
    ///
    /// Redis documentation: [`BF.CARD`](https://redis.io/docs/latest/commands/bf.card/).
    bf_card(key: impl Arg) -> u64 = "BF.CARD"(key);
    /// Checks whether a Bloom filter may have an item.
    ///
    /// Redis documentation: [`BF.EXISTS`](https://redis.io/docs/latest/commands/bf.exists/).
    bf_exists(key: impl Arg, item: impl Arg) -> bool = "BF.EXISTS"(key, item);
    /// Describes a Bloom filter by a map.
    ///
    /// Redis documentation: [`BF.INFO`](https://redis.io/docs/latest/commands/bf.info/).
    bf_info<T>(key: impl Arg) -> T = "BF.INFO"(key);
    /// Adds items to a Bloom filter. Replies for each with whether it is new.
    ///
    /// Redis documentation: [`BF.MADD`](https://redis.io/docs/latest/commands/bf.madd/).
    bf_madd(key: impl Arg, items: impl ToArgs) -> Vec<bool> = "BF.MADD"(key, items);
    /// Checks for each item whether a Bloom filter may have it.
    ///
    /// Redis documentation: [`BF.MEXISTS`](https://redis.io/docs/latest/commands/bf.mexists/).
    bf_mexists(key: impl Arg, items: impl ToArgs) -> Vec<bool> = "BF.MEXISTS"(key, items);
    /// Creates a Bloom filter for this number of items, with this share of false answers.
    ///
    /// Redis documentation: [`BF.RESERVE`](https://redis.io/docs/latest/commands/bf.reserve/).
    bf_reserve(key: impl Arg, error_rate: f64, capacity: u64) -> ()
        = "BF.RESERVE"(key, error_rate, capacity);
    /// Gets a part of a Bloom filter for a copy. Replies with the next iterator, 0 at the end, and the data.
    ///
    /// Redis documentation: [`BF.SCANDUMP`](https://redis.io/docs/latest/commands/bf.scandump/).
    bf_scan_dump<T>(key: impl Arg, iterator: i64) -> (i64, T) = "BF.SCANDUMP"(key, iterator);
    /// Restores a part of a Bloom filter.
    ///
    /// Redis documentation: [`BF.LOADCHUNK`](https://redis.io/docs/latest/commands/bf.loadchunk/).
    bf_load_chunk(key: impl Arg, iterator: i64, data: impl Arg) -> ()
        = "BF.LOADCHUNK"(key, iterator, data);
    /// Adds items to a Bloom filter, which an option creates otherwise. Replies for each with whether it is new.
    ///
    /// Redis documentation: [`BF.INSERT`](https://redis.io/docs/latest/commands/bf.insert/).
    bf_insert(key: impl Arg, items: impl ToArgs) -> Vec<bool>
        = "BF.INSERT"(key) + BloomInsertOptions["ITEMS", items];
    /// Adds an item to a cuckoo filter.
    ///
    /// Redis documentation: [`CF.ADD`](https://redis.io/docs/latest/commands/cf.add/).
    cf_add(key: impl Arg, item: impl Arg) -> bool = "CF.ADD"(key, item);
    /// Adds an item to a cuckoo filter if it is new. Replies with whether it is.
    ///
    /// Redis documentation: [`CF.ADDNX`](https://redis.io/docs/latest/commands/cf.addnx/).
    cf_add_nx(key: impl Arg, item: impl Arg) -> bool = "CF.ADDNX"(key, item);
    /// Estimates how often an item is in a cuckoo filter.
    ///
    /// Redis documentation: [`CF.COUNT`](https://redis.io/docs/latest/commands/cf.count/).
    cf_count(key: impl Arg, item: impl Arg) -> u64 = "CF.COUNT"(key, item);
    /// Removes an item from a cuckoo filter once. Replies with whether it was there.
    ///
    /// Redis documentation: [`CF.DEL`](https://redis.io/docs/latest/commands/cf.del/).
    cf_del(key: impl Arg, item: impl Arg) -> bool = "CF.DEL"(key, item);
    /// Checks whether a cuckoo filter may have an item.
    ///
    /// Redis documentation: [`CF.EXISTS`](https://redis.io/docs/latest/commands/cf.exists/).
    cf_exists(key: impl Arg, item: impl Arg) -> bool = "CF.EXISTS"(key, item);
    /// Describes a cuckoo filter by a map.
    ///
    /// Redis documentation: [`CF.INFO`](https://redis.io/docs/latest/commands/cf.info/).
    cf_info<T>(key: impl Arg) -> T = "CF.INFO"(key);
    /// Checks for each item whether a cuckoo filter may have it.
    ///
    /// Redis documentation: [`CF.MEXISTS`](https://redis.io/docs/latest/commands/cf.mexists/).
    cf_mexists(key: impl Arg, items: impl ToArgs) -> Vec<bool> = "CF.MEXISTS"(key, items);
    /// Adds items to a cuckoo filter. Replies for each with 1, or -1 if the filter is full.
    ///
    /// Redis documentation: [`CF.INSERT`](https://redis.io/docs/latest/commands/cf.insert/).
    cf_insert(key: impl Arg, items: impl ToArgs) -> Vec<i64>
        = "CF.INSERT"(key) + CuckooInsertOptions["ITEMS", items];
    /// Adds those items to a cuckoo filter that are new. Replies for each with 1, 0 if it is not new, or -1 if the
    /// filter is full.
    ///
    /// Redis documentation: [`CF.INSERTNX`](https://redis.io/docs/latest/commands/cf.insertnx/).
    cf_insert_nx(key: impl Arg, items: impl ToArgs) -> Vec<i64>
        = "CF.INSERTNX"(key) + CuckooInsertOptions["ITEMS", items];
    /// Restores a part of a cuckoo filter.
    ///
    /// Redis documentation: [`CF.LOADCHUNK`](https://redis.io/docs/latest/commands/cf.loadchunk/).
    cf_load_chunk(key: impl Arg, iterator: i64, data: impl Arg) -> ()
        = "CF.LOADCHUNK"(key, iterator, data);
    /// Gets a part of a cuckoo filter for a copy. Replies with the next iterator, 0 at the end, and the data.
    ///
    /// Redis documentation: [`CF.SCANDUMP`](https://redis.io/docs/latest/commands/cf.scandump/).
    cf_scan_dump<T>(key: impl Arg, iterator: i64) -> (i64, T) = "CF.SCANDUMP"(key, iterator);
    /// Creates a cuckoo filter for this number of items.
    ///
    /// Redis documentation: [`CF.RESERVE`](https://redis.io/docs/latest/commands/cf.reserve/).
    cf_reserve(key: impl Arg, capacity: u64) -> () = "CF.RESERVE"(key, capacity);
    /// Adds to the counts of items of a count-min sketch, given as pairs. Replies with the new counts.
    ///
    /// Redis documentation: [`CMS.INCRBY`](https://redis.io/docs/latest/commands/cms.incrby/).
    cms_incr_by(key: impl Arg, counts: impl ToArgs) -> Vec<u64> = "CMS.INCRBY"(key, counts);
    /// Describes a count-min sketch by a map.
    ///
    /// Redis documentation: [`CMS.INFO`](https://redis.io/docs/latest/commands/cms.info/).
    cms_info<T>(key: impl Arg) -> T = "CMS.INFO"(key);
    /// Creates a count-min sketch of this width and depth.
    ///
    /// Redis documentation: [`CMS.INITBYDIM`](https://redis.io/docs/latest/commands/cms.initbydim/).
    cms_init_by_dim(key: impl Arg, width: u64, depth: u64) -> ()
        = "CMS.INITBYDIM"(key, width, depth);
    /// Creates a count-min sketch with this error, and this probability of a larger one.
    ///
    /// Redis documentation: [`CMS.INITBYPROB`](https://redis.io/docs/latest/commands/cms.initbyprob/).
    cms_init_by_prob(key: impl Arg, error: f64, probability: f64) -> ()
        = "CMS.INITBYPROB"(key, error, probability);
    /// Merges count-min sketches into one that is there.
    ///
    /// Redis documentation: [`CMS.MERGE`](https://redis.io/docs/latest/commands/cms.merge/).
    cms_merge(destination: impl Arg, sources: impl ToArgs) -> ()
        = "CMS.MERGE"(destination, counted(sources));
    /// Estimates the counts of items.
    ///
    /// Redis documentation: [`CMS.QUERY`](https://redis.io/docs/latest/commands/cms.query/).
    cms_query(key: impl Arg, items: impl ToArgs) -> Vec<u64> = "CMS.QUERY"(key, items);
    /// Adds items to a list of the most frequent ones. Replies for each with the item that it replaced, or nil.
    ///
    /// Redis documentation: [`TOPK.ADD`](https://redis.io/docs/latest/commands/topk.add/).
    topk_add<T>(key: impl Arg, items: impl ToArgs) -> Vec<T> = "TOPK.ADD"(key, items);
    /// Adds to the counts of items, given as pairs. Replies for each with the item that it replaced, or nil.
    ///
    /// Redis documentation: [`TOPK.INCRBY`](https://redis.io/docs/latest/commands/topk.incrby/).
    topk_incr_by<T>(key: impl Arg, counts: impl ToArgs) -> Vec<T> = "TOPK.INCRBY"(key, counts);
    /// Describes a list of the most frequent items by a map.
    ///
    /// Redis documentation: [`TOPK.INFO`](https://redis.io/docs/latest/commands/topk.info/).
    topk_info<T>(key: impl Arg) -> T = "TOPK.INFO"(key);
    /// Gets the most frequent items, most frequent first.
    ///
    /// Redis documentation: [`TOPK.LIST`](https://redis.io/docs/latest/commands/topk.list/).
    topk_list<T>(key: impl Arg) -> Vec<T> = "TOPK.LIST"(key);
    /// Checks for each item whether it is among the most frequent ones.
    ///
    /// Redis documentation: [`TOPK.QUERY`](https://redis.io/docs/latest/commands/topk.query/).
    topk_query(key: impl Arg, items: impl ToArgs) -> Vec<bool> = "TOPK.QUERY"(key, items);
    /// Creates a list of this number of most frequent items.
    ///
    /// Redis documentation: [`TOPK.RESERVE`](https://redis.io/docs/latest/commands/topk.reserve/).
    topk_reserve(key: impl Arg, count: u64) -> () = "TOPK.RESERVE"(key, count);
    /// Adds values to a t-digest.
    ///
    /// Redis documentation: [`TDIGEST.ADD`](https://redis.io/docs/latest/commands/tdigest.add/).
    tdigest_add(key: impl Arg, values: impl ToArgs) -> () = "TDIGEST.ADD"(key, values);
    /// Estimates the values at these ranks, from the lowest.
    ///
    /// Redis documentation: [`TDIGEST.BYRANK`](https://redis.io/docs/latest/commands/tdigest.byrank/).
    tdigest_by_rank(key: impl Arg, ranks: impl ToArgs) -> Vec<f64>
        = "TDIGEST.BYRANK"(key, ranks);
    /// Estimates the values at these ranks, from the highest.
    ///
    /// Redis documentation: [`TDIGEST.BYREVRANK`](https://redis.io/docs/latest/commands/tdigest.byrevrank/).
    tdigest_by_rev_rank(key: impl Arg, ranks: impl ToArgs) -> Vec<f64>
        = "TDIGEST.BYREVRANK"(key, ranks);
    /// Estimates the share of values up to each of these.
    ///
    /// Redis documentation: [`TDIGEST.CDF`](https://redis.io/docs/latest/commands/tdigest.cdf/).
    tdigest_cdf(key: impl Arg, values: impl ToArgs) -> Vec<f64> = "TDIGEST.CDF"(key, values);
    /// Creates a t-digest with this compression; 100 is usual.
    ///
    /// Redis documentation: [`TDIGEST.CREATE`](https://redis.io/docs/latest/commands/tdigest.create/).
    tdigest_create(key: impl Arg, compression: u64) -> ()
        = "TDIGEST.CREATE"(key, "COMPRESSION", compression);
    /// Describes a t-digest by a map.
    ///
    /// Redis documentation: [`TDIGEST.INFO`](https://redis.io/docs/latest/commands/tdigest.info/).
    tdigest_info<T>(key: impl Arg) -> T = "TDIGEST.INFO"(key);
    /// Gets the highest value.
    ///
    /// Redis documentation: [`TDIGEST.MAX`](https://redis.io/docs/latest/commands/tdigest.max/).
    tdigest_max(key: impl Arg) -> f64 = "TDIGEST.MAX"(key);
    /// Merges t-digests into one.
    ///
    /// Redis documentation: [`TDIGEST.MERGE`](https://redis.io/docs/latest/commands/tdigest.merge/).
    tdigest_merge(destination: impl Arg, sources: impl ToArgs) -> ()
        = "TDIGEST.MERGE"(destination, counted(sources));
    /// Gets the lowest value.
    ///
    /// Redis documentation: [`TDIGEST.MIN`](https://redis.io/docs/latest/commands/tdigest.min/).
    tdigest_min(key: impl Arg) -> f64 = "TDIGEST.MIN"(key);
    /// Estimates the values at these quantiles, from 0 to 1.
    ///
    /// Redis documentation: [`TDIGEST.QUANTILE`](https://redis.io/docs/latest/commands/tdigest.quantile/).
    tdigest_quantile(key: impl Arg, quantiles: impl ToArgs) -> Vec<f64>
        = "TDIGEST.QUANTILE"(key, quantiles);
    /// Estimates the ranks of values, from the lowest.
    ///
    /// Redis documentation: [`TDIGEST.RANK`](https://redis.io/docs/latest/commands/tdigest.rank/).
    tdigest_rank(key: impl Arg, values: impl ToArgs) -> Vec<i64>
        = "TDIGEST.RANK"(key, values);
    /// Removes all values.
    ///
    /// Redis documentation: [`TDIGEST.RESET`](https://redis.io/docs/latest/commands/tdigest.reset/).
    tdigest_reset(key: impl Arg) -> () = "TDIGEST.RESET"(key);
    /// Estimates the ranks of values, from the highest.
    ///
    /// Redis documentation: [`TDIGEST.REVRANK`](https://redis.io/docs/latest/commands/tdigest.revrank/).
    tdigest_rev_rank(key: impl Arg, values: impl ToArgs) -> Vec<i64>
        = "TDIGEST.REVRANK"(key, values);
    /// Estimates the mean of the values between two quantiles.
    ///
    /// Redis documentation: [`TDIGEST.TRIMMED_MEAN`](https://redis.io/docs/latest/commands/tdigest.trimmed_mean/).
    tdigest_trimmed_mean(key: impl Arg, low: f64, high: f64) -> f64
        = "TDIGEST.TRIMMED_MEAN"(key, low, high);
}

options! {
    /// The options of [`bf_insert`].
    BloomInsertOptions {
        /// Sets the number of items that a new filter is for.
        capacity(items: u64) -> R = ("CAPACITY", items);
        /// Sets the share of false answers of a new filter.
        error(rate: f64) -> R = ("ERROR", rate);
        /// Only if the filter exists.
        no_create() -> R = ("NOCREATE");
    }
    /// The options of [`cf_insert`] and [`cf_insert_nx`].
    CuckooInsertOptions {
        /// Sets the number of items that a new filter is for.
        capacity(items: u64) -> R = ("CAPACITY", items);
        /// Only if the filter exists.
        no_create() -> R = ("NOCREATE");
    }
}
