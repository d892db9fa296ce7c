//! Restores the machine of a stored thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_protocol::object::Start;

use super::engine::PreparedRun;
use super::past::recovered;
use super::{Engine, Error, fork};
use crate::conversation::Steps;
use crate::store::{Damage, Row, pages};
use crate::thread::{Definition, LaneState, Machine, Stored};

/// How many rows of lanes are read at a time.
const LANES_A_PAGE: usize = 1000;

impl Engine {
    /// The machine of a stored thread: from its rows, or if they are not sufficient, from its steps.
    pub(super) fn machine(&self, ready: &PreparedRun, row: &Row, start: &Start) -> Result<Machine, Error> {
        let (store, thread) = (&self.parts.store, &ready.parts.thread);
        let steps = Steps::new(&**store, thread.clone(), row.start, &ready.parts.workflow)?;
        let definition = Definition {
            graph: Arc::clone(&ready.parts.graph),
            start: row.start,
            input: Arc::new(start.input.clone()),
            limits: ready.limits.clone(),
        };
        let lanes = pages(LANES_A_PAGE, None, |after, limit| store.lanes(thread, after, limit)).map(|lane| {
            let (path, row) = lane?;
            let index = u32::try_from(row.index).unwrap_or(u32::MAX);
            Ok((path, LaneState { frontier: row.frontier, fold: row.fold, opened_by: row.opened_by, index }))
        });
        let lanes = lanes.collect::<Result<Vec<_>, Error>>()?;
        let asks = ready.parts.run_config.in_doubt.is_none();
        let mut in_flight = BTreeMap::new();
        for path in store.journaled_lanes(thread)? {
            let found = recovered(&**store, thread, &path, asks)?;
            in_flight.extend(found.map(|found| (path, found)));
        }
        // Before the first step there is nothing to restore, and earlier versions wrote what they were about to commit.
        let checkpoint = if row.seq == 0 { &[] } else { row.checkpoint.as_slice() };
        let stored = Stored { checkpoint, lanes, recovered: in_flight.clone(), version: row.version, seq: row.seq };
        if let Some(machine) = Machine::restore(definition.clone(), stored, &steps).map_err(Error::Fault)? {
            return Ok(machine);
        }
        let mut past = fork::Past::of(&**store, thread, row)?;
        past.definitions.insert(row.start, definition);
        let mut machine = past.follower()?.with_recovered(in_flight);
        past.follow(row.seq, &mut |stored, of| {
            let follows = machine.follow_record(&stored.record, of, &past.definitions, &steps).map_err(Error::Fault)?;
            if follows {
                return Ok(());
            }
            let what = format!("step {} of thread {thread} does not follow", stored.seq);
            Err(Error::Store(Damage::new(what).of_thread(thread).into()))
        })?;
        Ok(machine)
    }
}
