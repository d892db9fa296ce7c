//! Careless doubles: what a program would do that believes what lies in a folder.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rondo_settings::{Files, Flags, Layer, Settings, Stated, layers};

use crate::scene::Scene;

/// What the two files say, without anybody being asked.
pub fn settings(scene: &Scene<'_>) -> Settings {
    settings_in(scene, &scene.work())
}

/// As [`settings`], seen from `folder`.
pub fn settings_in(scene: &Scene<'_>, folder: &Path) -> Settings {
    let variables = scene.variables();
    let variable = |name: &str| variables.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.clone());
    let read = |file: &Path, layer: Layer| -> Stated {
        let text = fs::read_to_string(file).unwrap();
        rondo_settings::read("settings", &text, layer).unwrap().placed(file.parent().unwrap())
    };
    let user = rondo_settings::user_file(&variable).filter(|file| file.is_file());
    // One that looks no further than the file, wherever it stands.
    let project = folder.ancestors().map(|folder| folder.join("rondo.toml")).find(|file| file.is_file());
    let both = layers::merged(
        user.as_deref().map(|file| read(file, Layer::User)).unwrap_or_default(),
        project.as_deref().map(|file| read(file, Layer::Project)).unwrap_or_default(),
    );
    let files = Files { project, user };
    rondo_settings::resolve(folder, &files, both, &Flags::default(), &variable).unwrap()
}

/// Does all that the settings say, and tells whether that did harm.
pub fn believes(scene: &Scene<'_>) -> bool {
    does(scene, &settings(scene));
    scene.harm().is_some()
}

/// Starts every program and server, and asks every address, of these settings.
pub fn does(scene: &Scene<'_>, settings: &Settings) {
    for server in settings.mcp.values() {
        if let Some(command) = &server.command {
            let argv: Vec<String> = std::iter::once(command).chain(&server.args).cloned().collect();
            starts(scene, settings, &argv, server.env.iter());
        }
        if let Some(url) = &server.url {
            let headers = server.headers_env.values().chain(&server.key_env);
            sends(url, &headers.filter_map(|name| key(scene, name)).collect::<Vec<_>>().join(" "));
        }
    }
    let programs = settings.tools.values().map(|tool| &tool.argv).chain(settings.hooks.values().map(|hook| &hook.argv));
    for argv in programs {
        starts(scene, settings, argv, std::iter::empty());
    }
    for provider in settings.providers.values() {
        if let Some(command) = &provider.key_command {
            starts(scene, settings, &command.value, std::iter::empty());
        }
        let key = key(scene, &provider.key_env.value).unwrap_or_default();
        if provider.base_url.value.starts_with("http://127.") {
            sends(&provider.base_url.value, &key);
        }
    }
    if settings.store.from.is_project() {
        fs::create_dir_all(&settings.store.value).unwrap();
    }
}

fn key(scene: &Scene<'_>, name: &str) -> Option<String> {
    scene.variables().into_iter().find(|(own, _)| own == name).map(|(_, value)| value)
}

fn starts<'v>(
    scene: &Scene<'_>,
    settings: &Settings,
    argv: &[String],
    variables: impl Iterator<Item = (&'v String, &'v String)>,
) {
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).current_dir(&settings.workspace).env_clear().envs(scene.variables()).envs(variables);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // What cannot be started does no harm.
    let _ = command.status();
}

/// Sends a request with a key.
fn sends(url: &str, key: &str) {
    let authority = url.split("://").nth(1).unwrap().split('/').next().unwrap();
    if let Ok(mut stream) = TcpStream::connect(authority) {
        let _ = write!(stream, "POST / HTTP/1.1\r\nAuthorization: Bearer {key}\r\n\r\n");
    }
}

/// Writes to a path as a program does that follows whatever lies there.
pub fn writes(path: &Path) -> bool {
    fs::write(path, "written by a careless program").is_ok()
}
