//! A filter of system calls: what no build and no test needs, and what would lead round the other layers.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use super::super::plan::{Plan, Writable};

/// Refused whatever the arguments.
const REFUSED: &[i64] = &[
    // The network, and every socket of another process. Landlock alone lets UDP, netlink and named sockets out.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    // Opens, connects and sends without any of the calls above.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Keys of the session.
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    // Namespaces and mounts: no privilege in a namespace of one's own, and no mask taken off.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Large and often broken parts of the kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_personality,
    // The machine.
    libc::SYS_acct,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// What changes the attributes of a file by its name.
const ATTRIBUTES: &[i64] = &[
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchownat,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_setxattr,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
];

/// What changes the attributes of an open file.
const OPEN_ATTRIBUTES: &[i64] =
    &[libc::SYS_fchmod, libc::SYS_fchown, libc::SYS_fremovexattr, libc::SYS_fsetxattr, libc::SYS_utimensat];

/// Calls that are newer than the table of the crate is for every architecture. Since 403 they have the same number everywhere.
const SYS_FCHMODAT2: i64 = 452;
const SYS_SETXATTRAT: i64 = 463;
const SYS_REMOVEXATTRAT: i64 = 466;
const SYS_FILE_SETATTR: i64 = 469;

/// The bit of a system call of the x32 interface, which has the same architecture in a filter's eyes
/// (<https://www.kernel.org/doc/html/latest/userspace-api/seccomp_filter.html>).
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Calls that have a number of their own there, among them `ioctl`, `execve` and `ptrace`.
#[cfg(target_arch = "x86_64")]
const X32_OWN: std::ops::RangeInclusive<i64> = 512..=547;

/// Requests that put bytes into a terminal as if they were typed: `TIOCSTI` and `TIOCLINUX`.
const TYPING: [u64; 2] = [0x5412, 0x541C];

/// The kinds of socket that can be connected a second time, `SOCK_DGRAM` and `SOCK_RAW`, and the bits they stand in.
const DATAGRAMS: [u64; 2] = [2, 3];
const SOCKET_KIND: u64 = 0xF;

/// Each flag by which a child would have a namespace of its own.
const NEW_NAMESPACES: [i32; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWTIME,
];

/// Whose rights, owners and times can be changed. Landlock does not know these calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attributes {
    /// Those that the mounts leave writable.
    ByMounts,
    /// Those of open files: without a mount namespace, a name would reach every file of the user. A file that can only
    /// be read can be opened too.
    OfOpenFiles,
    /// None, where there is neither a mount namespace nor a whole workspace to write.
    OfNone,
}

impl Attributes {
    /// What is left of them to a program.
    pub fn of(plan: &Plan) -> Self {
        match plan.writable {
            _ if plan.isolation.has_namespaces() => Self::ByMounts,
            Writable::Workspace => Self::OfOpenFiles,
            Writable::Nothing | Writable::Paths(_) => Self::OfNone,
        }
    }
}

/// Restricts this process. It must have given up new privileges.
pub(super) fn restrict(attributes: Attributes) -> io::Result<()> {
    // As if the kernel did not have it: its flags lie in memory where no filter sees them, and the C libraries then
    // take the older call.
    let not_there = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    apply(not_there, libc::ENOSYS)?;
    apply(refused(attributes)?, libc::EPERM)
}

fn apply(rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32) -> io::Result<()> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let error = u32::try_from(error).map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(error), architecture);
    let program: BpfProgram = filter.and_then(BpfProgram::try_from).map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

fn refused(attributes: Attributes) -> io::Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|number| (*number, Vec::new())).collect();
    if attributes != Attributes::ByMounts {
        rules.extend(ATTRIBUTES.iter().map(|number| (*number, Vec::new())));
        // Without a name it changes the times of an open file.
        let named = SeccompCondition::new(1, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
        let named = named.and_then(|named| SeccompRule::new(vec![named])).map_err(io::Error::other)?;
        rules.insert(libc::SYS_utimensat, vec![named]);
    }
    if attributes == Attributes::OfNone {
        rules.extend(OPEN_ATTRIBUTES.iter().map(|number| (*number, Vec::new())));
    }
    let masked = |argument: u8, mask: u64, value: u64| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value)?;
        SeccompRule::new(vec![condition])
    };
    let namespaces = NEW_NAMESPACES.iter().filter_map(|flag| u64::try_from(*flag).ok());
    let conditional = [
        (libc::SYS_clone, namespaces.map(|flag| masked(0, flag, flag)).collect::<Result<Vec<_>, _>>()),
        (libc::SYS_ioctl, TYPING.iter().map(|request| masked(1, 0xFFFF_FFFF, *request)).collect()),
        (libc::SYS_socketpair, DATAGRAMS.iter().map(|kind| masked(1, SOCKET_KIND, *kind)).collect()),
    ];
    for (number, conditions) in conditional {
        rules.insert(number, conditions.map_err(io::Error::other)?);
    }
    #[cfg(target_arch = "x86_64")]
    {
        let same: Vec<i64> = rules.keys().copied().chain([libc::SYS_clone3]).chain(X32_OWN).collect();
        rules.extend(same.into_iter().map(|number| (X32 | number, Vec::new())));
    }
    Ok(rules)
}
