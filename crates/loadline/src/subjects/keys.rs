//! The keys of a run: brought in before its blocks, and removed after them.

use loadline_load::Control;

use super::wire::{self, Place};
use super::{Access, Opened, failure, masters, ram};
use crate::exit::Failure;
use crate::plan::{Case, run_prefix};
use crate::targets::admin::Admin;

impl Opened {
    /// Brings every key of the case's space in, once per run.
    ///
    /// # Errors
    /// That the target refused a key or went away.
    pub(crate) fn load(
        &mut self,
        case: &Case,
        run_id: &str,
        seed: u64,
        control: &Control,
    ) -> Result<(), Failure> {
        if self.loaded.contains(&case.workload.space) || !self.can(case) {
            return Ok(());
        }
        let prefix = case.prefix(run_id);
        let outcome = match &self.access {
            Access::Server(server) => {
                let place = Place {
                    through: server.endpoint.clone(),
                    direct: server.endpoint.clone(),
                    prefix,
                    keys: case.keys,
                };
                wire::load(&place, case, seed, control)
            }
            Access::Cluster(cluster) => masters::load(cluster, case, &prefix, seed, control),
            Access::Ram(store) => ram::load(store, case, &prefix, seed, control),
        };
        let outcome = outcome.map_err(|error| failure(&self.name, &error))?;
        if let Some((kind, count)) = outcome
            .iter()
            .flat_map(|outcome| outcome.errors.iter())
            .next()
        {
            return Err(not_loaded(&self.name, case, kind, count));
        }
        self.loaded.push(case.workload.space.clone());
        Ok(())
    }

    /// Removes what this run wrote after it came to `result`, which is returned.
    ///
    /// # Errors
    /// That of the run, with a word on keys that may be left; after a good run, that they are.
    pub(crate) fn clean_up_after<T>(
        &mut self,
        run_id: &str,
        result: Result<T, Failure>,
    ) -> Result<T, Failure> {
        match (result, self.clean_up(run_id)) {
            (Ok(value), Ok(())) => Ok(value),
            (Ok(_), Err(left)) => Err(left),
            (Err(failure), Ok(())) => Err(failure),
            (Err(failure), Err(_)) => Err(failure.followed_by(&format!(
                "Keys under {} may be left there: remove them with SCAN and UNLINK.",
                run_prefix(run_id)
            ))),
        }
    }

    /// Removes what this run wrote after an interrupt, when nobody waits long for a server that does not
    /// answer. Says on standard error what is left, and returns that.
    pub(crate) fn clean_up_soon(&mut self, run_id: &str) -> Option<Failure> {
        let answers = match &self.access {
            _ if self.target.is_ours() => Ok(()),
            Access::Server(server) => Admin::open(&server.endpoint.clone().hurried()).map(drop),
            Access::Cluster(cluster) => cluster.answers_soon(),
            Access::Ram(_) => Ok(()),
        };
        let left = match answers {
            Ok(()) => self.clean_up(run_id).err()?,
            Err(_) => {
                Failure::unavailable(format!("{}: no answer after the interrupt.", self.name))
            }
        };
        let left = left.followed_by(&format!(
            "Keys under {} are left there: remove them with SCAN and UNLINK.",
            run_prefix(run_id)
        ));
        crate::complain(&left.to_string());
        Some(left)
    }

    /// Removes what this run wrote, where the server lives on.
    ///
    /// # Errors
    /// That the server does not answer; the sentence names what is left.
    fn clean_up(&mut self, run_id: &str) -> Result<(), Failure> {
        if self.target.is_ours() {
            return Ok(());
        }
        let prefix = run_prefix(run_id);
        let server = match &mut self.access {
            Access::Server(server) => server,
            Access::Cluster(cluster) => return cluster.remove_prefix(&prefix),
            Access::Ram(_) => return Ok(()),
        };
        // The connection may have broken meanwhile, and the keys must go all the same.
        if server.admin.remove_prefix(&prefix).is_err() {
            server.admin = Admin::open(&server.endpoint)?;
            server.admin.remove_prefix(&prefix)?;
        }
        Ok(())
    }
}

/// That `count` keys of `case` were refused with errors of `kind`, and what to do about it.
pub(super) fn not_loaded(name: &str, case: &Case, kind: &str, count: u64) -> Failure {
    let advice = match kind {
        "READONLY" => "It is a replica that takes no writes: name its primary.",
        "OOM" => "Its maxmemory is reached: raise it, or lower --keys or --value-size.",
        "CLUSTERDOWN" | "MOVED" | "ASK" => {
            "It is a node of a cluster, or its slots are on the move: `cluster://HOST:PORT` is the whole of one."
        }
        "NOPERM" => "Let its user write keys under `loadline:`, or name another user in the URL.",
        "LOADING" => "It still reads its data set: wait until it is done.",
        "MISCONF" => "It cannot save its data set and takes no writes: see its log.",
        "NOREPLICAS" => "It asks for replicas (min-replicas-to-write) and has too few.",
        _ => "See the server's log for why it refuses them.",
    };
    Failure::unavailable(format!(
        "{name}: {count} of {} keys of {} could not be loaded: {kind}.\n{advice}",
        case.keys, case.name
    ))
}
