//! Time series: Redis 8, or the module RedisTimeSeries. Times are milliseconds since 1970; `"-"` and `"+"` are the first and the last.

use super::*;

commands! {
    /// Adds a sample, and creates the series if there is none; `"*"` is the time of the server. Replies with its
    /// time.
    ///
    /// Redis documentation: [`TS.ADD`](https://redis.io/docs/latest/commands/ts.add/).
    ts_add(key: impl Arg, time: impl Arg, value: f64) -> u64
        = "TS.ADD"(key, time, value) + SeriesOptions;
    /// Changes the properties of a series.
    ///
    /// Redis documentation: [`TS.ALTER`](https://redis.io/docs/latest/commands/ts.alter/).
    ts_alter(key: impl Arg) -> () = "TS.ALTER"(key) + SeriesOptions;
    /// Creates a series.
    ///
    /// Redis documentation: [`TS.CREATE`](https://redis.io/docs/latest/commands/ts.create/).
    ts_create(key: impl Arg) -> () = "TS.CREATE"(key) + SeriesOptions;
    /// Creates a rule that writes an aggregate of each time span of one series, such as `"avg"`, to another.
    ///
    /// Redis documentation: [`TS.CREATERULE`](https://redis.io/docs/latest/commands/ts.createrule/).
    ts_create_rule(source: impl Arg, destination: impl Arg, aggregate: impl Arg, span: Duration) -> ()
        = "TS.CREATERULE"(source, destination, "AGGREGATION", aggregate, millis(span));
    /// Subtracts from the last value. Replies with the time of the new sample.
    ///
    /// Redis documentation: [`TS.DECRBY`](https://redis.io/docs/latest/commands/ts.decrby/).
    ts_decr_by(key: impl Arg, by: f64) -> u64 = "TS.DECRBY"(key, by);
    /// Deletes samples from one time to another. Replies with their number.
    ///
    /// Redis documentation: [`TS.DEL`](https://redis.io/docs/latest/commands/ts.del/).
    ts_del(key: impl Arg, from: impl Arg, to: impl Arg) -> u64 = "TS.DEL"(key, from, to);
    /// Removes a rule.
    ///
    /// Redis documentation: [`TS.DELETERULE`](https://redis.io/docs/latest/commands/ts.deleterule/).
    ts_delete_rule(source: impl Arg, destination: impl Arg) -> ()
        = "TS.DELETERULE"(source, destination);
    /// Gets the last sample. The reply is empty if there is none.
    ///
    /// Redis documentation: [`TS.GET`](https://redis.io/docs/latest/commands/ts.get/).
    ts_get<T>(key: impl Arg) -> T = "TS.GET"(key);
    /// Adds to the last value. Replies with the time of the new sample.
    ///
    /// Redis documentation: [`TS.INCRBY`](https://redis.io/docs/latest/commands/ts.incrby/).
    ts_incr_by(key: impl Arg, by: f64) -> u64 = "TS.INCRBY"(key, by);
    /// Describes a series by a map.
    ///
    /// Redis documentation: [`TS.INFO`](https://redis.io/docs/latest/commands/ts.info/).
    ts_info<T>(key: impl Arg) -> T = "TS.INFO"(key);
    /// Adds samples, given as keys, times and values. Replies with their times. On a cluster all keys must be in
    /// one slot, which routes by the first.
    ///
    /// Redis documentation: [`TS.MADD`](https://redis.io/docs/latest/commands/ts.madd/).
    ts_madd<T>(samples: impl ToArgs) -> Vec<T> = "TS.MADD"(samples);
    /// Gets the last sample of each series with these labels, such as `"area=north"`.
    ///
    /// Redis documentation: [`TS.MGET`](https://redis.io/docs/latest/commands/ts.mget/).
    ts_mget<T>(filters: impl ToArgs) -> T = "TS.MGET"("FILTER", filters);
    /// Gets the samples of each series with these labels, from one time to another.
    ///
    /// Redis documentation: [`TS.MRANGE`](https://redis.io/docs/latest/commands/ts.mrange/).
    ts_mrange<T>(from: impl Arg, to: impl Arg, filters: impl ToArgs) -> T
        = "TS.MRANGE"(from, to) + SampleOptions["FILTER", filters];
    /// Gets the samples of each series with these labels, latest first.
    ///
    /// Redis documentation: [`TS.MREVRANGE`](https://redis.io/docs/latest/commands/ts.mrevrange/).
    ts_mrev_range<T>(from: impl Arg, to: impl Arg, filters: impl ToArgs) -> T
        = "TS.MREVRANGE"(from, to) + SampleOptions["FILTER", filters];
    /// Gets the keys of the series with these labels.
    ///
    /// Redis documentation: [`TS.QUERYINDEX`](https://redis.io/docs/latest/commands/ts.queryindex/).
    ts_query_index<T>(filters: impl ToArgs) -> T = "TS.QUERYINDEX"(filters);
    /// Gets samples from one time to another, each with its time and value.
    ///
    /// Redis documentation: [`TS.RANGE`](https://redis.io/docs/latest/commands/ts.range/).
    ts_range<T>(key: impl Arg, from: impl Arg, to: impl Arg) -> T
        = "TS.RANGE"(key, from, to) + SampleOptions;
    /// Gets samples from one time to another, latest first.
    ///
    /// Redis documentation: [`TS.REVRANGE`](https://redis.io/docs/latest/commands/ts.revrange/).
    ts_rev_range<T>(key: impl Arg, from: impl Arg, to: impl Arg) -> T
        = "TS.REVRANGE"(key, from, to) + SampleOptions;
}

options! {
    /// The properties of a series: the options of [`ts_add`], [`ts_alter`] and [`ts_create`].
    SeriesOptions {
        /// Sets how long samples are kept.
        retention(time: Duration) -> R = ("RETENTION", whole_millis(time));
        /// Sets the bytes of a piece of the series.
        chunk_size(bytes: u64) -> R = ("CHUNK_SIZE", bytes);
        /// Sets what becomes of a sample whose time has one, such as `"LAST"`.
        duplicate_policy(policy: impl Arg) -> R = ("DUPLICATE_POLICY", policy);
        /// Sets the labels, given as pairs or a map. It has to be the last option.
        labels(pairs: impl ToArgs) -> R = ("LABELS", pairs);
    }
    /// The options of [`ts_range`], [`ts_rev_range`], [`ts_mrange`] and [`ts_mrev_range`].
    SampleOptions {
        /// Includes the span that is not complete yet.
        latest() -> R = ("LATEST");
        /// Only samples with values from one to another.
        filter_by_value(min: f64, max: f64) -> R = ("FILTER_BY_VALUE", min, max);
        /// Replies with the labels too, for several series.
        with_labels() -> R = ("WITHLABELS");
        /// Gets up to this number of samples.
        count(count: u64) -> R = ("COUNT", count);
        /// Replies with an aggregate of each time span, such as `"avg"`.
        aggregation(aggregate: impl Arg, span: Duration) -> R = ("AGGREGATION", aggregate, millis(span));
    }
}
