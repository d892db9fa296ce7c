//! Limits: floods, bombs and hogs are cut, with a typed error where they are ended.

use std::fs;
use std::time::{Duration, Instant};

use rondo_agent_kit::sandbox::process::{Command, Exit, Limits};
use rondo_protocol::diagnostic::Code;

use super::ground::{Ground, Plain, Sandboxed, shell};
use super::tried;
use crate::Attempt;

pub fn attempts() -> Vec<Attempt> {
    tried![
        flood_the_output,
        keep_a_long_output,
        multiply,
        write_a_huge_file,
        take_all_memory,
        take_all_time,
        open_too_many_files,
        leave_a_core_file,
        leave_files_in_the_private_folder,
    ]
}

/// What a script puts out with these limits, or without any limit and sandbox.
fn limited(ground: &Ground, script: &str, limits: Limits) -> Result<String, String> {
    if ground.sandboxed == Sandboxed::No {
        return Ok(Plain::start(ground, script).output());
    }
    match ground.run(Command { limits, ..shell(script) }) {
        Ok(finished) => Ok(finished.output),
        Err(error) if error.code == Code::ProgramMultiplied => Ok(String::new()),
        Err(error) => Err(error.to_string()),
    }
}

fn flood_the_output(ground: &Ground) -> Result<bool, String> {
    let script = "yes 2>/dev/null | head -c 100000000";
    if ground.sandboxed == Sandboxed::No {
        return Ok(Plain::start(ground, script).output().len() == 100_000_000);
    }
    let limits = Limits { output_bytes: 10_000_000, ..Limits::default() };
    match ground.run(Command { limits, output_max_bytes: 1000, ..shell(script) }) {
        Err(error) if error.code == Code::ProgramFlooded && error.output.len() <= 1000 => Ok(false),
        other => Err(format!("{other:?}")),
    }
}

fn keep_a_long_output(ground: &Ground) -> Result<bool, String> {
    let script = "yes 2>/dev/null | head -c 50000000; echo end";
    if ground.sandboxed == Sandboxed::No {
        return Ok(Plain::start(ground, script).output().len() > 50_000_000);
    }
    let finished = ground.run(Command { output_max_bytes: 1000, ..shell(script) }).map_err(|e| e.to_string())?;
    let is_marked = finished.output.contains("[... 49999068 bytes left out ...]");
    Ok(finished.output.len() > 1000 || !is_marked || !finished.output.ends_with("end\n"))
}

fn multiply(ground: &Ground) -> Result<bool, String> {
    let script = "i=0; while [ $i -lt 300 ]; do sleep 5 >/dev/null & i=$((i+1)); done; wait; echo all of them";
    let script = if ground.sandboxed == Sandboxed::No {
        script.replace("wait;", "").replace("sleep 5", "sleep 1")
    } else {
        script.to_owned()
    };
    let limits = Limits { processes: 64, ..Limits::default() };
    Ok(limited(ground, &script, limits)?.contains("all of them"))
}

fn write_a_huge_file(ground: &Ground) -> Result<bool, String> {
    let limits = Limits { file_bytes: 1 << 20, ..Limits::default() };
    limited(ground, "head -c 2000000 /dev/zero > src/huge; echo written", limits)?;
    Ok(fs::metadata(ground.workspace().join("src/huge")).unwrap().len() > 1 << 20)
}

fn take_all_memory(ground: &Ground) -> Result<bool, String> {
    let limits = Limits { memory_bytes: 64 << 20, ..Limits::default() };
    let script = "perl -e '$x = \"x\" x 300000000; print \"taken\\n\"'";
    let output = limited(ground, script, limits)?;
    if output.contains("not found") { Err(output) } else { Ok(output.contains("taken")) }
}

fn take_all_time(ground: &Ground) -> Result<bool, String> {
    let script = "while :; do :; done";
    if ground.sandboxed == Sandboxed::No {
        let mut plain = Plain::start(ground, script);
        return Ok(plain.is_running());
    }
    let start = Instant::now();
    let limits = Limits { cpu: Duration::from_secs(1), ..Limits::default() };
    let finished = ground.run(Command { limits, ..shell(script) }).map_err(|error| error.to_string())?;
    Ok(!matches!(finished.exit, Exit::Signal(_)) || start.elapsed() > Duration::from_secs(20))
}

fn open_too_many_files(ground: &Ground) -> Result<bool, String> {
    let limits = Limits { open_files: 16, ..Limits::default() };
    let script = "perl -e 'for (1..40) { open($f[$_], \"<\", \"/dev/null\") or exit 1 } print \"opened\\n\"'";
    Ok(limited(ground, script, limits)?.contains("opened"))
}

fn leave_a_core_file(ground: &Ground) -> Result<bool, String> {
    // Where cores go is the system's choice, so that only the limit can be looked at.
    Ok(limited(ground, "ulimit -H -c", Limits::default())? != "0\n")
}

fn leave_files_in_the_private_folder(ground: &Ground) -> Result<bool, String> {
    let script =
        "d=${TMPDIR:-$PWD}; mkdir -p $d/deep/er; echo x > $d/deep/er/file; chmod 000 $d/deep/er $d/deep; echo $d";
    let script =
        if ground.sandboxed == Sandboxed::No { script.replace("${TMPDIR:-$PWD}", "$PWD") } else { script.to_owned() };
    let folder = limited(ground, &script, Limits::default())?;
    let left = std::path::Path::new(folder.trim()).join("deep").exists();
    let _ = std::process::Command::new("chmod").args(["-R", "700", folder.trim()]).status();
    Ok(left)
}
