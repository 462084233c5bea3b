//! The clients of a server, according to CLIENT LIST.

use std::time::Duration;

use crate::systems::connect::CLIENT_NAME;

/// Clients in the text of CLIENT LIST that are not this program's and were active within the last `within`.
pub(super) fn active_others(list: &str, within: Duration) -> u64 {
    let is_active_other = |line: &&str| {
        let idle = field(line, "idle").and_then(|seconds| seconds.parse::<u64>().ok());
        // A replica and its master communicate all the time and are not foreign clients.
        let flags = field(line, "flags").unwrap_or_default();
        field(line, "name").unwrap_or_default() != CLIENT_NAME
            && !flags.contains(['S', 'M'])
            && idle.is_some_and(|seconds| seconds <= within.as_secs())
    };
    list.lines().filter(is_active_other).count() as u64
}

/// Clients in the text of CLIENT LIST that receive every command (`MONITOR`).
pub(super) fn monitors(list: &str) -> u64 {
    let watches = |line: &&str| field(line, "flags").is_some_and(|flags| flags.contains('O'));
    list.lines().filter(watches).count() as u64
}

/// The memory of clients in the text of CLIENT LIST that are not this program's, in bytes; `None` if the server does not
/// report it.
pub(super) fn memory_of_others(list: &str) -> Option<u64> {
    let others = list
        .lines()
        .filter(|line| field(line, "name") != Some(CLIENT_NAME));
    let memory = |line: &str| field(line, "tot-mem")?.parse::<u64>().ok();
    others
        .map(memory)
        .try_fold(0_u64, |sum, one| sum.checked_add(one?))
}

/// Clients in the text of CLIENT LIST that have this name.
pub(crate) fn named_clients(list: &str, name: &str) -> u64 {
    let named = list
        .lines()
        .filter(|line| field(line, "name") == Some(name));
    named.count() as u64
}

/// The value of `name` in a line of CLIENT LIST.
fn field<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    line.split(' ')
        .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_active_clients_are_counted() {
        let list = "id=3 addr=127.0.0.1:1 name=loadline idle=0 flags=N cmd=get\n\
                    id=4 addr=127.0.0.1:2 name=shop idle=1 flags=N cmd=get\n\
                    id=5 addr=127.0.0.1:3 name= idle=0 flags=S cmd=replconf\n\
                    id=6 addr=127.0.0.1:4 name= idle=400 flags=N cmd=ping\n\
                    nonsense\n";
        assert_eq!(active_others(list, Duration::from_millis(2_500)), 1);
        assert_eq!(memory_of_others(list), None);
        let sized =
            "id=3 name=loadline tot-mem=900\nid=4 name= tot-mem=20\nid=5 name=x tot-mem=3\n";
        assert_eq!(memory_of_others(sized), Some(23));
        assert_eq!(active_others("", Duration::from_secs(1)), 0);
        assert_eq!(named_clients(list, "shop"), 1);
        assert_eq!(named_clients(list, "sho"), 0);
        assert_eq!(monitors(list), 0);
        assert_eq!(
            monitors("id=9 name= idle=0 flags=O cmd=monitor\nid=3 flags=N cmd=get\n"),
            1
        );
    }
}
