//! Checks whether a read set is still valid.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rondo_protocol::digest::{Digest, Hasher};
use rondo_protocol::read_set::{ReadEntry, ReadKind, ReadSet};

use super::read_entries::stands_alike;
use super::{Error, Folder, OpenFile, Opened, Workspace};

/// How much of a file is read between two checks of the time.
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadSetValidity {
    Holds,
    Changed { path: String },
    TooLate,
}

/// The paths that some writes may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    home: PathBuf,
    /// Each path as it is named and as it really is, with all below it; `None` = anything.
    paths: Option<Vec<PathBuf>>,
}

impl Workspace {
    /// Checks every entry by the rules of this workspace: a path that is not granted has changed.
    pub fn validity(&self, seen: &ReadSet, until: Instant) -> ReadSetValidity {
        let workspace = self.unwatched();
        let mut again = Again { workspace: &workspace, until, folder: None };
        for read_entry in &seen.read_entries {
            match again.stands(read_entry) {
                Ok(true) => {}
                Ok(false) => return ReadSetValidity::Changed { path: read_entry.path.clone() },
                Err(TooLate) => return ReadSetValidity::TooLate,
            }
        }
        ReadSetValidity::Holds
    }

    /// What writes to these paths may change, as [`Effect::Writes`](rondo_protocol::call::Effect::Writes) names them:
    /// each path with all below it.
    pub fn reach(&self, written: &[String]) -> Reach {
        let workspace = self.unwatched();
        let home = workspace.path().to_owned();
        // A write without paths may change anything.
        let of = |path: &String| {
            let named = workspace.normalized(path).ok()?;
            let real = workspace.led_to(&named)?;
            Some([home.join(named), real])
        };
        let paths = if written.is_empty() { None } else { written.iter().map(of).collect::<Option<Vec<_>>>() };
        Reach { paths: paths.map(|paths| paths.concat()), home }
    }

    /// The real path, also of a missing one; `None` = unknown.
    fn led_to(&self, path: &str) -> Option<PathBuf> {
        let (root, parts) = self.lexical(path).ok()?;
        let whole = root.path.join(parts);
        for at in whole.ancestors().take_while(|at| at.starts_with(&root.path)) {
            let real = match self.find(&self.plain(at)?) {
                Ok(Opened::File(file)) => self.path().join(file.path()),
                Ok(Opened::Folder(folder)) => folder.real().to_owned(),
                Err(Error::Missing(_)) => continue,
                Err(_) => return None,
            };
            return Some(real.join(whole.strip_prefix(at).ok()?));
        }
        None
    }
}

impl Reach {
    pub fn paths(&self) -> Option<&[PathBuf]> {
        self.paths.as_deref()
    }

    /// Whether such a write could change anything of what was seen. On doubt it could.
    pub fn touches(&self, seen: &ReadSet) -> bool {
        seen.read_entries.iter().any(|read_entry| self.touches_sight(read_entry))
    }

    fn touches_sight(&self, read_entry: &ReadEntry) -> bool {
        let Some(paths) = &self.paths else { return true };
        let seen = self.home.join(&read_entry.path);
        // Creating something in a folder does not change that it could be entered. For other entries it changes the
        // listing, or what exists.
        let has_below = read_entry.kind != ReadKind::Folder;
        paths.iter().any(|path| seen.starts_with(path) || (has_below && path.starts_with(&seen)))
    }
}

struct TooLate;

struct Again<'a> {
    workspace: &'a Workspace,
    until: Instant,
    /// The last folder. Entries are sorted, so the next one is likely to be in it.
    folder: Option<Folder<'a>>,
}

impl Again<'_> {
    fn stands(&mut self, read_entry: &ReadEntry) -> Result<bool, TooLate> {
        self.check_time()?;
        // A path in another form was not recorded here.
        if self.workspace.normalized(&read_entry.path).map_or(true, |path| path != read_entry.path) {
            return Ok(false);
        }
        match read_entry.kind {
            ReadKind::Folder => Ok(self.way_stands(read_entry)),
            ReadKind::File if read_entry.read_bytes == 0 && read_entry.digest.is_some() => {
                Ok(self.way_stands(read_entry))
            }
            ReadKind::File => self.file_stands(read_entry),
            ReadKind::Listing => self.listing_stands(read_entry),
            ReadKind::Absent => Ok(self.absence_stands(read_entry)),
        }
    }

    /// Whether a path still leads to the recorded target, or to itself if none was recorded.
    fn way_stands(&self, read_entry: &ReadEntry) -> bool {
        let (led_to, mark) = match (self.workspace.find(&read_entry.path), read_entry.kind) {
            (Ok(Opened::Folder(folder)), ReadKind::Folder) => (folder.path(), folder.stamp().mark),
            (Ok(Opened::File(file)), ReadKind::File) => (file.path().to_owned(), file.stamp().mark),
            _ => return false,
        };
        let leads_alike = match read_entry.digest {
            Some(digest) => digest == Digest::sha256(led_to.as_bytes()),
            None => read_entry.path == led_to,
        };
        leads_alike && stands_alike(read_entry.kind, read_entry.mark, Some(mark))
    }

    fn file_stands(&mut self, read_entry: &ReadEntry) -> Result<bool, TooLate> {
        let Ok(Some(Ok(mut file))) = self.open(&read_entry.path) else { return Ok(false) };
        if !stands_alike(read_entry.kind, read_entry.mark, Some(file.stamp().mark)) {
            return Ok(false);
        }
        match read_entry.digest {
            Some(digest) => Ok(self.read(&mut file, read_entry.read_bytes)? == Some(digest)),
            None => Ok(true),
        }
    }

    fn listing_stands(&mut self, read_entry: &ReadEntry) -> Result<bool, TooLate> {
        let Ok(Opened::Folder(folder)) = self.workspace.find(&read_entry.path) else { return Ok(false) };
        let mark = Some(folder.stamp().mark);
        if folder.path() != read_entry.path || !stands_alike(read_entry.kind, read_entry.mark, mark) {
            return Ok(false);
        }
        let Ok(listing) = folder.list_until(Some(self.until)) else { return Ok(false) };
        if listing.is_cut {
            self.check_time()?;
        }
        self.folder = Some(folder);
        Ok(!listing.is_cut && read_entry.digest == Some(listing.digest()))
    }

    fn absence_stands(&mut self, read_entry: &ReadEntry) -> bool {
        match self.open(&read_entry.path) {
            Ok(Some(Err(error))) => error.reason() == read_entry.digest,
            // Its folder does not exist either.
            Ok(None) => read_entry.digest.is_none(),
            Ok(Some(Ok(_))) | Err(()) => false,
        }
    }

    /// Opens a file by its parent, so that no new link is followed; `None` = there is no parent.
    fn open(&mut self, path: &str) -> Result<Option<Result<OpenFile, Error>>, ()> {
        let path = Path::new(path);
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else { return Err(()) };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let parent = parent.to_str().ok_or(())?;
        let folder = match self.folder.take().filter(|folder| folder.path() == parent) {
            Some(folder) => folder,
            None => match self.workspace.find(parent) {
                Ok(Opened::Folder(folder)) if folder.path() == parent => folder,
                Err(Error::Missing(_)) => return Ok(None),
                _ => return Err(()),
            },
        };
        Ok(Some(self.folder.insert(folder).file(name)))
    }

    /// The digest of the first `length` bytes; `None` = there are fewer, or they cannot be read.
    fn read(&self, file: &mut OpenFile, length: u64) -> Result<Option<Digest>, TooLate> {
        let mut hasher = Hasher::default();
        let mut left = length;
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        while left > 0 {
            self.check_time()?;
            chunk.clear();
            let wanted = left.min(CHUNK_BYTES as u64);
            match file.by_ref().take(wanted).read_to_end(&mut chunk) {
                Ok(read) if read > 0 => left = left.saturating_sub(read as u64),
                _ => return Ok(None),
            }
            hasher.update(&chunk);
        }
        Ok(Some(hasher.finish()))
    }

    fn check_time(&self) -> Result<(), TooLate> {
        if Instant::now() >= self.until { Err(TooLate) } else { Ok(()) }
    }
}
