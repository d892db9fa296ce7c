//! The arrows of ARCHITECTURE.md: which module names which, read from the sources.
//!
//! Law: a module names only what its line allows, every allowed name is used, and a line names only modules of lines above
//! it, so that no circle can be written down.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// The crates that have rooms. Those of `engine/store`, `web` and `cli` are one.
const CRATES: [&str; 7] =
    ["protocol", "agent-kit", "engine/core", "engine/hooks", "engine/settings", "engine/author", "engine"];

/// Of each module of a crate, the other modules that it names and a file that does.
type Arrows = BTreeMap<String, BTreeMap<String, PathBuf>>;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The arrows between the modules of a crate, without what only tests name.
fn arrows_of(name: &str) -> Arrows {
    let folder = root().join(name).join("src");
    let crate_root = parsed(&folder.join("lib.rs"));
    let mut modules = BTreeSet::new();
    let mut exports = BTreeMap::new();
    for item in &crate_root.items {
        match item {
            syn::Item::Mod(module) if !is_for_tests(&module.attrs) => {
                modules.insert(module.ident.to_string());
            }
            syn::Item::Use(export) => exported(&export.tree, None, &mut exports),
            _ => {}
        }
    }
    let mut arrows = Arrows::new();
    for module in &modules {
        let mut names = Names { exports: &exports, file: PathBuf::new(), found: BTreeMap::new() };
        read(&folder, module, &mut names);
        names.found.retain(|found, _| found != module && modules.contains(found));
        arrows.insert(module.clone(), names.found);
    }
    arrows
}

fn parsed(file: &Path) -> syn::File {
    let text = std::fs::read_to_string(file).unwrap();
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The module behind each name that the crate's root exports.
fn exported(tree: &syn::UseTree, module: Option<&str>, exports: &mut BTreeMap<String, String>) {
    match tree {
        syn::UseTree::Path(path) => {
            let first = path.ident.to_string();
            exported(&path.tree, module.or(Some(&first)), exports);
        }
        syn::UseTree::Name(name) => {
            exports.extend(module.map(|module| (name.ident.to_string(), module.to_owned())));
        }
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| exported(tree, module, exports)),
        _ => {}
    }
}

/// Reads a module and those below it.
fn read(folder: &Path, module: &str, names: &mut Names<'_>) {
    let (file, below) = (folder.join(format!("{module}.rs")), folder.join(module));
    names.file = if file.is_file() { file } else { below.join("mod.rs") };
    let parsed = parsed(&names.file);
    names.visit_file(&parsed);
    for item in &parsed.items {
        if let syn::Item::Mod(inner) = item
            && inner.content.is_none()
            && !is_for_tests(&inner.attrs)
        {
            read(&below, &inner.ident.to_string(), names);
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.path().is_ident("cfg").then(|| attribute.meta.require_list().ok()).flatten();
        list.is_some_and(|list| {
            list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
        })
    })
}

/// Collects what follows `crate::`.
struct Names<'e> {
    exports: &'e BTreeMap<String, String>,
    file: PathBuf,
    found: BTreeMap<String, PathBuf>,
}

impl Names<'_> {
    fn add(&mut self, name: &syn::Ident) {
        let name = name.to_string();
        let module = self.exports.get(&name).unwrap_or(&name);
        self.found.entry(module.clone()).or_insert_with(|| self.file.clone());
    }

    fn add_heads(&mut self, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => self.add(&path.ident),
            syn::UseTree::Name(name) => self.add(&name.ident),
            syn::UseTree::Rename(rename) => self.add(&rename.ident),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_heads(tree)),
            syn::UseTree::Glob(_) => {}
        }
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if let syn::UseTree::Path(path) = &item.tree
            && path.ident == "crate"
        {
            self.add_heads(&path.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut segments = path.segments.iter();
        if segments.next().is_some_and(|first| first.ident == "crate")
            && let Some(second) = segments.next()
        {
            self.add(&second.ident);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, inner: &'ast syn::Macro) {
        // Macros are tokens: `crate :: name` is looked for among them.
        let text = inner.tokens.to_string();
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            if word == "crate"
                && words.next() == Some("::")
                && let Some(name) = words.next()
                && let Ok(name) = syn::parse_str::<syn::Ident>(name)
            {
                self.add(&name);
            }
        }
        visit::visit_macro(self, inner);
    }
}

/// The lines of the page's block: `crate/module -> modules`, where `{a, b}` in place of a module means each of them.
fn allowed() -> Vec<(String, String, BTreeSet<String>)> {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, block) = page.split_once("```arrows\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let names = |list: &str| -> Vec<String> {
        let names = list.trim_matches(['{', '}', ' ']).split(',').map(str::trim);
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let mut allowed = Vec::new();
    for line in block.lines() {
        let (modules, below) = line.split_once("->").unwrap_or((line, ""));
        let (name, modules) = modules.rsplit_once('/').unwrap_or_else(|| panic!("no crate: {line}"));
        let below: BTreeSet<String> = names(below).into_iter().collect();
        allowed.extend(names(modules).into_iter().map(|module| (name.to_owned(), module, below.clone())));
    }
    allowed
}

#[test]
fn the_arrows_of_the_architecture_are_those_of_the_sources() {
    let allowed = allowed();
    let mut wrong = String::new();
    for name in CRATES {
        let mut above: BTreeSet<&str> = BTreeSet::new();
        let lines: Vec<_> = allowed.iter().filter(|(of, ..)| of == name).collect();
        for (_, module, names) in &lines {
            for below in names.iter().filter(|below| !above.contains(below.as_str())) {
                writeln!(wrong, "{name}/{module} may name {below}, which stands on no line above it").unwrap();
            }
            above.insert(module);
        }
        let mut found = arrows_of(name);
        for (_, module, names) in lines {
            let Some(mut arrows) = found.remove(module) else {
                writeln!(wrong, "{name}/{module} has a line and is no module").unwrap();
                continue;
            };
            for unused in names.iter().filter(|below| arrows.remove(*below).is_none()) {
                writeln!(wrong, "{name}/{module} may name {unused} and does not").unwrap();
            }
            for (below, file) in arrows {
                let file = file.strip_prefix(root()).unwrap().display().to_string();
                writeln!(wrong, "{name}/{module} names {below} in {file}").unwrap();
            }
        }
        for (module, arrows) in found {
            writeln!(wrong, "{name}/{module} has no line; it names {:?}", arrows.keys()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "ARCHITECTURE.md and the sources differ:\n{wrong}");
}

/// The command line and the server name the library, and nothing below it.
#[test]
fn what_people_see_stands_on_the_library_alone() {
    for (name, allowed) in [("engine/web", &["rondo"][..]), ("engine/cli", &["rondo", "rondo-web"])] {
        let manifest = std::fs::read_to_string(root().join(name).join("Cargo.toml")).unwrap();
        let (_, dependencies) = manifest.split_once("\n[dependencies]\n").unwrap();
        let dependencies = dependencies.split("\n[").next().unwrap();
        let named = dependencies.lines().filter_map(|line| line.split(['.', ' ']).next());
        let own: Vec<&str> = named.filter(|dependency| dependency.starts_with("rondo")).collect();
        assert_eq!(own, allowed, "{name}");
    }
}

/// How many lines of product code a crate may have, in thousands: a change that needs more says why in its commit.
const CEILINGS: [(&str, usize); 11] = [
    ("protocol", 19),
    ("agent-kit", 26),
    ("engine/core", 20),
    ("engine/hooks", 6),
    ("engine/store", 9),
    ("engine/settings", 4),
    ("engine/restate", 2),
    ("engine/author", 10),
    ("engine", 13),
    ("engine/web", 5),
    ("engine/cli", 13),
];

#[test]
fn no_crate_grows_without_a_word() {
    for (name, thousands) in CEILINGS {
        let files = product_files(&root().join(name).join("src"));
        let lines: usize = files.iter().map(|file| std::fs::read_to_string(file).unwrap().lines().count()).sum();
        assert!(
            lines <= thousands * 1_000,
            "{name} has {lines} lines: take some out, or raise its ceiling and say why"
        );
    }
}

/// The sources below a folder that are not tests, examples or built.
pub(crate) fn product_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !["target", "tests", "node_modules", "page", "examples", "fuzz"].contains(&&*name) {
            found.extend(product_files(&path));
        } else if path.extension().is_some_and(|end| end == "rs") && !name.contains("tests") {
            found.push(path);
        }
    }
    found
}
