//! Names that tools may not write, or not access at all: file tools at any depth below a granted folder, programs
//! directly in it.
//!
//! Another program reads a file of such a name and runs what it names or trusts its contents: writing it means acting
//! with the rights of the user. Files that developers run deliberately (`Makefile`, `package.json`, `build.rs`) are
//! source like any other and not listed; an operator can add them.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Neither read nor written.
    Closed,
    ReadOnly,
}

/// Where a missing name cannot be created by a program. Only an empty folder in its place prevents that, so it is done
/// only where the name has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// In each folder that is granted for writing.
    InFolders,
    /// The same, with its folder: if that exists, nothing in it is written.
    WithFolder,
    /// In the user's home, where that is granted for writing.
    InHome,
    /// Nowhere: only an existing one is held.
    Nowhere,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protected {
    /// A name or a relative path; `*` matches any part of one name.
    pub pattern: &'static str,
    /// What it keeps off.
    pub protection: Protection,
    /// Where it is kept from being made.
    pub kept: Kept,
    /// Which program reads it, and the effect.
    pub reason: &'static str,
}

const fn closed(pattern: &'static str, reason: &'static str) -> Protected {
    Protected { pattern, protection: Protection::Closed, kept: Kept::InFolders, reason }
}

const fn held(pattern: &'static str, reason: &'static str) -> Protected {
    Protected { pattern, protection: Protection::ReadOnly, kept: Kept::InFolders, reason }
}

const fn held_with_folder(pattern: &'static str, reason: &'static str) -> Protected {
    Protected { pattern, protection: Protection::ReadOnly, kept: Kept::WithFolder, reason }
}

const fn held_where_it_is(pattern: &'static str, reason: &'static str) -> Protected {
    Protected { pattern, protection: Protection::ReadOnly, kept: Kept::Nowhere, reason }
}

const fn held_in_home(pattern: &'static str, reason: &'static str) -> Protected {
    Protected { pattern, protection: Protection::ReadOnly, kept: Kept::InHome, reason }
}

/// The default list. With `.git` in it, file tools treat folders that look like a repository the same.
pub const PROTECTED: &[Protected] = &[
    closed(".git", "git starts hooks, filters and the file system monitor that it names; it may hold tokens"),
    closed(".rondo", "rondo's store, which answers for models and tools"),
    held("rondo.toml", "rondo's settings: programs, servers, grants"),
    held(".envrc", "direnv runs it on entering the folder"),
    held(".direnv", "what direnv has built and loads"),
    held(".vscode", "editors run its tasks and use its settings as paths of programs"),
    held(".idea", "editors start its run configurations"),
    held(".zed", "editors run its tasks"),
    held(".fleet", "editors start its run configurations"),
    held(".nvim.lua", "Neovim runs it on starting there"),
    held(".nvimrc", "Neovim runs it on starting there"),
    held(".exrc", "vi runs it on starting there"),
    held(".vimrc", "Vim runs it"),
    held(".dir-locals.el", "Emacs evaluates it on opening a file"),
    held(".husky", "git hooks"),
    held(".githooks", "git hooks, by the usual name"),
    held(".pre-commit-config.yaml", "programs that pre-commit starts"),
    held(".lefthook.yml", "programs that lefthook starts"),
    // A folder of this name would be visible in listings.
    held_where_it_is("lefthook.yml", "programs that lefthook starts"),
    held(".github", "jobs that GitHub runs with the project's secrets"),
    held(".gitlab-ci.yml", "jobs that GitLab runs with the project's secrets"),
    held(".circleci", "jobs that CircleCI runs with the project's secrets"),
    held(".buildkite", "jobs that Buildkite runs with the project's secrets"),
    held(".travis.yml", "jobs that Travis runs with the project's secrets"),
    held(".woodpecker.yml", "jobs that Woodpecker runs with the project's secrets"),
    held(".devcontainer", "commands that editors run on the host before a container starts"),
    held(".devcontainer.json", "commands that editors run on the host before a container starts"),
    // Cargo ends when a folder has this name.
    held_with_folder(".cargo/config.toml", "cargo starts the wrappers, runners and linkers that it names"),
    held_with_folder(".cargo/config", "cargo starts the wrappers, runners and linkers that it names"),
    held(".npmrc", "npm takes registries, shells and options of node from it"),
    // Yarn ends when a folder has this name.
    held_where_it_is(".yarnrc.yml", "yarn starts the program that it names"),
    held(".yarnrc", "yarn starts the program that it names"),
    held(".pnpmfile.cjs", "pnpm runs it"),
    held(".mcp.json", "agents start the servers that it names"),
    held(".claude", "hooks, permissions and servers of an agent"),
    held(".codex", "hooks, permissions and servers of an agent"),
    held(".cursor", "hooks, rules and servers of an agent"),
    held(".gemini", "hooks, permissions and servers of an agent"),
    held(".windsurf", "rules and servers of an agent"),
    // Git reads them in the workspace while a program runs, and would warn of a folder.
    held_where_it_is(".gitattributes", "names filters and merge programs that git starts"),
    held_where_it_is(".gitmodules", "names what git fetches and where it writes"),
    held_in_home(".gitconfig", "git starts the programs that it names"),
    held_in_home(".config/git", "git starts the programs that it names"),
    held_in_home(".bashrc", "the shell runs it"),
    held_in_home(".bash_profile", "the shell runs it"),
    held_in_home(".bash_login", "the shell runs it"),
    held_in_home(".bash_logout", "the shell runs it"),
    held_in_home(".bash_aliases", "the shell runs it"),
    held_in_home(".profile", "the shell runs it"),
    held_in_home(".login", "the shell runs it"),
    held_in_home(".cshrc", "the shell runs it"),
    held_in_home(".tcshrc", "the shell runs it"),
    held_in_home(".kshrc", "the shell runs it"),
    held_in_home(".zshrc", "the shell runs it"),
    held_in_home(".zprofile", "the shell runs it"),
    held_in_home(".zshenv", "the shell runs it"),
    held_in_home(".zlogin", "the shell runs it"),
    held_in_home(".zlogout", "the shell runs it"),
    held_in_home(".xprofile", "the desktop runs it"),
    held_in_home(".xinitrc", "the desktop runs it"),
    held_in_home(".xsessionrc", "the desktop runs it"),
    held_in_home(".pam_environment", "sets variables of every login"),
    held_in_home(".inputrc", "binds keys of the shell to commands"),
    held_in_home(".vim", "Vim runs what lies in it"),
    held_in_home(".emacs", "Emacs runs it"),
    held_in_home(".emacs.d", "Emacs runs what lies in it"),
    held_in_home(".tmux.conf", "tmux runs the commands in it"),
    held_in_home(".screenrc", "screen runs the commands in it"),
    held_in_home(".gdbinit", "gdb runs it"),
    held_in_home(".lldbinit", "lldb runs it"),
    held_in_home(".config/fish", "the shell runs what lies in it"),
    held_in_home(".config/autostart", "the desktop starts it"),
    held_in_home(".config/systemd", "systemd starts it"),
    held_in_home(".config/environment.d", "sets variables of every login"),
    held_in_home(".config/nvim", "Neovim runs what lies in it"),
    held_in_home(".config/direnv", "direnv runs what lies in it"),
    held_in_home(".local/share/systemd", "systemd starts it"),
    held_in_home(".local/bin", "programs that are found by their name"),
    held_in_home(".local/share/applications", "the desktop starts it"),
];

/// The default list, as settings take it.
pub fn protected() -> Vec<String> {
    PROTECTED.iter().map(|row| row.pattern.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_patterns_with_a_reason_and_none_stands_twice() {
        for (at, row) in PROTECTED.iter().enumerate() {
            assert!(!row.reason.is_empty() && !row.pattern.starts_with('/') && !row.pattern.contains(".."), "{row:?}");
            assert!(PROTECTED.iter().skip(at + 1).all(|other| other.pattern != row.pattern), "{row:?}");
        }
    }
}
