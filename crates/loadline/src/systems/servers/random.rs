//! The same random numbers for every process of a server.
//!
//! A server seeds its hash tables from `/dev/urandom`. Which keys collide then differs from process to process,
//! and so do the instructions of an operation, by up to some percent. A child whose instructions are counted reads
//! a file in place of that device, in its own mount namespace (Linux, mount_namespaces(7)).

use std::path::Path;
use std::{fs, io};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

const DEVICE: &str = "/dev/urandom";
/// Index of the mount point in a line of mountinfo (proc_pid_mountinfo(5)).
const MOUNT_POINT: usize = 4;

/// Replaces the device with `file`, for this process and the program that it becomes. Requires root, or a kernel
/// that allows users to create namespaces.
///
/// # Errors
/// If neither is the case.
pub(super) fn fix(file: &Path) -> io::Result<()> {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    if unshare(CloneFlags::CLONE_NEWNS).is_err() {
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
        // The same user inside, in the format of user_namespaces(7).
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()))?;
        fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()))?;
    }
    let none = None::<&str>;
    // Otherwise the mount would be visible outside.
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some(file), DEVICE, none, MsFlags::MS_BIND, none)?;
    Ok(())
}

/// Whether the process `pid` reads a file in place of the device.
pub(crate) fn is_fixed(pid: u32) -> bool {
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    let mut points = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(MOUNT_POINT));
    points.any(|point| point == DEVICE)
}
