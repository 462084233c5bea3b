//! HELP of commands with subcommands, in the format of Redis.

use super::refusal::Refusal;
use super::{Call, Words, find};

/// Replies with the name, the arguments and the description of each subcommand.
pub(super) fn help(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let known = find(words[0]).expect("the command was found");
    let name = known.name;
    let mut lines = vec![format!(
        "{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    )];
    for sub in &known.subcommands {
        let (arguments, description) = sub.help.split_once('\n').unwrap_or((sub.help, ""));
        lines.push(format!("{} {arguments}", sub.second).trim_end().to_owned());
        lines.extend(description.lines().map(|line| format!("    {line}")));
    }
    let mut reply = call.reply();
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.simple(line));
    Ok(())
}
