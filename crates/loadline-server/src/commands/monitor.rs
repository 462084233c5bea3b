//! MONITOR, and the commands that it shows.

use std::time::{SystemTime, UNIX_EPOCH};

use super::refusal::Refusal;
use super::{Call, Keys, Known, Listed, Words, is, listed, migrate};

pub(super) const TABLE: &[Listed] = &[listed("MONITOR", 1, Keys::None, monitor)];

fn monitor(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    if call.session.may_not_block {
        return Err("ERR MONITOR isn't allowed for DENY BLOCKING client".into());
    }
    call.shared.monitors.add(call.session.id);
    call.reply().ok();
    Ok(())
}

impl Call<'_> {
    /// Shows a command to the clients that watch all of them, unless it is one for administrators.
    #[cold]
    pub(super) fn show_to_monitors(&mut self, known: &Known, words: Words<'_>) {
        if known.item.has("admin") {
            return;
        }
        let database = self.session.database;
        let client = match (self.shared.monitors.is_script, self.session.peer.is_unix) {
            (true, _) => "lua".to_owned(),
            (false, true) => {
                let address = &self.session.peer.address;
                format!("unix:{}", address.strip_suffix(":0").unwrap_or(address))
            }
            (false, false) => self.session.peer.address.clone(),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let (seconds, micros) = (now.as_secs(), now.subsec_micros());
        let begin = format!("+{seconds}.{micros:06} [{database} {client}]");
        let secret = match known.name {
            "AUTH" => 1..words.len(),
            "HELLO" => {
                let auth = words.iter().position(|word| is(word, "AUTH"));
                auth.map_or(0..0, |place| place + 1..place + 3)
            }
            "MIGRATE" => migrate::secrets(words),
            _ => 0..0,
        };
        self.shared.monitors.show(&begin, words, secret);
    }
}
