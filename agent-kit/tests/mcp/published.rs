//! Servers that others published: packages of npm, in versions that are written down here.
//!
//! They are installed once, below the target folder or where `RONDO_MCP_SERVERS` says. Where Node or the network is
//! missing, each test says so and passes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use libtest_mimic::Trial;
use rondo_agent_kit::mcp::{Server, ServerProgram, ServerSettings, Transport};
use rondo_agent_kit::sandbox::process::WorkingDir;
use rondo_protocol::diagnostic::Code;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{call, error_of, tool, trial};

const EVERYTHING: &str = "@modelcontextprotocol/server-everything";
const FILESYSTEM: &str = "@modelcontextprotocol/server-filesystem";
const VERSION: &str = "2026.8.31";

pub fn trials() -> Vec<Trial> {
    vec![
        trial("published::server_everything_is_driven", server_everything_is_driven),
        trial("published::server_everything_is_driven_over_http", server_everything_is_driven_over_http),
        trial("published::server_filesystem_is_driven", server_filesystem_is_driven),
    ]
}

/// The folder that holds the packages, or why there is none.
fn installed() -> &'static Result<PathBuf, String> {
    static INSTALLED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let folder = std::env::var_os("RONDO_MCP_SERVERS").map(PathBuf::from);
        let folder = folder.unwrap_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-servers"));
        let has = |package: &str| folder.join("node_modules").join(package).join("package.json").is_file();
        let node = Command::new("node").arg("--version").stdout(Stdio::null()).status();
        if !node.is_ok_and(|status| status.success()) {
            return Err("node is not installed".to_owned());
        }
        if has(EVERYTHING) && has(FILESYSTEM) {
            return Ok(folder);
        }
        // Each test may be a process of its own: one of them installs, the others wait.
        let lock = File::create(folder.with_extension("lock")).and_then(|lock| lock.lock().map(|()| lock));
        let _lock = lock.map_err(|error| format!("{}: {error}", folder.display()))?;
        if has(EVERYTHING) && has(FILESYSTEM) {
            return Ok(folder);
        }
        let output = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--no-save", "--fetch-retries=0", "--prefix"])
            .arg(&folder)
            .args([EVERYTHING, FILESYSTEM].map(|package| format!("{package}@{VERSION}")))
            .output()
            .map_err(|error| format!("npm cannot be run: {error}"))?;
        if output.status.success() {
            Ok(folder)
        } else {
            Err(format!("npm could not install them: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
    })
}

/// The program of a package, or `None` after saying why the test is skipped.
fn package(name: &str) -> Option<PathBuf> {
    match installed() {
        Ok(folder) => Some(folder.join("node_modules").join(name).join("dist/index.js")),
        Err(why) => {
            eprintln!("skipped: {name} is not driven, because {why}");
            None
        }
    }
}

fn settings(name: &str, program: &Path, arguments: &[&str]) -> ServerSettings {
    let mut args = vec![program.display().to_string()];
    args.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    let launcher = Some(std::env::current_exe().unwrap());
    let transport = Transport::Stdio(ServerProgram {
        pinned: rondo_agent_kit::pinned::Pinned::default(),
        command: "node".to_owned(),
        args,
        env: Vec::new(),
        working_dir: WorkingDir::Private,
        sandbox: None,
        launcher,
    });
    ServerSettings::new(name, transport)
}

async fn drive_everything(server: &Server) {
    let echo = tool(server, "everything.echo");
    assert_eq!(call(&echo, r#"{"message": "h\u00e9"}"#).await.unwrap(), "Echo: h\u{e9}");
    let error = error_of(call(&echo, r#"{"message": 5}"#).await);
    assert_eq!(error.code, Code::McpToolFailed, "{error}");
    let sum = call(&tool(server, "everything.get-sum"), r#"{"a": 2, "b": 40}"#).await.unwrap();
    assert!(sum.contains("42"), "{sum}");
    let image = call(&tool(server, "everything.get-tiny-image"), "{}").await.unwrap();
    assert!(image.contains("[image-1.png (image/png), "), "{image}");
    let resources = call(&tool(server, "everything.list_resources"), "{}").await.unwrap();
    let uri = resources.split(' ').next().unwrap();
    let uri = serde_json::json!({"uri": uri}).to_string();
    assert!(!call(&tool(server, "everything.read_resource"), &uri).await.unwrap().is_empty());
}

async fn server_everything_is_driven() {
    let Some(program) = package(EVERYTHING) else { return };
    let server = Server::start(settings("everything", &program, &["stdio"])).await.unwrap();
    drive_everything(&server).await;
    let variables = call(&tool(&server, "everything.get-env"), "{}").await.unwrap();
    assert!(!variables.contains("CARGO_"), "the environment of the tests is not the server's: {variables}");
    server.stop().await;
}

async fn server_everything_is_driven_over_http() {
    let Some(program) = package(EVERYTHING) else { return };
    // It cannot be asked to take any port, so a free one is looked for; between that and its start somebody else may
    // take it, and then another is tried.
    for _ in 0..5 {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut child = tokio::process::Command::new("node")
            .arg(&program)
            .arg("streamableHttp")
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let is_listening = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains("listening on port") {
                    return true;
                }
            }
            false
        };
        if !tokio::time::timeout(Duration::from_secs(30), is_listening).await.unwrap_or(false) {
            continue;
        }
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let url = format!("http://127.0.0.1:{port}/mcp");
        let settings = ServerSettings::new("everything", Transport::Http { url, bearer: None, headers: Vec::new() });
        let server = Server::start(settings).await.unwrap();
        drive_everything(&server).await;
        return;
    }
    panic!("the server did not start");
}

async fn server_filesystem_is_driven() {
    let Some(program) = package(FILESYSTEM) else { return };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let server = Server::start(settings("files", &program, &[&root.display().to_string()])).await.unwrap();
    let note = root.join("note.txt");
    let written = serde_json::json!({"path": note, "content": "kept\n"}).to_string();
    call(&tool(&server, "files.write_file"), &written).await.unwrap();
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "kept\n");
    let read = call(&tool(&server, "files.read_text_file"), &serde_json::json!({"path": note}).to_string()).await;
    assert_eq!(read.unwrap().trim_end(), "kept");
    let outside = error_of(call(&tool(&server, "files.read_text_file"), r#"{"path": "/etc/hostname"}"#).await);
    assert_eq!(outside.code, Code::McpToolFailed);
    assert!(outside.output.contains("Access denied"), "{outside}");
}
