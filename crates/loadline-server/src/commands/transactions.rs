//! Transactions: commands queued between MULTI and EXEC run in one piece. There is one thread, so
//! nothing can come between them.

use super::{Call, Known, NONE, Refusal, Words, find, known};
use crate::state::Queue;

pub(super) const TABLE: &[Known] = &[
    known("MULTI", 1, false, NONE, multi),
    known("EXEC", 1, false, NONE, exec),
    known("DISCARD", 1, false, NONE, discard),
];

/// Whether a command is executed inside of MULTI instead of being queued.
pub(super) fn runs_at_once(name: &str) -> bool {
    ["MULTI", "EXEC", "DISCARD", "RESET", "QUIT"].contains(&name)
}

fn multi(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    if call.session.queue.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    call.session.queue = Some(Queue::default());
    call.simple("OK");
    Ok(())
}

fn discard(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    call.session
        .queue
        .take()
        .ok_or("ERR DISCARD without MULTI")?;
    call.simple("OK");
    Ok(())
}

fn exec(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    let queue = call.session.queue.take().ok_or("ERR EXEC without MULTI")?;
    if queue.spoilt {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    call.array(queue.commands.len());
    for command in &queue.commands {
        let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        let known = find(words[0]).expect("only known commands are queued");
        if let Err(Refusal(text)) = call.perform(known, &words) {
            call.refuse(&text);
        }
    }
    Ok(())
}
