//! Functions, which libraries on the server define.

use super::*;

commands! {
    /// Calls a function with these keys and arguments; `()` is none. Replies with the result of the function.
    ///
    /// Redis documentation: [`FCALL`](https://redis.io/docs/latest/commands/fcall/).
    fcall<T>(function: impl Arg, keys: impl ToArgs, args: impl ToArgs) -> T
        = "FCALL"(function, counted(keys), args);
    /// Calls a function as [`fcall`] does, and refuses one that can write.
    ///
    /// Redis documentation: [`FCALL_RO`](https://redis.io/docs/latest/commands/fcall_ro/).
    fcall_ro<T>(function: impl Arg, keys: impl ToArgs, args: impl ToArgs) -> T
        = "FCALL_RO"(function, counted(keys), args);
    /// Removes a library and its functions.
    ///
    /// Redis documentation: [`FUNCTION DELETE`](https://redis.io/docs/latest/commands/function-delete/).
    function_delete(library: impl Arg) -> () = "FUNCTION" "DELETE"(library);
    /// Gets all libraries in the form that [`function_restore`] takes.
    ///
    /// Redis documentation: [`FUNCTION DUMP`](https://redis.io/docs/latest/commands/function-dump/).
    function_dump<T>() -> T = "FUNCTION" "DUMP"();
    /// Removes all libraries.
    ///
    /// Redis documentation: [`FUNCTION FLUSH`](https://redis.io/docs/latest/commands/function-flush/).
    function_flush() -> () = "FUNCTION" "FLUSH"() + FlushOptions;
    /// Stops the function that is running, if it has not written yet.
    ///
    /// Redis documentation: [`FUNCTION KILL`](https://redis.io/docs/latest/commands/function-kill/).
    function_kill() -> () = "FUNCTION" "KILL"();
    /// Describes the libraries, each by a map.
    ///
    /// Redis documentation: [`FUNCTION LIST`](https://redis.io/docs/latest/commands/function-list/).
    function_list<T>() -> Vec<T> = "FUNCTION" "LIST"() + FunctionListOptions;
    /// Loads a library. Replies with its name.
    ///
    /// Redis documentation: [`FUNCTION LOAD`](https://redis.io/docs/latest/commands/function-load/).
    function_load(code: impl Arg) -> String = "FUNCTION" "LOAD"() + FunctionLoadOptions[code];
    /// Loads the libraries of a [`function_dump`].
    ///
    /// Redis documentation: [`FUNCTION RESTORE`](https://redis.io/docs/latest/commands/function-restore/).
    function_restore(dumped: impl Arg) -> ()
        = "FUNCTION" "RESTORE"(dumped) + FunctionRestoreOptions;
    /// Describes the function that is running and the engines, by a map.
    ///
    /// Redis documentation: [`FUNCTION STATS`](https://redis.io/docs/latest/commands/function-stats/).
    function_stats<T>() -> T = "FUNCTION" "STATS"();
}

options! {
    /// The options of [`function_list`].
    FunctionListOptions {
        /// Only libraries whose names match this pattern.
        library_name(pattern: impl Arg) -> R = ("LIBRARYNAME", pattern);
        /// Adds the code of the libraries.
        with_code() -> R = ("WITHCODE");
    }
    /// The options of [`function_load`].
    FunctionLoadOptions {
        /// Replaces the library if it exists.
        replace() -> R = ("REPLACE");
    }
    /// The options of [`function_restore`].
    FunctionRestoreOptions {
        /// Removes all libraries before.
        flush() -> R = ("FLUSH");
        /// Adds the libraries, and fails if one of them exists, which is the default.
        append() -> R = ("APPEND");
        /// Adds the libraries, and replaces those that exist.
        replace() -> R = ("REPLACE");
    }
}
