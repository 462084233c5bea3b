//! CPUs that do not sleep while bytes are in flight.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// A request holds as long as this file is open (Linux, Documentation/power/pm_qos_interface.rst).
const REQUESTS: &str = "/dev/cpu_dma_latency";

/// Asks the kernel to keep CPUs from sleep states that take time to leave, until this is dropped.
///
/// Behind an injected latency, generator and server sleep for that long, and the time that a CPU takes to wake
/// up is part of every round trip: hundreds of microseconds in a virtual machine. A CPU that must not sleep
/// polls instead, and no process is charged for that.
#[derive(Debug)]
pub struct Wakefulness(#[expect(dead_code, reason = "the request lasts until it is closed")] File);

impl Wakefulness {
    /// Makes the request.
    ///
    /// # Errors
    /// The kernel refuses it: only root can make one, and without power management there is no such file.
    pub fn claim() -> io::Result<Self> {
        const NO_LATENCY_US: i32 = 0;
        let mut file = OpenOptions::new().write(true).open(REQUESTS)?;
        file.write_all(&NO_LATENCY_US.to_ne_bytes())?;
        Ok(Self(file))
    }
}
