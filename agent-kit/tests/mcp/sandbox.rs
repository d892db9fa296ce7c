//! Servers in the sandbox that programs have, of each kind that this machine offers.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use rondo_agent_kit::mcp::{Server, ServerProgram, ServerSettings, Transport};
use rondo_agent_kit::redact::Secret;
use rondo_agent_kit::sandbox::http::{Gate, GateSettings};
use rondo_agent_kit::sandbox::process::{Isolation, ProcessSettings, Processes, WorkingDir};
use rondo_protocol::diagnostic::Code;
use tempfile::TempDir;

use super::{call, error_of, placed, script, tool, trial};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("sandbox::a_sandboxed_server_speaks", a_sandboxed_server_speaks),
        trial("sandbox::a_sandboxed_server_reaches_what_it_was_given", a_sandboxed_server_reaches_what_it_was_given),
        trial("sandbox::without_a_sandbox_it_reaches_everything", without_a_sandbox_it_reaches_everything),
        trial("sandbox::the_operator_can_switch_the_sandbox_off", the_operator_can_switch_the_sandbox_off),
        trial("sandbox::a_sandboxed_server_has_its_variables_and_no_others", a_sandboxed_server_has_its_variables),
        trial("sandbox::what_ends_a_sandboxed_server_is_told", what_ends_a_sandboxed_server_is_told),
        trial("sandbox::a_sandboxed_server_ends_with_all_it_started", a_sandboxed_server_ends_with_all_it_started),
        trial("sandbox::a_crash_behind_the_sandbox_is_told_and_mended", a_crash_behind_the_sandbox_is_told_and_mended),
        trial("sandbox::a_sandboxed_server_reaches_the_hosts_it_was_given", a_sandboxed_server_reaches_its_hosts),
        trial("sandbox::much_is_said_both_ways", much_is_said_both_ways),
    ]
}

const SECRET: &str = "the secret of the house";

/// A workspace, what is granted beside it, and what is not.
struct Ground(TempDir);

impl Ground {
    fn new() -> Self {
        let ground = Self(tempfile::Builder::new().prefix("sandboxed").tempdir().unwrap());
        for folder in ["workspace/.git", "workspace/src", "granted", "given", "outside"] {
            fs::create_dir_all(ground.path(folder)).unwrap();
        }
        for file in ["workspace/src/code", "workspace/.git/config", "outside/secret", "granted/keys"] {
            fs::write(ground.path(file), SECRET).unwrap();
        }
        fs::write(ground.path("granted/words"), "words").unwrap();
        ground
    }

    fn path(&self, inner: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(inner)
    }

    /// A server that may read `granted` and write `given`.
    fn settings(&self, mode: &str, isolation: Option<Isolation>, variables: &[(&str, &str)]) -> ServerSettings {
        let launcher = std::env::current_exe().unwrap();
        let processes = Processes::new(ProcessSettings {
            read: vec![launcher.clone(), self.path("granted")],
            launcher,
            workspace: self.path("workspace"),
            write: vec![self.path("given")],
            hidden: vec![self.path("granted/keys"), self.path("workspace/rondo.toml")],
            read_only: Vec::new(),
            protected: Vec::new(),
            ceilings: rondo_agent_kit::sandbox::process::Limits::default(),
            sandbox: isolation.is_some(),
            env: BTreeMap::new(),
        });
        let processes = isolation.map_or(processes.clone(), |isolation| processes.with_isolation(isolation));
        let mut settings = placed(mode, WorkingDir::Private, variables);
        if let Transport::Stdio(ServerProgram { sandbox, .. }) = &mut settings.transport {
            *sandbox = Some(processes);
        }
        settings
    }

    async fn start(&self, mode: &str, isolation: Isolation) -> Server {
        Server::start(self.settings(mode, Some(isolation), &[])).await.unwrap_or_else(|e| panic!("{isolation:?}: {e}"))
    }
}

/// The kinds of sandbox that this machine offers.
async fn sandboxes() -> &'static [Isolation] {
    static WALLS: OnceLock<Vec<Isolation>> = OnceLock::new();
    if let Some(sandboxes) = WALLS.get() {
        return sandboxes;
    }
    let mut sandboxes = Vec::new();
    for isolation in [Isolation::Bubblewrap, Isolation::Namespaces, Isolation::Landlock] {
        let ground = Ground::new();
        match Server::start(ground.settings("plain", Some(isolation), &[])).await {
            Ok(_) => sandboxes.push(isolation),
            Err(error) => eprintln!("not tried here: a sandbox of {isolation:?}: {error}"),
        }
    }
    assert!(!sandboxes.is_empty(), "there is no sandbox here");
    WALLS.get_or_init(|| sandboxes)
}

async fn a_sandboxed_server_speaks() {
    for isolation in sandboxes().await {
        let ground = Ground::new();
        let server = ground.start("plain", *isolation).await;
        let said = call(&tool(&server, "fake.echo"), r#"{"a": 1}"#).await.unwrap();
        assert!(said.contains(r#""arguments":{"a":1}"#), "{said}");
        let meet = tool(&server, "fake.meet");
        let (first, second) = tokio::join!(call(&meet, "{}"), call(&meet, "{}"));
        assert!(first.is_ok() && second.is_ok());
        server.stop().await;
        assert!(!ground.path("workspace/rondo.toml").exists());
    }
}

/// What a server that tries everything says.
fn tries(ground: &Ground) -> String {
    let path = |inner: &str| ground.path(inner).display().to_string();
    let (outside, code, git) = (path("outside/secret"), path("workspace/src/code"), path("workspace/.git/config"));
    let (granted, given) = (path("granted"), path("given"));
    format!(
        "cat {granted}/words; echo; echo mine > {given}/new && echo wrote; echo mine > $TMPDIR/new && echo private; \
         cat {outside} {code} {git} {granted}/keys; echo; \
         echo x > {granted}/words && echo overwrote; echo x > {code} && echo coded; echo x > {outside} && echo outside"
    )
}

async fn a_sandboxed_server_reaches_what_it_was_given() {
    for isolation in sandboxes().await {
        let ground = Ground::new();
        let server = ground.start("script", *isolation).await;
        let said = script(&server, &tries(&ground)).await;
        assert!(said.starts_with("words\nwrote\nprivate\n"), "{isolation:?}: {said}");
        for forbidden in [SECRET, "overwrote\n", "coded\n", "outside\n"] {
            assert!(!said.contains(forbidden), "{isolation:?}: {forbidden:?} in {said}");
        }
        assert_eq!(fs::read_to_string(ground.path("given/new")).unwrap(), "mine\n");
        let place = script(&server, "pwd -P; echo $HOME; echo $TMPDIR; ls -A | wc -l").await;
        let [place, home, temporary, entries] = *place.lines().collect::<Vec<_>>() else { panic!("{place}") };
        assert_eq!((place, place, "1"), (home, temporary, entries.trim()), "what the script made is all there is");
        let place = PathBuf::from(place);
        server.stop().await;
        gone(&place).await;
    }
}

async fn without_a_sandbox_it_reaches_everything() {
    let ground = Ground::new();
    let server = Server::start(placed("script", WorkingDir::Private, &[])).await.unwrap();
    let said = script(&server, &tries(&ground)).await;
    for reached in [SECRET, "overwrote\n", "coded\n", "outside\n"] {
        assert!(said.contains(reached), "{reached:?} in {said}");
    }
}

async fn the_operator_can_switch_the_sandbox_off() {
    let ground = Ground::new();
    let server = Server::start(ground.settings("script", None, &[])).await.unwrap();
    let secret = ground.path("outside/secret").display().to_string();
    assert_eq!(script(&server, &format!("cat {secret}")).await, SECRET);
    server.stop().await;
}

async fn a_sandboxed_server_has_its_variables() {
    for isolation in sandboxes().await {
        let ground = Ground::new();
        let variables = [("DOCS_KEY", "a-key-of-docs")];
        let server = Server::start(ground.settings("environment", Some(*isolation), &variables)).await.unwrap();
        let seen = call(&tool(&server, "fake.call"), "{}").await.unwrap();
        assert!(seen.lines().any(|line| line == "DOCS_KEY=a-key-of-docs"), "{seen}");
        let allowed = ["PATH", "HOME", "LANG", "LC_ALL", "TERM", "TMPDIR", "USER", "DOCS_KEY", "PYTHONSAFEPATH", "PWD"];
        for name in seen.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name) {
            assert!(allowed.contains(&name), "{name}");
        }
    }
}

async fn what_ends_a_sandboxed_server_is_told() {
    for isolation in sandboxes().await {
        let ground = Ground::new();
        let mut settings = ground.settings("exit_at_start", Some(*isolation), &[]);
        if let Transport::Stdio(ServerProgram { env, .. }) = &mut settings.transport {
            env.push(Secret { name: "LICENCE".to_owned(), value: "a-secret-licence".to_owned() });
        }
        let error = error_of(Server::start(settings).await);
        let message = "the MCP server fake ended with exit code 3; it last wrote: first line | no [31mlicence found in \
            Ok(\"[redacted:LICENCE]\")";
        assert_eq!((error.code, error.message.as_str()), (Code::McpStart, message), "{isolation:?}");

        let mut settings = ground.settings("plain", Some(*isolation), &[]);
        if let Transport::Stdio(ServerProgram { command, .. }) = &mut settings.transport {
            *command = ground.path("outside/secret").display().to_string();
        }
        let error = error_of(Server::start(settings).await);
        assert_eq!(error.code, Code::McpStart);
        assert!(error.message.contains("lies where programs may not read"), "{isolation:?}: {error}");
    }
}

async fn a_sandboxed_server_ends_with_all_it_started() {
    for isolation in sandboxes().await {
        let ground = Ground::new();
        let pids = ground.path("given/pids").display().to_string();
        let server = ground.start(&format!("stubborn:{pids}"), *isolation).await;
        assert!(has_process(&pids), "{isolation:?}: it is not seen");
        let kept = tool(&server, "fake.echo");
        drop(server);
        let began = Instant::now();
        while has_process(&pids) {
            assert!(began.elapsed() < Duration::from_secs(30), "{isolation:?}: it still lives");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(error_of(call(&kept, "{}").await).code, Code::McpEnded);
    }
}

/// Whether there is a process with these words in its command line, in whatever namespace.
fn has_process(words: &str) -> bool {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).any(|line| line.contains(words))
}

async fn a_crash_behind_the_sandbox_is_told_and_mended() {
    for isolation in sandboxes().await {
        let ground = Ground::new();
        let server = ground.start("exit_in_call", *isolation).await;
        let error = error_of(call(&tool(&server, "fake.call"), "{}").await);
        let message = "the MCP server fake ended with exit code 9; it last wrote: out of memory";
        assert_eq!((error.code, error.message.as_str()), (Code::McpEnded, message), "{isolation:?}");
        assert!(call(&tool(&server, "fake.echo"), "{}").await.is_ok());
    }
}

async fn a_sandboxed_server_reaches_its_hosts() {
    if std::process::Command::new("curl").arg("--version").output().is_err() {
        return eprintln!("skipped: curl is not installed");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nreached");
        }
    });
    for isolation in sandboxes().await.iter().filter(|isolation| isolation.has_namespaces()) {
        let ground = Ground::new();
        let fetch = format!("curl -sS -m 20 http://{host}/ 2>&1");
        let without = ground.start("script", *isolation).await;
        assert!(!script(&without, &fetch).await.contains("reached"), "{isolation:?}");

        let mut settings = ground.settings("script", Some(*isolation), &[]);
        if let Transport::Stdio(ServerProgram { sandbox, .. }) = &mut settings.transport {
            let gate = Gate::new(GateSettings { hosts: vec![host.clone()], ..GateSettings::default() }).unwrap();
            *sandbox = sandbox.take().map(|processes| processes.with_hosts(gate));
        }
        let server = Server::start(settings).await.unwrap();
        assert_eq!(script(&server, &fetch).await, "reached", "{isolation:?}");
        let other = script(&server, "curl -sS -m 20 http://example.com/ 2>&1").await;
        assert!(other.contains("is not granted"), "{isolation:?}: {other}");
    }
}

async fn much_is_said_both_ways() {
    for isolation in sandboxes().await {
        let ground = Ground::new();
        let server = ground.start("loud", *isolation).await;
        let long = "x".repeat(900_000);
        let said = call(&tool(&server, "fake.echo"), &format!(r#"{{"long": "{long}"}}"#)).await.unwrap();
        assert!(said.contains(&long));
    }
}

async fn gone(folder: &Path) {
    let began = Instant::now();
    while folder.exists() {
        assert!(began.elapsed() < Duration::from_secs(30), "{} is left behind", folder.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
