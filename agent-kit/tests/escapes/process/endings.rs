//! Endings: nothing of a tree of processes is alive after its end, a timeout, a cancellation or the death of the host.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use rondo_agent_kit::sandbox::process::{Command, Isolation};
use rondo_protocol::diagnostic::Code;

use super::ground::{Ground, Plain, Sandboxed, held, shell, text};
use crate::{Attempt, Without};

/// The verb by which this binary is a host that is killed.
pub const HOST: &str = "__host";

/// How long a tree may outlive what ended it, on a busy machine. What is not ended stays for minutes.
const WITHIN: Duration = Duration::from_secs(20);

/// How long a program may take to come up on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the system may take to end what has been killed, on a busy machine. What stays would stay for longer.
const KILLED: Duration = Duration::from_secs(10);

/// What each stays for, and how it tries to.
const FORKED: &str = "stay & wait_for_it";
const DETACHED: &str = "(setsid sh -c \"$STAY\" & ) & wait_for_it";
const STUBBORN: &str = "(trap '' TERM HUP INT QUIT; stay) & wait_for_it";

pub fn attempts() -> Vec<Attempt> {
    fn attempt(
        name: &'static str,
        with_sandbox: fn() -> Result<(), String>,
        without: fn() -> Result<(), String>,
    ) -> Attempt {
        Attempt { name, with_sandbox, without: Without::Succeeds(without) }
    }
    vec![
        attempt("process::fork_and_stay", || held(|g| outlives(g, FORKED)), || survives(FORKED)),
        attempt("process::detach_and_stay", || held(|g| outlives(g, DETACHED)), || survives(DETACHED)),
        attempt("process::ignore_signals_and_stay", || held(|g| outlives(g, STUBBORN)), || survives(STUBBORN)),
        attempt("process::outlive_a_timeout", || held(outlives_a_timeout), || survives(DETACHED)),
        attempt("process::outlive_a_cancellation", || held(outlives_a_cancellation), || survives(DETACHED)),
        attempt("process::outlive_its_host", || held(outlives_its_host), || survives(DETACHED)),
        attempt(
            "process::be_there_for_its_host_to_be_killed_by",
            || held(kills_all),
            || {
                super::ground::succeeds(|ground| {
                    Ok(ground.script(&format!("kill -0 {}; echo $?", std::process::id()))?.contains('0'))
                })
            },
        ),
    ]
}

/// A named pipe that is held open by whoever stays, so that its end tells when the last one is dead.
struct Held(File);

impl Held {
    fn new(ground: &Ground) -> Self {
        let path = ground.workspace().join("held");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        Self(std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap())
    }

    /// Reads what is there: `None` when all who held it are dead, else how much came.
    fn read(&mut self) -> Option<usize> {
        match self.0.read(&mut [0; 64]) {
            Ok(0) => None,
            Ok(count) => Some(count),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Some(0),
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until somebody holds it and says so.
    fn is_held(&mut self) -> bool {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if self.read().is_some_and(|count| count > 0) {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    /// Whether anybody holds it still when the time is over.
    fn is_held_after(&mut self, time: Duration) -> bool {
        let start = Instant::now();
        while start.elapsed() < time {
            if self.read().is_none() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

/// The script with what stays: it takes hold of the pipe, says so, and sleeps. The main program ends only then.
fn staying(script: &str) -> String {
    let stay = "exec 9>held; echo held >&9; touch src/there; sleep 1000; sleep 1000";
    format!(
        "export STAY='{stay}'; stay() {{ eval \"$STAY\"; }}; wait_for_it() {{ until [ -e src/there ]; do :; done; }}; {script}"
    )
}

fn outlives(ground: &Ground, script: &str) -> Result<bool, String> {
    let mut pipe = Held::new(ground);
    ground.script(&staying(script))?;
    if !pipe.is_held() {
        return Err("nobody tried to stay".to_owned());
    }
    Ok(pipe.is_held_after(KILLED))
}

/// The same with nothing but the standard library: it stays, and is ended by its number.
fn survives(script: &str) -> Result<(), String> {
    let ground = Ground::new(Sandboxed::No);
    let mut pipe = Held::new(&ground);
    let mut plain = Plain::start(&ground, &staying(&format!("STAY=\"echo \\$\\$ > number; $STAY\"; {script}")));
    plain.wait();
    if !pipe.is_held() {
        return Err("nobody tried to stay".to_owned());
    }
    let stays = pipe.is_held_after(Duration::from_millis(200));
    for entry in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        // Whoever works in the workspace of this attempt is of this attempt.
        if std::fs::read_link(entry.path().join("cwd")).is_ok_and(|folder| folder == ground.workspace()) {
            let pid = entry.file_name().to_str().unwrap().parse().ok().and_then(rustix::process::Pid::from_raw);
            let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
        }
    }
    if stays { Ok(()) } else { Err("it did not survive without a sandbox either".to_owned()) }
}

fn outlives_a_timeout(ground: &Ground) -> Result<bool, String> {
    let mut pipe = Held::new(ground);
    let script = staying(&format!("{DETACHED}; echo begun; while :; do :; done"));
    let start = Instant::now();
    let time = Duration::from_secs(2);
    let error = ground.run(Command { timeout: time, ..shell(&script) }).err().ok_or("it was not ended")?;
    if error.code != Code::ProgramTimedOut || !error.output.contains("begun") {
        return Err(format!("it ended with {error}"));
    }
    Ok(!pipe.is_held() || pipe.is_held_after(KILLED) || start.elapsed() > time + WITHIN)
}

fn outlives_a_cancellation(ground: &Ground) -> Result<bool, String> {
    let mut pipe = Held::new(ground);
    let processes = ground.processes();
    let script = staying(&format!("{DETACHED}; while :; do :; done"));
    let task = ground.runtime.spawn(async move { processes.run(shell(&script)).await.map(|_| ()) });
    if !pipe.is_held() {
        return Err("it did not come up".to_owned());
    }
    task.abort();
    let stays = pipe.is_held_after(WITHIN);
    Ok(stays)
}

fn outlives_its_host(ground: &Ground) -> Result<bool, String> {
    let Sandboxed::By(isolation) = ground.sandboxed else { return Err("there is no sandbox".to_owned()) };
    let mut pipe = Held::new(ground);
    let mut host = std::process::Command::new(std::env::current_exe().unwrap())
        .args([HOST, &serde_json::to_string(&isolation).unwrap(), text(&ground.workspace())])
        .arg(staying(&format!("{DETACHED}; while :; do :; done")))
        // What a killed host leaves behind goes with this attempt.
        .env("TMPDIR", ground.root())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let is_up = pipe.is_held();
    host.kill().unwrap();
    host.wait().unwrap();
    if !is_up {
        return Err("it did not come up".to_owned());
    }
    Ok(pipe.is_held_after(WITHIN))
}

/// This binary as a host: runs a script in a workspace until it is killed.
pub fn host(arguments: &[String]) -> ExitCode {
    let [isolation, workspace, script] = arguments else { return ExitCode::from(2) };
    let isolation: Isolation = serde_json::from_str(isolation).unwrap();
    let ground = Ground::new(Sandboxed::By(isolation));
    let settings =
        rondo_agent_kit::sandbox::process::ProcessSettings { workspace: workspace.into(), ..ground.settings() };
    let _ = ground.runtime.block_on(ground.processes_of(settings).run(shell(script)));
    ExitCode::SUCCESS
}

/// A program that kills every process that it may: the launcher outside still tells how it ended.
fn kills_all(ground: &Ground) -> Result<bool, String> {
    let finished = ground
        .run(shell("trap '' TERM; kill -9 $PPID; kill -9 1; kill -TERM -1; echo here"))
        .map_err(|e| e.to_string())?;
    Ok(!finished.output.contains("here"))
}
