use std::fmt::Write;

use rondo_protocol::call::Effect;
use schemars::JsonSchema;
use serde::Deserialize;

use super::files::{FileCall, Patience, WALK_MIB, reads_below};
use super::tree::Tree;
use super::{Content, Error};
use crate::bound::grouped;
use crate::redact::Redactor;
use crate::sandbox::files::{Folder, FolderEntry, Kind, Opened, Workspace, escaped};

const ENTRIES_MAX: u64 = 2_000;
const SHOWN_MAX_BYTES: usize = 512 << 10;

/// What [`ListFiles`] takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFiles {
    /// The folder, relative to the workspace's root. The root itself when left out.
    #[serde(default)]
    path: Option<String>,
    /// Only what this glob matches, relative to `path`: `*.rs` matches names at any depth, `src/**/*.rs` paths; `!*.md`
    /// leaves out.
    #[serde(default)]
    glob: Option<String>,
    /// How many levels of folders: 1 lists `path` alone. All when left out.
    #[serde(default)]
    depth: Option<u32>,
}

impl FileCall for ListFiles {
    const NAME: &'static str = "list_files";
    const DESCRIPTION: &'static str = "Lists a folder and what is below it, one path a line, relative to the workspace's \
        root, sorted; folders end with `/`, files are followed by their size in bytes. What .gitignore and .ignore leave \
        out is not listed, nor are names that begin with a dot, unless `path` names such a folder. At most 2,000 \
        entries: narrow with `path`, `glob` or `depth`.";
    const ROOM_MIB: u32 = WALK_MIB;
    const ONLY_READS: bool = true;

    fn effect(&self, workspace: &Workspace) -> Effect {
        reads_below(workspace, self.path.as_deref().unwrap_or("."))
    }

    fn run(self, workspace: &Workspace, _: Redactor, patience: &Patience) -> Result<Content, Error> {
        let folder = match workspace.find(self.path.as_deref().unwrap_or("."))? {
            Opened::Folder(folder) => folder,
            Opened::File(file) => {
                return Ok(format!("{}\t{}\n", file.path(), grouped(file.stamp().mark.size_bytes)).into());
            }
        };
        let mut tree = Tree::new(workspace, &folder, self.glob.as_deref(), self.depth, patience)?;
        let (mut shown, mut count, mut is_cut) = (String::new(), 0, false);
        tree.walk(&folder, &mut |folder, entry| {
            is_cut = count == ENTRIES_MAX || shown.len() >= SHOWN_MAX_BYTES;
            if !is_cut {
                count += 1;
                show(&mut shown, folder, entry);
            }
            Ok(!is_cut)
        })?;
        if count == 0 {
            shown.push_str("[nothing to list]\n");
        }
        tree.marks.show(&mut shown);
        if is_cut {
            // Writing to a string cannot fail.
            let _ = writeln!(shown, "[cut after {} entries; narrow with `path`, `glob` or `depth`]", grouped(count));
        }
        Ok(shown.into())
    }
}

fn show(shown: &mut String, folder: &Folder<'_>, entry: &FolderEntry) {
    let path = folder.path_of(&entry.name);
    // Writing to a string cannot fail.
    let _ = match entry.stamp.kind {
        Kind::Folder => writeln!(shown, "{path}/"),
        Kind::File => writeln!(shown, "{path}\t{}", grouped(entry.stamp.mark.size_bytes)),
        Kind::Link => match &entry.target {
            // Where a link leads outside the workspace must not be revealed.
            Some(target) if target.is_relative() => writeln!(shown, "{path} -> {}", escaped(target)),
            _ => writeln!(shown, "{path} -> elsewhere"),
        },
        kind => writeln!(shown, "{path} ({kind})"),
    };
}
