//! Restores the machine of a stored thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_protocol::id::LanePath;
use rondo_protocol::object::{Note, Start};

use super::engine::PreparedRun;
use super::past::left;
use super::{Engine, Error, fork};
use crate::store::{Damage, Row, StoredRecord};
use crate::thread::{LaneState, Machine, PastStep, Stored};

/// How many rows of lanes are read at a time.
const LANES_A_PAGE: usize = 1000;

impl Engine {
    /// The machine of a stored thread: from its rows, or if they are not sufficient, from its steps.
    pub(super) fn machine(&self, ready: &PreparedRun, row: &Row, start: &Start) -> Result<Machine, Error> {
        let store = &self.parts.store;
        let steps = ready.steps(&**store, row.start)?;
        let definition = ready.definition(row.start, Arc::new(start.input.clone()));
        let mut lanes: Vec<(LanePath, LaneState)> = Vec::new();
        loop {
            let page = store.lanes(&ready.thread, lanes.last().map(|(path, _)| path), LANES_A_PAGE)?;
            let is_last = page.len() < LANES_A_PAGE;
            lanes.extend(page.into_iter().map(|(path, row)| {
                let index = u32::try_from(row.index).unwrap_or(u32::MAX);
                (path, LaneState { frontier: row.frontier, fold: row.fold, opened_by: row.opened_by, index })
            }));
            if is_last {
                break;
            }
        }
        let asks = ready.run_config.in_doubt.is_none();
        let mut in_flight = BTreeMap::new();
        for path in store.journaled_lanes(&ready.thread)? {
            let found = left(&**store, &ready.thread, &path, asks)?;
            in_flight.extend(found.map(|found| (path, found)));
        }
        let stored =
            Stored { checkpoint: &row.checkpoint, lanes, left: in_flight.clone(), version: row.version, seq: row.seq };
        if let Some(machine) = Machine::restore(definition.clone(), stored, &steps).map_err(Error::Fault)? {
            return Ok(machine);
        }
        let (first, mut definitions) = fork::definitions(&**store, row)?;
        definitions.insert(row.start, definition);
        let mut machine = fork::follower(first, &definitions)?.with_left(in_flight);
        let mut fault = None;
        let mut each = |stored: StoredRecord, note: Note| {
            let past = match steps.keep(&stored, &note) {
                Ok(past) => past,
                Err(error) => {
                    fault = Some(Error::Store(error));
                    return false;
                }
            };
            let (seq, digest) = (stored.seq, stored.digest);
            let body = past.episode.map(|episode| episode.body.clone()).unwrap_or_default();
            match machine.follow_record(&stored.record, PastStep { seq, digest, body, note }, &definitions, &steps) {
                Ok(true) => true,
                Ok(false) => {
                    let what = format!("step {seq} of thread {} does not follow", ready.thread);
                    fault = Some(Error::Store(Damage::new(what).of_thread(&ready.thread).into()));
                    false
                }
                Err(error) => {
                    fault = Some(Error::Fault(error));
                    false
                }
            }
        };
        if row.seq > 0 {
            store.scan(&ready.thread, 1..=row.seq, &mut each)?;
        }
        fault.map_or(Ok(machine), Err)
    }
}
