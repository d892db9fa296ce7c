//! The last stage: confines itself and becomes the program.

use std::fs::File;
use std::io::{self, ErrorKind, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::super::descriptors;
use super::super::plan::{Isolation, Limits, Plan, Report};
use super::{close_all_others, entrance, landlock, namespaces, no_sandbox, not_started, seccomp};

pub(super) fn become_program() -> Result<(), Report> {
    close_all_others()?;
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let (plan, input) = Plan::read(&mut io::stdin()).map_err(not_started)?;
    // Closed on exec: the program cannot write reports.
    let mut reports = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(not_started)?);
    let (_, streams) = descriptors::receive(io::stderr(), &mut [0]).map_err(not_started)?;
    let mut streams = streams.into_iter();
    let stdout = streams.next().ok_or_else(|| Report::NotStarted("there is nowhere to write to".to_owned()))?;
    let stderr = streams.next().map_or_else(|| stdout.try_clone(), Ok).map_err(not_started)?;
    let stdin = streams.next().map_or_else(|| stdin(&input), |stdin| Ok(stdin.into())).map_err(not_started)?;

    let (name, arguments) = plan.argv.split_first().ok_or_else(|| Report::NotStarted("argv is empty".to_owned()))?;
    let home = plan.home();
    let mut command = Command::new(name);
    command.args(arguments).env_clear().env("TMPDIR", &home).env("HOME", &home);
    command.current_dir(plan.working_dir.as_ref().unwrap_or(&home));
    command.stdin(stdin).stdout(stdout).stderr(stderr);

    let port = plan.has_proxy.then(|| entrance::open(&mut command)).transpose().map_err(no_sandbox)?;
    command.envs(&plan.env);
    limit(&plan.limits).map_err(no_sandbox)?;
    if plan.isolation != Isolation::Off {
        landlock::restrict(&plan, port).map_err(|error| match error.kind() {
            // The request cannot be granted; the sandbox itself is fine.
            ErrorKind::PermissionDenied => Report::NotStarted(error.to_string()),
            _ => no_sandbox(error),
        })?;
        namespaces::give_up_privileges().map_err(no_sandbox)?;
        seccomp::restrict(&plan).map_err(no_sandbox)?;
    }
    let error = command.exec();
    let why = match error.kind() {
        ErrorKind::NotFound => "there is no such program, or the interpreter in its first line is missing".to_owned(),
        ErrorKind::PermissionDenied => {
            "it is not executable, or lies where programs may not read; the operator grants that in [grant] read"
                .to_owned()
        }
        _ => error.to_string(),
    };
    let _ = Report::NotStarted(format!("{name} could not be started: {why}")).write(&mut reports);
    Ok(())
}

/// The program's standard input: a file in memory, so that no process has to write while it reads.
fn stdin(input: &[u8]) -> io::Result<Stdio> {
    if input.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = File::from(memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(input)?;
    file.rewind()?;
    Ok(Stdio::from(file))
}

/// Sets the limits of this process, which its children inherit, unless lower ones apply already.
fn limit(limits: &Limits) -> io::Result<()> {
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
