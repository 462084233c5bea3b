//! JSON documents: Redis 8, or the module RedisJSON. A path such as `$.name` can match several values, and the replies have an element for each.

use super::*;

commands! {
    /// Appends values, each a JSON text, to arrays. Replies with their new lengths.
    ///
    /// Redis documentation: [`JSON.ARRAPPEND`](https://redis.io/docs/latest/commands/json.arrappend/).
    json_arr_append(key: impl Arg, path: impl Arg, values: impl ToArgs) -> Vec<Option<u64>>
        = "JSON.ARRAPPEND"(key, path, values);
    /// Finds a value, a JSON text, in arrays. Replies with its indexes, or -1.
    ///
    /// Redis documentation: [`JSON.ARRINDEX`](https://redis.io/docs/latest/commands/json.arrindex/).
    json_arr_index(key: impl Arg, path: impl Arg, value: impl Arg) -> Vec<Option<i64>>
        = "JSON.ARRINDEX"(key, path, value);
    /// Inserts values, each a JSON text, before an index of arrays. Replies with their new lengths.
    ///
    /// Redis documentation: [`JSON.ARRINSERT`](https://redis.io/docs/latest/commands/json.arrinsert/).
    json_arr_insert(key: impl Arg, path: impl Arg, index: i64, values: impl ToArgs) -> Vec<Option<u64>>
        = "JSON.ARRINSERT"(key, path, index, values);
    /// Gets the lengths of arrays.
    ///
    /// Redis documentation: [`JSON.ARRLEN`](https://redis.io/docs/latest/commands/json.arrlen/).
    json_arr_len(key: impl Arg, path: impl Arg) -> Vec<Option<u64>>
        = "JSON.ARRLEN"(key, path);
    /// Removes the elements at an index of arrays. Replies with them as JSON texts.
    ///
    /// Redis documentation: [`JSON.ARRPOP`](https://redis.io/docs/latest/commands/json.arrpop/).
    json_arr_pop<T>(key: impl Arg, path: impl Arg, index: i64) -> Vec<T>
        = "JSON.ARRPOP"(key, path, index);
    /// Keeps the elements of arrays from one index to another. Replies with the new lengths.
    ///
    /// Redis documentation: [`JSON.ARRTRIM`](https://redis.io/docs/latest/commands/json.arrtrim/).
    json_arr_trim(key: impl Arg, path: impl Arg, from: i64, to: i64) -> Vec<Option<u64>>
        = "JSON.ARRTRIM"(key, path, from, to);
    /// Empties arrays and objects, and sets numbers to 0. Replies with the number of values that changed.
    ///
    /// Redis documentation: [`JSON.CLEAR`](https://redis.io/docs/latest/commands/json.clear/).
    json_clear(key: impl Arg, path: impl Arg) -> u64 = "JSON.CLEAR"(key, path);
    /// Gets the bytes of memory that values hold.
    ///
    /// Redis documentation: [`JSON.DEBUG`](https://redis.io/docs/latest/commands/json.debug/).
    json_debug_memory<T>(key: impl Arg, path: impl Arg) -> T
        = "JSON.DEBUG"("MEMORY", key, path);
    /// Deletes values. Replies with their number.
    ///
    /// Redis documentation: [`JSON.DEL`](https://redis.io/docs/latest/commands/json.del/).
    json_del(key: impl Arg, path: impl Arg) -> u64 = "JSON.DEL"(key, path);
    /// Gets values as one JSON text. Replies with nil if the key does not exist.
    ///
    /// Redis documentation: [`JSON.GET`](https://redis.io/docs/latest/commands/json.get/).
    json_get<T>(key: impl Arg, paths: impl ToArgs) -> T
        = "JSON.GET"(key) + JsonFormatOptions[paths];
    /// Merges a value, a JSON text, into values, where null deletes a member (RFC 7396).
    ///
    /// Redis documentation: [`JSON.MERGE`](https://redis.io/docs/latest/commands/json.merge/).
    json_merge(key: impl Arg, path: impl Arg, value: impl Arg) -> ()
        = "JSON.MERGE"(key, path, value);
    /// Gets the value at one path of several keys. Replies with nil for each key that does not exist.
    ///
    /// Redis documentation: [`JSON.MGET`](https://redis.io/docs/latest/commands/json.mget/).
    json_mget<T>(keys: impl ToArgs, path: impl Arg) -> Vec<T> = "JSON.MGET"(keys, path);
    /// Sets several values, given as keys, paths and JSON texts. All keys must be in one slot on a cluster, which
    /// routes by the first.
    ///
    /// Redis documentation: [`JSON.MSET`](https://redis.io/docs/latest/commands/json.mset/).
    json_mset(values: impl ToArgs) -> () = "JSON.MSET"(values);
    /// Adds to numbers. Replies with the new numbers: a list in RESP3, and a JSON text in RESP2.
    ///
    /// Redis documentation: [`JSON.NUMINCRBY`](https://redis.io/docs/latest/commands/json.numincrby/).
    json_num_incr_by<T>(key: impl Arg, path: impl Arg, by: f64) -> T
        = "JSON.NUMINCRBY"(key, path, by);
    /// Gets the names of the members of objects.
    ///
    /// Redis documentation: [`JSON.OBJKEYS`](https://redis.io/docs/latest/commands/json.objkeys/).
    json_obj_keys<T>(key: impl Arg, path: impl Arg) -> Vec<T> = "JSON.OBJKEYS"(key, path);
    /// Gets the number of members of objects.
    ///
    /// Redis documentation: [`JSON.OBJLEN`](https://redis.io/docs/latest/commands/json.objlen/).
    json_obj_len(key: impl Arg, path: impl Arg) -> Vec<Option<u64>>
        = "JSON.OBJLEN"(key, path);
    /// Gets a value in the form of a reply of the server.
    ///
    /// Redis documentation: [`JSON.RESP`](https://redis.io/docs/latest/commands/json.resp/).
    json_resp<T>(key: impl Arg, path: impl Arg) -> T = "JSON.RESP"(key, path);
    /// Sets values to a JSON text. With a condition the reply is nil if it is not met.
    ///
    /// Redis documentation: [`JSON.SET`](https://redis.io/docs/latest/commands/json.set/).
    json_set(key: impl Arg, path: impl Arg, value: impl Arg) -> ()
        = "JSON.SET"(key, path, value) + JsonSetOptions;
    /// Appends a JSON text of a string to strings. Replies with their new lengths.
    ///
    /// Redis documentation: [`JSON.STRAPPEND`](https://redis.io/docs/latest/commands/json.strappend/).
    json_str_append(key: impl Arg, path: impl Arg, value: impl Arg) -> Vec<Option<u64>>
        = "JSON.STRAPPEND"(key, path, value);
    /// Gets the lengths of strings.
    ///
    /// Redis documentation: [`JSON.STRLEN`](https://redis.io/docs/latest/commands/json.strlen/).
    json_str_len(key: impl Arg, path: impl Arg) -> Vec<Option<u64>>
        = "JSON.STRLEN"(key, path);
    /// Turns true into false and false into true. Replies with the new values as 0 and 1.
    ///
    /// Redis documentation: [`JSON.TOGGLE`](https://redis.io/docs/latest/commands/json.toggle/).
    json_toggle(key: impl Arg, path: impl Arg) -> Vec<Option<i64>> = "JSON.TOGGLE"(key, path);
    /// Gets the names of the types of values.
    ///
    /// Redis documentation: [`JSON.TYPE`](https://redis.io/docs/latest/commands/json.type/).
    json_type<T>(key: impl Arg, path: impl Arg) -> T = "JSON.TYPE"(key, path);
}

options! {
    /// The options of [`json_get`].
    JsonFormatOptions {
        /// Sets the text for each level of indentation.
        indent(text: impl Arg) -> R = ("INDENT", text);
        /// Sets the text at the end of each line.
        newline(text: impl Arg) -> R = ("NEWLINE", text);
        /// Sets the text between a name and its value.
        space(text: impl Arg) -> R = ("SPACE", text);
    }
    /// The options of [`json_set`].
    JsonSetOptions {
        /// Only if there is no value.
        nx() -> R::OrNil where OrNil = ("NX"), NONE;
        /// Only if there is a value.
        xx() -> R::OrNil where OrNil = ("XX");
    }
}
