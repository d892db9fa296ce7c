//! What must still work in the sandbox.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use rondo_agent_kit::sandbox::process::{Access, Answered, Command, Exit, Limits, Processes, WorkingDir};
use rondo_agent_kit::tool::{EffectWord, Error, InDoubt, Invocation, Program, ProgramSettings, Shell, Tool, Typed};
use rondo_protocol::canonical;
use rondo_protocol::diagnostic::Code;

use super::ground::{Ground, SECRET, Sandboxed, sandboxes, shell, text};
use super::starts;

/// Each with every kind of sandbox that there is.
pub fn works() -> Vec<Trial> {
    type Work = fn(&Ground) -> Result<(), String>;
    let works: [(&str, Work); 25] = [
        ("a_script_reads_and_writes_the_workspace", a_script),
        ("tools_of_the_system_work", tools_of_the_system),
        ("python_works_with_processes_of_its_own", python),
        ("node_works", node),
        ("cargo_tests_a_crate", cargo),
        ("input_is_given_and_ends", input),
        ("both_streams_keep_their_order", streams),
        ("streams_are_told_apart_where_that_is_wanted", apart),
        ("what_a_program_leaves_behind_does_not_hold_its_answer_up", left_behind),
        ("exit_codes_and_signals_are_told", exits),
        ("the_environment_is_what_was_allowed", environment),
        ("the_private_folder_is_empty_and_goes", private_folder),
        ("a_full_private_folder_goes_after_a_timeout", full_private_folder),
        ("reading_tools_write_nothing", reading_tool),
        ("writing_tools_write_their_paths_only", writing_tool),
        ("what_is_granted_is_reached", granted),
        ("programs_that_cannot_start_say_why", not_started),
        ("the_places_of_missing_hidden_files_are_given_back", places),
        ("the_shell_tool_runs_argv_and_scripts", shell_tool),
        ("a_declared_tool_is_held_to_its_effect", declared_tool),
        ("a_program_can_start_in_its_private_folder", starts::private),
        ("nothing_is_searched_where_a_program_starts", starts::closed_search),
        ("one_that_has_only_what_was_granted_does_not_read_the_workspace", starts::granted_only),
        ("many_at_once_keep_each_others_masks", many),
        ("what_git_and_editors_have_is_read", protected_is_read),
    ];
    let works = works.into_iter().map(|(name, work)| {
        Trial::test(format!("process::{name}"), move || {
            for isolation in sandboxes() {
                let ground = Ground::new(Sandboxed::By(*isolation));
                work(&ground).map_err(|why| Failed::from(format!("{isolation:?}: {why}")))?;
            }
            Ok(())
        })
    });
    let self_test = Trial::test("process::the_self_test_finds_the_best_sandbox", || self_test().map_err(Failed::from));
    works.chain([self_test]).chain(super::hosts::trials()).collect()
}

pub fn expect(what: &str, expected: &str) -> Result<(), String> {
    if what == expected { Ok(()) } else { Err(format!("{what:?} instead of {expected:?}")) }
}

pub fn succeeds(ground: &Ground, command: Command) -> Result<String, String> {
    let finished = ground.run(command).map_err(|error| error.to_string())?;
    if finished.exit == Exit::Code(0) { Ok(finished.output) } else { Err(format!("{finished:?}")) }
}

fn a_script(ground: &Ground) -> Result<(), String> {
    let output =
        succeeds(ground, shell("cat src/open; echo more >> src/open; mkdir src/a; mv src/open src/a/b; ls src/a"))?;
    expect(&output, "openb\n")?;
    expect(&fs::read_to_string(ground.workspace().join("src/a/b")).unwrap(), "openmore\n")?;
    let there = Command { working_dir: WorkingDir::Folder("src".into()), ..shell("pwd") };
    expect(succeeds(ground, there)?.trim(), text(&ground.workspace().join("src")))
}

fn tools_of_the_system(ground: &Ground) -> Result<(), String> {
    let script = "seq 3 | sort -r | xargs echo; date > /dev/null; ls /usr > /dev/null; cat <<X\nhere\nX";
    expect(&succeeds(ground, shell(script))?, "3 2 1\nhere\n")?;
    succeeds(ground, shell("git --version")).map(drop)
}

/// Whether a program is installed where everybody may execute it; says so when it is not.
fn has(ground: &Ground, program: &str) -> bool {
    let has = succeeds(ground, shell(&format!("command -v {program} && {program} --version"))).is_ok();
    if !has {
        eprintln!("not tried here: {program} is missing");
    }
    has
}

fn python(ground: &Ground) -> Result<(), String> {
    if !has(ground, "python3") {
        return Ok(());
    }
    let script = "import subprocess, tempfile, threading, asyncio\n\
                  with tempfile.TemporaryFile() as f: f.write(b'x')\n\
                  t = threading.Thread(target=lambda: None); t.start(); t.join()\n\
                  asyncio.run(asyncio.sleep(0))\n\
                  print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout, end='')";
    fs::write(ground.workspace().join("src/try.py"), script).unwrap();
    expect(&succeeds(ground, shell("python3 src/try.py"))?, "child\n")
}

fn node(ground: &Ground) -> Result<(), String> {
    if !has(ground, "node") {
        return Ok(());
    }
    let script = "const c = require('child_process'); process.stdout.write(c.execFileSync('echo', ['child']))";
    fs::write(ground.workspace().join("src/try.js"), script).unwrap();
    expect(&succeeds(ground, shell("node src/try.js"))?, "child\n")
}

fn cargo(ground: &Ground) -> Result<(), String> {
    let crate_folder = ground.workspace().join("src/tiny");
    fs::create_dir_all(crate_folder.join("src")).unwrap();
    let manifest = "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
    fs::write(crate_folder.join("Cargo.toml"), manifest).unwrap();
    let code = "/// ```\n/// assert_eq!(tiny::two(), 2);\n/// ```\npub fn two() -> u8 { 2 }\n\
                #[test] fn it_is_two() { assert_eq!(two(), 2) }\n";
    fs::write(crate_folder.join("src/lib.rs"), code).unwrap();
    // The toolchain of whoever runs the tests: the operator grants it in the same way.
    let Some(cargo) = option_env!("CARGO").map(PathBuf::from).filter(|cargo| cargo.is_file()) else {
        eprintln!("not tried here: the cargo that built the tests is gone");
        return Ok(());
    };
    let toolchain = cargo.parent().and_then(|bin| bin.parent()).unwrap().to_path_buf();
    let mut settings = ground.settings();
    settings.read.push(toolchain.clone());
    settings.env.insert("PATH".to_owned(), format!("{}/bin:/usr/local/bin:/usr/bin:/bin", text(&toolchain)));
    settings.env.insert("CARGO_NET_OFFLINE".to_owned(), "true".to_owned());
    let command = Command {
        working_dir: WorkingDir::Folder("src/tiny".into()),
        timeout: Duration::from_mins(5),
        ..shell("cargo test")
    };
    let finished = ground.runtime.block_on(ground.processes_of(settings).run(command)).map_err(|e| e.to_string())?;
    let both = finished.output.matches("1 passed").count();
    if finished.exit == Exit::Code(0) && both == 2 { Ok(()) } else { Err(format!("{finished:?}")) }
}

fn input(ground: &Ground) -> Result<(), String> {
    expect(&succeeds(ground, shell("cat; echo end"))?, "end\n")?;
    let long = "x".repeat(3 << 20);
    let command = Command { stdin: long.clone().into_bytes(), ..shell("wc -c; cat") };
    expect(succeeds(ground, command)?.trim(), &long.len().to_string())
}

fn streams(ground: &Ground) -> Result<(), String> {
    expect(&succeeds(ground, shell("echo a; echo b >&2; echo c"))?, "a\nb\nc\n")
}

fn apart(ground: &Ground) -> Result<(), String> {
    let ask = |script: &str, most| ground.ask(Command { output_max_bytes: most, ..shell(script) });
    let told = |script: &str| ask(script, 1 << 20).map_err(|error| error.to_string());
    let Answered { stdout, stderr, exit } = told("echo out; echo err >&2; cat; echo more; exit 3")?;
    if (stdout.as_slice(), stderr.as_str(), exit) != (b"out\nmore\n", "err\n", Exit::Code(3)) {
        return Err(format!("{stdout:?} {stderr:?} {exit:?}"));
    }
    for (script, exit) in [("kill -TERM $$", 15), ("kill -SEGV $$", 11), ("kill -KILL $$", 9)] {
        let told = told(script)?.exit;
        if told != Exit::Signal(exit) {
            return Err(format!("{script}: {told:?}"));
        }
    }
    let whole = told("head -c 1048576 /dev/zero; head -c 3000000 /dev/zero >&2")?;
    if whole.stdout.len() != 1 << 20 || whole.stderr.len() > 64 << 10 {
        return Err(format!("{} bytes, {} bytes", whole.stdout.len(), whole.stderr.len()));
    }
    for (what, script) in [("stdout", "head -c 1048577 /dev/zero"), ("stderr", "yes >&2")] {
        let limits = Limits { output_bytes: 8 << 20, ..Limits::default() };
        match ground.ask(Command { limits, output_max_bytes: 1 << 20, ..shell(script) }) {
            Err(error) if error.code == Code::ProgramFlooded => {}
            other => return Err(format!("{what}: {other:?}")),
        }
    }
    match ground.ask(Command::new(vec!["./no-such-program".to_owned()])) {
        Err(error) if error.code == Code::ProgramNotStarted => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn left_behind(ground: &Ground) -> Result<(), String> {
    let begun = Instant::now();
    let told =
        ground.ask(shell("(sleep 600; echo late) & (yes >&2) & echo done")).map_err(|error| error.to_string())?;
    if begun.elapsed() > Duration::from_secs(20) {
        return Err(format!("it took {:?}", begun.elapsed()));
    }
    expect(&String::from_utf8_lossy(&told.stdout), "done\n")
}

fn exits(ground: &Ground) -> Result<(), String> {
    let exit =
        |script: &str| ground.run(shell(script)).map(|finished| finished.exit).map_err(|error| error.to_string());
    let told = [exit("exit 101")?, exit("exit 255")?, exit("kill -TERM $$")?, exit("kill -SEGV $$")?];
    let expected = [Exit::Code(101), Exit::Code(255), Exit::Signal(15), Exit::Signal(11)];
    if told == expected { Ok(()) } else { Err(format!("{told:?}")) }
}

fn environment(ground: &Ground) -> Result<(), String> {
    let mut command = shell("env | cut -d= -f1 | sort | tr '\\n' ' '; echo $RONDO_IDEMPOTENCY_KEY");
    command.env.insert("RONDO_IDEMPOTENCY_KEY".to_owned(), "key".to_owned());
    expect(&succeeds(ground, command)?, "HOME PATH PWD PYTHONSAFEPATH RONDO_IDEMPOTENCY_KEY TMPDIR key\n")
}

fn private_folder(ground: &Ground) -> Result<(), String> {
    let output = succeeds(ground, shell("ls -A $TMPDIR $HOME | grep -v '^/'; echo x > $TMPDIR/x; echo $TMPDIR"))?;
    let folder = output.trim();
    if folder.starts_with('/') && !PathBuf::from(folder).parent().unwrap().exists() { Ok(()) } else { Err(output) }
}

fn full_private_folder(ground: &Ground) -> Result<(), String> {
    let script = "echo $TMPDIR; cd $TMPDIR; \
                  perl -e 'for (1..5000) { open(my $f, \">\", $_) or exit 1 } print \"full\\n\"'; \
                  sleep 60";
    let time = Duration::from_secs(5);
    let start = Instant::now();
    let error = ground.run(Command { timeout: time, ..shell(script) }).err().ok_or("it was not ended")?;
    let took = start.elapsed();
    let Some((folder, "full\n")) = error.output.split_once('\n') else { return Err(error.to_string()) };
    let folder = PathBuf::from(folder).parent().unwrap().to_path_buf();
    while folder.exists() && start.elapsed() < Duration::from_mins(1) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let is_right = error.code == Code::ProgramTimedOut && took < time + Duration::from_secs(2) && !folder.exists();
    if is_right { Ok(()) } else { Err(format!("{error} after {took:?}; the folder is there: {}", folder.exists())) }
}

fn reading_tool(ground: &Ground) -> Result<(), String> {
    let script = "cat src/open; echo x > new; echo x > src/open; chmod 777 src/open; echo x > $TMPDIR/x && echo tmp";
    let output = succeeds(ground, Command { access: Access::Read, ..shell(script) })?;
    if !output.starts_with("open") || !output.ends_with("tmp\n") || ground.workspace().join("new").exists() {
        return Err(output);
    }
    expect(&fs::read_to_string(ground.workspace().join("src/open")).unwrap(), "open")
}

fn writing_tool(ground: &Ground) -> Result<(), String> {
    fs::create_dir(ground.workspace().join("target")).unwrap();
    let access = Access::Paths(vec!["target".into(), "src/open".into(), "target/deep/new".into()]);
    let script = "echo x > target/a; echo changed > src/open; echo x > src/b; echo x > c; ls src target";
    let output = succeeds(ground, Command { access, ..shell(script) })?;
    if !output.ends_with("src:\nopen\n\ntarget:\na\ndeep\n") || ground.workspace().join("c").exists() {
        return Err(output);
    }
    // One that does not exist is made, and nothing beside it can be written.
    let access = Access::Paths(vec!["fresh".into(), "nothere/x".into()]);
    let script = "echo x > fresh/a; echo x > nothere/x/a; ls fresh nothere/x";
    expect(&succeeds(ground, Command { access, ..shell(script) })?, "fresh:\na\n\nnothere/x:\na\n")?;
    // A name with an extension means a file.
    let access = Access::Paths(vec!["reports/out.txt".into()]);
    let script = "echo x > reports/out.txt; echo x > reports/b.txt; cat reports/out.txt; ls reports";
    let output = succeeds(ground, Command { access, ..shell(script) })?;
    if !output.ends_with("x\nout.txt\n") {
        return Err(output);
    }
    // Neither is what is out of reach, nor what is not below the workspace.
    for path in [".git/hooks", "parts/one/.git", "deep/store/new", "../outside", "/tmp"] {
        match ground.run(Command { access: Access::Paths(vec![path.into()]), ..shell("true") }) {
            Err(error) if error.code == Code::ProgramNotStarted => {}
            other => return Err(format!("{path}: {other:?}")),
        }
    }
    // A path that leads out is not granted, whoever made the link.
    std::os::unix::fs::symlink(ground.outside(), ground.workspace().join("target/link")).unwrap();
    let access = Access::Paths(vec!["target/link".into()]);
    match ground.run(Command { access, ..shell("echo x > target/link/new") }) {
        Err(error) if error.code == Code::ProgramNotStarted => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn granted(ground: &Ground) -> Result<(), String> {
    let mut settings = ground.settings();
    settings.read.push(ground.outside().join("secret"));
    settings.write.push(ground.outside().join("mine"));
    fs::create_dir_all(ground.outside().join("mine/in")).unwrap();
    let command = shell(
        "cat ../outside/secret; echo x > ../outside/mine/in/a; chmod 600 src/open; echo x > ../outside/b; ls ../outside/mine/in/a",
    );
    let finished = ground.runtime.block_on(ground.processes_of(settings).run(command)).map_err(|e| e.to_string())?;
    if ground.outside().join("b").exists() || !finished.output.ends_with("mine/in/a\n") {
        return Err(finished.output);
    }
    expect(finished.output.get(..SECRET.len()).unwrap_or_default(), SECRET)
}

fn not_started(ground: &Ground) -> Result<(), String> {
    let run = |argv: &[&str], folder: &str| {
        let argv = argv.iter().map(|&part| part.to_owned()).collect();
        ground.run(Command { working_dir: WorkingDir::Folder(folder.into()), ..Command::new(argv) })
    };
    for (argv, folder) in [
        (&["no-such-program"][..], "."),
        (&["./src/open"], "."),
        (&[], "."),
        (&["true"], "../outside"),
        (&["true"], ".git"),
        (&["true"], "missing"),
        (&["true"], "/"),
    ] {
        match run(argv, folder) {
            Err(error) if error.code == Code::ProgramNotStarted => {}
            other => return Err(format!("{argv:?} in {folder}: {other:?}")),
        }
    }
    Ok(())
}

fn call(ground: &Ground, tool: &dyn Tool, arguments: &str) -> Result<String, Error> {
    let arguments = canonical::from_slice(arguments.as_bytes()).unwrap();
    let invocation = Invocation::new("thread/step/call");
    ground.runtime.block_on(tool.run(arguments, &invocation)).map(|content| content.text)
}

fn shell_tool(ground: &Ground) -> Result<(), String> {
    let shell = Typed::new(Shell::new(Arc::new(ground.processes())));
    let called = |arguments: &str| call(ground, &shell, arguments);
    expect(&called(r#"{"argv":["echo","a b","$HOME"]}"#).unwrap(), "a b $HOME\n")?;
    expect(
        &called(r#"{"script":"pwd; echo $RONDO_IDEMPOTENCY_KEY","working_dir":"src"}"#).unwrap(),
        &format!("{}\nthread/step/call\n", text(&ground.workspace().join("src"))),
    )?;
    let faults = [
        (r#"{"script":"echo said; exit 3"}"#, Code::ProgramFailed, "exit code 3", "said\n"),
        (r#"{"script":"kill -SEGV $$"}"#, Code::ProgramSignalled, "SIGSEGV", ""),
        (r#"{"script":"echo said; sleep 100","timeout_seconds":1}"#, Code::ProgramTimedOut, "after 1 s", "said\n"),
        (r#"{"argv":["a"],"script":"b"}"#, Code::ToolArguments, "either argv", ""),
        (r#"{"argv":[]}"#, Code::ToolArguments, "either argv", ""),
        ("{}", Code::ToolArguments, "either argv", ""),
        (r#"{"argv":["no-such-program"]}"#, Code::ProgramNotStarted, "no such program", ""),
    ];
    for (arguments, code, message, output) in faults {
        let error = called(arguments).unwrap_err();
        if error.code != code || !error.message.contains(message) || error.output != output {
            return Err(format!("{arguments}: {error}"));
        }
    }
    Ok(())
}

fn declared_tool(ground: &Ground) -> Result<(), String> {
    fs::create_dir(ground.workspace().join("out")).unwrap();
    let declared = |effect| {
        let script = "cat; echo; echo $1; echo x > src/new; echo x > out/new; ls src out";
        let settings = ProgramSettings {
            pinned: rondo_agent_kit::pinned::Pinned::default(),
            name: "check".to_owned(),
            description: "Checks.".to_owned(),
            argv: ["sh", "-c", script, "sh", "{what}"].map(str::to_owned).to_vec(),
            schema: Some(r#"{"type":"object","properties":{"what":{"type":"string"}}}"#.to_owned()),
            effect,
            paths: vec!["out".to_owned()],
            working_dir: WorkingDir::workspace(),
            timeout: Duration::from_secs(30),
            output_max_bytes: 10_000,
            in_doubt: InDoubt::Ask,
        };
        let tool = Program::new(settings, Arc::new(ground.processes())).unwrap();
        call(ground, &tool, r#"{"what":"it is"}"#).map_err(|error| error.to_string())
    };
    for (effect, src, out) in
        [(EffectWord::Reads, false, false), (EffectWord::Writes, false, true), (EffectWord::External, true, true)]
    {
        let output = declared(effect)?;
        let written = ["src/new", "out/new"].map(|path| ground.workspace().join(path).exists());
        if !output.starts_with("{\"what\":\"it is\"}\nit is\n") || written != [src, out] {
            return Err(format!("{effect:?}: {written:?} {output}"));
        }
    }
    Ok(())
}

fn places(ground: &Ground) -> Result<(), String> {
    fs::remove_dir_all(ground.workspace().join(".git")).unwrap();
    fs::remove_dir_all(ground.workspace().join("deep")).unwrap();
    succeeds(ground, shell("true"))?;
    let is_there = |name: &str| ground.workspace().join(name).exists();
    if is_there(".git") || is_there("deep") { Err("a place was not given back".to_owned()) } else { Ok(()) }
}

fn many(ground: &Ground) -> Result<(), String> {
    fs::remove_file(ground.workspace().join("rondo.toml")).unwrap();
    let processes = ground.processes();
    let runs = (0..8).map(|turn| {
        // Those that end early give up places that the others still need.
        let script = format!("sleep 0.{turn}; mkdir rondo.toml; echo mine > rondo.toml; echo mine > rondo.toml/x");
        let processes = processes.clone();
        async move { processes.run(shell(&script)).await }
    });
    let ended = ground.runtime.block_on(futures_util::future::join_all(runs));
    for end in ended {
        end.map_err(|error| error.to_string())?;
    }
    if ground.workspace().join("rondo.toml").exists() { Err("a program made the settings".to_owned()) } else { Ok(()) }
}

fn protected_is_read(ground: &Ground) -> Result<(), String> {
    for (path, content) in [(".github/ci.yml", "jobs"), (".cargo/config.toml", "cargo"), ("src/.envrc", "envrc")] {
        fs::create_dir_all(ground.workspace().join(path).parent().unwrap()).unwrap();
        fs::write(ground.workspace().join(path), content).unwrap();
    }
    let before = names(ground);
    expect(&succeeds(ground, shell("cat .github/ci.yml .cargo/config.toml src/.envrc"))?, "jobscargoenvrc")?;
    // What kept places is gone.
    if names(ground) == before { Ok(()) } else { Err(format!("{:?}", names(ground))) }
}

fn names(ground: &Ground) -> Vec<String> {
    let entries = fs::read_dir(ground.workspace()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn self_test() -> Result<(), String> {
    let ground = Ground::new(Sandboxed::No);
    let mut settings = ground.settings();
    settings.sandbox = true;
    let processes = Processes::new(settings);
    let sandbox = ground.runtime.block_on(processes.self_test()).clone();
    eprintln!("the sandbox here: {sandbox}");
    if sandbox.isolation != sandboxes().first().copied() {
        return Err(format!("{sandbox:?}"));
    }
    let Some(_) = sandbox.isolation else { return Ok(()) };
    let output = ground.runtime.block_on(processes.run(shell("cat ../outside/secret"))).map_err(|e| e.to_string())?;
    if output.exit == Exit::Code(0) || sandbox.landlock.is_none() { Err(format!("{sandbox:?}")) } else { Ok(()) }
}
