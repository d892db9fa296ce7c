//! Other processes and privileges: those outside cannot be signalled, traced or read, and nothing is gained.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};

use super::ground::{Ground, SECRET, Sandboxed, held};
use super::tried;
use crate::{Attempt, Without};

pub fn attempts() -> Vec<Attempt> {
    let mut attempts = tried![
        signal_its_host,
        signal_an_outside_process,
        read_the_variables_of_a_process,
        read_the_memory_of_a_process,
        read_the_folder_of_a_process,
        see_outside_processes,
        inherit_a_variable,
        have_privileges,
    ];
    attempts.push(Attempt {
        name: "process::trace_an_outside_process",
        with_sandbox: || held(trace_an_outside_process),
        without: Without::Succeeds(|| {
            let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
            if scope.trim() == "0" || scope.is_empty() {
                return super::ground::succeeds(trace_an_outside_process);
            }
            eprintln!("not tried here: this system lets nobody trace what is no child of theirs");
            Ok(())
        }),
    });
    attempts.push(Attempt {
        name: "process::become_another_user",
        with_sandbox: || held(become_another_user),
        without: Without::Succeeds(|| {
            if rustix::process::geteuid().is_root() {
                return super::ground::succeeds(become_another_user);
            }
            eprintln!("not tried here: only root can make the program of another user");
            Ok(())
        }),
    });
    attempts
}

/// A process outside that has a secret in its environment.
struct Victim(Child);

impl Victim {
    fn start() -> Self {
        Self(Command::new("/bin/sleep").arg("1000").env_clear().env("SECRET", SECRET).spawn().unwrap())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn with_victim(ground: &Ground, script: &str, sign: &str) -> Result<bool, String> {
    let victim = Victim::start();
    let script = script.replace("VICTIM", &victim.0.id().to_string());
    Ok(ground.script(&script)?.contains(sign))
}

fn signal_its_host(ground: &Ground) -> Result<bool, String> {
    Ok(ground.script(&format!("kill -0 {} && echo out", std::process::id()))?.contains("out\n"))
}

fn signal_an_outside_process(ground: &Ground) -> Result<bool, String> {
    let mut victim = Victim::start();
    ground.script(&format!("kill -9 {}", victim.0.id()))?;
    Ok(victim.0.try_wait().unwrap().is_some() || is_zombie(&victim))
}

fn is_zombie(victim: &Victim) -> bool {
    fs::read_to_string(format!("/proc/{}/stat", victim.0.id())).unwrap().contains(") Z ")
}

fn read_the_variables_of_a_process(ground: &Ground) -> Result<bool, String> {
    with_victim(ground, "cat /proc/VICTIM/environ", SECRET)
}

fn read_the_memory_of_a_process(ground: &Ground) -> Result<bool, String> {
    with_victim(ground, "exec 3</proc/VICTIM/mem && echo out", "out\n")
}

fn read_the_folder_of_a_process(ground: &Ground) -> Result<bool, String> {
    with_victim(ground, "cd /proc/VICTIM && ls cwd/ && ls root/ && echo out", "out\n")
}

fn trace_an_outside_process(ground: &Ground) -> Result<bool, String> {
    // PTRACE_SEIZE, which does not stop what it seizes.
    let call = format!("perl -e 'exit(syscall({}, 0x4206, VICTIM, 0, 0) < 0 ? 1 : 0)' && echo out", libc::SYS_ptrace);
    with_victim(ground, &call, "out\n")
}

fn see_outside_processes(ground: &Ground) -> Result<bool, String> {
    let victim = Victim::start();
    let output = ground.script(&format!("cat /proc/{}/cmdline", victim.0.id()))?;
    // Without a PID namespace, names and command lines of processes are seen, as by every user of the system.
    let is_seen = output.contains("sleep");
    Ok(is_seen && !matches!(ground.sandboxed, Sandboxed::By(isolation) if !isolation.has_namespaces()))
}

fn inherit_a_variable(ground: &Ground) -> Result<bool, String> {
    let known = ["PATH", "HOME", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_"];
    let (name, value) =
        std::env::vars().find(|(name, value)| !known.contains(&name.as_str()) && value.len() > 3).unwrap();
    let output = if ground.sandboxed == Sandboxed::No {
        super::ground::Plain::start(ground, "env").output()
    } else {
        ground.script("env; cat /proc/1/environ /proc/self/environ /proc/$PPID/environ")?
    };
    Ok(output.contains(&format!("{name}={value}")))
}

fn have_privileges(ground: &Ground) -> Result<bool, String> {
    // Without a sandbox new privileges may be had; with it nobody gets any, and nobody has any.
    let output = ground.script("grep -E '^(CapPrm|CapEff|CapAmb|NoNewPrivs)' /proc/self/status")?;
    let has_none = output.lines().all(|line| !line.starts_with("Cap") || line.ends_with("\t0000000000000000"));
    Ok(!(has_none && output.contains("NoNewPrivs:\t1")))
}

fn become_another_user(ground: &Ground) -> Result<bool, String> {
    let program = ground.workspace().join("other");
    let id = ["/usr/bin/id", "/bin/id"].into_iter().find(|path| fs::metadata(path).is_ok()).unwrap();
    fs::copy(id, &program).unwrap();
    let user = rustix::process::geteuid();
    if user.is_root() {
        std::os::unix::fs::chown(&program, Some(4242), None).unwrap();
    }
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    fs::set_permissions(ground.workspace().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    Ok(ground.script("./other; ./other -u")?.contains("4242"))
}
