//! Resource limits of the program and of each of its children.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::super::plan::Limits;

/// Sets the limits of this process, unless lower ones apply already.
pub(super) fn set(limits: &Limits) -> io::Result<()> {
    let Limits { cpu, memory_bytes, file_bytes, open_files, processes, output_bytes: _ } = limits;
    for (resource, most) in [
        (Resource::RLIMIT_CPU, cpu.as_secs().max(1)),
        (Resource::RLIMIT_DATA, *memory_bytes),
        (Resource::RLIMIT_FSIZE, *file_bytes),
        (Resource::RLIMIT_NOFILE, *open_files),
        // Counted per user, and within a user namespace per user there.
        (Resource::RLIMIT_NPROC, *processes),
        // A core file would contain the program's memory.
        (Resource::RLIMIT_CORE, 0),
        // Queues use kernel memory, which is not counted elsewhere.
        (Resource::RLIMIT_MSGQUEUE, 0),
    ] {
        let (_, hard) = getrlimit(resource)?;
        let most = most.min(hard);
        setrlimit(resource, most, most)?;
    }
    Ok(())
}
