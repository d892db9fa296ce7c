//! The places below a home folder where programs store keys and typed input: by a list, and for newer programs by the
//! look of a file.

use std::collections::VecDeque;
use std::fs::{self, DirEntry, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Relative to the home folder. Each is inaccessible with everything below, whatever is granted and whether or not it
/// exists; see [`reached`](super::reached).
pub const CREDENTIALS: &[&str] = &[
    // Keys and logins of the shell's own tools.
    ".ssh",
    ".gnupg",
    ".netrc",
    "_netrc",
    ".authinfo",
    ".authinfo.gpg",
    ".git-credentials",
    ".config/git/credentials",
    ".password-store",
    ".local/share/keyrings",
    ".gnome2/keyrings",
    ".local/share/kwalletd",
    ".local/share/keybase",
    ".config/keybase",
    ".config/op",
    ".config/Bitwarden CLI",
    ".config/age",
    ".config/sops",
    ".pki",
    ".vault-token",
    ".config/rbw",
    ".local/share/pass",
    // Clouds and what is deployed to them.
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/doctl",
    ".config/hcloud",
    ".config/linode-cli",
    ".config/scw",
    ".oci",
    ".bluemix",
    ".fly",
    ".heroku",
    ".netlify",
    ".config/netlify",
    ".vercel",
    ".config/vercel",
    ".local/share/com.vercel.cli",
    ".wrangler",
    ".config/.wrangler",
    ".railway",
    ".supabase",
    ".pulumi",
    ".terraform.d",
    ".terraformrc",
    ".kube",
    ".config/helm",
    ".docker",
    ".config/containers/auth.json",
    ".config/rclone",
    ".s3cfg",
    ".boto",
    ".mc",
    ".databrickscfg",
    ".snowflake",
    ".snowsql",
    ".config/ngrok",
    ".ngrok2",
    ".cloudflared",
    // Forges and package registries.
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".config/tea",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".config/pypoetry/auth.toml",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".bundle/config",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".nuget/NuGet",
    ".config/NuGet",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".hex/hex.config",
    ".condarc",
    // Models.
    ".codex",
    ".claude",
    ".claude.json",
    ".config/claude",
    ".cursor",
    ".gemini",
    ".huggingface",
    ".cache/huggingface/token",
    ".cache/huggingface/stored_tokens",
    ".openai",
    ".anthropic",
    ".config/anthropic",
    ".config/openai",
    ".config/github-copilot",
    ".config/io.datasette.llm/keys.json",
    ".kaggle",
    ".config/wandb",
    ".config/rondo",
    ".local/share/rondo",
    // Databases.
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".mongodb",
    ".config/redis",
    // Histories, which may contain keys.
    ".bash_history",
    ".zsh_history",
    ".histfile",
    ".sh_history",
    ".python_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".rediscli_history",
    ".node_repl_history",
    ".irb_history",
    ".lesshst",
    ".viminfo",
    ".local/share/fish/fish_history",
    ".local/state/bash",
    // Browsers, mail and chat: sessions that are logged in.
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    ".config/Slack",
    ".config/discord",
    ".config/Signal",
    ".config/evolution",
    ".mutt",
    ".muttrc",
    ".msmtprc",
    ".fetchmailrc",
    ".irssi",
    ".weechat",
    ".config/weechat",
    // Wallets.
    ".electrum",
    ".bitcoin",
    ".ethereum",
    ".monero",
    ".config/solana",
];

const KEY_WORDS: [&str; 12] = [
    "token",
    "tokens",
    "credential",
    "credentials",
    "secret",
    "secrets",
    "password",
    "passwords",
    "apikey",
    "apikeys",
    "auth",
    "oauth",
];

const KEY_ENDINGS: [&str; 9] = ["key", "keys", "pem", "p12", "pfx", "ppk", "jks", "keystore", "kdbx"];

/// How key files begin (RFC 7468, and the format of age).
const KEY_BEGINNINGS: [&[u8]; 2] = [b"-----BEGIN ", b"AGE-SECRET-KEY-"];

/// Where programs keep what they can load again.
const WITHOUT_KEYS: [&str; 4] = [".cache", ".cargo", ".rustup", ".npm"];

/// The limits of the search: levels of folders, entries, and the size of a file whose beginning is read.
const MAX_DEPTH: usize = 3;
const MAX_ENTRIES: usize = 20_000;
const MAX_KEY_BYTES: u64 = 64 << 10;

/// The files below a home folder that look like keys: in it, and three levels deep in its folders that begin with a dot.
/// By their names (`id_*`, `auth.json`, `*.pem`, `*.key`, `api-token`), or by a private key in them. What is created
/// later is not found, and beyond 20,000 entries nothing is.
pub fn key_files(home: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = VecDeque::from([(home.to_path_buf(), 0)]);
    let mut entries_left = MAX_ENTRIES;
    while let Some((folder, depth)) = folders.pop_front() {
        for entry in fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
            let Some(left) = entries_left.checked_sub(1) else { return found };
            entries_left = left;
            let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else { continue };
            let name = name.to_string_lossy();
            let is_entered = depth > 0 || name.starts_with('.') && !WITHOUT_KEYS.contains(&&*name);
            if kind.is_dir() && is_entered && depth < MAX_DEPTH {
                folders.push_back((entry.path(), depth + 1));
            } else if kind.is_file() && (is_named_as_key(&name) || begins_as_key(&entry)) {
                found.push(entry.path());
            }
        }
    }
    found
}

fn is_named_as_key(name: &str) -> bool {
    let name = name.to_lowercase();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_own = name.starts_with("id_") && ending != "pub";
    is_own
        || KEY_ENDINGS.contains(&ending)
        || name.split(|c: char| !c.is_alphanumeric()).any(|word| KEY_WORDS.contains(&word))
}

fn begins_as_key(entry: &DirEntry) -> bool {
    if !entry.metadata().is_ok_and(|about| about.len() <= MAX_KEY_BYTES) {
        return false;
    }
    let mut beginning = Vec::new();
    let read = File::open(entry.path()).and_then(|file| file.take(64).read_to_end(&mut beginning));
    let is_public = beginning.starts_with(b"-----BEGIN CERTIFICATE") || beginning.starts_with(b"-----BEGIN PUBLIC");
    read.is_ok() && !is_public && KEY_BEGINNINGS.iter().any(|start| beginning.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_files_are_known_by_their_look() {
        let home = tempfile::tempdir().unwrap();
        let keys = [
            ".config/newtool/auth.json",
            ".newtool/id_work",
            ".newtool/deep/er/server.key",
            ".sometool/state",
            "api-token.txt",
        ];
        let others = [
            ".config/newtool/settings.json",
            ".newtool/id_work.pub",
            ".tool/ca",
            "notes/author.md",
            ".tool/keymap.json",
        ];
        for file in keys.iter().chain(&others) {
            let file = home.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "x").unwrap();
        }
        fs::write(home.path().join(".sometool/state"), "-----BEGIN OPENSSH PRIVATE KEY-----\nx").unwrap();
        fs::write(home.path().join(".tool/ca"), "-----BEGIN CERTIFICATE-----\nx").unwrap();
        let mut found = key_files(home.path());
        found.sort();
        let mut expected = keys.map(|file| home.path().join(file));
        expected.sort();
        assert_eq!(found, expected);
    }
}
