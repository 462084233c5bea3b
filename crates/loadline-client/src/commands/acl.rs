//! Users and their permissions.

use super::*;

commands! {
    /// Gets the names of all categories of commands, or those of the commands of one; `()` is none.
    ///
    /// Redis documentation: [`ACL CAT`](https://redis.io/docs/latest/commands/acl-cat/).
    acl_cat(category: impl ToArgs) -> Vec<String> = "ACL" "CAT"(category);
    /// Removes users. Replies with the number of users that existed.
    ///
    /// Redis documentation: [`ACL DELUSER`](https://redis.io/docs/latest/commands/acl-deluser/).
    acl_del_user(names: impl ToArgs) -> u64 = "ACL" "DELUSER"(names);
    /// Checks whether a user may run a command, given as a list of its words. Replies with `OK`, or with the reason
    /// why not.
    ///
    /// Redis documentation: [`ACL DRYRUN`](https://redis.io/docs/latest/commands/acl-dryrun/).
    acl_dry_run(user: impl Arg, command: impl ToArgs) -> String
        = "ACL" "DRYRUN"(user, command);
    /// Makes a random password of this number of bits. Replies with its hexadecimal digits.
    ///
    /// Redis documentation: [`ACL GENPASS`](https://redis.io/docs/latest/commands/acl-genpass/).
    acl_gen_pass(bits: u32) -> String = "ACL" "GENPASS"(bits);
    /// Describes a user, by a map. Replies with nil if there is none of this name.
    ///
    /// Redis documentation: [`ACL GETUSER`](https://redis.io/docs/latest/commands/acl-getuser/).
    acl_get_user<T>(name: impl Arg) -> T = "ACL" "GETUSER"(name);
    /// Gets the rules of all users, as in the file of the list.
    ///
    /// Redis documentation: [`ACL LIST`](https://redis.io/docs/latest/commands/acl-list/).
    acl_list() -> Vec<String> = "ACL" "LIST"();
    /// Reads the file of the list again.
    ///
    /// Redis documentation: [`ACL LOAD`](https://redis.io/docs/latest/commands/acl-load/).
    acl_load() -> () = "ACL" "LOAD"();
    /// Gets up to `count` of the latest denials, each as a map.
    ///
    /// Redis documentation: [`ACL LOG`](https://redis.io/docs/latest/commands/acl-log/).
    acl_log<T>(count: u64) -> Vec<T> = "ACL" "LOG"(count);
    /// Removes all entries of the log of denials.
    ///
    /// Redis documentation: [`ACL LOG`](https://redis.io/docs/latest/commands/acl-log/).
    acl_log_reset() -> () = "ACL" "LOG"("RESET");
    /// Writes the list to its file.
    ///
    /// Redis documentation: [`ACL SAVE`](https://redis.io/docs/latest/commands/acl-save/).
    acl_save() -> () = "ACL" "SAVE"();
    /// Creates a user or changes one by these rules, such as `["on", ">secret", "~cache:*", "+get"]`.
    ///
    /// Redis documentation: [`ACL SETUSER`](https://redis.io/docs/latest/commands/acl-setuser/).
    acl_set_user(name: impl Arg, rules: impl ToArgs) -> () = "ACL" "SETUSER"(name, rules);
    /// Gets the names of all users.
    ///
    /// Redis documentation: [`ACL USERS`](https://redis.io/docs/latest/commands/acl-users/).
    acl_users() -> Vec<String> = "ACL" "USERS"();
    /// Gets the name of the user of this connection.
    ///
    /// Redis documentation: [`ACL WHOAMI`](https://redis.io/docs/latest/commands/acl-whoami/).
    acl_who_am_i() -> String = "ACL" "WHOAMI"();
}
