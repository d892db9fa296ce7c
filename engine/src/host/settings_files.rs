//! The settings files that apply to a folder, and what each may set.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rondo_core::grant::Rule;
use rondo_protocol::Value;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::workflow::HookUse;
use rondo_settings::files::read_bounded;
use rondo_settings::folder_of;
use rondo_settings::trust::owner::{self, Unsafe, User};
use rondo_settings::trust::{Ask, Kind};
use rondo_settings::{Files, Flags, Imposed, Layer, Mcp, Origin, SET, Secret, Settings, Stated, TOKEN_FILE, layers};

use super::consent::{self, NamedFiles, named_files};
use super::process::working_folder;
use crate::failure::{Failure, Faulty};
use crate::files::read_text;
use crate::tell::tell;

const MAX_FILE_BYTES: usize = 1 << 20;
const MAX_TOKEN_FILE_BYTES: usize = 1 << 10;

/// What settings are called that a program states itself.
const OF_PROGRAM: &str = "settings";

/// Of how many servers the tokens are known.
const MAX_SERVERS: usize = 64;

/// The settings files, read once: what a person is shown is what runs.
#[derive(Clone)]
pub struct SettingsFiles {
    folder: PathBuf,
    flags: Flags,
    /// What `--set` states.
    set: Stated,
    user: Option<SettingsFile>,
    project: Option<SettingsFile>,
    named: OnceLock<NamedFiles>,
    brought: Brought,
}

/// What the program that embeds rondo adds to the settings.
#[derive(Debug, Clone, Default)]
pub struct Brought {
    /// The names of its tools, which every role may call that lists them.
    pub tools: Vec<String>,
    /// Grants of other tools.
    pub grants: Vec<String>,
    pub mcp: Vec<(String, Vec<String>)>,
    /// Hooks around every workflow, inside those of the settings.
    pub hooks: Vec<HookUse>,
}

#[derive(Clone)]
pub struct SettingsFile {
    pub path: PathBuf,
    pub stated: Stated,
    /// What lets other users change it.
    pub faults: Vec<Unsafe>,
}

/// Reads the settings files for the working folder.
pub fn read(flags: &Flags) -> Result<SettingsFiles, Failure> {
    read_for(working_folder()?, flags)
}

pub(crate) fn read_for(folder: PathBuf, flags: &Flags) -> Result<SettingsFiles, Failure> {
    let home = rondo_settings::home(&variable).map(|home| home.canonicalize().unwrap_or(home));
    let project = rondo_settings::find_project(&folder, home.as_deref());
    read_files(folder, project, flags)
}

/// The settings files for a folder, without that of a project.
pub fn of_user_for(folder: PathBuf) -> Result<SettingsFiles, Failure> {
    read_files(folder, None, &Flags::default())
}

fn read_files(folder: PathBuf, project: Option<PathBuf>, flags: &Flags) -> Result<SettingsFiles, Failure> {
    let user = rondo_settings::user_file(&variable).filter(|file| std::fs::symlink_metadata(file).is_ok());
    let shown = |file: &Path| file.strip_prefix(&folder).unwrap_or(file).to_string_lossy().into_owned();
    let read = |path: PathBuf, layer: Layer| {
        let faults = owner::faults(&path, User::own());
        let stated = stated(shown(&path), read_text(&path, MAX_FILE_BYTES)?, layer)?;
        Ok::<_, Failure>(SettingsFile { path, stated, faults })
    };
    let user = user.map(|file| read(file, Layer::User)).transpose()?;
    let project = project.map(|file| read(file, Layer::Project)).transpose()?;
    SettingsFiles::new(folder, flags, user, project)
}

fn stated(name: String, text: String, layer: Layer) -> Result<Stated, Failure> {
    let stated = rondo_settings::read(&name, &text, layer);
    stated.map_err(|faults| Faulty { faults, sources: [(name, text)].into() }.into())
}

/// Reads `--set` options as lines of a settings file.
fn set(words: &[String]) -> Result<Stated, Failure> {
    let mut text = String::new();
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            let shown: String = word.chars().take(40).collect();
            return Err(Failure::new(Code::SettingsSyntax, format!("{SET} {shown:?}: write key=value"))
                .with_hint("for example --set provider.openai.idle_timeout=30s"));
        };
        // What is no TOML value, such as a name or 30s, is a text.
        let is_value = toml::de::DeTable::parse(&format!("x = {value}")).is_ok_and(|_| !value.contains('\n'));
        let value = if is_value { value.to_owned() } else { Value::from(value).to_text() };
        text.extend([key.replace('\n', " ").as_str(), " = ", &value, "\n"]);
    }
    let stated = stated(SET.to_owned(), text, Layer::CommandLine)?;
    let Stated { mcp, tools, hooks, imposed, .. } = &stated;
    if mcp.is_empty() && tools.is_empty() && hooks.is_empty() && imposed.is_empty() {
        return Ok(stated);
    }
    let message = format!("{SET} takes values of store, provider, model, limits, grant and sandbox");
    Err(Failure::new(Code::SettingsKey, message)
        .with_hint("a [tool], [mcp], [hook] or [[impose]] is declared in a file"))
}

/// An environment variable. If `HOME` is not set, the system's entry for the user is used.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().or_else(|| {
        let home = (name == "HOME").then(std::env::home_dir).flatten()?;
        home.to_str().filter(|home| !home.is_empty()).map(str::to_owned)
    })
}

impl SettingsFiles {
    /// Settings that a program states itself, in the form of a user's file; nobody else's count.
    pub(crate) fn of_program(folder: PathBuf, text: &str, flags: &Flags) -> Result<Self, Failure> {
        let stated = stated(OF_PROGRAM.to_owned(), text.to_owned(), Layer::User)?;
        let user = SettingsFile { path: folder.join(OF_PROGRAM), stated, faults: Vec::new() };
        Self::new(folder, flags, Some(user), None)
    }

    fn new(
        folder: PathBuf,
        flags: &Flags,
        user: Option<SettingsFile>,
        project: Option<SettingsFile>,
    ) -> Result<Self, Failure> {
        let (set, named, brought) = (set(&flags.set)?, OnceLock::new(), Brought::default());
        Ok(Self { folder, flags: flags.clone(), set, user, project, named, brought })
    }

    /// The same with what the program brings along.
    #[must_use]
    pub fn with(self, brought: Brought) -> Self {
        Self { brought, ..self }
    }

    pub fn project(&self) -> Option<&SettingsFile> {
        self.project.as_ref()
    }

    pub fn user(&self) -> Option<&SettingsFile> {
        self.user.as_ref()
    }

    /// The settings with everything in the project's file: as they are once a person agreed to it.
    pub fn whole(&self) -> Result<Settings, Failure> {
        if let (Some(project), Some(user)) = (&self.project, &self.user) {
            let clashes = layers::clashes(&project.stated, &user.stated);
            if !clashes.is_empty() {
                let told = clashes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                return Err(Failure::new(Code::SettingsClash, told).with_hint("give one of the two another name"));
            }
        }
        let user = self.stated_by_user();
        let placed = |project: &SettingsFile| {
            layers::with_claims(project.stated.clone(), &user).placed(folder_of(&project.path))
        };
        let mut settings = self.with_project(self.project.as_ref().map(placed))?;
        for (word, (path, digest)) in self.named_files() {
            let file = (path.clone(), digest.clone());
            // Commands name it as the file does, or by its path.
            settings.shown.insert(path.to_string_lossy().into_owned(), file.clone());
            settings.shown.insert(word.clone(), file);
        }
        Ok(settings)
    }

    fn stated_by_user(&self) -> Stated {
        self.user.as_ref().map(|user| user.stated.clone()).unwrap_or_default()
    }

    /// The settings with the parts of the project's file that apply without consent.
    pub fn without_asking(&self) -> Result<Settings, Failure> {
        let user = self.stated_by_user();
        self.with_project(self.project.as_ref().map(|project| layers::without_asking(&project.stated, &user)))
    }

    fn with_project(&self, project: Option<Stated>) -> Result<Settings, Failure> {
        let user = self.user.as_ref().map(|user| user.stated.placed(folder_of(&user.path))).unwrap_or_default();
        let stated = layers::set(layers::merged(user, project.unwrap_or_default()), self.set.clone());
        let path = |file: &Option<SettingsFile>| file.as_ref().map(|file| file.path.clone());
        let files = Files { project: path(&self.project), user: path(&self.user) };
        let resolved = rondo_settings::resolve(&self.folder, &files, stated, &self.flags, &variable);
        let mut settings = resolved.map_err(|faults| {
            let message = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            Failure::new(Code::SettingsVariable, message)
        })?;
        settings.secrets.extend(server_tokens(&settings));
        self.bring(&mut settings)?;
        Ok(settings)
    }

    /// Adds what the program brings along.
    fn bring(&self, settings: &mut Settings) -> Result<(), Failure> {
        let Brought { tools, grants, mcp, hooks } = &self.brought;
        for rule in grants {
            rule.parse::<Rule>()
                .map_err(|error| Failure::new(Code::SettingsValue, format!("grant {rule:?}: {error}")))?;
        }
        if !(tools.is_empty() && grants.is_empty()) {
            let granted = settings.grant.tools.get_or_insert_with(|| consent::READING.map(str::to_owned).to_vec());
            granted.extend(grants.iter().chain(tools).cloned());
        }
        settings.provided.tools = grants.iter().chain(tools).cloned().collect();
        settings.provided.servers = mcp.iter().map(|(name, _)| name.clone()).collect();
        for (name, words) in mcp {
            let (command, args) = (words.first().cloned(), words.iter().skip(1).cloned().collect());
            settings.mcp.insert(name.clone(), Mcp { command, args, ..Mcp::default() });
        }
        let imposed = |hook: &HookUse| Imposed { hook: hook.clone(), stated: Value::Null, from: Origin::Default };
        settings.imposed.extend(hooks.iter().map(imposed));
        Ok(())
    }

    /// What the project's settings ask for, with the files below their folder that a command names.
    pub fn asks(&self) -> Vec<Ask> {
        let Some(project) = &self.project else { return Vec::new() };
        let user = self.stated_by_user();
        let mut asks = layers::asks(&project.stated, &user);
        let owners = project.faults.iter().filter_map(|fault| match fault {
            Unsafe::Owner { path, uid } => Some(Ask::new(Kind::Owner, path.to_string_lossy(), format!("user {uid}"))),
            _ => None,
        });
        asks.extend(owners.collect::<Vec<_>>());
        asks.extend(self.named_files().iter().map(|(word, (_, digest))| Ask::new(Kind::File, word, digest.as_str())));
        asks
    }

    /// The files below the project's folder that its commands name. They are read once.
    fn named_files(&self) -> &NamedFiles {
        self.named.get_or_init(|| {
            self.project.as_ref().map(|of| named_files(&of.stated, folder_of(&of.path))).unwrap_or_default()
        })
    }

    /// Refuses files that other users can change, regardless of consent.
    pub fn refuse_unsafe(&self) -> Result<(), Failure> {
        let files = self.user.iter().map(|file| (file, true)).chain(self.project.iter().map(|file| (file, false)));
        for (file, is_user) in files {
            let fault = file.faults.iter().find(|fault| is_user || !fault.can_be_agreed_to());
            let Some(fault) = fault else { continue };
            let message = format!("{} is not believed: {fault}", file.path.display());
            let failure = Failure::new(Code::SettingsUnsafe, message);
            return Err(if is_user && fault.can_be_agreed_to() {
                failure.with_hint(
                    "your own settings must be yours or root's: copy them to a folder that XDG_CONFIG_HOME names",
                )
            } else {
                failure.with_hint(fault.hint())
            });
        }
        if let (Some(user), Some(project)) = (&self.user, &self.project)
            && user.path.starts_with(folder_of(&project.path))
        {
            let user = user.path.display();
            let message =
                format!("your settings {user} lie in the folder of a project, which could have brought them along");
            let hint = "set XDG_CONFIG_HOME to a folder outside it";
            return Err(Failure::new(Code::SettingsUnsafe, message).with_hint(hint));
        }
        Ok(())
    }

    /// The settings in force for a verb that starts nothing: all of the project's if a person agreed to them, else
    /// those that need no consent.
    pub fn in_force(&self) -> Result<Settings, Failure> {
        let mut files = self.clone();
        // User settings that others can change do not apply here; the verbs that start something refuse them.
        if let Some(user) = files.user.take_if(|user| !user.faults.is_empty()) {
            tell(&format!("{} does not count: others can change it; `rondo doctor` says how\n", user.path.display()));
        }
        let harmless = files.without_asking()?;
        if consent::counts(&files, &harmless) { files.whole() } else { Ok(harmless) }
    }
}

/// The tokens of running servers in their files: keys like others, which no text may carry.
fn server_tokens(settings: &Settings) -> Vec<Secret> {
    let folder = settings.secret_file.as_deref().and_then(Path::parent);
    let files = folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let files = files.filter(|entry| entry.file_name().to_string_lossy().starts_with(TOKEN_FILE)).take(MAX_SERVERS);
    let tokens = files.filter_map(|entry| read_bounded(&entry.path(), MAX_TOKEN_FILE_BYTES).ok());
    tokens.map(|token| Secret { name: TOKEN_FILE.to_owned(), value: token.trim().to_owned() }).collect()
}

pub fn settings(flags: &Flags) -> Result<Settings, Failure> {
    read(flags)?.in_force()
}
