//! Describes an opened server for the record.

use loadline_measure::record::ServerEnvironment;

use super::opened::Opened;
use crate::spelling::{Choice, Engine, Target};

/// Server settings that affect measurements.
const SETTINGS: [&str; 5] = [
    "save",
    "appendonly",
    "maxmemory",
    "maxmemory-policy",
    "io-threads",
];

impl Opened {
    /// The identifiers of its processes, as far as they are known.
    pub(crate) fn run_ids(&mut self) -> Vec<String> {
        self.environment()
            .and_then(|environment| environment.run_id)
            .into_iter()
            .collect()
    }

    /// Version and settings of the server; `None` for an engine in this process and for the null server.
    pub(crate) fn environment(&mut self) -> Option<ServerEnvironment> {
        let subject = match &self.target {
            Target::Engine(engine)
                if engine.choice.is_server() && engine.choice != Choice::Null =>
            {
                format!("{} ({})", self.name, engine.durability)
            }
            Target::Engine(engine) if *engine != Engine::RAM => return None,
            _ => self.name.clone(),
        };
        let settings = SETTINGS
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), self.setting(name)?)))
            .collect();
        let config_sha256 = self.config_sha256().map(ToOwned::to_owned);
        Some(ServerEnvironment {
            settings,
            config_sha256,
            ..described(&subject, |name| self.said(name))
        })
    }
}

/// The version of a server, by the fields of its INFO.
pub(super) fn described<'i>(
    subject: &str,
    said: impl Fn(&str) -> Option<&'i str>,
) -> ServerEnvironment {
    let said = |name: &str| said(name).map(ToOwned::to_owned);
    ServerEnvironment {
        subject: subject.to_owned(),
        name: said("loadline_version")
            .map(|_| "loadline".into())
            .or_else(|| said("server_name"))
            .or_else(|| said("redis_version").map(|_| "redis".into())),
        version: said("loadline_version").or_else(|| said("redis_version")),
        run_id: said("run_id"),
        allocator: said("mem_allocator"),
        ..ServerEnvironment::default()
    }
}
