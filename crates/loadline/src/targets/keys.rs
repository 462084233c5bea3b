//! The removal of a run's keys.

use super::admin::Admin;
use super::opened::{Access, Opened};
use crate::exit::Failure;
use crate::plan::run_prefix;

impl Opened {
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
        crate::files::complain(&left.to_string());
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
        if !server.admin.is_connected() || server.admin.remove_prefix(&prefix).is_err() {
            server.admin = Admin::open(&server.endpoint)?;
            server.admin.remove_prefix(&prefix)?;
        }
        Ok(())
    }
}
