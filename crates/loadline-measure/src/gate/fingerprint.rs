//! Whether two measurements were made on the same machine.
//!
//! Another CPU, kernel or topology makes times incomparable, even normalised ones, so the baseline cannot
//! raise an alarm. Another server version or setting is what a gate should judge, so it is only mentioned.

use std::fmt;

use crate::record::{Environment, ServerEnvironment, shortened};

/// The largest difference in memory between equal machines: kernels reserve some of it.
const MEMORY_TOLERANCE: f64 = 0.02;

/// A difference between two environments. It is displayed as a sentence, also in errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    what: String,
    was: String,
    is: String,
    /// Whether the machine differs, as opposed to the server on it.
    pub(super) is_of_place: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "The {} was {} and is {} now.",
            self.what, self.was, self.is
        )
    }
}

/// The differences between two environments, without the load of the machine.
pub(super) fn differences(was: &Environment, is: &Environment) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut place = |what: &str, was: Option<String>, is: Option<String>| {
        found.extend(difference(what, was, is, true));
    };
    place("CPU model", was.cpu_model.clone(), is.cpu_model.clone());
    place("number of cores", number(was.cores), number(is.cores));
    place(
        "CPU quota in cores",
        was.cgroup_quota_cores.map(|cores| cores.to_string()),
        is.cgroup_quota_cores.map(|cores| cores.to_string()),
    );
    place("kernel", was.kernel.clone(), is.kernel.clone());
    place(
        "kind of machine",
        was.virtualization.clone(),
        is.virtualization.clone(),
    );
    place(
        "clock source",
        was.clock_source.clone(),
        is.clock_source.clone(),
    );
    place(
        "frequency governor",
        was.governor.clone(),
        is.governor.clone(),
    );
    if !about_the_same(was.memory_bytes, is.memory_bytes) {
        place(
            "memory in bytes",
            number(was.memory_bytes),
            number(is.memory_bytes),
        );
    }
    let (servers, now) = (was.servers.len() as u64, is.servers.len() as u64);
    place(
        "number of servers",
        Some(servers.to_string()),
        Some(now.to_string()),
    );
    for (was, is) in was.servers.iter().zip(&is.servers) {
        found.extend(of_servers(was, is));
    }
    found
}

/// The properties that are unknown for either machine, so that another machine might not be detected.
pub(super) fn unknown(was: &Environment, is: &Environment) -> Vec<&'static str> {
    let mut unknown = Vec::new();
    if was.cpu_model.is_none() && is.cpu_model.is_none() {
        unknown.push("CPU model");
    }
    if was.kernel.is_none() && is.kernel.is_none() {
        unknown.push("kernel");
    }
    unknown
}

fn of_servers(was: &ServerEnvironment, is: &ServerEnvironment) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut server = |what: &str, was: Option<String>, is: Option<String>| {
        found.extend(difference(what, was, is, false));
    };
    server("server", was.name.clone(), is.name.clone());
    server("server's version", was.version.clone(), is.version.clone());
    server(
        "server's allocator",
        was.allocator.clone(),
        is.allocator.clone(),
    );
    server(
        "digest of the server's configuration file",
        was.config_sha256.clone(),
        is.config_sha256.clone(),
    );
    for (name, value) in &was.settings {
        let setting = format!("server's setting {}", shortened(name));
        server(
            &setting,
            Some(value.clone()),
            is.settings.get(name).cloned(),
        );
    }
    for (name, value) in &is.settings {
        if !was.settings.contains_key(name) {
            let setting = format!("server's setting {}", shortened(name));
            server(&setting, None, Some(value.clone()));
        }
    }
    found
}

fn difference(
    what: &str,
    was: Option<String>,
    is: Option<String>,
    is_of_place: bool,
) -> Option<Difference> {
    (was != is).then(|| Difference {
        what: what.to_owned(),
        was: told(was),
        is: told(is),
        is_of_place,
    })
}

fn told(value: Option<String>) -> String {
    value.map_or_else(|| "not known".to_owned(), |value| shortened(&value))
}

fn number(value: Option<u64>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn about_the_same(was: Option<u64>, is: Option<u64>) -> bool {
    match (was, is) {
        (Some(was), Some(is)) => was.abs_diff(is) as f64 <= MEMORY_TOLERANCE * was.max(is) as f64,
        _ => was == is,
    }
}
