//! Where programs start, and what they take from there.

use std::fs;

use rondo_agent_kit::sandbox::process::{Access, Command, WorkingDir};

use super::ground::{Ground, SECRET, shell, text};
use super::works::{expect, succeeds};

pub fn private(ground: &Ground) -> Result<(), String> {
    let script = "test \"$(pwd -P)\" = \"$HOME\" && test \"$HOME\" = \"$TMPDIR\" && ls -A && pwd -P";
    let command = Command { working_dir: WorkingDir::Private, ..shell(script) };
    let place = succeeds(ground, command)?;
    let place = place.trim();
    let is_gone = !std::path::Path::new(place).exists();
    if place.starts_with('/') && !place.contains('\n') && is_gone { Ok(()) } else { Err(place.to_owned()) }
}

pub fn closed_search(ground: &Ground) -> Result<(), String> {
    let mut settings = ground.settings();
    settings.env.insert("PATH".to_owned(), ".:bin::/usr/bin:/bin".to_owned());
    let said = |command: Command, settings: &rondo_agent_kit::sandbox::process::ProcessSettings| {
        let ran = ground.runtime.block_on(ground.processes_of(settings.clone()).run(command));
        ran.map(|finished| finished.output).map_err(|error| error.to_string())
    };
    let look = || shell("echo \"$PATH ${PYTHONSAFEPATH-unset}\"");
    expect(&said(look(), &settings)?, "/usr/bin:/bin 1\n")?;
    let open = Command { has_safe_imports: false, ..look() };
    expect(&said(open, &settings)?, "/usr/bin:/bin unset\n")?;
    // The operator's variables go before.
    settings.env.insert("PYTHONSAFEPATH".to_owned(), String::new());
    expect(&said(look(), &settings)?, "/usr/bin:/bin \n")
}

pub fn granted_only(ground: &Ground) -> Result<(), String> {
    let mut settings = ground.settings();
    fs::create_dir(ground.root().join("given")).unwrap();
    settings.read.push(ground.workspace().join("parts"));
    // With Landlock alone nothing is made in a folder in which a name is kept from being made.
    settings.protected = Vec::new();
    settings.write = vec![ground.root().join("given"), ground.workspace().join("src")];
    let (outside, given) = (ground.outside().join("secret"), ground.root().join("given/new"));
    let script = format!(
        "cd {workspace}; cat {outside} deep/store/steps .rondo/store .git/config; \
         cat src/open parts/two/open; echo x > {given}; echo x > src/new; echo x > parts/new; echo x > new; exit 0",
        workspace = text(&ground.workspace()),
        outside = text(&outside),
        given = text(&given),
    );
    let command = Command { access: Access::Granted, working_dir: WorkingDir::Private, ..shell(&script) };
    let ran = ground.runtime.block_on(ground.processes_of(settings).run(command)).map_err(|error| error.to_string())?;
    let written = [given, ground.workspace().join("src/new")].iter().all(|path| path.exists());
    let escaped = ["parts/new", "new"].iter().any(|path| ground.workspace().join(path).exists());
    if ran.output.contains("openopen") && !ran.output.contains(SECRET) && written && !escaped {
        Ok(())
    } else {
        Err(format!("{written} {escaped} {}", ran.output))
    }
}
