//! The control group of a process: how often its CPU quota stopped it.

use std::fs;
use std::path::{Path, PathBuf};

use loadline_measure::doctor::Throttled;

/// Where control groups are mounted: version 2 alone, the CPU controller of version 1, and version 2 beside it.
const UNIFIED: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const CPU: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
/// The deepest group whose ancestors are read.
const MOST_LEVELS: usize = 32;

/// The periods of the nearest group of `process` that has a quota; `None` if none has.
pub(crate) fn throttled(process: u64) -> Option<Throttled> {
    throttled_below(Path::new("/"), process)
}

/// The same in a file system whose root is `root`.
fn throttled_below(root: &Path, process: u64) -> Option<Throttled> {
    let text = fs::read_to_string(root.join(format!("proc/{process}/cgroup"))).ok()?;
    let below = |dir: &Path| root.join(dir.strip_prefix("/").unwrap_or(dir));
    let read = |dir: PathBuf| fs::read_to_string(below(&dir).join("cpu.stat")).ok();
    directories(&text)
        .into_iter()
        .filter_map(read)
        .find_map(|stat| periods(&stat))
}

/// The directories of the groups in `/proc/PID/cgroup` that can have a CPU quota, each followed by its ancestors.
fn directories(text: &str) -> Vec<PathBuf> {
    let groups = text.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let is_cpu = controllers.split(',').any(|one| one == "cpu");
        let mounts: &[&str] = match controllers {
            "" => &UNIFIED,
            _ if is_cpu => &CPU,
            _ => &[],
        };
        // A path outside of this namespace begins with `/..`.
        let path = path.trim_start_matches('/');
        let is_inside = !path.split('/').any(|part| part == "..");
        let mounts = mounts.iter().filter(move |_| is_inside);
        mounts.map(move |mount| (Path::new(*mount), Path::new(path)))
    });
    groups
        .flat_map(|(mount, path)| {
            let ancestors = path.ancestors().take(MOST_LEVELS);
            ancestors.map(move |path| mount.join(path))
        })
        .collect()
}

/// The periods in `cpu.stat`; `None` without a quota, whose periods are not counted.
fn periods(stat: &str) -> Option<Throttled> {
    let number = |name: &str| {
        let mut lines = stat.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found?.trim().parse::<u64>().ok()
    };
    let periods = number("nr_periods").filter(|periods| *periods > 0)?;
    Some(Throttled {
        periods,
        throttled: number("nr_throttled")?,
    })
}

/// The periods between two readings.
pub(crate) fn between(before: Option<Throttled>, after: Option<Throttled>) -> Option<Throttled> {
    let (after, before) = (after?, before.unwrap_or_default());
    Some(Throttled {
        periods: after.periods.saturating_sub(before.periods),
        throttled: after.throttled.saturating_sub(before.throttled),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_are_found_with_their_ancestors() {
        let of = |text: &str| {
            let found = directories(text);
            let found = found
                .iter()
                .map(|dir| dir.to_str().unwrap().trim_end_matches('/'));
            found.map(str::to_owned).collect::<Vec<String>>()
        };
        assert_eq!(
            of("5:memory:/redis\n4:cpu,cpuacct:/docker/ab\n"),
            [
                "/sys/fs/cgroup/cpu/docker/ab",
                "/sys/fs/cgroup/cpu/docker",
                "/sys/fs/cgroup/cpu",
                "/sys/fs/cgroup/cpu,cpuacct/docker/ab",
                "/sys/fs/cgroup/cpu,cpuacct/docker",
                "/sys/fs/cgroup/cpu,cpuacct"
            ]
        );
        assert_eq!(
            of("0::/system.slice")[..2],
            ["/sys/fs/cgroup/system.slice", "/sys/fs/cgroup"]
        );
        for hostile in ["", "0", "0::/../../etc", "::", "4:cpuset:/x"] {
            assert!(
                of(hostile)
                    .iter()
                    .all(|dir| dir.starts_with("/sys/fs/cgroup"))
            );
            assert!(!of(hostile).iter().any(|dir| dir.contains("..")));
        }
    }

    /// The files of Linux 6 with version 2 alone: a container without a quota in a slice with one.
    #[test]
    fn quota_of_a_group_of_version_2_is_found_above_the_process() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let stat = |periods: u64, throttled: u64| {
            format!(
                "usage_usec 900\nuser_usec 800\nsystem_usec 100\ncore_sched.force_idle_usec 0\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec 4\nnr_bursts 0\nburst_usec 0\n"
            )
        };
        write("proc/42/cgroup", "0::/redis.slice/docker-ab.scope\n");
        write("proc/43/cgroup", "0::/\n");
        write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory\n");
        write(
            "sys/fs/cgroup/cpu.stat",
            "usage_usec 900\nuser_usec 800\nsystem_usec 100\n",
        );
        let slice = "sys/fs/cgroup/redis.slice";
        write(&format!("{slice}/docker-ab.scope/cpu.stat"), &stat(0, 0));
        write(&format!("{slice}/cpu.stat"), &stat(76, 51));
        let of = |process| throttled_below(root.path(), process);
        let seen = Throttled {
            periods: 76,
            throttled: 51,
        };
        assert_eq!(of(42), Some(seen));
        write(&format!("{slice}/docker-ab.scope/cpu.stat"), &stat(9, 3));
        assert_eq!(of(42).map(|seen| seen.throttled), Some(3));
        assert_eq!((of(43), of(44)), (None, None));
    }

    #[test]
    fn periods_are_those_of_a_quota() {
        let second = "usage_usec 900\nuser_usec 800\nsystem_usec 100\nnr_periods 76\nnr_throttled 51\nthrottled_usec 4\n";
        let first = "nr_periods 76\nnr_throttled 51\nthrottled_time 4000\n";
        let seen = Throttled {
            periods: 76,
            throttled: 51,
        };
        assert_eq!((periods(second), periods(first)), (Some(seen), Some(seen)));
        assert_eq!(periods("usage_usec 900\n"), None);
        assert_eq!(periods("nr_periods 0\nnr_throttled 0\n"), None);
        assert_eq!(periods("nr_periods many\nnr_throttled -1\n"), None);
        let earlier = Throttled {
            periods: 70,
            throttled: 50,
        };
        let gained = Throttled {
            periods: 6,
            throttled: 1,
        };
        assert_eq!(between(Some(earlier), Some(seen)), Some(gained));
        assert_eq!(between(None, Some(seen)), Some(seen));
        assert_eq!(between(Some(seen), None), None);
    }
}
