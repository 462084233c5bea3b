//! The settings of redis-server that make it execute certain functions.

/// Beginnings of the names of functions, and the setting that turns their work on or chooses it.
const SETTINGS: [(&str, &str); 13] = [
    ("LFU", "maxmemory-policy"),
    ("activeDefrag", "activedefrag"),
    ("catAppendOnly", "appendonly"),
    ("evictionPoolPopulate", "maxmemory-policy"),
    ("feedAppendOnlyFile", "appendonly"),
    ("flushAppendOnlyFile", "appendonly"),
    ("hdr_record", "latency-tracking"),
    ("latencyAddSample", "latency-monitor-threshold"),
    ("notifyKeyspaceEvent", "notify-keyspace-events"),
    ("performEvictions", "maxmemory-policy"),
    ("rdbSave", "save"),
    ("slowlog", "slowlog-log-slower-than"),
    ("updateCommandLatencyHistogram", "latency-tracking"),
];

/// The setting of redis-server that `function` works for, if it is known.
#[must_use]
pub fn setting_of(function: &str) -> Option<&'static str> {
    let mut known = SETTINGS.iter();
    known
        .find(|(prefix, _)| function.starts_with(prefix))
        .map(|(_, setting)| *setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_name_their_setting() {
        for (function, setting) in [
            ("slowlogPushEntryIfNeeded", Some("slowlog-log-slower-than")),
            ("notifyKeyspaceEvent", Some("notify-keyspace-events")),
            ("hdr_record_values", Some("latency-tracking")),
            ("performEvictions", Some("maxmemory-policy")),
            ("feedAppendOnlyFile", Some("appendonly")),
            ("call", None),
            ("0x4c10", None),
            ("", None),
        ] {
            assert_eq!(setting_of(function), setting, "{function}");
        }
    }
}
