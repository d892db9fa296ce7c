//! What a run did to its files, and which of it a device may hold after a loss of power.
//!
//! A change of a file is on the device when a sync of that file began after the change had returned, and has returned
//! itself; a change of a name when a sync of its folder did. Everything else may be there or not, each change by
//! itself and in any order, a write sector by sector. POSIX promises no more, but one thing is taken for granted that
//! all file systems of Linux do and RocksDB builds on: a sync of a new file keeps its name too. [`Names::Journaled`] is
//! what ext4 and XFS do: names change in order, and any sync keeps all changes of names before it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// What a device writes as a whole.
const SECTOR_BYTES: u64 = 512;

/// A file or folder, whatever its names: its place in [`Run::kinds`].
pub type Node = usize;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Contents {
    File(Vec<u8>),
    Folder(BTreeMap<String, Node>),
}

#[derive(Debug, Clone)]
pub enum Change {
    Write {
        node: Node,
        at: u64,
        bytes: Vec<u8>,
    },
    Resize {
        node: Node,
        size: u64,
    },
    /// Gives `node` a name; `instead_of` is the one it had.
    Name {
        folder: Node,
        name: String,
        node: Node,
        instead_of: Option<(Node, String)>,
    },
    Unname {
        folder: Node,
        name: String,
    },
    /// Each of two names of a folder means what the other meant.
    Exchange {
        folder: Node,
        names: [String; 2],
    },
}

#[derive(Debug, Clone)]
pub enum What {
    Change(Change),
    Sync(Node),
    /// Bytes on stdout.
    Said(Vec<u8>),
}

#[derive(Debug, Clone)]
pub struct Event {
    pub begun: usize,
    pub ended: usize,
    pub what: What,
    /// For people.
    pub shown: String,
}

/// What a run did, from the files that it found.
#[derive(Debug)]
pub struct Run {
    pub before: Vec<Contents>,
    pub events: Vec<Event>,
}

pub const ROOT: Node = 0;

/// Every file below `folder` with its bytes, by its path; a folder has none.
pub fn tree(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    fn visit(nodes: &[Contents], at: Node, path: &Path, tree: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
        match &nodes[at] {
            Contents::File(bytes) => drop(tree.insert(path.to_owned(), Some(bytes.clone()))),
            Contents::Folder(names) => {
                tree.insert(path.to_owned(), None);
                for (name, &node) in names {
                    visit(nodes, node, &path.join(name), tree);
                }
            }
        }
    }
    let mut tree = BTreeMap::new();
    visit(&files(folder), ROOT, Path::new(""), &mut tree);
    tree
}

/// Reads the files below `folder`.
pub fn files(folder: &Path) -> Vec<Contents> {
    let mut nodes = vec![Contents::Folder(BTreeMap::new())];
    fill(folder, ROOT, &mut nodes);
    nodes
}

fn fill(folder: &Path, at: Node, nodes: &mut Vec<Contents>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type().unwrap();
        let node = nodes.len();
        if kind.is_dir() {
            nodes.push(Contents::Folder(BTreeMap::new()));
            fill(&entry.path(), node, nodes);
        } else if kind.is_file() {
            nodes.push(Contents::File(std::fs::read(entry.path()).unwrap()));
        } else {
            continue;
        }
        let Contents::Folder(names) = &mut nodes[at] else { unreachable!() };
        names.insert(entry.file_name().into_string().unwrap(), node);
    }
}

impl Run {
    /// The files that were there before and have names with that ending.
    pub fn files_with_ending(&self, ending: &str) -> Vec<Node> {
        let folders = self.before.iter().filter_map(|node| match node {
            Contents::Folder(names) => Some(names),
            Contents::File(_) => None,
        });
        folders.flatten().filter(|(name, _)| name.ends_with(ending)).map(|(_, node)| *node).collect()
    }

    /// The moments between which a power loss makes a difference.
    pub fn end(&self) -> usize {
        self.events.iter().map(|event| event.ended).max().unwrap_or_default() + 1
    }

    /// What was said before `cut`.
    pub fn said(&self, cut: usize) -> Vec<u8> {
        let said = self.events.iter().filter(|event| event.begun < cut);
        said.filter_map(|event| match &event.what {
            What::Said(bytes) => Some(bytes.as_slice()),
            _ => None,
        })
        .flatten()
        .copied()
        .collect()
    }
}

fn file(nodes: &mut [Contents], node: Node) -> &mut Vec<u8> {
    match &mut nodes[node] {
        Contents::File(bytes) => bytes,
        Contents::Folder(_) => panic!("bytes were written to a folder"),
    }
}

fn folder(nodes: &mut [Contents], node: Node) -> &mut BTreeMap<String, Node> {
    match &mut nodes[node] {
        Contents::Folder(names) => names,
        Contents::File(_) => panic!("a file was used as a folder"),
    }
}

fn put(bytes: &mut Vec<u8>, at: u64, piece: &[u8]) {
    let at = usize::try_from(at).unwrap();
    if bytes.len() < at + piece.len() {
        bytes.resize(at + piece.len(), 0);
    }
    bytes[at..at + piece.len()].copy_from_slice(piece);
}

pub fn apply(nodes: &mut [Contents], change: &Change) {
    match change {
        Change::Write { node, at, bytes } => put(file(nodes, *node), *at, bytes),
        Change::Resize { node, size } => file(nodes, *node).resize(usize::try_from(*size).unwrap(), 0),
        Change::Name { folder: at, name, node, instead_of } => {
            if let Some((old, old_name)) = instead_of {
                folder(nodes, *old).remove(old_name);
            }
            folder(nodes, *at).insert(name.clone(), *node);
        }
        Change::Unname { folder: at, name } => {
            folder(nodes, *at).remove(name);
        }
        Change::Exchange { folder: at, names: [one, other] } => {
            let names = folder(nodes, *at);
            let pair = [names.remove(one), names.remove(other)];
            names.extend(pair.into_iter().zip([other, one]).filter_map(|(node, name)| Some((name.clone(), node?))));
        }
    }
}

/// What becomes of changes of names that are not on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Each by itself, until its folder is synced.
    Any,
    /// The last ones are lost together; any sync keeps those before it.
    Journaled,
}

/// What can be lost by itself: of the event with that number the part with that number (the sector of a write, else 0).
pub type Unit = (usize, usize);

/// A state that a loss of power may leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The line of the record before which the power was lost.
    pub cut: usize,
    pub names: Names,
    pub lost: BTreeSet<Unit>,
    /// One sector of which only so many bytes were written.
    pub torn: Option<(Unit, usize)>,
    /// Whether a file has reached its size where its bytes are lost: then these are zeros.
    pub is_sized: bool,
}

/// The sectors of a write as ranges of its bytes.
fn sectors(at: u64, length: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let first = usize::try_from(SECTOR_BYTES - at % SECTOR_BYTES).unwrap().min(length);
    let rest = (first..length).step_by(usize::try_from(SECTOR_BYTES).unwrap());
    std::iter::once(0..first)
        .chain(rest.map(move |from| from..length.min(from + 512)))
        .filter(|range| !range.is_empty())
}

impl Change {
    /// Whose sync puts it on the device.
    fn nodes(&self) -> Vec<Node> {
        match self {
            Self::Write { node, .. } | Self::Resize { node, .. } => vec![*node],
            Self::Name { folder, instead_of, .. } => {
                let old = instead_of.as_ref().map(|(old, _)| *old);
                [Some(*folder), old].into_iter().flatten().collect()
            }
            Self::Unname { folder, .. } | Self::Exchange { folder, .. } => vec![*folder],
        }
    }

    /// What has its first name by this change.
    fn created(&self) -> Option<Node> {
        match self {
            Self::Name { node, instead_of: None, .. } => Some(*node),
            _ => None,
        }
    }

    fn is_name(&self) -> bool {
        matches!(self, Self::Name { .. } | Self::Unname { .. } | Self::Exchange { .. })
    }

    fn parts(&self) -> usize {
        match self {
            Self::Write { at, bytes, .. } => sectors(*at, bytes.len()).count(),
            _ => 1,
        }
    }
}

impl Run {
    fn changes(&self, cut: usize) -> impl Iterator<Item = (usize, &Event, &Change)> {
        let begun = self.events.iter().enumerate().filter(move |(_, event)| event.begun < cut);
        begun.filter_map(|(at, event)| match &event.what {
            What::Change(change) => Some((at, event, change)),
            _ => None,
        })
    }

    /// Everything that a power loss before `cut` may take, in the order of the run.
    pub fn pending(&self, cut: usize, names: Names) -> Vec<Unit> {
        let synced: Vec<(usize, Node)> = self
            .events
            .iter()
            .filter(|event| event.ended < cut)
            .filter_map(|event| match event.what {
                What::Sync(node) => Some((event.begun, node)),
                _ => None,
            })
            .collect();
        let is_kept = |event: &Event, change: &Change| {
            let is_kept_by = |wanted: Option<Node>| {
                synced.iter().any(|(begun, node)| *begun > event.ended && wanted.is_none_or(|wanted| wanted == *node))
            };
            match names {
                Names::Journaled if change.is_name() => is_kept_by(None),
                Names::Any if change.created().is_some_and(|node| is_kept_by(Some(node))) => true,
                _ => change.nodes().into_iter().all(|node| is_kept_by(Some(node))),
            }
        };
        let pending = self.changes(cut).filter(|(_, event, change)| !is_kept(event, change));
        pending.flat_map(|(at, _, change)| (0..change.parts()).map(move |part| (at, part))).collect()
    }

    /// Whether that image can be: with journaled names the lost ones are the last.
    pub fn allows(&self, image: &Image) -> bool {
        if image.names == Names::Any {
            return true;
        }
        let mut seen_lost = false;
        self.changes(image.cut).filter(|(_, _, change)| change.is_name()).all(|(at, _, _)| {
            let is_lost = image.lost.contains(&(at, 0));
            seen_lost |= is_lost;
            is_lost || !seen_lost
        })
    }

    /// Makes the lost names of an image the last ones that are pending: `from` chooses how many stay.
    pub fn journal(&self, image: &mut Image, from: usize, pending: &[Unit]) {
        let is_name = |unit: &Unit| matches!(&self.events[unit.0].what, What::Change(change) if change.is_name());
        let names: Vec<Unit> = pending.iter().copied().filter(is_name).collect();
        image.lost.retain(|unit| !is_name(unit));
        image.lost.extend(names.iter().skip(from % (names.len() + 1)));
    }

    /// The files of an image.
    pub fn built(&self, image: &Image) -> Vec<Contents> {
        let mut nodes = self.before.clone();
        for (event, _, change) in self.changes(image.cut) {
            let Change::Write { node, at, bytes } = change else {
                if !image.lost.contains(&(event, 0)) {
                    apply(&mut nodes, change);
                }
                continue;
            };
            let contents = file(&mut nodes, *node);
            for (part, range) in sectors(*at, bytes.len()).enumerate() {
                let begin = at + range.start as u64;
                let torn = image.torn.filter(|(unit, _)| *unit == (event, part)).map(|(_, kept)| kept);
                let kept = match torn {
                    Some(kept) => kept.min(range.len()),
                    None if image.lost.contains(&(event, part)) => 0,
                    None => range.len(),
                };
                if kept > 0 {
                    put(contents, begin, &bytes[range.start..range.start + kept]);
                }
                let end = usize::try_from(begin).unwrap() + range.len();
                if image.is_sized && contents.len() < end {
                    contents.resize(end, 0);
                }
            }
        }
        nodes
    }

    /// What an image lacks, a line each.
    pub fn told(&self, image: &Image) -> String {
        let mut lines = vec![format!("power lost before line {} of the record, names {:?}", image.cut, image.names)];
        let torn = image.torn.iter().map(|(unit, kept)| (unit, Some(*kept)));
        for (&(event, part), kept) in image.lost.iter().map(|unit| (unit, None)).chain(torn) {
            let Event { what, shown, begun, .. } = &self.events[event];
            let range = match what {
                What::Change(Change::Write { at, bytes, .. }) => {
                    let range = sectors(*at, bytes.len()).nth(part).unwrap_or_default();
                    format!(", bytes {} to {}", at + range.start as u64, at + range.end as u64)
                }
                _ => String::new(),
            };
            let kept = kept.map_or_else(|| "lost".to_owned(), |kept| format!("cut after {kept} bytes"));
            lines.push(format!("  {kept}: {shown}{range} (line {begun})"));
        }
        if image.is_sized {
            lines.push("  files have their sizes where bytes are lost".to_owned());
        }
        lines.join("\n")
    }
}

/// Writes files below `folder`, which is empty or has some of their folders.
pub fn write(nodes: &[Contents], folder: &Path) {
    write_at(nodes, ROOT, folder, &mut HashMap::new());
}

fn write_at(nodes: &[Contents], at: Node, folder: &Path, written: &mut HashMap<Node, PathBuf>) {
    let Contents::Folder(names) = &nodes[at] else { return };
    for (name, &node) in names {
        let path = folder.join(name);
        match &nodes[node] {
            Contents::Folder(_) => {
                if !path.is_dir() {
                    DirBuilder::new().mode(0o700).create(&path).unwrap();
                }
                write_at(nodes, node, &path, written);
            }
            Contents::File(_) if written.contains_key(&node) => std::fs::hard_link(&written[&node], &path).unwrap(),
            Contents::File(bytes) => {
                let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
                new.unwrap().write_all(bytes).unwrap();
                written.insert(node, path);
            }
        }
    }
}
