//! Resource limits of the program and of each of its children.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::super::plan::Limits;

/// Takes the limits upon this process, as far as lower ones do not hold already.
pub(super) fn set(limits: &Limits) -> io::Result<()> {
    let Limits { cpu, memory_bytes, file_bytes, open_files, processes, output_bytes: _ } = limits;
    for (resource, most) in [
        (Resource::RLIMIT_CPU, cpu.as_secs().max(1)),
        (Resource::RLIMIT_DATA, *memory_bytes),
        (Resource::RLIMIT_FSIZE, *file_bytes),
        (Resource::RLIMIT_NOFILE, *open_files),
        // Counted for the user, and within a user namespace for the user there.
        (Resource::RLIMIT_NPROC, *processes),
        // A core file would hold what the program had in memory.
        (Resource::RLIMIT_CORE, 0),
        // Queues and locked memory are the kernel's, and count against nobody else.
        (Resource::RLIMIT_MSGQUEUE, 0),
    ] {
        let (_, hard) = getrlimit(resource)?;
        let most = most.min(hard);
        setrlimit(resource, most, most)?;
    }
    Ok(())
}
