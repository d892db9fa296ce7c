//! The contract of every store, for RocksDB; and simulations of a store whose device fails.

#[path = "../../../core/src/store/tests/contract.rs"]
pub(crate) mod contract;

#[path = "../../../core/src/store/tests/steps.rs"]
pub(crate) mod steps;

mod simulation;

use std::sync::Arc;

use super::{Options, RocksStore};
use contract::{Opened, suite};

fn rocks() -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let (store, notices) = RocksStore::open(folder.path(), Options::default()).unwrap();
    assert_eq!(notices, Vec::<String>::new());
    (Arc::new(store), Some(folder))
}

suite!(in_rocksdb, super::rocks);
