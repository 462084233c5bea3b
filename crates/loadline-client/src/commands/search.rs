//! Indexes and queries: Redis 8, or the module RediSearch. An index is no key, and any node can be asked.

use super::*;

commands! {
    /// Lists the indexes.
    ///
    /// Redis documentation: [`FT._LIST`](https://redis.io/docs/latest/commands/ft._list/).
    ft_list<T>() -> T = "FT._LIST"();
    /// Runs a query with the steps of an aggregation after it, such as `("GROUPBY", 1, "@brand")`.
    ///
    /// Redis documentation: [`FT.AGGREGATE`](https://redis.io/docs/latest/commands/ft.aggregate/).
    ft_aggregate<T>(index: impl Arg, query: impl Arg, steps: impl ToArgs) -> T
        = "FT.AGGREGATE"(index, query, steps);
    /// Adds another name of an index.
    ///
    /// Redis documentation: [`FT.ALIASADD`](https://redis.io/docs/latest/commands/ft.aliasadd/).
    ft_alias_add(alias: impl Arg, index: impl Arg) -> () = "FT.ALIASADD"(alias, index);
    /// Removes another name of an index.
    ///
    /// Redis documentation: [`FT.ALIASDEL`](https://redis.io/docs/latest/commands/ft.aliasdel/).
    ft_alias_del(alias: impl Arg) -> () = "FT.ALIASDEL"(alias);
    /// Makes a name an alias of an index, in place of any other.
    ///
    /// Redis documentation: [`FT.ALIASUPDATE`](https://redis.io/docs/latest/commands/ft.aliasupdate/).
    ft_alias_update(alias: impl Arg, index: impl Arg) -> () = "FT.ALIASUPDATE"(alias, index);
    /// Adds a field to an index, given as in [`ft_create`].
    ///
    /// Redis documentation: [`FT.ALTER`](https://redis.io/docs/latest/commands/ft.alter/).
    ft_alter(index: impl Arg, field: impl ToArgs) -> ()
        = "FT.ALTER"(index, "SCHEMA", "ADD", field);
    /// Creates an index with these fields, such as `("title", "TEXT", "price", "NUMERIC")`.
    ///
    /// Redis documentation: [`FT.CREATE`](https://redis.io/docs/latest/commands/ft.create/).
    ft_create(index: impl Arg, schema: impl ToArgs) -> ()
        = "FT.CREATE"(index) + IndexOptions["SCHEMA", schema];
    /// Ends a cursor of an aggregation.
    ///
    /// Redis documentation: [`FT.CURSOR`](https://redis.io/docs/latest/commands/ft.cursor/).
    ft_cursor_del(index: impl Arg, cursor: u64) -> () = "FT.CURSOR"("DEL", index, cursor);
    /// Reads the next page of an aggregation. Replies with it and the next cursor; 0 is the end.
    ///
    /// Redis documentation: [`FT.CURSOR`](https://redis.io/docs/latest/commands/ft.cursor/).
    ft_cursor_read<T>(index: impl Arg, cursor: u64, count: u64) -> (T, u64)
        = "FT.CURSOR"("READ", index, cursor, "COUNT", count);
    /// Adds terms to a dictionary. Replies with the number of new terms.
    ///
    /// Redis documentation: [`FT.DICTADD`](https://redis.io/docs/latest/commands/ft.dictadd/).
    ft_dict_add(dictionary: impl Arg, terms: impl ToArgs) -> u64
        = "FT.DICTADD"(dictionary, terms);
    /// Removes terms of a dictionary. Replies with the number of terms that existed.
    ///
    /// Redis documentation: [`FT.DICTDEL`](https://redis.io/docs/latest/commands/ft.dictdel/).
    ft_dict_del(dictionary: impl Arg, terms: impl ToArgs) -> u64
        = "FT.DICTDEL"(dictionary, terms);
    /// Gets the terms of a dictionary.
    ///
    /// Redis documentation: [`FT.DICTDUMP`](https://redis.io/docs/latest/commands/ft.dictdump/).
    ft_dict_dump<T>(dictionary: impl Arg) -> T = "FT.DICTDUMP"(dictionary);
    /// Removes an index, and keeps its documents.
    ///
    /// Redis documentation: [`FT.DROPINDEX`](https://redis.io/docs/latest/commands/ft.dropindex/).
    ft_drop_index(index: impl Arg) -> () = "FT.DROPINDEX"(index) + DropIndexOptions;
    /// Explains how a query is executed.
    ///
    /// Redis documentation: [`FT.EXPLAIN`](https://redis.io/docs/latest/commands/ft.explain/).
    ft_explain(index: impl Arg, query: impl Arg) -> String = "FT.EXPLAIN"(index, query);
    /// Describes an index by a map.
    ///
    /// Redis documentation: [`FT.INFO`](https://redis.io/docs/latest/commands/ft.info/).
    ft_info<T>(index: impl Arg) -> T = "FT.INFO"(index);
    /// Runs a query and measures its steps. Replies with the result and the times.
    ///
    /// Redis documentation: [`FT.PROFILE`](https://redis.io/docs/latest/commands/ft.profile/).
    ft_profile<T>(index: impl Arg, query: impl Arg) -> T
        = "FT.PROFILE"(index, "SEARCH", "QUERY", query);
    /// Runs a query. Replies in RESP3 with a map, and in RESP2 with the number of results, and each with its key.
    ///
    /// Redis documentation: [`FT.SEARCH`](https://redis.io/docs/latest/commands/ft.search/).
    ft_search<T>(index: impl Arg, query: impl Arg) -> T
        = "FT.SEARCH"(index, query) + SearchOptions;
    /// Suggests corrections of the words of a query.
    ///
    /// Redis documentation: [`FT.SPELLCHECK`](https://redis.io/docs/latest/commands/ft.spellcheck/).
    ft_spell_check<T>(index: impl Arg, query: impl Arg) -> T = "FT.SPELLCHECK"(index, query);
    /// Adds a suggestion with its score. Replies with the number of suggestions.
    ///
    /// Redis documentation: [`FT.SUGADD`](https://redis.io/docs/latest/commands/ft.sugadd/).
    ft_sug_add(key: impl Arg, text: impl Arg, score: f64) -> u64
        = "FT.SUGADD"(key, text, score);
    /// Removes a suggestion. Replies with whether it existed.
    ///
    /// Redis documentation: [`FT.SUGDEL`](https://redis.io/docs/latest/commands/ft.sugdel/).
    ft_sug_del(key: impl Arg, text: impl Arg) -> bool = "FT.SUGDEL"(key, text);
    /// Gets suggestions that begin with this text.
    ///
    /// Redis documentation: [`FT.SUGGET`](https://redis.io/docs/latest/commands/ft.sugget/).
    ft_sug_get<T>(key: impl Arg, prefix: impl Arg) -> T
        = "FT.SUGGET"(key, prefix) + SuggestOptions;
    /// Counts the suggestions.
    ///
    /// Redis documentation: [`FT.SUGLEN`](https://redis.io/docs/latest/commands/ft.suglen/).
    ft_sug_len(key: impl Arg) -> u64 = "FT.SUGLEN"(key);
    /// Gets the groups of synonyms, as a map from each term.
    ///
    /// Redis documentation: [`FT.SYNDUMP`](https://redis.io/docs/latest/commands/ft.syndump/).
    ft_syn_dump<T>(index: impl Arg) -> T = "FT.SYNDUMP"(index);
    /// Adds terms to a group of synonyms.
    ///
    /// Redis documentation: [`FT.SYNUPDATE`](https://redis.io/docs/latest/commands/ft.synupdate/).
    ft_syn_update(index: impl Arg, group: impl Arg, terms: impl ToArgs) -> ()
        = "FT.SYNUPDATE"(index, group, terms);
    /// Gets the values of a field of tags.
    ///
    /// Redis documentation: [`FT.TAGVALS`](https://redis.io/docs/latest/commands/ft.tagvals/).
    ft_tag_vals<T>(index: impl Arg, field: impl Arg) -> T = "FT.TAGVALS"(index, field);
}

options! {
    /// The options of [`ft_create`].
    IndexOptions {
        /// Indexes hashes, as without an option.
        on_hash() -> R = ("ON", "HASH");
        /// Indexes JSON documents.
        on_json() -> R = ("ON", "JSON");
        /// Only keys that begin with one of these texts.
        prefix(prefixes: impl ToArgs) -> R = ("PREFIX", counted(prefixes));
        /// Only what this expression is true of.
        filter(expression: impl Arg) -> R = ("FILTER", expression);
        /// Sets the language of the texts.
        language(language: impl Arg) -> R = ("LANGUAGE", language);
        /// Leaves out what is there already.
        skip_initial_scan() -> R = ("SKIPINITIALSCAN");
    }
    /// The options of [`ft_drop_index`].
    DropIndexOptions {
        /// Deletes the indexed keys too.
        dd() -> R = ("DD");
    }
    /// The options of [`ft_search`].
    SearchOptions {
        /// Replies with the keys only.
        no_content() -> R = ("NOCONTENT");
        /// Replies with the scores too.
        with_scores() -> R = ("WITHSCORES");
        /// Replies with these fields only.
        returning(fields: impl ToArgs) -> R = ("RETURN", counted(fields));
        /// Sorts by a field, lowest first.
        sort_by(field: impl Arg) -> R = ("SORTBY", field);
        /// Sorts by a field, highest first.
        sort_by_desc(field: impl Arg) -> R = ("SORTBY", field, "DESC");
        /// Leaves out the first `offset` results, and replies with up to `count`.
        limit(offset: u64, count: u64) -> R = ("LIMIT", offset, count);
        /// Gives values to the parameters of the query, as names and values or a map.
        params(pairs: impl ToArgs) -> R = ("PARAMS", counted(pairs));
        /// Sets the version of the query language.
        dialect(version: u64) -> R = ("DIALECT", version);
    }
    /// The options of [`ft_sug_get`].
    SuggestOptions {
        /// Also finds texts with a typing error.
        fuzzy() -> R = ("FUZZY");
        /// Replies with the scores too.
        with_scores() -> R = ("WITHSCORES");
        /// Gets up to this number of suggestions.
        max(count: u64) -> R = ("MAX", count);
    }
}
