//! Damage to the files of a store, drawn from a seed.

use std::fs;
use std::path::{Path, PathBuf};

/// One change to one file.
#[derive(Debug)]
pub struct Damage {
    pub file: PathBuf,
    pub how: How,
}

#[derive(Debug, Clone, Copy)]
pub enum How {
    Flip {
        at: usize,
        bit: u8,
    },
    Cut {
        at: usize,
    },
    /// Seven bytes behind the end: the header of a record of this type.
    Extend {
        kind: u8,
    },
    Remove,
}

impl Damage {
    /// Applies it to the store in `folder`.
    pub fn apply(&self, folder: &Path) {
        let path = folder.join(&self.file);
        let mut bytes = fs::read(&path).unwrap();
        match self.how {
            How::Flip { at, bit } => bytes[at] ^= 1 << bit,
            How::Cut { at } => bytes.truncate(at),
            How::Extend { kind } => bytes.extend([0, 0, 0, 0, 0, 0, kind]),
            How::Remove => return fs::remove_file(&path).unwrap(),
        }
        fs::write(&path, bytes).unwrap();
    }
}

/// Damage without end to the files of a store that hold what was stored.
pub fn drawn(folder: &Path, seed: u64) -> impl Iterator<Item = Damage> + use<> {
    let mut state = seed;
    let mut below = move |count: usize| usize::try_from(splitmix(&mut state) % count as u64).unwrap();
    let files = files(folder);
    std::iter::from_fn(move || {
        let (file, size) = files[below(files.len())].clone();
        let at = below(size);
        let how = match below(8) {
            0..4 => How::Flip { at, bit: u8::try_from(below(8)).unwrap() },
            4..6 => How::Cut { at },
            6 => How::Extend { kind: u8::try_from(below(256)).unwrap() },
            _ => How::Remove,
        };
        Some(Damage { file, how })
    })
}

/// The next number of `SplitMix64`.
pub fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Tables, logs, manifest and `CURRENT`, none of them empty, with their sizes.
fn files(folder: &Path) -> Vec<(PathBuf, usize)> {
    let mut files: Vec<_> = fs::read_dir(folder.join("db"))
        .unwrap()
        .map(|entry| Path::new("db").join(entry.unwrap().file_name()))
        .filter(|file| {
            let name = file.file_name().unwrap().to_str().unwrap();
            let ending = file.extension().is_some_and(|ending| ending == "sst" || ending == "log");
            ending || name.starts_with("MANIFEST") || name == "CURRENT"
        })
        .map(|file| {
            let size = usize::try_from(fs::metadata(folder.join(&file)).unwrap().len()).unwrap();
            (file, size)
        })
        .filter(|(_, size)| *size > 0)
        .collect();
    files.sort();
    files
}
