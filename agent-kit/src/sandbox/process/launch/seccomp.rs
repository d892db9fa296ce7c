//! A system call filter: refuses calls that no build or test needs, and calls that would bypass the other layers.

use std::collections::BTreeMap;
use std::io;

use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::super::plan::Plan;

/// Refused whatever the arguments.
const REFUSED: &[i64] = &[
    // The network, and sockets of other processes. Landlock alone allows UDP, netlink and named sockets.
    libc::SYS_bind,
    libc::SYS_listen,
    // Opens, connects and sends without the calls above.
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
    // Namespaces and mounts: no privileges in a new namespace, and no mask removed.
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
    // Parts of the kernel with many vulnerabilities.
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

/// The rest of the network, except for a program with a proxy: it may create and connect IPv4 streams. Its network
/// namespace contains nothing but the proxy, and such a socket cannot connect to a named one.
const CONNECTING: &[i64] = &[libc::SYS_socket, libc::SYS_connect];
const INTERNET_FAMILY: u64 = 2;
const STREAM_KIND: u64 = 1;
/// The default protocol of such a stream, and TCP.
const STREAM_PROTOCOLS: [u64; 2] = [0, 6];

/// Calls that change the attributes of a file by name.
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

/// Calls that change the attributes of an open file.
const OPEN_ATTRIBUTES: &[i64] =
    &[libc::SYS_fchmod, libc::SYS_fchown, libc::SYS_fremovexattr, libc::SYS_fsetxattr, libc::SYS_utimensat];

/// Calls that the crate lacks on some architectures. From 403 on numbers are the same everywhere.
const SYS_FCHMODAT2: i64 = 452;
const SYS_SETXATTRAT: i64 = 463;
const SYS_REMOVEXATTRAT: i64 = 466;
const SYS_FILE_SETATTR: i64 = 469;

/// The bit of x32 system calls, which have the same architecture in a filter
/// (<https://www.kernel.org/doc/html/latest/userspace-api/seccomp_filter.html>).
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Calls with separate x32 numbers, among them `ioctl`, `execve` and `ptrace`.
#[cfg(target_arch = "x86_64")]
const X32_OWN: std::ops::RangeInclusive<i64> = 512..=547;

/// Requests that insert input into a terminal: `TIOCSTI` and `TIOCLINUX`.
const TYPING: [u64; 2] = [0x5412, 0x541C];

/// A socket pair that stays one: Unix, stream or seqpacket. Other kinds can be reconnected or send elsewhere.
const PAIRED_FAMILY: u64 = 1;
const PAIRED_KINDS: [u64; 2] = [1, 5];
/// The bits of the kind; the others are `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
const SOCKET_KIND: u64 = 0xF;

/// `S_ISUID` and `S_ISGID`: a program left in the workspace would run as its owner or group for every user.
const RUNS_AS_OWNER: [u64; 2] = [0o4000, 0o2000];

/// Calls with a mode, and the index of that argument.
const MODES: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (SYS_FCHMODAT2, 2),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];

/// Calls that create a file with a mode, and the indices of the flags and the mode.
const OPENING: &[(i64, u8, u8)] = &[
    (libc::SYS_openat, 2, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
];

/// The flags that create a file: `O_CREAT`, and the bit of `O_TMPFILE` that is not `O_DIRECTORY`.
const CREATING: [u64; 2] = [0o100, 0o20_000_000];

/// Calls on a process id, and the index of that argument; 0 is the caller. Other processes are refused without a PID
/// namespace.
const OF_PROCESSES: &[(i64, u8)] = &[
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

/// The first argument by which two of them mean all processes of a user: `PRIO_USER`, `IOPRIO_WHO_USER`.
const OF_USERS: [(i64, u64); 2] = [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

/// Shared kernel objects that outlive a program, refused without an IPC namespace.
const SHARED: &[i64] = &[
    libc::SYS_mq_getsetattr,
    libc::SYS_mq_notify,
    libc::SYS_mq_open,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_unlink,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmget,
];

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

/// Restricts this process, which must have `no_new_privs` set.
pub(super) fn restrict(plan: &Plan) -> io::Result<()> {
    // As if they did not exist: their flags and modes are in memory, which a filter cannot read, and C libraries fall
    // back to the older calls.
    let not_there = BTreeMap::from([(libc::SYS_clone3, Vec::new()), (libc::SYS_openat2, Vec::new())]);
    apply(not_there, libc::ENOSYS)?;
    apply(refused(plan).map_err(io::Error::other)?, libc::EPERM)
}

fn apply(rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32) -> io::Result<()> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let error = u32::try_from(error).map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(error), architecture);
    let program: BpfProgram = filter.and_then(BpfProgram::try_from).map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

/// The refused calls: any of its rules suffices; no rules means always.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn refused(plan: &Plan) -> Result<Rules, BackendError> {
    let mut rules: Rules = REFUSED.iter().map(|number| (*number, Vec::new())).collect();
    let mut add = |number: i64, conditions: Vec<SeccompCondition>| -> Result<(), BackendError> {
        rules.entry(number).or_default().push(SeccompRule::new(conditions)?);
        Ok(())
    };
    if plan.has_proxy {
        add(libc::SYS_socket, vec![when(0, Ne, INTERNET_FAMILY)?])?;
        for kind in (0..=SOCKET_KIND).filter(|kind| *kind != STREAM_KIND) {
            add(libc::SYS_socket, vec![when(1, MaskedEq(SOCKET_KIND), kind)?])?;
        }
        add(
            libc::SYS_socket,
            STREAM_PROTOCOLS.into_iter().map(|number| when(2, Ne, number)).collect::<Result<_, _>>()?,
        )?;
    }
    for flag in NEW_NAMESPACES.iter().filter_map(|flag| u64::try_from(*flag).ok()) {
        add(libc::SYS_clone, vec![has(0, flag)?])?;
    }
    for request in TYPING {
        add(libc::SYS_ioctl, vec![when(1, Eq, request)?])?;
    }
    add(libc::SYS_socketpair, vec![when(0, Ne, PAIRED_FAMILY)?])?;
    for kind in (0..=SOCKET_KIND).filter(|kind| !PAIRED_KINDS.contains(kind)) {
        add(libc::SYS_socketpair, vec![when(1, MaskedEq(SOCKET_KIND), kind)?])?;
    }
    for bit in RUNS_AS_OWNER {
        for (number, mode) in MODES {
            add(*number, vec![has(*mode, bit)?])?;
        }
        for (number, flags, mode) in OPENING {
            for flag in CREATING {
                add(*number, vec![has(*flags, flag)?, has(*mode, bit)?])?;
            }
        }
    }
    // The limits of another process.
    add(libc::SYS_prlimit64, vec![when(0, Ne, 0)?])?;
    let (has_mounts, has_workspace) = (plan.isolation.has_namespaces(), plan.writes_workspace());
    if !has_mounts {
        for (number, process) in OF_PROCESSES {
            add(*number, vec![when(*process, Ne, 0)?])?;
        }
        for (number, user) in OF_USERS {
            add(number, vec![when(0, Eq, user)?])?;
        }
        // Without a name it changes an open file.
        add(libc::SYS_utimensat, vec![SeccompCondition::new(1, SeccompCmpArgLen::Qword, Ne, 0)?])?;
    }
    // Last, because a call that is always refused has no rules. Landlock does not restrict changes of attributes. Where
    // mounts do not either, a name could be any file of the user, and a read-only file can be opened too.
    let whole = [
        (CONNECTING, !plan.has_proxy),
        (ATTRIBUTES, !has_mounts),
        (SHARED, !has_mounts),
        (OPEN_ATTRIBUTES, !has_mounts && !has_workspace),
    ];
    let whole = whole.into_iter().filter(|(_, is_refused)| *is_refused).flat_map(|(numbers, _)| numbers);
    rules.extend(whole.map(|number| (*number, Vec::new())));
    #[cfg(target_arch = "x86_64")]
    {
        let same: Vec<i64> =
            rules.keys().copied().chain([libc::SYS_clone3, libc::SYS_openat2]).chain(X32_OWN).collect();
        rules.extend(same.into_iter().map(|number| (X32 | number, Vec::new())));
    }
    Ok(rules)
}

/// The kernel ignores the upper half of such an argument, too.
fn when(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

/// The argument has this bit.
fn has(argument: u8, bit: u64) -> Result<SeccompCondition, BackendError> {
    when(argument, MaskedEq(bit), bit)
}
