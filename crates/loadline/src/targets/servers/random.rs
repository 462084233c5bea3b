//! The same random numbers for every process of a server.
//!
//! A server seeds its hash tables from `/dev/urandom`. Which keys collide then differs from process to process, and
//! so do the instructions that an operation takes, by up to some percent. A child whose instructions are counted
//! reads a file in place of that device, in a mount namespace of its own (Linux, mount_namespaces(7)).

use std::path::Path;
use std::{fs, io};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

const DEVICE: &str = "/dev/urandom";
/// The fifth field of a line of mountinfo is where the file system is mounted (proc_pid_mountinfo(5)).
const MOUNT_POINT: usize = 4;

/// Puts `file` in the place of the device, for this process and the program that it becomes. Takes root, or a kernel
/// that lets users have namespaces.
///
/// # Errors
/// If neither is there.
pub(super) fn fix(file: &Path) -> io::Result<()> {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    if unshare(CloneFlags::CLONE_NEWNS).is_err() {
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
        // The same user inside, as user_namespaces(7) wants it to be written.
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()))?;
        fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()))?;
    }
    let none = None::<&str>;
    // Else the mount would be seen outside, too.
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
