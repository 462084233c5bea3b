//! CPUs that do not sleep while bytes are in flight.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// A request lasts while this file is open (Linux, Documentation/power/pm_qos_interface.rst).
const REQUESTS: &str = "/dev/cpu_dma_latency";

/// Asks the kernel to keep CPUs out of sleep states that take time to leave, until this is dropped.
///
/// With injected latency, generator and server sleep during the delay, and the CPU's wake-up time, hundreds
/// of microseconds in a virtual machine, is part of every round trip. A CPU that must not sleep polls
/// instead, and no process is charged for that.
#[derive(Debug)]
pub struct Wakefulness(#[expect(dead_code, reason = "the request lasts until it is closed")] File);

impl Wakefulness {
    /// Makes the request.
    ///
    /// # Errors
    /// If the kernel refuses: only root can make a request, and without power management the file does not
    /// exist.
    pub fn claim() -> io::Result<Self> {
        const NO_LATENCY_US: i32 = 0;
        let mut file = OpenOptions::new().write(true).open(REQUESTS)?;
        file.write_all(&NO_LATENCY_US.to_ne_bytes())?;
        Ok(Self(file))
    }
}
