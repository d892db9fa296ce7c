//! Files: what lies outside is neither read nor changed, what is hidden is neither read, changed, replaced nor made.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rondo_agent_kit::sandbox::process::{Access, Command};

use super::ground::{Ground, SECRET, Sandboxed, held, shell, text};
use super::tried;
use crate::{Attempt, Without};

pub fn attempts() -> Vec<Attempt> {
    let mut attempts = tried![
        write_absolute,
        write_dot_dot,
        write_by_a_link,
        write_through_proc_root,
        empty_a_file_outside,
        remove_a_file_outside,
        move_a_file_in,
        link_a_file_in,
        change_rights_outside,
        change_times_outside,
        write_beside_a_declared_path,
        create_beside_a_missing_declared_path,
        change_attributes_beside_a_declared_path,
        change_attributes_by_an_open_file,
        write_shared_memory,
        read_outside,
        read_through_proc_root,
        list_outside,
        read_git,
        read_the_store,
        read_a_deep_store,
        write_the_settings,
        replace_the_settings,
        make_missing_settings,
        make_a_missing_git,
        replace_git,
        replace_the_folder_of_a_store,
        link_a_hidden_file,
        take_off_a_mask,
    ];
    attempts.push(Attempt {
        name: "process::write_an_inherited_file",
        with_sandbox: || held(inherited_with_sandbox),
        without: Without::Succeeds(inherited_without),
    });
    attempts
}

fn writes(ground: &Ground, script: &str) -> Result<bool, String> {
    ground.script(script)?;
    Ok(ground.outside().join("new").exists())
}

fn write_absolute(ground: &Ground) -> Result<bool, String> {
    writes(ground, &format!("echo x > {}/new", text(&ground.outside())))
}

fn write_dot_dot(ground: &Ground) -> Result<bool, String> {
    writes(ground, "echo x > ../outside/new")
}

fn write_by_a_link(ground: &Ground) -> Result<bool, String> {
    writes(ground, "ln -s ../outside link && echo x > link/new")
}

fn write_through_proc_root(ground: &Ground) -> Result<bool, String> {
    writes(ground, &format!("echo x > /proc/self/root{}/new", text(&ground.outside())))
}

fn changes(ground: &Ground, script: &str) -> Result<bool, String> {
    ground.script(script)?;
    Ok(fs::read_to_string(ground.outside().join("secret")).ok().as_deref() != Some(SECRET))
}

fn empty_a_file_outside(ground: &Ground) -> Result<bool, String> {
    changes(ground, "truncate -s 0 ../outside/secret")
}

fn remove_a_file_outside(ground: &Ground) -> Result<bool, String> {
    changes(ground, "rm -f ../outside/secret")
}

fn move_a_file_in(ground: &Ground) -> Result<bool, String> {
    changes(ground, "mv ../outside/secret mine")
}

fn link_a_file_in(ground: &Ground) -> Result<bool, String> {
    ground.script("ln ../outside/secret mine")?;
    Ok(ground.workspace().join("mine").exists())
}

fn change_rights_outside(ground: &Ground) -> Result<bool, String> {
    let before = fs::metadata(ground.outside().join("secret")).unwrap().mode();
    ground.script("chmod 777 ../outside/secret")?;
    Ok(fs::metadata(ground.outside().join("secret")).unwrap().mode() != before)
}

fn change_times_outside(ground: &Ground) -> Result<bool, String> {
    let before = fs::metadata(ground.outside().join("secret")).unwrap().mtime();
    ground.script("touch -c -d 2001-01-01 ../outside/secret")?;
    Ok(fs::metadata(ground.outside().join("secret")).unwrap().mtime() != before)
}

/// Runs a script that is declared to write some paths.
fn declared(ground: &Ground, paths: &[&str], script: &str) -> Result<(), String> {
    let access = Access::Paths(paths.iter().map(Into::into).collect());
    ground.run(Command { access, ..shell(script) }).map(drop).map_err(|error| error.to_string())
}

fn write_beside_a_declared_path(ground: &Ground) -> Result<bool, String> {
    declared(ground, &["src/nothere/x"], "echo mine > src/open; echo x > src/new; echo x > src/nothere/new")?;
    let is_there = |path| ground.workspace().join(path).exists();
    let is_open = fs::read_to_string(ground.workspace().join("src/open")).ok().as_deref() == Some("open");
    Ok(!is_open || is_there("src/new") || is_there("src/nothere/new"))
}

fn create_beside_a_missing_declared_path(ground: &Ground) -> Result<bool, String> {
    declared(ground, &["nothere"], "echo x > new; mkdir folder; mv src/open moved; rm -f src/open")?;
    let is_there = |path| ground.workspace().join(path).exists();
    Ok(is_there("new") || is_there("folder") || is_there("moved") || !is_there("src/open"))
}

/// Whether rights or times of a file were changed that is no declared path.
fn attributes_change(ground: &Ground, script: &str) -> Result<bool, String> {
    let path = ground.workspace().join("src/open");
    let attributes = || fs::metadata(&path).map(|found| (found.mode(), found.mtime())).unwrap();
    let before = attributes();
    for access in [Access::Paths(vec!["nothere".into()]), Access::Read] {
        ground.run(Command { access, ..shell(script) }).map_err(|error| error.to_string())?;
    }
    Ok(attributes() != before)
}

fn change_attributes_beside_a_declared_path(ground: &Ground) -> Result<bool, String> {
    attributes_change(ground, "chmod 777 src/open; touch -d @1000000000 src/open")
}

fn change_attributes_by_an_open_file(ground: &Ground) -> Result<bool, String> {
    attributes_change(ground, "perl -e 'open(my $f, \"<\", \"src/open\"); chmod(0777, $f); utime(1, 1, $f)'")
}

fn write_shared_memory(ground: &Ground) -> Result<bool, String> {
    let path = format!("/dev/shm/rondo-{}", ground.root().file_name().unwrap().to_str().unwrap());
    ground.script(&format!("echo x > {path}"))?;
    Ok(fs::remove_file(path).is_ok())
}

fn reads(ground: &Ground, script: &str) -> Result<bool, String> {
    Ok(ground.script(script)?.contains(SECRET))
}

fn read_outside(ground: &Ground) -> Result<bool, String> {
    reads(ground, "cat ../outside/secret")
}

fn read_through_proc_root(ground: &Ground) -> Result<bool, String> {
    reads(ground, &format!("cat /proc/self/root{0}/secret /proc/1/root{0}/secret", text(&ground.outside())))
}

fn list_outside(ground: &Ground) -> Result<bool, String> {
    Ok(ground.script("ls ../outside")?.contains("secret\n"))
}

fn read_git(ground: &Ground) -> Result<bool, String> {
    reads(ground, "cat .git/config; cd .git && cat config")
}

fn read_the_store(ground: &Ground) -> Result<bool, String> {
    reads(ground, "cat .rondo/store; cat src/../.rondo/store")
}

fn read_a_deep_store(ground: &Ground) -> Result<bool, String> {
    reads(ground, "cat deep/store/steps; mv deep other && cat other/store/steps")
}

fn settings_changed(ground: &Ground) -> bool {
    fs::read_to_string(ground.workspace().join("rondo.toml")).ok().as_deref() != Some(SECRET)
}

fn write_the_settings(ground: &Ground) -> Result<bool, String> {
    ground.script("chmod 600 rondo.toml; echo mine > rondo.toml")?;
    Ok(settings_changed(ground))
}

fn replace_the_settings(ground: &Ground) -> Result<bool, String> {
    ground.script("echo mine > src/mine; mv -f src/mine rondo.toml; rm -f rondo.toml; ln -s src/mine rondo.toml")?;
    Ok(settings_changed(ground))
}

fn make_missing_settings(ground: &Ground) -> Result<bool, String> {
    let settings = ground.workspace().join("rondo.toml");
    fs::remove_file(&settings).unwrap();
    ground.script("echo mine > rondo.toml; rmdir rondo.toml; mkdir rondo.toml; echo mine > rondo.toml/x")?;
    Ok(settings.exists())
}

fn make_a_missing_git(ground: &Ground) -> Result<bool, String> {
    let git = ground.workspace().join(".git");
    fs::remove_dir_all(&git).unwrap();
    ground.script("mkdir .git; echo mine > .git/config; mv src .git")?;
    Ok(git.exists())
}

fn replace_git(ground: &Ground) -> Result<bool, String> {
    ground.script("mv .git other; rm -rf .git; mkdir .git && echo mine > .git/config")?;
    Ok(fs::read_to_string(ground.workspace().join(".git/config")).ok().as_deref() != Some(SECRET))
}

fn replace_the_folder_of_a_store(ground: &Ground) -> Result<bool, String> {
    ground.script("mv deep other; mkdir -p deep/store && echo mine > deep/store/steps")?;
    Ok(fs::read_to_string(ground.workspace().join("deep/store/steps")).ok().as_deref() != Some(SECRET))
}

fn link_a_hidden_file(ground: &Ground) -> Result<bool, String> {
    reads(ground, "ln rondo.toml mine; ln .git/config mine; ln -s .git/config link; cat mine link")
}

/// Nothing is mounted here, because without a sandbox root would do it to the machine.
fn take_off_a_mask(ground: &Ground) -> Result<bool, String> {
    reads(ground, "umount .git rondo.toml; umount -l .git; cat .git/config rondo.toml")
}

/// A file of this process that a child would inherit, and whether a child of it has written there.
fn inherited(ground: &Ground, run: impl FnOnce(&str) -> Result<(), String>) -> Result<bool, String> {
    let path = ground.outside().join("log");
    let file = fs::File::create(&path).unwrap();
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&file);
    // Written to as it is: opened anew by its path it would be held by another layer.
    run(&format!("perl -e 'open(my $f, \">>&={number}\") or exit 1; syswrite($f, \"x\")'"))?;
    Ok(fs::metadata(path).unwrap().len() > 0)
}

fn inherited_with_sandbox(ground: &Ground) -> Result<bool, String> {
    inherited(ground, |script| ground.script(script).map(drop))
}

fn inherited_without() -> Result<(), String> {
    let ground = Ground::new(Sandboxed::No);
    let plain = |script: &str| {
        super::ground::Plain::start(&ground, script).wait();
        Ok(())
    };
    if inherited(&ground, plain)? { Ok(()) } else { Err("the file was not inherited".to_owned()) }
}
