//! `loadline clean`: removes the keys left by earlier runs.

use std::process::ExitCode;
use std::time::Duration;

use super::surroundings;
use crate::args::CleanArgs;
use crate::exit::Failure;
use crate::files;
use crate::plan;
use crate::systems::Holders;
use crate::units::count_text;

/// Time limit for finding the runs that have left keys.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn run(args: &CleanArgs) -> anyhow::Result<ExitCode> {
    let plan = plan::resolve_clean(args, &surroundings())?;
    let mut holders = Holders::open(&plan.target, &plan.tls)?;
    let runs: Vec<String> = match plan.run {
        Some(id) => vec![id],
        None => holders.runs(PATIENCE)?.into_keys().collect(),
    };
    let mut removed = 0;
    for id in &runs {
        let keys = holders.remove(id)?;
        removed += keys;
        files::print(&format!("{id}: {} removed\n", keys_text(keys)))?;
    }
    let runs = match runs.len() {
        1 => "1 run".to_owned(),
        many => format!("{many} runs"),
    };
    files::print(&format!(
        "loadline: clean: {} of {runs} removed from {}\n",
        keys_text(removed),
        plan.target
    ))
    .map_err(Failure::into)
    .map(|()| ExitCode::SUCCESS)
}

fn keys_text(keys: u64) -> String {
    match keys {
        1 => "1 key".into(),
        many => format!("{} keys", count_text(many)),
    }
}
