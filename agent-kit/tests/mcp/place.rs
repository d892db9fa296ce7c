//! Where servers start, and what they take from there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::Trial;
use rondo_agent_kit::mcp::{Server, ServerProgram, ServerSettings, Transport};
use rondo_agent_kit::sandbox::process::WorkingDir;
use rondo_protocol::diagnostic::Code;

use super::{call, error_of, fake_settings, placed, script, tool, trial};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("place::a_server_has_a_folder_of_its_own_while_it_runs", a_server_has_a_folder_of_its_own_while_it_runs),
        trial("place::an_operator_chooses_the_folder", an_operator_chooses_the_folder),
        trial("place::no_module_is_taken_from_the_folder", no_module_is_taken_from_the_folder),
        trial("place::no_program_is_taken_from_the_folder", no_program_is_taken_from_the_folder),
        trial("place::variables_that_bring_code_are_not_handed_on", variables_that_bring_code_are_not_handed_on),
        trial("place::a_relative_command_is_explained", a_relative_command_is_explained),
    ]
}

/// The first argument by which this binary is told to start a server with the variables that it has itself, and to
/// print those that the server has.
const HANDING_ON: &str = "__handing_on";

pub fn entered() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    (arguments == [HANDING_ON]).then(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let server = Server::start(fake_settings("environment")).await.unwrap();
            println!("{}", call(&tool(&server, "fake.call"), "{}").await.unwrap());
            server.stop().await;
        });
        ExitCode::SUCCESS
    })
}

async fn a_server_has_a_folder_of_its_own_while_it_runs() {
    for launched in [true, false] {
        let mut settings = fake_settings("script");
        if let Transport::Stdio(ServerProgram { launcher, .. }) = &mut settings.transport {
            *launcher = launcher.take().filter(|_| launched);
        }
        let server = Server::start(settings).await.unwrap();
        let said =
            script(&server, "pwd -P; echo $TMPDIR; stat -c %a .; ls -A; mkdir -p a/b; echo x > a/b/c; chmod 0 a").await;
        let [folder, temporary, mode] = *said.lines().collect::<Vec<_>>() else { panic!("{said}") };
        assert_eq!((folder, mode), (temporary, "700"));
        let folder = PathBuf::from(folder);
        assert!(folder.is_dir());
        server.stop().await;
        assert!(!folder.exists(), "{} is left behind", folder.display());
    }
}

async fn an_operator_chooses_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let chosen = folder.path().canonicalize().unwrap();
    let server = Server::start(placed("script", WorkingDir::Folder(chosen.clone()), &[])).await.unwrap();
    let said = script(&server, "pwd -P; echo $TMPDIR").await;
    let [place, temporary] = *said.lines().collect::<Vec<_>>() else { panic!("{said}") };
    assert_eq!(Path::new(place), chosen);
    assert_ne!(temporary, place);
    server.stop().await;
    assert!(!Path::new(temporary).exists() && chosen.is_dir());
}

/// What a project plants, run by a server that starts in it: whether it was.
async fn was_planted_code_run(folder: &Path, command: &str, arguments: &[&str], variables: &[(&str, &str)]) -> bool {
    let mut settings = placed("", WorkingDir::Folder(folder.to_path_buf()), variables);
    if let Transport::Stdio(ServerProgram { command: program, args, .. }) = &mut settings.transport {
        command.clone_into(program);
        *args = arguments.iter().map(|&argument| argument.to_owned()).collect();
    }
    // It says nothing, and ends.
    assert_eq!(error_of(Server::start(settings).await).code, Code::McpStart);
    let marker = folder.join("was-run");
    let was_run = marker.exists();
    let _ = std::fs::remove_file(marker);
    was_run
}

async fn no_module_is_taken_from_the_folder() {
    if Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_err() {
        return eprintln!("skipped: python3 is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("json.py"), "open('was-run', 'w')").unwrap();
    std::fs::write(folder.path().join("server.py"), "import json").unwrap();
    for arguments in [&["-c", "import json"][..], &["-m", "json"], &["server.py"]] {
        assert!(!was_planted_code_run(folder.path(), "python3", arguments, &[]).await, "{arguments:?}");
        // The operator's word goes before.
        let opened = [("PYTHONSAFEPATH", "")];
        assert!(was_planted_code_run(folder.path(), "python3", arguments, &opened).await, "{arguments:?}");
    }
}

async fn no_program_is_taken_from_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let planted = folder.path().join("planted");
    std::fs::write(&planted, "#!/bin/sh\ntouch was-run\n").unwrap();
    std::fs::set_permissions(&planted, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert!(was_planted_code_run(folder.path(), "planted", &[], &[("PATH", ".:/usr/bin:/bin")]).await);
    // Handed on by us, the same search path has no `.`.
    let seen = handed_on(&[("PATH", ".::bin:/usr/bin:/bin")]);
    assert_eq!(seen["PATH"], "/usr/bin:/bin");
}

/// The variables that a server has when rondo was started with these.
fn handed_on(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    let said = Command::new(std::env::current_exe().unwrap())
        .arg(HANDING_ON)
        .env_clear()
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    said.lines().filter_map(|line| line.split_once('=')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

async fn variables_that_bring_code_are_not_handed_on() {
    let bringing = [
        "NODE_PATH",
        "NODE_OPTIONS",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PYTHONHOME",
        "PERL5LIB",
        "PERL5OPT",
        "RUBYLIB",
        "RUBYOPT",
        "LD_LIBRARY_PATH",
        "GIT_DIR",
        "GIT_EXTERNAL_DIFF",
        "GIT_SSH_COMMAND",
        "BASH_ENV",
        "ENV",
        "CLASSPATH",
        "JAVA_TOOL_OPTIONS",
        "LUA_PATH",
        "OPENAI_API_KEY",
    ];
    let mut variables: Vec<(&str, &str)> = bringing.iter().map(|&name| (name, "/elsewhere/planted")).collect();
    variables.extend([("HOME", "/home/someone"), ("PATH", "/usr/bin:/bin"), ("TMPDIR", "/tmp")]);
    let seen = handed_on(&variables);
    let names: Vec<&str> = seen.keys().map(String::as_str).collect();
    assert_eq!(names, ["HOME", "PATH", "PYTHONSAFEPATH", "TMPDIR"]);
    assert_eq!((seen["HOME"].as_str(), seen["PYTHONSAFEPATH"].as_str()), ("/home/someone", "1"));
    assert_ne!(seen["TMPDIR"], "/tmp");
}

async fn a_relative_command_is_explained() {
    let transport = Transport::Stdio(ServerProgram {
        pinned: rondo_agent_kit::pinned::Pinned::default(),
        command: "./servers/docs".to_owned(),
        args: Vec::new(),
        env: Vec::new(),
        working_dir: WorkingDir::Private,
        sandbox: None,
        launcher: None,
    });
    let error = error_of(Server::start(ServerSettings::new("docs", transport)).await);
    assert_eq!(error.code, Code::McpStart);
    assert!(error.message.contains("it starts in an empty folder of its own, so write the whole path"), "{error}");
}
