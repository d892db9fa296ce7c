//! Reads page by page what may be too much for memory.

/// The entries behind the key `after`, in order. `read` gives those behind a key, at most so many as it is told. A page of
/// `limit` is in memory at a time, and a writer may change the store between two pages. Nothing follows an error.
pub fn pages<K: Clone, V, E>(
    limit: usize,
    mut after: Option<K>,
    mut read: impl FnMut(Option<&K>, usize) -> Result<Vec<(K, V)>, E>,
) -> impl Iterator<Item = Result<(K, V), E>> {
    let (mut page, mut is_last) = (Vec::new().into_iter(), false);
    std::iter::from_fn(move || {
        if page.len() == 0 && !is_last {
            let entries = read(after.as_ref(), limit);
            is_last = entries.as_ref().map_or(true, |entries| entries.len() < limit);
            match entries {
                Ok(entries) => page = entries.into_iter(),
                Err(error) => return Some(Err(error)),
            }
            after = page.as_slice().last().map(|(key, _)| key.clone());
        }
        page.next().map(Ok)
    })
}

/// The same of numbered entries, where `read` gives those from a number on.
pub fn pages_from<V, E>(
    limit: usize,
    from: u32,
    mut read: impl FnMut(u32, usize) -> Result<Vec<(u32, V)>, E>,
) -> impl Iterator<Item = Result<(u32, V), E>> {
    pages(limit, from.checked_sub(1), move |after, limit| {
        // Nothing is behind the greatest number.
        let next = after.map_or(Some(0), |last| last.checked_add(1));
        next.map_or_else(|| Ok(Vec::new()), |from| read(from, limit))
    })
}
