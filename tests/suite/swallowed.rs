//! No fault is read as a value that says nothing: what decodes or encodes stored bytes, secrets, ledgers and canonical
//! values passes its fault on.
//!
//! Law: in product code nothing that these calls return becomes a default or none, but in the places listed here.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};

use crate::layers::{product_files, root};

/// Calls whose faults are damage, or a bug that must not look like an empty value.
const CALLS: [&str; 16] = [
    "checkpoint",
    "from_bytes",
    "from_serialize",
    "from_slice",
    "ledger",
    "object",
    "origin",
    "parse_canonical",
    "random",
    "read_secret",
    "record_at",
    "row",
    "secret",
    "step",
    "to_bytes",
    "to_vec",
];

/// Functions that may, and why.
const PERMITTED: [(&str, &str, &str); 8] = [
    ("engine/author/src/scenario/parts.rs", "digest", "a value of a checked definition has a canonical form"),
    ("engine/hooks/src/cache/explain.rs", "line", "the members of a line, not a stored object"),
    ("engine/settings/src/layers.rs", "of_model", "a price that was read has a canonical form"),
    ("engine/src/host/store_access.rs", "secret", "entries are trusted by nobody whose secret cannot be read"),
    ("engine/store/src/check/mod.rs", "run", "a ledger that cannot be read is told where it is compared"),
    ("engine/store/src/shared_store/store.rs", "is_written_by_another", "the thread's next commit tells it"),
    ("engine/web/src/problem.rs", "into_response", "an answer without a body is still one with a status"),
    (
        "protocol/src/workflow/read/value.rs",
        "over_defaults",
        "the table of the format has checked it; asserted in tests",
    ),
];

/// The functions of a file in which such a fault becomes a default or none.
#[derive(Default)]
struct Swallowed {
    within: Vec<String>,
    found: BTreeSet<String>,
}

impl Swallowed {
    fn function(&mut self, name: &syn::Ident, walk: impl FnOnce(&mut Self)) {
        self.within.push(name.to_string());
        walk(self);
        self.within.pop();
    }
}

impl<'ast> Visit<'ast> for Swallowed {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let is_for_tests = |attribute: &syn::Attribute| {
            attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
        };
        if !module.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.sig.ident, |names| visit::visit_item_fn(names, function));
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.sig.ident, |names| visit::visit_impl_item_fn(names, function));
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let is_of_ok = matches!(&*call.receiver, syn::Expr::MethodCall(inner) if inner.method == "ok");
        if call.method == "unwrap_or_default" || (call.method == "flatten" && is_of_ok) {
            let mut calls = Calls(false);
            calls.visit_expr(&call.receiver);
            if calls.0 {
                self.found.extend(self.within.last().cloned());
            }
        }
        visit::visit_expr_method_call(self, call);
    }
}

/// Whether an expression calls one of these.
struct Calls(bool);

impl<'ast> Visit<'ast> for Calls {
    /// What is before a `?` has passed its fault on.
    fn visit_expr_try(&mut self, _: &'ast syn::ExprTry) {}

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.0 |= CALLS.iter().any(|name| call.method == name);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(path) = &*call.func {
            self.0 |= path.path.segments.last().is_some_and(|last| CALLS.iter().any(|name| last.ident == name));
        }
        visit::visit_expr_call(self, call);
    }
}

#[test]
fn no_damage_is_read_as_a_default() {
    let files = ["protocol", "agent-kit", "engine"].map(|folder| product_files(&root().join(folder))).concat();
    let mut found = BTreeSet::new();
    for file in files {
        let parsed = syn::parse_file(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let mut swallowed = Swallowed::default();
        swallowed.visit_file(&parsed);
        let name = file.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        found.extend(swallowed.found.into_iter().map(|function| (name.clone(), function)));
    }
    let permitted = PERMITTED.iter().map(|(file, function, _)| ((*file).to_owned(), (*function).to_owned()));
    assert_eq!(found, permitted.collect());
}
