//! The operator's keys in the variables and the memory of this process, seen from what it starts and from others of the
//! same user. Root reads everything, so this is tried as another user where the tests run as root.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::Trial;
use rondo_agent_kit::mcp::{Server, ServerProgram, Transport};
use rondo_agent_kit::sandbox::process::{self, ProcessSettings, Processes, WorkingDir};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use super::{placed, script, trial};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("secrets::no_program_of_the_user_reads_the_keys", no_program_of_the_user_reads_the_keys),
        trial("secrets::without_the_defence_each_reads_them", without_the_defence_each_reads_them),
    ]
}

/// The first argument by which this binary is told to keep a key and to start servers that look for it.
const KEEPER: &str = "__keeper";
const KEY: &str = "the-key-of-the-operator";

/// Keeps a key, starts a server of either kind, and prints what each found; then waits for the end of its input.
pub fn entered() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [verb, defended] = arguments.as_slice() else { return None };
    (verb == KEEPER).then(|| {
        process::undumpable();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let unsandboxed = Server::start(placed("script", WorkingDir::Private, &[])).await.unwrap();
            let mut settings = placed("script", WorkingDir::Private, &[]);
            let launcher = std::env::current_exe().unwrap();
            let processes = Processes::new(ProcessSettings {
                read: vec![launcher.clone()],
                workspace: launcher.parent().unwrap().to_path_buf(),
                launcher,
                write: Vec::new(),
                hidden: Vec::new(),
                read_only: Vec::new(),
                protected: Vec::new(),
                ceilings: rondo_agent_kit::sandbox::process::Limits::default(),
                sandbox: true,
                env: BTreeMap::new(),
            });
            let sandbox = processes.self_test().await.clone();
            if let Transport::Stdio(ServerProgram { sandbox, .. }) = &mut settings.transport {
                *sandbox = Some(processes);
            }
            let sandboxed = Server::start(settings).await;
            if defended == "no" {
                set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
            }
            let look = look_at(std::process::id());
            println!("unsandboxed {:?}", script(&unsandboxed, &look).await);
            match sandboxed {
                Ok(sandboxed) => println!("sandboxed {:?}", script(&sandboxed, &look).await),
                Err(error) => println!("sandbox {sandbox}: {error}"),
            }
        });
        println!("waiting");
        let _ = std::io::stdin().lines().count();
        ExitCode::SUCCESS
    })
}

/// A script that looks for the key in a process.
fn look_at(pid: u32) -> String {
    format!(": < /proc/{pid}/mem && echo opened; tr '\\0' '\\n' < /proc/{pid}/environ; ls /proc/{pid}/fd | head -1")
}

/// What each sees of the keeper: a server, one in a sandbox, and another process of the user.
struct Seen {
    unsandboxed: String,
    sandboxed: String,
    sibling: String,
}

fn seen(defended: &str) -> Seen {
    // Another user reaches neither our target folder nor our home.
    let folder = tempfile::Builder::new().prefix("keeper").tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = folder.path().join("mcp");
    fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    let mut keeper = as_a_user(&binary)
        .args([KEEPER, defended])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("OPENAI_API_KEY", KEY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // `setpriv` becomes the keeper, so that it has the number of that.
    let pid = keeper.id();
    let lines = BufReader::new(keeper.stdout.take().unwrap()).lines().map_while(Result::ok);
    let lines: Vec<String> = lines.take_while(|line| line != "waiting").collect();
    let sibling = as_a_user(Path::new("/bin/sh")).args(["-c", &look_at(pid)]).stderr(Stdio::null()).output().unwrap();
    drop(keeper.stdin.take());
    assert!(keeper.wait().unwrap().success(), "{lines:?}");
    let of = |kind: &str| lines.iter().find_map(|line| line.strip_prefix(kind)).map(str::to_owned);
    Seen {
        unsandboxed: of("unsandboxed ").unwrap_or_else(|| panic!("{lines:?}")),
        sandboxed: of("sandboxed ").unwrap_or_else(|| panic!("there is no sandbox for this user: {lines:?}")),
        sibling: String::from_utf8_lossy(&sibling.stdout).into_owned(),
    }
}

/// A program as somebody who is not root.
fn as_a_user(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new(PathBuf::from("/usr/bin/setpriv"));
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(program);
    command
}

async fn no_program_of_the_user_reads_the_keys() {
    let seen = seen("yes");
    for (who, seen) in [("unsandboxed", seen.unsandboxed), ("sandboxed", seen.sandboxed), ("sibling", seen.sibling)] {
        assert!(!seen.contains(KEY) && !seen.contains("opened"), "{who}: {seen}");
    }
}

async fn without_the_defence_each_reads_them() {
    let seen = seen("no");
    for (who, seen) in [("unsandboxed", seen.unsandboxed), ("sibling", seen.sibling)] {
        assert!(seen.contains(KEY), "{who}: {seen}");
        // Where Yama restricts tracing, memory is out of reach anyway.
        let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        if matches!(yama.trim(), "" | "0") {
            assert!(seen.contains("opened"), "{who}: {seen}");
        }
    }
    // The sandbox holds by itself.
    assert!(!seen.sandboxed.contains(KEY) && !seen.sandboxed.contains("opened"), "{}", seen.sandboxed);
}
