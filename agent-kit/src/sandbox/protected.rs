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

use Kept::{InFolders, InHome, Nowhere, WithFolder};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protected {
    /// A name or a relative path; `*` matches any part of one name.
    pub pattern: &'static str,
    pub protection: Protection,
    pub kept: Kept,
    /// Which program reads it, and the effect.
    pub reason: &'static str,
}

const fn closed(pattern: &'static str, reason: &'static str) -> Protected {
    Protected { pattern, protection: Protection::Closed, kept: InFolders, reason }
}

const fn held(kept: Kept, pattern: &'static str, reason: &'static str) -> Protected {
    Protected { pattern, protection: Protection::ReadOnly, kept, reason }
}

/// The default list. With `.git` in it, file tools treat folders that look like a repository the same.
pub const PROTECTED: &[Protected] = &[
    closed(".git", "git starts hooks, filters and the file system monitor that it names; it may hold tokens"),
    closed(".rondo", "rondo's store, which answers for models and tools"),
    held(InFolders, "rondo.toml", "rondo's settings: programs, servers, grants"),
    held(InFolders, ".envrc", "direnv runs it on entering the folder"),
    held(InFolders, ".direnv", "what direnv has built and loads"),
    held(InFolders, ".vscode", "editors run its tasks and use its settings as paths of programs"),
    held(InFolders, ".idea", "editors start its run configurations"),
    held(InFolders, ".zed", "editors run its tasks"),
    held(InFolders, ".fleet", "editors start its run configurations"),
    held(InFolders, ".nvim.lua", "Neovim runs it on starting there"),
    held(InFolders, ".nvimrc", "Neovim runs it on starting there"),
    held(InFolders, ".exrc", "vi runs it on starting there"),
    held(InFolders, ".vimrc", "Vim runs it"),
    held(InFolders, ".dir-locals.el", "Emacs evaluates it on opening a file"),
    held(InFolders, ".husky", "git hooks"),
    held(InFolders, ".githooks", "git hooks, by the usual name"),
    held(InFolders, ".pre-commit-config.yaml", "programs that pre-commit starts"),
    held(InFolders, ".lefthook.yml", "programs that lefthook starts"),
    // A folder of this name would be visible in listings.
    held(Nowhere, "lefthook.yml", "programs that lefthook starts"),
    held(InFolders, ".github", "jobs that GitHub runs with the project's secrets"),
    held(InFolders, ".gitlab-ci.yml", "jobs that GitLab runs with the project's secrets"),
    held(InFolders, ".circleci", "jobs that CircleCI runs with the project's secrets"),
    held(InFolders, ".buildkite", "jobs that Buildkite runs with the project's secrets"),
    held(InFolders, ".travis.yml", "jobs that Travis runs with the project's secrets"),
    held(InFolders, ".woodpecker.yml", "jobs that Woodpecker runs with the project's secrets"),
    held(InFolders, ".devcontainer", "commands that editors run on the host before a container starts"),
    held(InFolders, ".devcontainer.json", "commands that editors run on the host before a container starts"),
    // Cargo ends when a folder has this name.
    held(WithFolder, ".cargo/config.toml", "cargo starts the wrappers, runners and linkers that it names"),
    held(WithFolder, ".cargo/config", "cargo starts the wrappers, runners and linkers that it names"),
    held(InFolders, ".npmrc", "npm takes registries, shells and options of node from it"),
    // Yarn ends when a folder has this name.
    held(Nowhere, ".yarnrc.yml", "yarn starts the program that it names"),
    held(InFolders, ".yarnrc", "yarn starts the program that it names"),
    held(InFolders, ".pnpmfile.cjs", "pnpm runs it"),
    held(InFolders, ".mcp.json", "agents start the servers that it names"),
    held(InFolders, ".claude", "hooks, permissions and servers of an agent"),
    held(InFolders, ".codex", "hooks, permissions and servers of an agent"),
    held(InFolders, ".cursor", "hooks, rules and servers of an agent"),
    held(InFolders, ".gemini", "hooks, permissions and servers of an agent"),
    held(InFolders, ".windsurf", "rules and servers of an agent"),
    // Git reads them in the workspace while a program runs, and would warn of a folder.
    held(Nowhere, ".gitattributes", "names filters and merge programs that git starts"),
    held(Nowhere, ".gitmodules", "names what git fetches and where it writes"),
    held(InHome, ".gitconfig", "git starts the programs that it names"),
    held(InHome, ".config/git", "git starts the programs that it names"),
    held(InHome, ".bashrc", "the shell runs it"),
    held(InHome, ".bash_profile", "the shell runs it"),
    held(InHome, ".bash_login", "the shell runs it"),
    held(InHome, ".bash_logout", "the shell runs it"),
    held(InHome, ".bash_aliases", "the shell runs it"),
    held(InHome, ".profile", "the shell runs it"),
    held(InHome, ".login", "the shell runs it"),
    held(InHome, ".cshrc", "the shell runs it"),
    held(InHome, ".tcshrc", "the shell runs it"),
    held(InHome, ".kshrc", "the shell runs it"),
    held(InHome, ".zshrc", "the shell runs it"),
    held(InHome, ".zprofile", "the shell runs it"),
    held(InHome, ".zshenv", "the shell runs it"),
    held(InHome, ".zlogin", "the shell runs it"),
    held(InHome, ".zlogout", "the shell runs it"),
    held(InHome, ".xprofile", "the desktop runs it"),
    held(InHome, ".xinitrc", "the desktop runs it"),
    held(InHome, ".xsessionrc", "the desktop runs it"),
    held(InHome, ".pam_environment", "sets variables of every login"),
    held(InHome, ".inputrc", "binds keys of the shell to commands"),
    held(InHome, ".vim", "Vim runs what lies in it"),
    held(InHome, ".emacs", "Emacs runs it"),
    held(InHome, ".emacs.d", "Emacs runs what lies in it"),
    held(InHome, ".tmux.conf", "tmux runs the commands in it"),
    held(InHome, ".screenrc", "screen runs the commands in it"),
    held(InHome, ".gdbinit", "gdb runs it"),
    held(InHome, ".lldbinit", "lldb runs it"),
    held(InHome, ".config/fish", "the shell runs what lies in it"),
    held(InHome, ".config/autostart", "the desktop starts it"),
    held(InHome, ".config/systemd", "systemd starts it"),
    held(InHome, ".config/environment.d", "sets variables of every login"),
    held(InHome, ".config/nvim", "Neovim runs what lies in it"),
    held(InHome, ".config/direnv", "direnv runs what lies in it"),
    held(InHome, ".local/share/systemd", "systemd starts it"),
    held(InHome, ".local/bin", "programs that are found by their name"),
    held(InHome, ".local/share/applications", "the desktop starts it"),
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
