//! Walks a path from a root.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;

use super::rules::Identities;
use super::{Error, Folder, Kind, OpenFile, Root, Workspace, step};

const LINKS_MAX: usize = 40;
/// The maximum number of steps of one walk, including those of links and races.
const STEPS_MAX: usize = 10_000;

#[derive(Debug)]
pub enum Opened<'a> {
    File(OpenFile),
    Folder(Folder<'a>),
}

pub(super) struct Passage<'a> {
    workspace: &'a Workspace,
    named: String,
    root: &'a Root,
    /// The current folder; `None` = the root.
    dir: Option<Dir>,
    /// Its real path.
    done: PathBuf,
    /// The remaining names, the next one last.
    left: Vec<OsString>,
    links: usize,
    hidden: Arc<Identities>,
}

impl<'a> Passage<'a> {
    pub(super) fn new(workspace: &'a Workspace, named: &str, root: &'a Root, below: &Path) -> Self {
        let hidden = Arc::new(workspace.rules.identities());
        let (named, left) = (named.to_owned(), below.iter().rev().map(OsStr::to_owned).collect());
        Self { workspace, named, root, dir: None, done: root.path.clone(), left, links: 0, hidden }
    }

    pub(super) fn walk(mut self) -> Result<Opened<'a>, Error> {
        for _ in 0..STEPS_MAX {
            let Some(name) = self.left.pop() else { return self.arrive() };
            if name == ".." {
                self.ascend()?;
            } else if let Some(found) = self.descend(&name)? {
                return Ok(found);
            }
        }
        Err(Error::Endless(self.named.clone()))
    }

    fn dir(&self) -> &Dir {
        self.dir.as_ref().unwrap_or(&self.root.dir)
    }

    /// Goes one folder up: restarts the walk and stops one name earlier, so that no handle of a passed folder is kept
    /// or trusted to be in its old place.
    fn ascend(&mut self) -> Result<(), Error> {
        let below = self.done.strip_prefix(&self.root.path).ok().and_then(Path::parent);
        let kept = below.ok_or_else(|| Error::Outside(self.named.clone()))?;
        self.left.extend(kept.iter().rev().map(OsStr::to_owned));
        self.begin_at(self.root);
        Ok(())
    }

    fn begin_at(&mut self, root: &'a Root) {
        self.root = root;
        self.dir = None;
        self.done.clone_from(&root.path);
    }

    /// One name down. `Some` = this was the last one, and it is a file.
    fn descend(&mut self, name: &OsStr) -> Result<Option<Opened<'a>>, Error> {
        let real = self.done.join(name);
        if self.workspace.rules.hides(&real) {
            return Err(Error::Hidden(self.named.clone()));
        }
        let seen = step::look(self.dir(), name).map_err(|source| self.fault(&real, source))?;
        match seen.kind {
            Kind::Folder => {
                match step::folder(self.dir(), name) {
                    Ok(dir) => {
                        self.dir = Some(dir);
                        self.done = real;
                        // Where links are walked by hand a folder may be anything until it has been entered.
                        self.refuse_hidden()?;
                    }
                    // It was replaced meanwhile: look again.
                    Err(error) if step::is_not_a_folder(&error) => self.left.push(name.to_owned()),
                    Err(source) => return Err(self.fault(&real, source)),
                }
                Ok(None)
            }
            Kind::Link => self.follow(name).map(|()| None),
            kind if !self.left.is_empty() => {
                let path = self.workspace.shown(&real);
                Err(Error::Kind { path, kind, wanted: "nothing can lie below it" })
            }
            _ => {
                self.refuse_ungranted(&real)?;
                Ok(Some(Opened::File(self.workspace.opened(self.dir(), name, &real, &self.hidden)?)))
            }
        }
    }

    /// Puts what a link says in front of the names that are left.
    fn follow(&mut self, name: &OsStr) -> Result<(), Error> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Error::Endless(self.named.clone()));
        }
        let target = self.dir().read_link_contents(name);
        let target = target.map_err(|source| self.fault(&self.done.join(name), source))?;
        let mut rest = target;
        if rest.is_absolute() {
            // `..` in it would have to be walked from the system's root, which is not ours.
            let climbs = rest.components().any(|component| component == Component::ParentDir);
            let at = self.workspace.beneath(&rest).filter(|_| !climbs);
            let (root, below) = at.ok_or_else(|| Error::Outside(self.named.clone()))?;
            self.begin_at(root);
            rest = below;
        }
        self.left.extend(rest.iter().rev().filter(|name| *name != ".").map(OsStr::to_owned));
        Ok(())
    }

    /// The last name was a folder, or there was none.
    fn arrive(mut self) -> Result<Opened<'a>, Error> {
        self.refuse_hidden()?;
        if !self.workspace.rules.leads_to_readable(&self.done) {
            self.refuse_ungranted(&self.done)?;
        }
        let fault = |source| Error::System { path: self.named.clone(), doing: "open", source };
        let dir = self.dir.take().map_or_else(|| step::reopened(&self.root.dir), Ok).map_err(fault)?;
        let stamp = step::stamp(&dir).map_err(fault)?;
        let Self { workspace, done: real, hidden, .. } = self;
        Ok(Opened::Folder(Folder { workspace, dir, real, stamp, hidden }))
    }

    fn refuse_hidden(&self) -> Result<(), Error> {
        let stamp = step::stamp(self.dir());
        let stamp = stamp.map_err(|source| Error::System { path: self.named.clone(), doing: "look at", source })?;
        // A root was looked at when it was opened; what lies around the operator's folders is the operator's.
        let is_closed = self.dir.as_ref().is_some_and(|dir| self.workspace.rules.closes_repository(dir));
        if is_closed || self.hidden.hold(&stamp) {
            return Err(Error::Hidden(self.named.clone()));
        }
        Ok(())
    }

    fn refuse_ungranted(&self, real: &Path) -> Result<(), Error> {
        if self.workspace.rules.may_read(real) {
            return Ok(());
        }
        Err(Error::NotGranted { path: self.named.clone(), access: "read" })
    }

    /// The error for a name. Whether it exists is revealed only where it may be read.
    fn fault(&self, real: &Path, source: std::io::Error) -> Error {
        let rules = &self.workspace.rules;
        if !rules.may_read(real) && !rules.leads_to_readable(real) {
            return Error::NotGranted { path: self.named.clone(), access: "read" };
        }
        if source.kind() == std::io::ErrorKind::NotFound {
            return Error::Missing(self.named.clone());
        }
        Error::System { path: self.named.clone(), doing: "reach", source }
    }
}
