//! The keys of runs on an existing server: finding them, removing them, and the command to remove remaining ones.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use loadline_client::Protocol;

use super::admin::{Admin, Refusals, refusals};
use super::client;
use super::cluster;
use super::connect::Endpoint;
use super::opened::{Access, Opened};
use super::sentinel;
use super::tls;
use crate::exit::Failure;
use crate::plan::{Case, KEYS, TlsFiles, is_run_id, run_prefix};
use crate::secret::{PASSWORD_VARIABLE, quoted};
use crate::spelling::{Server, Target};
use crate::units::count_text;

/// Time limit before a run for finding the keys of earlier runs.
const LOOK_FOR: Duration = Duration::from_secs(2);
/// Time limit for scanning all keys.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for a server to notice that connections were closed.
const NOTICE: Duration = Duration::from_secs(1);
/// Number of scans of a cluster while keys migrate between its nodes.
const PASSES: u32 = 5;

/// The servers that hold the keys of a target: a server, or the masters of a cluster.
#[derive(Debug)]
pub(crate) struct Holders {
    name: String,
    admins: Vec<Admin>,
}

impl Holders {
    /// Connects to the servers of `target`.
    ///
    /// # Errors
    /// A usage error for a target that a run starts itself; if a server does not answer.
    pub(crate) fn open(target: &Target, files: &TlsFiles) -> Result<Self, Failure> {
        let trust = |server: &Server| match server.tls {
            true => tls::trust(files, &[]),
            false => Ok(loadline_client::Tls::default()),
        };
        let endpoint = |server: Server, tls| Endpoint::new(server, Protocol::Resp2, tls);
        let endpoints = match target {
            Target::Server(server) => vec![endpoint(server.clone(), trust(server)?)],
            Target::Sentinel(named) => {
                let master = sentinel::master(named, files)?;
                let tls = trust(&master)?;
                vec![endpoint(master, tls)]
            }
            Target::Cluster(seeds) => {
                let tls = trust(&seeds[0])?;
                let unreachable = |error| cluster::unreachable(&target.to_string(), &error);
                let opened = client::cluster(seeds, &tls, Protocol::Resp2)
                    .and_then(|found| found.open_blocking());
                let masters = opened.map_err(unreachable)?.masters();
                let nodes = masters.iter().map(|node| cluster::server(&seeds[0], node));
                nodes.map(|node| endpoint(node, tls.clone())).collect()
            }
            _ => {
                return Err(Failure::usage(format!(
                    "{target}: nothing to remove: each run starts and stops this target."
                )));
            }
        };
        Self::over(target.to_string(), &endpoints)
    }

    fn over(name: String, endpoints: &[Endpoint]) -> Result<Self, Failure> {
        let admins = endpoints.iter().map(Admin::open);
        Ok(Self {
            admins: admins.collect::<Result<_, _>>()?,
            name,
        })
    }

    /// The number of keys in all databases.
    ///
    /// # Errors
    /// If a server does not answer.
    pub(crate) fn key_count(&mut self) -> Result<u64, Failure> {
        let mut counts = self.admins.iter_mut().map(Admin::key_count);
        counts.try_fold(0, |sum, count| Ok(sum + count?))
    }

    /// The runs that have left keys, with the number of keys, as far as they are found within `patience`.
    ///
    /// # Errors
    /// If a server does not answer.
    pub(crate) fn runs(&mut self, patience: Duration) -> Result<BTreeMap<String, u64>, Failure> {
        let deadline = Instant::now() + patience;
        let mut runs = BTreeMap::new();
        for admin in &mut self.admins {
            admin.walk(KEYS, deadline, |_, keys| {
                let ids = keys.iter().filter_map(|key| run_of(key));
                ids.for_each(|id| *runs.entry(id.to_owned()).or_insert(0) += 1);
                Ok(())
            })?;
        }
        Ok(runs)
    }

    /// Removes the keys of the run `run_id`, and returns their number.
    ///
    /// # Errors
    /// If a server does not answer or refuses, or time runs out.
    pub(crate) fn remove(&mut self, run_id: &str) -> Result<u64, Failure> {
        let prefix = run_prefix(run_id);
        let (deadline, mut removed) = (Instant::now() + PATIENCE, 0);
        for _ in 0..PASSES {
            let mut moving = 0;
            for admin in &mut self.admins {
                let pass = admin.remove_prefix(&prefix, deadline)?;
                removed += pass.removed;
                moving += pass.moving;
            }
            if moving == 0 {
                return Ok(removed);
            }
        }
        Err(Failure::unavailable(format!(
            "{}: keys under {prefix} are moving between the nodes, and some are left.",
            self.name
        )))
    }

    /// Refuses servers that hold keys, because load would disturb their users. Mentions the keys of earlier runs.
    ///
    /// # Errors
    /// A usage error that names the flag to allow it; if a server does not answer.
    fn refuse_keys(&mut self, clean: &str) -> Result<(), Failure> {
        let keys = self.key_count()?;
        if keys == 0 {
            return Ok(());
        }
        let counted = |keys| match keys {
            1 => "1 key".to_owned(),
            keys => format!("{} keys", count_text(keys)),
        };
        let (name, all) = (&self.name.clone(), counted(keys));
        let runs = self.runs(LOOK_FOR).unwrap_or_default();
        let ours: u64 = runs.values().sum();
        if ours == 0 {
            return Err(Failure::usage(format!(
                "{name} already holds {all}, so it may be in use.\nMeasure another server, or add --allow-non-empty."
            )));
        }
        let ids: Vec<&str> = runs.keys().map(String::as_str).take(3).collect();
        let more = if runs.len() > ids.len() { ", ..." } else { "" };
        Err(Failure::usage(format!(
            "{name} already holds {all}; {} of them are left from earlier runs of Loadline ({}{more}).\nRemove those with: {clean}",
            count_text(ours),
            ids.join(", ")
        )))
    }

    /// Refuses servers on which the keys of a run could not be found and removed afterwards.
    ///
    /// # Errors
    /// If a right is missing or a server does not answer.
    fn refuse_without_rights(&mut self) -> Result<(), Failure> {
        self.admins.iter_mut().try_for_each(Admin::may_remove)
    }
}

/// The run that wrote `key`, if any.
fn run_of(key: &[u8]) -> Option<&str> {
    let rest = std::str::from_utf8(key).ok()?.strip_prefix(KEYS)?;
    let (id, _) = rest.split_once(':')?;
    is_run_id(id).then_some(id)
}

/// The command that removes the keys of the run `run_id` from `target`, or of all runs.
fn clean_command(target: &Target, files: &TlsFiles, run_id: Option<&str>) -> String {
    let mut shown = target.clone();
    let servers = match &mut shown {
        Target::Server(server) => std::slice::from_mut(server),
        Target::Cluster(seeds) => seeds,
        Target::Sentinel(named) => &mut named.sentinels,
        _ => &mut [],
    };
    let mut command = String::new();
    for server in servers {
        if server.login.password.take().is_some() {
            command = format!("{PASSWORD_VARIABLE}=... ");
        }
    }
    command.push_str(&format!("loadline clean {}", quoted(&shown.to_string())));
    let mut flag =
        |name: &str, value: &str| command.push_str(&format!(" {name} {}", quoted(value)));
    if let Some(ca) = &files.ca {
        flag("--tls-ca", &ca.to_string_lossy());
    }
    if let Some((certificate, key)) = &files.identity {
        flag("--tls-cert", &certificate.to_string_lossy());
        flag("--tls-key", &key.to_string_lossy());
    }
    if let Some(run_id) = run_id {
        flag("--run", run_id);
    }
    if files.insecure {
        command.push_str(" --tls-insecure");
    }
    command
}

impl Opened {
    /// Refuses an existing server that holds keys, unless `allow_non_empty`, or on which this run could not remove
    /// its keys.
    ///
    /// # Errors
    /// The reason, with advice.
    pub(super) fn refuse_unfit(&mut self, allow_non_empty: bool) -> Result<(), Failure> {
        if self.target.is_ours() {
            return Ok(());
        }
        let clean = clean_command(&self.target, &self.tls_files, None);
        let mut holders = self.holders(false)?;
        if !allow_non_empty {
            holders.refuse_keys(&clean)?;
        }
        holders.refuse_without_rights()
    }

    /// Removes the keys of this run after it ended with `result`, and returns `result`.
    ///
    /// # Errors
    /// The error in `result`, with the command to remove keys that may be left; after a successful run, that keys
    /// are left.
    pub(crate) fn clean_up_after<T>(
        &mut self,
        run_id: &str,
        result: Result<T, Failure>,
    ) -> Result<T, Failure> {
        let cleaned = self.clean_up(run_id, result.is_err());
        match (result, cleaned) {
            (result, Ok(())) => result,
            (Ok(_), Err(left)) => Err(left.followed_by(&self.remedy(run_id))),
            (Err(failure), Err(_)) => Err(failure.followed_by(&self.remedy(run_id))),
        }
    }

    /// Removes the keys of this run after an interrupt, without waiting long for a server that does not answer.
    /// Reports what is left on standard error, and returns it.
    pub(crate) fn clean_up_soon(&mut self, run_id: &str) -> Option<Failure> {
        let left = self.clean_up(run_id, true).err()?;
        let left = left.followed_by(&self.remedy(run_id));
        crate::files::complain(&left.to_string());
        Some(left)
    }

    /// Advice about keys that are left.
    fn remedy(&self, run_id: &str) -> String {
        format!(
            "Keys of this run may be left. Remove them with: {}",
            clean_command(&self.target, &self.tls_files, Some(run_id))
        )
    }

    /// Removes the keys of this run, unless the server ends with it. With `hurry`, gives up soon on a server that
    /// does not answer.
    ///
    /// # Errors
    /// If the server does not answer or refuses.
    fn clean_up(&mut self, run_id: &str, hurry: bool) -> Result<(), Failure> {
        if self.target.is_ours() {
            return Ok(());
        }
        if hurry && self.reach(true).is_err() {
            return Err(Failure::unavailable(format!(
                "{}: no reply, so the keys were not removed.",
                self.name
            )));
        }
        let known = self.reach(false);
        let removed = known.and_then(|mut known| known.remove(run_id));
        // The keys can have another master than at the start.
        let removed = removed.or_else(|_| {
            let mut found = Holders::open(&self.target, &self.tls_files)?;
            found.remove(run_id)
        });
        removed.map(drop)
    }

    /// New connections, also to a server that has as many clients as it takes and did not notice yet that those of the
    /// run have gone.
    fn reach(&self, hurry: bool) -> Result<Holders, Failure> {
        let begun = Instant::now();
        loop {
            let holders = self.holders(hurry);
            if holders.is_ok() || begun.elapsed() >= NOTICE {
                return holders;
            }
            thread::sleep(NOTICE / 20);
        }
    }

    /// The commands of `cases`, and those in `further`, that the user of an existing server cannot run.
    ///
    /// # Errors
    /// If a server does not answer.
    pub(crate) fn refusals(&self, cases: &[Case], further: &[String]) -> Result<Refusals, Failure> {
        let mut all = Refusals::new();
        let needs = cases.iter().flat_map(|case| case.workload.needs());
        let further: Vec<String> = needs.chain(further.iter().cloned()).collect();
        if !self.target.is_ours() {
            for endpoint in self.holding() {
                let workloads = cases.iter().map(|case| &case.workload);
                all.append(&mut refusals(&endpoint, workloads, &further)?);
            }
        }
        Ok(all)
    }

    /// The servers that hold the keys.
    fn holding(&self) -> Vec<Endpoint> {
        match &self.access {
            Access::Server(server) => vec![server.endpoint.clone()],
            Access::Cluster(cluster) => {
                let masters = cluster.cluster.masters();
                masters
                    .iter()
                    .map(|node| cluster.endpoints(node).0)
                    .collect()
            }
            Access::Engine(_) => Vec::new(),
        }
    }

    /// New connections to the servers, because the old ones may be broken.
    fn holders(&self, hurry: bool) -> Result<Holders, Failure> {
        let endpoints = self.holding().into_iter();
        let endpoints = endpoints.map(|to| if hurry { to.hurried() } else { to });
        Holders::over(self.name.clone(), &endpoints.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_under_the_name_of_a_run_are_those_of_runs() {
        assert_eq!(run_of(b"loadline:abcde7t4:string:1"), Some("abcde7t4"));
        for other in [
            "loadline:config",
            "loadline:config:x",
            "loadline:database:x",
            "loadline:sessions:x",
            "loadline:20261122:x",
            "loadline:3f2a91bc:x",
            "loadline:ABCDE7T4:x",
            "loadline:abcde7t4",
            "other:abcde7t4:x",
        ] {
            assert_eq!(run_of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn command_that_cleans_up_has_no_password_and_can_be_typed() {
        let files = TlsFiles {
            ca: Some("my ca.pem".into()),
            ..TlsFiles::default()
        };
        let target = Target::parse("rediss://ann:hunter2@db:1/3").unwrap();
        assert_eq!(
            clean_command(&target, &files, Some("abcde7t4")),
            "LOADLINE_REDIS_PASSWORD=... loadline clean rediss://ann@db:1/3 --tls-ca 'my ca.pem' --run abcde7t4"
        );
        let target = Target::parse("cluster://a:1,b:2").unwrap();
        assert_eq!(
            clean_command(&target, &TlsFiles::default(), None),
            "loadline clean cluster://a:1,b:2"
        );
        let target = Target::parse("sentinel://:hunter2@a:1/m").unwrap();
        assert_eq!(
            clean_command(&target, &TlsFiles::default(), None),
            "LOADLINE_REDIS_PASSWORD=... loadline clean sentinel://a:1/m"
        );
    }
}
