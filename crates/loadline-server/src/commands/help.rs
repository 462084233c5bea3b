//! HELP of commands with subcommands, in the format of Redis.

use super::refusal::Refusal;
use super::{Call, Words, find};

/// HELP of a command of the table.
pub(super) fn help(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let known = find(words[0]).expect("the command was found");
    let subcommands = known.subcommands.iter();
    list(
        call,
        known.name,
        subcommands.map(|sub| (sub.second, sub.help)),
    );
    Ok(())
}

/// Replies with the name, the arguments and the description of each subcommand.
pub(super) fn list<'s>(
    call: &mut Call<'_>,
    name: &str,
    subcommands: impl Iterator<Item = (&'s str, &'s str)>,
) {
    let mut lines = vec![format!(
        "{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    )];
    for (sub, help) in subcommands {
        let (arguments, description) = help.split_once('\n').unwrap_or((help, ""));
        lines.push(format!("{sub} {arguments}").trim_end().to_owned());
        lines.extend(description.lines().map(|line| format!("    {line}")));
    }
    let mut reply = call.reply();
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.simple(line));
}
