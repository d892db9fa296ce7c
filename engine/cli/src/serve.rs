use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rondo::Rondo;
use rondo::core::temporary_folder::temporary_folder;
use rondo::settings::{Secret, Settings, TOKEN_FILE};
use rondo::tell::tell;
use rondo_web::access::Token;
use rondo_web::{Server, listen};
use tempfile::TempDir;

use super::consent::ConsentSource;
use super::signals::with_signals;
use super::{Exit, Failure, Output, PlaceArgs, json, json_line};

/// How long a browser may take to be started.
const OPENING: Duration = Duration::from_secs(5);

/// Serve the page and the API on this machine
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct ServeArgs {
    /// The port of 127.0.0.1; 0 takes any that is free
    #[arg(long, value_name = "PORT", default_value_t = 7777)]
    port: u16,
    /// Open the page in a browser
    #[arg(long)]
    open: bool,
    /// The maximum number of connections at once, event streams included
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,
    /// Also accept requests for this host name; IP addresses and localhost are always accepted
    #[arg(long = "host-name", value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Whose requests a server answers, and over which store.
#[derive(Debug, clap::Args)]
pub(super) struct ServerArgs {
    /// Consent, for this process, to all that the settings, the store and the workflows ask for
    #[arg(long)]
    trust: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

impl ServerArgs {
    /// The library for a server. Nobody is asked in place: requests come at any time, and from others than the person at
    /// the terminal.
    pub(super) fn rondo(&self) -> Result<(Rondo, Settings), Failure> {
        let by = if self.trust { ConsentSource::Flag } else { ConsentSource::Nobody };
        let rondo = self.place.rondo(&self.place.on.flags(self.place.store.flags())?, by, None)?;
        let settings = rondo.operator().agreed_settings()?;
        Ok((rondo, settings))
    }
}

/// How often the copy of a cluster's threads is brought up to them.
const CATCH_UP: Duration = Duration::from_secs(1);

pub fn serve(args: &ServeArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (rondo, mut settings) = args.server.rondo()?;
    let to_open = rondo.store_to_open(&settings)?;
    with_signals(async |signals| {
        let listening = listen(args.port).await?;
        let address = format!("http://{}", listening.address);
        let host = rondo.open_store(to_open).await?.clone();
        let (token, token_file) = token(&mut settings, listening.address.port())?;
        let ending = signals.stop.clone();
        let (library, open_host) = (rondo.clone(), host.clone());
        let server = Server::new(library, open_host, settings, token, args.names.clone(), ending.clone());
        let page = || server.code().map(|code| format!("{address}/#code={code}"));
        let place = token_file.as_ref().map(|file| file.0.display().to_string());
        if output.is_json() {
            output.line(&json_line!("serving", address: &address, page: page()?, token_file: &place))?;
        } else {
            output.text(&format!("{}\n", page()?))?;
            let place = place.map_or_else(String::new, |file| format!("; the token is in {file}"));
            let shown = rondo.folder().display();
            tell(&format!(
                "serving the workflows of {shown}\nthe address opens the page once, within 10 minutes{place}\nCtrl-C stops\n"
            ));
        }
        // The file that leads the browser here stays as long as the server.
        let _leading = if args.open { open(&page()?).await } else { None };
        let connections = usize::try_from(args.connections).unwrap_or(usize::MAX);
        let serving = listening.serve(server.router(), connections, ending.clone());
        let closing = async {
            ending.run_until_cancelled(catching_up(&rondo)).await;
            server.close().await;
        };
        tokio::join!(serving, closing);
        host.leave().await;
        // A server has no end of its own: a signal is how it is told to stop.
        Ok(Exit::Done)
    })
}

/// Keeps the copy of a cluster's threads near them. Faults are told once, until one passes.
async fn catching_up(rondo: &Rondo) {
    let mut is_told = false;
    loop {
        let failure = rondo.catch_up(None).await.err();
        if let Some(failure) = failure.as_ref().filter(|_| !is_told) {
            tell(&format!("{failure}\n"));
        }
        is_told = failure.is_some();
        tokio::time::sleep(CATCH_UP).await;
    }
}

/// The file with the token of a running server; removed with it.
struct TokenFile(PathBuf);

impl Drop for TokenFile {
    fn drop(&mut self) {
        // Its token opens nothing any more.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The token that the environment gives, or a new one, with its file; it is a secret like others.
fn token(settings: &mut Settings, port: u16) -> Result<(Token, Option<TokenFile>), Failure> {
    if let Some(token) = Token::given()? {
        return Ok((token, None));
    }
    let token = Token::of_this_process()?;
    settings.secrets.push(Secret { name: TOKEN_FILE.to_owned(), value: token.as_str().to_owned() });
    let file = settings.token_file(port);
    file.as_deref().map_or(Ok(()), |file| token.write(file))?;
    Ok((token, file.map(TokenFile)))
}

/// Opens an address in the person's browser: by a file of theirs that leads there, because every user of the machine can
/// read the words of a command, and without the variables that a browser has no use for, such as keys. Returns the folder
/// of the file.
async fn open(address: &str) -> Option<TempDir> {
    let written = temporary_folder("serve").and_then(|folder| {
        let file = folder.path().join("open.html");
        let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file)?;
        new.write_all(leading_to(address).as_bytes()).map(|()| (folder, file))
    });
    let Ok((folder, file)) = written else {
        tell("no browser could be opened; open the address above\n");
        return None;
    };
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(&file).env_clear().envs(std::env::vars_os().filter(|(name, _)| is_for_browsers(name)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let opened = tokio::time::timeout(OPENING, tokio::process::Command::from(command).status()).await;
    if !matches!(opened, Ok(Ok(status)) if status.success()) {
        tell("no browser could be opened; open the address above\n");
    }
    Some(folder)
}

/// A page that leads to an address of this server, which has no character that HTML or a script reads otherwise.
fn leading_to(address: &str) -> String {
    format!(
        "<!doctype html><meta charset=\"utf-8\"><title>rondo</title><meta name=\"referrer\" content=\"no-referrer\">\
         <script>location.replace({address:?})</script>\n"
    )
}

/// Whether a browser, or what starts it, needs a variable.
fn is_for_browsers(name: &OsStr) -> bool {
    const NAMES: [&str; 13] = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TMPDIR",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "DBUS_SESSION_BUS_ADDRESS",
        "BROWSER",
    ];
    name.to_str().is_some_and(|name| NAMES.contains(&name) || name.starts_with("XDG_") || name.starts_with("LC_"))
}
