//! Notes on the trials for the reader of an answer.

use super::Capacity;

impl Capacity {
    /// Adds notes about spoiled trials.
    pub(super) fn with_notes(mut self) -> Self {
        self.notes.extend(spoiled(&self));
        self.notes.extend(pauses(&self));
        self
    }
}

fn spoiled(answer: &Capacity) -> Option<String> {
    let noise = &answer.noise;
    let mut causes = Vec::new();
    let mut add = |count: u32, what: String| {
        if count > 0 {
            causes.push(format!("{count} by {what}"));
        }
    };
    let ms = |ns: Option<u64>| ns.unwrap_or(0) as f64 / 1e6;
    let pause = format!("pauses of a CPU ({:.1} ms)", ms(noise.pause_ns));
    let others = noise.others.unwrap_or(0.0) * 100.0;
    add(noise.paused, pause);
    add(
        noise.contended,
        format!("other processes ({others:.0} % of a CPU)"),
    );
    add(
        noise.late,
        format!(
            "a generator that was not busy and yet {:.1} ms late",
            ms(noise.lag_ns)
        ),
    );
    add(
        noise.slower,
        "a machine that was slower than before".to_owned(),
    );
    (noise.spoiled > 0).then(|| {
        format!(
            "{} of {} trials missed the limit while the machine was disturbed, and were not counted: {}.",
            noise.spoiled,
            noise.trials,
            causes.join(", ")
        )
    })
}

fn pauses(answer: &Capacity) -> Option<String> {
    let per_s = answer.noise.pauses_per_s;
    (answer.noise.paused > 0).then(|| {
        format!(
            "CPUs of this machine did not run {per_s:.1} times per second. Operations that are due during a pause are answered late, so the answer describes the time between pauses."
        )
    })
}
