//! Processors that do not sleep while bytes are under way.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// Where a request stands as long as the file is open (Linux, Documentation/power/pm_qos_interface.rst).
const REQUESTS: &str = "/dev/cpu_dma_latency";

/// A request to the kernel that no processor takes any time to wake up, until this is dropped.
///
/// Behind a latency all that takes part sleeps for as long, and what a processor takes to wake up is in
/// every round trip: in a virtual machine hundreds of microseconds. A processor that may not take any polls
/// where it would sleep, which no process is charged for.
#[derive(Debug)]
pub struct Wakefulness(#[expect(dead_code, reason = "the request lasts until it is closed")] File);

impl Wakefulness {
    /// Makes the request.
    ///
    /// # Errors
    /// Why the kernel does not take it: it takes them of root alone, and has no such file without power
    /// management.
    pub fn claim() -> io::Result<Self> {
        const NO_LATENCY_US: i32 = 0;
        let mut file = OpenOptions::new().write(true).open(REQUESTS)?;
        file.write_all(&NO_LATENCY_US.to_ne_bytes())?;
        Ok(Self(file))
    }
}
