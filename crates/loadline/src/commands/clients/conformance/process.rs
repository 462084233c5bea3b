//! The process of a driver, which makes one check after the other.

use loadline_load::Control;
use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;

use super::Checked;
use crate::plan::Driver;
use crate::systems::drivers::{Block, Broken, Config, Running};

/// The first state of the generator of keys.
pub(super) const SEED: u64 = 7;

/// A driver that is started when it is first used, and again after it has broken its contract.
pub(super) struct Process<'t> {
    driver: &'t Driver,
    config: Config,
    control: &'t Control,
    running: Option<Running>,
}

impl<'t> Process<'t> {
    pub(super) fn new(driver: &'t Driver, config: Config, control: &'t Control) -> Self {
        Self {
            driver,
            config,
            control,
            running: None,
        }
    }

    /// Operations that a block can have beyond its limit.
    pub(super) fn size(&self) -> u64 {
        u64::from(self.config.depth.max(self.config.concurrency))
    }

    /// Commands of one call.
    pub(super) fn depth(&self) -> u64 {
        u64::from(self.config.depth)
    }

    /// The process, once it is connected.
    pub(super) fn start(&mut self) -> Result<&mut Running, String> {
        let running = match self.running.take() {
            Some(running) => running,
            None => Running::start(self.driver, &self.config, self.control)
                .map_err(|failure| failure.to_string())?,
        };
        Ok(self.running.insert(running))
    }

    /// Runs a block.
    pub(super) fn block(&mut self, stop: Stop) -> Result<(Outcome, Block), String> {
        let control = self.control;
        self.do_with(|running| running.block(stop, SEED, control))
    }

    /// Opens further connections.
    pub(super) fn open(&mut self, count: u64) -> Result<(), String> {
        let control = self.control;
        self.do_with(|running| running.open(count, control))
    }

    fn do_with<T>(
        &mut self,
        what: impl FnOnce(&mut Running) -> Result<T, Broken>,
    ) -> Result<T, String> {
        let running = self.start()?;
        match what(running) {
            Ok(done) => Ok(done),
            Err(broken) => {
                let failure = running.failure(broken).to_string();
                self.running = None;
                Err(failure)
            }
        }
    }

    /// Ends its input, after which it has to end.
    pub(super) fn end(&mut self) -> Checked {
        let ended = self.start()?.end();
        self.running = None;
        match ended {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("it ended with {status}")),
            None => Err("it did not end within 2 seconds".into()),
        }
    }
}
