//! Drivers whose calls are not timed, because they only have runs with faults.

use super::{ClientsPlan, Driver};
use crate::exit::Failure;

impl ClientsPlan {
    /// The plan without drivers that have no part in it, since it has no runs with faults.
    ///
    /// # Errors
    /// A usage error if no driver remains.
    pub(super) fn without_untimed(mut self) -> Result<Self, Failure> {
        if self.with_faults {
            return Ok(self);
        }
        let (timed, untimed): (Vec<_>, Vec<_>) =
            self.drivers.into_iter().partition(Driver::is_timed);
        let names: Vec<&str> = untimed.iter().map(|driver| driver.name.as_str()).collect();
        let verb = if names.len() == 1 { "has" } else { "have" };
        let sentence = format!("{} {verb} only runs with faults", names.join(", "));
        if timed.is_empty() {
            return Err(Failure::usage(format!(
                "{sentence}, and this comparison has none."
            )));
        }
        if !names.is_empty() {
            self.left_out.push(format!("Left out: {sentence}."));
        }
        self.drivers = timed;
        Ok(self)
    }
}
