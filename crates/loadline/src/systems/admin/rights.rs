//! Rights: whether the user of an existing server can do what a run needs. Checked before keys are loaded,
//! because a late refusal could leave them behind.

use std::collections::BTreeMap;

use loadline_resp::OwnedReply;

use super::{Admin, Pass, Removal};
use crate::exit::Failure;
use crate::plan::{KEYS, new_run_id, run_prefix};
use crate::systems::connect::{Endpoint, shown_text};
use crate::workload::Definition;

/// The commands that the user cannot run, in capitals, with the errors of the server.
pub(crate) type Refusals = BTreeMap<String, String>;

/// The commands of `workloads`, and those of the names in `further`, that the user of the server at `endpoint` cannot
/// run.
///
/// A server checks the rights of a command before it queues it in a transaction. So the commands are queued, and the
/// transaction is never executed. For a user who cannot begin one, they are executed on keys of their own, which are
/// then removed.
///
/// # Errors
/// If the server does not answer.
pub(crate) fn refusals<'w>(
    endpoint: &Endpoint,
    workloads: impl IntoIterator<Item = &'w Definition>,
    further: &[String],
) -> Result<Refusals, Failure> {
    let prefix = run_prefix(&new_run_id());
    let mut commands: Vec<Vec<Vec<u8>>> = workloads
        .into_iter()
        .flat_map(|workload| workload.samples(&prefix))
        .collect();
    let mut admin = Admin::open(endpoint)?;
    let mut refusals = Refusals::new();
    // EXEC ends a transaction, so it is tried outside of one; with the right to run it, the error is a different
    // one.
    let exec: &[&str] = if further.iter().any(|name| name == "EXEC") {
        &["EXEC"]
    } else {
        &[]
    };
    for name in exec {
        note_refusal(&mut refusals, name.as_bytes(), &admin.call(&[name])?);
    }
    let begun = admin.call(&["MULTI"])?;
    note_refusal(&mut refusals, b"MULTI", &begun);
    let is_queued = !begun.is_error();
    // SUBSCRIBE would change the state of the connection if it were executed.
    let tried = further
        .iter()
        .filter(|name| is_queued || *name != "SUBSCRIBE");
    commands.extend(tried.filter_map(|name| trial(name, &prefix)));
    commands.sort_unstable();
    commands.dedup();
    for words in &commands {
        note_refusal(&mut refusals, &words[0], &admin.call(words)?);
    }
    if !is_queued {
        let words = commands.iter().flatten();
        let keys = words.filter(|word| word.starts_with(prefix.as_bytes()));
        let (mut removal, mut pass) = (Removal::default(), Pass::default());
        for key in keys {
            admin.remove(&mut removal, &[key], &mut pass)?;
        }
    }
    Ok(refusals)
}

/// Words that try the command `name`, which a mode or a job sends in addition to the commands of its workload; `None`
/// for a command that no mode or job adds.
fn trial(name: &str, prefix: &str) -> Option<Vec<Vec<u8>>> {
    let key = format!("{prefix}0");
    let channel = format!("{prefix}channel");
    let nowhere = "0".repeat(40);
    let arguments: &[&str] = match name {
        "MGET" => &[&key],
        "MSET" => &[&key, "x"],
        "EVAL" => &["return 1", "1", &key],
        "EVALSHA" => &[&nowhere, "1", &key],
        "XREAD" => &["COUNT", "1", "STREAMS", &key, "$"],
        "SUBSCRIBE" => &[&channel],
        "CLIENT" => &["LIST"],
        "PING" => &[],
        _ => return None,
    };
    let words = std::iter::once(&name).chain(arguments);
    Some(words.map(|word| word.as_bytes().to_vec()).collect())
}

fn note_refusal(refusals: &mut Refusals, name: &[u8], reply: &OwnedReply) {
    if is_refused(reply) {
        let said = shown_text(reply.error_text().unwrap_or_default());
        refusals.insert(shown_text(name).to_ascii_uppercase(), said);
    }
}

fn is_refused(reply: &OwnedReply) -> bool {
    let text = reply.error_text();
    // EXEC is answered EXECABORT instead, and without a transaction for no other reason.
    text.is_some_and(|text| text.starts_with(b"NOPERM") || text.starts_with(b"EXECABORT"))
}

impl Admin {
    /// Refuses a server on which this user cannot find or remove keys.
    ///
    /// # Errors
    /// The refusal; if the server does not answer.
    pub(crate) fn may_remove(&mut self) -> Result<(), Failure> {
        let key = format!("{KEYS}rights");
        let scan = self.call(&["SCAN", "0", "MATCH", &key, "COUNT", "1"])?;
        if is_refused(&scan) {
            return Err(self.unremovable("SCAN", &scan));
        }
        let unlink = self.call(&["UNLINK", &key])?;
        if is_refused(&unlink) && is_refused(&self.call(&["DEL", &key])?) {
            return Err(self.unremovable("UNLINK", &unlink));
        }
        Ok(())
    }

    fn unremovable(&self, command: &str, reply: &OwnedReply) -> Failure {
        let text = shown_text(reply.error_text().unwrap_or_default());
        Failure::unavailable(format!(
            "{}: the keys of a run could not be removed afterwards: {command} was answered `{text}`. Nothing was written.\n\
             Allow its user +scan and +unlink on ~{KEYS}* with ACL SETUSER, or log in as another user.",
            self.name
        ))
    }
}
