//! Landlock: which files a program may read and write (<https://docs.kernel.org/userspace-api/landlock.html>).

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::super::plan::{Isolation, Plan};
use super::declared;

/// What every program may read and execute: the system, without secret or personal parts of `/etc`, `/var` and `/run`.
const SYSTEM: &[&str] = &[
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/opt",
    "/proc",
    "/sbin",
    "/usr",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/gitconfig",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/java",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/profile",
    "/etc/profile.d",
    "/etc/protocols",
    "/etc/python3",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/static",
    "/etc/terminfo",
    "/etc/timezone",
];

/// Devices without state or effect.
const DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"];

/// The sufficient versions, best first. Before 3, a file outside could be truncated; before 6, without a PID namespace,
/// outside processes could be signalled.
const VERSIONS: &[(u8, ABI)] = &[(6, ABI::V6), (5, ABI::V5), (4, ABI::V4), (3, ABI::V3)];

/// Restricts this process. Only `port` can be connected to.
pub(super) fn restrict(plan: &Plan, port: Option<u16>) -> io::Result<()> {
    let (_, abi, ruleset) = newest(plan.isolation)?;
    Rules { ruleset, abi }.of(plan, port)
}

/// The version that is in force with this isolation.
pub(in super::super) fn version(isolation: Isolation) -> Option<u8> {
    newest(isolation).ok().map(|(number, ..)| number)
}

fn newest(isolation: Isolation) -> io::Result<(u8, ABI, RulesetCreated)> {
    let mut missing = None;
    for (number, abi) in VERSIONS.iter().filter(|(number, _)| *number >= 6 || isolation.has_namespaces()) {
        match ruleset(*abi) {
            Ok(ruleset) => return Ok((*number, *abi, ruleset)),
            Err(error) => missing = Some(error),
        }
    }
    let why = missing.map(|error| error.to_string()).unwrap_or_default();
    Err(io::Error::other(format!("this kernel has no Landlock that is new enough: {why}")))
}

fn ruleset(abi: ABI) -> io::Result<RulesetCreated> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let mut ruleset = ruleset.handle_access(AccessFs::from_all(abi)).map_err(io::Error::other)?;
    if abi >= ABI::V4 {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi)).map_err(io::Error::other)?;
    }
    if abi >= ABI::V6 {
        ruleset = ruleset.scope(Scope::from_all(abi)).map_err(io::Error::other)?;
    }
    ruleset.create().map_err(io::Error::other)
}

struct Rules {
    ruleset: RulesetCreated,
    abi: ABI,
}

impl Rules {
    fn of(mut self, plan: &Plan, port: Option<u16>) -> io::Result<()> {
        let (read, all) = (AccessFs::from_read(self.abi), self.all());
        for path in SYSTEM.iter().map(Path::new).filter(|path| path.exists()) {
            self.grant(path, read)?;
        }
        for device in DEVICES.iter().map(Path::new).filter(|device| device.exists()) {
            self.grant(device, AccessFs::ReadFile | AccessFs::WriteFile)?;
        }
        self.grant(&plan.home(), all)?;
        for path in &plan.read {
            self.grant_around(path, plan, read)?;
        }
        for path in &plan.write {
            self.grant_around(path, plan, all)?;
        }
        self.grant_around(&plan.workspace, plan, read)?;
        for path in &plan.declared {
            self.grant_declared(path, plan)?;
        }
        let mut ruleset = self.ruleset;
        if let Some(port) = port.filter(|_| self.abi >= ABI::V4) {
            ruleset = ruleset.add_rule(NetPort::new(port, AccessNet::ConnectTcp)).map_err(io::Error::other)?;
        }
        let status = ruleset.restrict_self().map_err(io::Error::other)?;
        if status.ruleset == RulesetStatus::FullyEnforced && status.no_new_privs {
            return Ok(());
        }
        Err(io::Error::other("Landlock is not fully in force"))
    }

    /// Everything but device nodes.
    fn all(&self) -> BitFlags<AccessFs> {
        AccessFs::from_all(self.abi) & !(AccessFs::MakeChar | AccessFs::MakeBlock)
    }

    fn grant_open(&mut self, file: &OwnedFd, access: BitFlags<AccessFs>) -> io::Result<()> {
        let is_folder = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode).is_dir();
        let access = if is_folder { access } else { access & AccessFs::from_file(self.abi) };
        (&mut self.ruleset).add_rule(PathBeneath::new(file.as_fd(), access)).map(drop).map_err(io::Error::other)
    }

    fn grant(&mut self, path: &Path, access: BitFlags<AccessFs>) -> io::Result<()> {
        let file = open(path, 0).map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        self.grant_open(&file, access)
    }

    /// Grants a path that may contain hidden ones. In a mount namespace those are masked; without one they are left
    /// out.
    fn grant_around(&mut self, path: &Path, plan: &Plan, access: BitFlags<AccessFs>) -> io::Result<()> {
        let Ok(path) = path.canonicalize() else { return Ok(()) };
        if plan.isolation.has_namespaces() {
            return self.grant(&path, access);
        }
        // No parent of a hidden or held path is a link: see `Processes`.
        let held = || plan.read_only.iter().chain(&plan.kept);
        let mut paths = vec![(path, access)];
        while let Some((path, mut access)) = paths.pop() {
            if plan.hidden.iter().any(|hidden| path.starts_with(hidden)) {
                continue;
            }
            if held().any(|held| path.starts_with(held)) {
                access &= AccessFs::from_read(self.abi);
            }
            let is_written = access != access & AccessFs::from_read(self.abi);
            if plan.hidden.iter().any(|hidden| hidden.starts_with(&path)) {
                paths.extend(entries(&path)?.into_iter().map(|entry| (entry, access)));
            } else if is_written && path.is_dir() && held().any(|held| held.starts_with(&path)) {
                self.grant(&path, access & AccessFs::from_read(self.abi))?;
                paths.extend(entries(&path)?.into_iter().map(|entry| (entry, access)));
            } else if let Ok(file) = open(&path, libc::O_NOFOLLOW) {
                // A link would grant its target.
                let is_link = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode).is_symlink();
                if !is_link {
                    self.grant_open(&file, access)?;
                }
            }
        }
        Ok(())
    }

    fn grant_declared(&mut self, path: &Path, plan: &Plan) -> io::Result<()> {
        let file = declared::open(plan, path)?;
        let real = declared::real(&file)?;
        if !plan.isolation.has_namespaces() && plan.hidden.iter().any(|hidden| hidden.starts_with(&real)) {
            return Err(declared::refused(path, "something out of reach lies in it"));
        }
        let mut held = plan.read_only.iter().chain(&plan.kept);
        if !plan.isolation.has_namespaces() && held.any(|held| held.starts_with(&real)) {
            return Err(declared::refused(path, "something lies in it that may be read but not written"));
        }
        if plan.hidden.iter().any(|hidden| real.starts_with(hidden)) {
            return Err(declared::refused(path, "it is out of reach"));
        }
        self.grant_open(&file, self.all())
    }
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

/// Opens a path only as a reference.
pub(super) fn open(path: &Path, flags: i32) -> io::Result<OwnedFd> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_PATH | flags).open(path)?;
    Ok(OwnedFd::from(file))
}
