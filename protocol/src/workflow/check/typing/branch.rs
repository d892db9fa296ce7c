//! The type of an element of `branches`.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::super::indexed_graph::IndexedGraph;
use super::super::types::{Known, Type};
use super::either;
use super::path::fields_of;

/// The list of the lanes that have joined.
#[derive(Clone)]
pub(in crate::workflow::check) struct Branches<'w> {
    /// Its minimum length.
    pub(in crate::workflow::check) least: usize,
    pub(in crate::workflow::check) element: Rc<Known<'w>>,
}

/// A lane that has joined, with the possible roles and statuses of its last step, as far as they are known.
pub(in crate::workflow::check) fn branch<'w>(
    indexed: &IndexedGraph<'w>,
    last: Option<&BTreeSet<(usize, usize)>>,
    item: Known<'w>,
) -> Known<'w> {
    let steps = || last.into_iter().flatten();
    let words = |words: BTreeSet<&'w str>| Known::of_words(words.into_iter().collect());
    let text = |name: &str| (name.to_owned(), Known::from(Type::Text));
    let error = Type::Fields(vec![text("code"), text("message")]);
    let fields = [
        ("role", words(steps().map(|(role, _)| indexed.name(*role)).collect())),
        ("index", Type::Number.into()),
        ("item", item),
        ("status", words(steps().filter_map(|(role, status)| indexed.status(*role, *status)).collect())),
        ("output", last.map_or(Type::Any, |last| any_fields(indexed, last)).into()),
        ("body", Type::Text.into()),
        ("part", Type::Text.into()),
        ("error", Known::from(error).or_absent(true)),
    ];
    Type::Fields(fields.map(|(name, known)| (name.to_owned(), known)).into()).into()
}

/// The fields that any of these steps has. One may be absent only if each step that has it declares so: which step it
/// is may have been asked.
fn any_fields<'w>(indexed: &IndexedGraph<'w>, steps: &BTreeSet<(usize, usize)>) -> Type<'w> {
    let mut fields: Vec<(String, Known<'w>)> = Vec::new();
    let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
    for (role, status) in steps {
        for (name, known) in fields_of(indexed, *role, *status) {
            let position = *positions.entry(name).or_insert(fields.len());
            match fields.get_mut(position) {
                Some((_, found)) => {
                    let optional = found.optional && known.optional;
                    *found = Known { optional, ..either(found.clone(), known) };
                }
                None => fields.push((name.to_owned(), known)),
            }
        }
    }
    Type::Fields(fields)
}
