//! Commands about a script that runs for long.

use crate::commands::reply::Reply;
use crate::commands::{Call, Refusal};
use crate::long_script::LongScript;

/// Writes the fields of FUNCTION STATS.
pub(super) fn describe(script: &LongScript, reply: &mut Reply<'_>) {
    reply.map(3);
    reply.bulk(b"name");
    reply.bulk(script.name.as_bytes());
    reply.bulk(b"command");
    reply.array(script.words.len());
    script.words.iter().for_each(|word| reply.bulk(word));
    reply.bulk(b"duration_ms");
    reply.count(script.begun.elapsed().as_millis() as usize);
}

/// Ends the running script, or the running function, unless it has written: its effects must be complete.
pub(super) fn kill(call: &mut Call<'_>, is_function: bool) -> Result<(), Refusal> {
    let script = call.shared.long_script.as_mut();
    let script = script.ok_or("NOTBUSY No scripts in execution right now.")?;
    if script.has_written {
        return Err("UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.".into());
    }
    if script.is_function != is_function {
        return Err(script.refusal());
    }
    script.is_killed = true;
    call.reply().ok();
    Ok(())
}
