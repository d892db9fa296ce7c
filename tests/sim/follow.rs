//! From the system calls of a run to what it did to its files.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use crate::disk::{Change, Contents, Event, Node, ROOT, Run, What, apply};
use crate::trace::{self, SystemCall};

/// Follows the calls of a record.
struct Follower<'f> {
    root: &'f Path,
    /// As the program sees them.
    live: Vec<Contents>,
    /// Of each descriptor below the root: its file, its position, and whether it appends.
    open: HashMap<usize, (Node, u64, bool)>,
    events: Vec<Event>,
}

impl Run {
    /// What the calls did to the files below `root`, which were `before`.
    pub fn of(root: &Path, before: Vec<Contents>, calls: &[SystemCall]) -> Self {
        let mut follower = Follower { root, live: before.clone(), open: HashMap::new(), events: Vec::new() };
        for call in calls {
            follower.follow(call);
        }
        let mut run = Self { before, events: follower.events };
        run.before.resize(follower.live.len(), Contents::File(Vec::new()));
        for (node, live) in follower.live.iter().enumerate() {
            if let (Contents::Folder(_), Contents::File(_)) = (live, &run.before[node]) {
                run.before[node] = Contents::Folder(BTreeMap::new());
            }
        }
        run
    }
}

impl Follower<'_> {
    fn follow(&mut self, call: &SystemCall) {
        let argument = |at: usize| call.arguments[at].as_str();
        match call.name.as_str() {
            "openat" => self.opened(call, &trace::path_at(Some(argument(0)), argument(1)), argument(2)),
            "open" => self.opened(call, &trace::path_at(None, argument(0)), argument(1)),
            "creat" => self.opened(call, &trace::path_at(None, argument(0)), "O_CREAT|O_TRUNC"),
            "write" | "writev" => {
                let mut bytes = trace::bytes(argument(1));
                bytes.truncate(call.returned);
                if trace::descriptor(argument(0)) == 1 {
                    self.push(call, What::Said(bytes), String::new());
                } else if let Some((node, at, appends)) = self.held(argument(0)) {
                    let at = if appends { self.size(node) } else { at };
                    self.moved(argument(0), at + bytes.len() as u64);
                    self.wrote(call, node, at, bytes);
                }
            }
            "pwrite64" | "pwritev" | "pwritev2" => {
                if let Some((node, _, _)) = self.held(argument(0)) {
                    let mut bytes = trace::bytes(argument(1));
                    bytes.truncate(call.returned);
                    self.wrote(call, node, argument(3).parse().unwrap(), bytes);
                }
            }
            "copy_file_range" | "sendfile" => self.copied(call),
            "lseek" => self.moved(argument(0), call.returned as u64),
            "fsync" | "fdatasync" => {
                if let Some((node, _, _)) = self.held(argument(0)) {
                    let shown = format!("{} {}", call.name, self.shown(argument(0)));
                    self.push(call, What::Sync(node), shown);
                }
            }
            "ftruncate" => {
                if let Some((node, _, _)) = self.held(argument(0)) {
                    self.resized(call, node, argument(1).parse().unwrap());
                }
            }
            // With `KEEP_SIZE` it reserves room and changes nothing that is read.
            "fallocate" => {
                if let Some((node, _, _)) = self.held(argument(0)).filter(|_| !argument(1).contains("KEEP_SIZE")) {
                    let size = argument(2).parse::<u64>().unwrap() + argument(3).parse::<u64>().unwrap();
                    let size = self.size(node).max(size);
                    self.resized(call, node, size);
                }
            }
            "truncate" => {
                if let Some(node) = self.node(&trace::path_at(None, argument(0))) {
                    self.resized(call, node, argument(1).parse().unwrap());
                }
            }
            "rename" => self.renamed(call, &trace::path_at(None, argument(0)), &trace::path_at(None, argument(1))),
            "renameat" | "renameat2" => {
                let [from, to] = [0, 2].map(|at| trace::path_at(Some(argument(at)), argument(at + 1)));
                self.renamed(call, &from, &to);
            }
            "unlink" | "rmdir" => self.unnamed(call, &trace::path_at(None, argument(0))),
            "unlinkat" => self.unnamed(call, &trace::path_at(Some(argument(0)), argument(1))),
            "link" => self.linked(call, &trace::path_at(None, argument(0)), &trace::path_at(None, argument(1))),
            "linkat" => {
                let [from, to] = [0, 2].map(|at| trace::path_at(Some(argument(at)), argument(at + 1)));
                self.linked(call, &from, &to);
            }
            "mkdir" => self.made(call, &trace::path_at(None, argument(0))),
            "mkdirat" => self.made(call, &trace::path_at(Some(argument(0)), argument(1))),
            name => panic!("{name} is recorded and not understood"),
        }
    }

    fn push(&mut self, call: &SystemCall, what: What, shown: String) {
        self.events.push(Event { begun: call.begun, ended: call.ended, what, shown });
    }

    /// Takes a change over, as the program sees it from now on.
    fn change(&mut self, call: &SystemCall, change: Change, shown: String) {
        apply(&mut self.live, &change);
        self.push(call, What::Change(change), shown);
    }

    fn inside<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        path.strip_prefix(self.root).ok()
    }

    /// What a path leads to, if that is below the root and there.
    fn node(&self, path: &Path) -> Option<Node> {
        self.inside(path)?.iter().try_fold(ROOT, |at, name| match &self.live[at] {
            Contents::Folder(names) => names.get(name.to_str()?).copied(),
            Contents::File(_) => None,
        })
    }

    /// The folder of a path below the root, and its last name.
    fn place(&self, path: &Path) -> Option<(Node, String)> {
        let folder = self.node(path.parent()?)?;
        Some((folder, path.file_name()?.to_str()?.to_owned()))
    }

    /// The file behind a descriptor, if it is one below the root.
    fn held(&self, argument: &str) -> Option<(Node, u64, bool)> {
        let path = trace::path_of(argument)?;
        self.inside(&path)?;
        let held = self.open.get(&trace::descriptor(argument)).copied();
        assert!(held.is_some(), "{} was opened unseen", path.display());
        held
    }

    fn moved(&mut self, argument: &str, to: u64) {
        if let Some(position) = self.open.get_mut(&trace::descriptor(argument)) {
            position.1 = to;
        }
    }

    fn size(&self, node: Node) -> u64 {
        match &self.live[node] {
            Contents::File(bytes) => bytes.len() as u64,
            Contents::Folder(_) => 0,
        }
    }

    fn shown(&self, argument: &str) -> String {
        let path = trace::path_of(argument).unwrap_or_default();
        self.inside(&path).unwrap_or(&path).display().to_string()
    }

    fn opened(&mut self, call: &SystemCall, path: &Path, flags: &str) {
        self.open.remove(&call.returned);
        let path = call.opened.as_deref().unwrap_or(path);
        if self.inside(path).is_none() {
            return;
        }
        assert!(!flags.contains("O_TMPFILE"), "{} has no name", path.display());
        let node = match self.node(path) {
            Some(node) => {
                if flags.contains("O_TRUNC") && self.size(node) > 0 {
                    self.resized(call, node, 0);
                }
                node
            }
            None => self.named(call, path, Contents::File(Vec::new())),
        };
        self.open.insert(call.returned, (node, 0, flags.contains("O_APPEND")));
    }

    /// Gives a new file or folder its name.
    fn named(&mut self, call: &SystemCall, path: &Path, contents: Contents) -> Node {
        let (folder, name) = self.place(path).unwrap_or_else(|| panic!("{} has no folder", path.display()));
        let node = self.live.len();
        self.live.push(contents);
        let shown = format!("creation of {}", self.inside(path).unwrap_or(path).display());
        self.change(call, Change::Name { folder, name, node, instead_of: None }, shown);
        node
    }

    fn made(&mut self, call: &SystemCall, path: &Path) {
        if self.inside(path).is_some() {
            self.named(call, path, Contents::Folder(BTreeMap::new()));
        }
    }

    fn wrote(&mut self, call: &SystemCall, node: Node, at: u64, bytes: Vec<u8>) {
        let shown = format!("write to {} at {at}", self.shown(&call.arguments[0]));
        self.change(call, Change::Write { node, at, bytes }, shown);
    }

    fn resized(&mut self, call: &SystemCall, node: Node, size: u64) {
        let shown = format!("new size {size} of {}", self.path_to(node));
        self.change(call, Change::Resize { node, size }, shown);
    }

    fn copied(&mut self, call: &SystemCall) {
        let (from, to) = if call.name == "sendfile" { (1, 0) } else { (0, 2) };
        let arguments = [from, to].map(|at| call.arguments[at].clone());
        let offsets = if call.name == "sendfile" { &call.arguments[2..3] } else { &call.arguments[1..4] };
        let Some((target, at, _)) = self.held(&arguments[1]) else { return };
        let (source, begin, _) = self.held(&arguments[0]).unwrap();
        assert!(offsets.iter().step_by(2).all(|offset| offset == "NULL"), "{call:?}");
        let Contents::File(bytes) = &self.live[source] else { return };
        let begin_index = usize::try_from(begin).unwrap();
        let bytes = bytes[begin_index..begin_index + call.returned].to_vec();
        self.moved(&arguments[0], begin + call.returned as u64);
        self.moved(&arguments[1], at + call.returned as u64);
        let shown = format!("copy to {} at {at}", self.shown(&arguments[1]));
        self.change(call, Change::Write { node: target, at, bytes }, shown);
    }

    fn renamed(&mut self, call: &SystemCall, from: &Path, to: &Path) {
        let (Some(node), Some((folder, name))) = (self.node(from), self.place(to)) else { return };
        if call.arguments.last().is_some_and(|flags| flags.contains("RENAME_EXCHANGE")) {
            let (other, other_name) = self.place(from).unwrap();
            assert_eq!(folder, other, "{call:?}");
            let shown = format!("exchange of {name} and {other_name}");
            self.change(call, Change::Exchange { folder, names: [name, other_name] }, shown);
            return;
        }
        let shown = format!("renaming of {} to {}", self.path_to(node), self.inside(to).unwrap_or(to).display());
        self.change(call, Change::Name { folder, name, node, instead_of: self.place(from) }, shown);
    }

    fn linked(&mut self, call: &SystemCall, from: &Path, to: &Path) {
        let (Some(node), Some((folder, name))) = (self.node(from), self.place(to)) else { return };
        let shown = format!("second name {}", self.inside(to).unwrap_or(to).display());
        self.change(call, Change::Name { folder, name, node, instead_of: None }, shown);
    }

    fn unnamed(&mut self, call: &SystemCall, path: &Path) {
        let (Some(_), Some((folder, name))) = (self.node(path), self.place(path)) else { return };
        let shown = format!("removal of {}", self.inside(path).unwrap_or(path).display());
        self.change(call, Change::Unname { folder, name }, shown);
    }

    fn path_to(&self, node: Node) -> String {
        fn below(live: &[Contents], at: Node, node: Node) -> Option<PathBuf> {
            let Contents::Folder(names) = &live[at] else { return None };
            names.iter().find_map(|(name, &child)| {
                if child == node {
                    Some(PathBuf::from(name))
                } else {
                    Some(Path::new(name).join(below(live, child, node)?))
                }
            })
        }
        below(&self.live, ROOT, node).map_or_else(|| "a removed file".to_owned(), |path| path.display().to_string())
    }
}
