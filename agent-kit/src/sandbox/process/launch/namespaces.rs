//! Namespaces of our own: users, mounts, processes, network, IPC.

use std::fs;
use std::io;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getgid, getuid};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, configure_capability_in_ambient_set,
    set_capabilities,
};

use super::super::plan::{Isolation, Plan};
use super::mounts::{self, NONE};
use super::{entrance, hidden};

/// Root's user id inside. Other users keep theirs.
const ROOT_INSIDE: u32 = 1000;

/// The kernel reuses only process ids above this.
const RESERVED_PIDS: u64 = 300;

/// The id of a user or group inside: never 0, so that executing a program drops all privileges.
pub(super) fn number_inside(outside: u32) -> u32 {
    if outside == 0 { ROOT_INSIDE } else { outside }
}

/// Enters new namespaces and masks hidden paths. The next child is the first process inside.
pub(super) fn enter(plan: &Plan) -> io::Result<()> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    unshare(
        CloneFlags::CLONE_NEWUSER
            | CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWIPC,
    )?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{} {user} 1", number_inside(user)))?;
    fs::write("/proc/self/gid_map", format!("{} {group} 1", number_inside(group)))?;
    if plan.has_proxy {
        entrance::switch_loopback_on()?;
    }
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    mounts::make_read_only(plan)?;
    hidden::mask(plan, &plan.void())?;
    // Executing the next stage would drop this capability, which it needs to mount `/proc`.
    let sets = capabilities(None)?;
    set_capabilities(None, CapabilitySets { inheritable: CapabilitySet::SYS_ADMIN, ..sets })?;
    configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)?;
    Ok(())
}

/// Sets up the namespaces as the first process inside, and drops the remaining privileges.
pub(super) fn settle(plan: &Plan) -> io::Result<()> {
    if plan.isolation == Isolation::Namespaces {
        let harmless = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        // In some containers parts of `/proc` are masked and it cannot be mounted. The old one reveals little of
        // outside processes: their memory and variables belong to another user namespace.
        let _ = mount(Some("proc"), "/proc", Some("proc"), harmless, NONE);
        // Root is exempt from the process limit, but not from this one.
        if has_pid_max_of_its_own() {
            let most = RESERVED_PIDS.saturating_add(plan.limits.processes);
            let _ = fs::write("/proc/sys/kernel/pid_max", most.to_string());
        }
    }
    give_up_privileges()?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Whether `pid_max` belongs to the namespace. Before Linux 6.14 it is global, and only the supervisor counts
/// processes.
fn has_pid_max_of_its_own() -> bool {
    fs::read_to_string("/proc/sys/kernel/osrelease").is_ok_and(|release| version(&release) >= Some((6, 14)))
}

/// The first two numbers of a kernel release: 6 and 14 of `6.14.0-rc1+`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.trim().split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Drops every capability permanently, given that `no_new_privs` is set.
pub(super) fn give_up_privileges() -> io::Result<()> {
    clear_ambient_capability_set()?;
    let nothing = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: nothing, permitted: nothing, inheritable: nothing })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn releases_are_compared_by_number() {
        let releases = ["6.14.0-rc1+\n", "6.9.12-200.fc40.x86_64", "5.15.0-1062-aws", "10.0", "next"].map(version);
        assert_eq!(releases, [Some((6, 14)), Some((6, 9)), Some((5, 15)), Some((10, 0)), None]);
        assert!(
            version("6.9.12") < Some((6, 14)) && version("10.0") >= Some((6, 14)) && version("next") < Some((6, 14))
        );
    }
}
