//! Surroundings of a run: the machine and its noise.

use std::fs;
use std::time::Instant;

use loadline_measure::doctor::Observed;
use loadline_measure::record::{Environment, Noise, Record};

/// Examines the machine; unknown facts stay empty.
pub(crate) fn read() -> Environment {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let cores = std::thread::available_parallelism()
        .ok()
        .map(|cores| cores.get() as u64);
    Environment {
        cpu_model: field(&cpuinfo, "model name"),
        cores,
        cpus: fs::read_to_string("/proc/self/status")
            .ok()
            .and_then(|status| field(&status, "Cpus_allowed_list")),
        cgroup_quota_cores: quota(),
        kernel: first_line("/proc/sys/kernel/osrelease"),
        memory_bytes: kibibytes(&meminfo, "MemTotal"),
        virtualization: field(&cpuinfo, "flags").map(|flags| {
            let virtual_machine = flags.split(' ').any(|flag| flag == "hypervisor");
            if virtual_machine {
                "virtual machine"
            } else {
                "none"
            }
            .to_owned()
        }),
        boot_id: first_line("/proc/sys/kernel/random/boot_id"),
        clock_source: first_line(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        governor: first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        servers: Vec::new(),
        noise: Noise::default(),
    }
}

/// Memory that processes may still take, in bytes: what is free or can be freed, within the limit of the
/// control group.
pub(crate) fn spare_memory() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let available = kibibytes(&meminfo, "MemAvailable")?;
    // The file holds the word `max` where there is no limit.
    let limit = first_line("/sys/fs/cgroup/memory.max").and_then(|text| text.parse().ok());
    Some(limit.map_or(available, |limit: u64| limit.min(available)))
}

/// Adds how busy the machine was meanwhile.
pub(crate) fn noise(record: &mut Record) {
    let pressure = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let some = pressure
        .lines()
        .find(|line| line.starts_with("some"))
        .unwrap_or_default();
    record.environment.noise.cpu_pressure = some
        .split(' ')
        .find_map(|word| word.strip_prefix("avg10="))
        .and_then(|percent| percent.parse::<f64>().ok())
        .map(|percent| percent / 100.0);
    record.environment.noise.load_average =
        first_line("/proc/loadavg").and_then(|line| line.split(' ').next()?.parse().ok());
}

/// Counters of the kernel about the machine, read at the start of something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counters {
    begun: Instant,
    stall_us: Option<u64>,
    cpu: Option<CpuTime>,
}

/// CPU time of all CPUs since boot, in ticks of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CpuTime {
    all: u64,
    stolen: u64,
}

impl Counters {
    /// Reads them.
    pub(crate) fn read() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self {
            begun: Instant::now(),
            stall_us: cpu_stall_us(),
            cpu: cpu_time(&stat),
        }
    }

    /// Observations of the time since they were read.
    pub(crate) fn since(&self) -> Observed {
        let now = Self::read();
        let micros = self.begun.elapsed().as_micros().max(1) as f64;
        let stalled = now.stall_us.zip(self.stall_us);
        Observed {
            cpu_pressure: stalled.map(|(now, then)| now.saturating_sub(then) as f64 / micros),
            steal: now.cpu.zip(self.cpu).and_then(|(now, then)| {
                let all = now.all.checked_sub(then.all).filter(|ticks| *ticks > 0)?;
                Some(now.stolen.saturating_sub(then.stolen) as f64 / all as f64)
            }),
            ..Observed::default()
        }
    }
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq and steal. What follows
/// is part of user and nice already.
fn cpu_time(stat: &str) -> Option<CpuTime> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line
        .split_ascii_whitespace()
        .take(8)
        .filter_map(|word| word.parse().ok())
        .collect();
    Some(CpuTime {
        all: ticks
            .iter()
            .fold(0, |sum, ticks| sum.saturating_add(*ticks)),
        stolen: *ticks.get(7)?,
    })
}

/// Microseconds since boot in which some task waited for a CPU, where the kernel counts them.
fn cpu_stall_us() -> Option<u64> {
    let pressure = fs::read_to_string("/proc/pressure/cpu").ok()?;
    let some = pressure.lines().find(|line| line.starts_with("some"))?;
    some.split(' ')
        .find_map(|word| word.strip_prefix("total="))?
        .parse()
        .ok()
}

/// The architecture, and the CPU features by which a C library chooses among its functions.
pub(crate) fn instruction_set() -> String {
    let known = [
        "sse4_2", "avx", "avx2", "bmi2", "erms", "fsrm", "movbe", "avx512f", "asimd", "sve",
    ];
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = field(&cpuinfo, "flags").or_else(|| field(&cpuinfo, "Features"));
    let flags = flags.unwrap_or_default();
    let has = |feature: &&str| flags.split_whitespace().any(|flag| flag == *feature);
    let features: Vec<&str> = known.into_iter().filter(has).collect();
    format!("{} {}", std::env::consts::ARCH, features.join(" "))
}

/// The value of `name` in lines of `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text
        .lines()
        .find(|line| line.split(':').next().map(str::trim) == Some(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The line `name` of /proc/meminfo, in bytes.
fn kibibytes(meminfo: &str, name: &str) -> Option<u64> {
    let text = field(meminfo, name)?;
    let kibibytes: u64 = text.split(' ').next()?.parse().ok()?;
    Some(kibibytes * 1_024)
}

fn first_line(path: &str) -> Option<String> {
    Some(
        fs::read_to_string(path)
            .ok()?
            .lines()
            .next()?
            .trim()
            .to_owned(),
    )
}

/// Cores that the control group allows, where it limits them.
fn quota() -> Option<f64> {
    let text = first_line("/sys/fs/cgroup/cpu.max")?;
    let (quota, period) = text.split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_figure() {
        let stat = "cpu  100 0 50 800 10 0 5 35 7 0\ncpu0 50 0 25 400 5 0 2 17 3 0\n";
        let time = CpuTime {
            all: 1_000,
            stolen: 35,
        };
        assert_eq!(cpu_time(stat), Some(time));
        assert_eq!(cpu_time("cpu  1 2 3\n"), None);
        assert_eq!(cpu_time(""), None);
    }

    #[test]
    fn this_machine_counts_its_cpu_time() {
        let before = Counters::read();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let steal = before.since().steal.expect("Linux counts steal");
        assert!((0.0..=1.0).contains(&steal), "{steal}");
    }
}
