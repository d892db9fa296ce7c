use rondo_protocol::object::Usage;

use super::super::lane::VisibleVisits;
use super::*;

#[test]
fn calls_of_a_checkpoint_without_a_cost_have_no_known_price() {
    let json = r#"{"version": 4, "trunk": {"own": {"a": [2, 2, 2, 0]}, "seen": {}, "taken": {"3": [1, 0]}, "fanned": [],
            "last": null, "after_join": false, "fan": null, "end": null, "first_opened_by": []}, "roles": {},
            "spent": {"model_calls": 2, "tool_calls": 0, "cost_usd": null, "active_ms": 5,
                "usage": {"prompt_tokens": 7, "cached_tokens": 0, "output_tokens": 1}}}"#;
    let read = Checkpoint::from_bytes(json.as_bytes()).unwrap();
    assert_eq!((read.spent().unpriced_calls, read.spent().usage.prompt_tokens), (2, 7));
    assert_eq!(*read.trunk.taken, BTreeMap::from([(EdgeId(3), EdgeCount { count: 1, mark: 0 })]));
    assert_eq!(Checkpoint::from_bytes(json.replace("4,", "3,").as_bytes()), None);
}

#[test]
fn what_was_spent_is_read_as_it_was_written() {
    let usage = Usage {
        prompt_tokens: 1,
        cached_tokens: 2,
        cache_write_tokens: 3,
        cache_write_long_tokens: 4,
        output_tokens: 5,
        reasoning_tokens: 6,
    };
    let spent = Spent { model_calls: 7, tool_calls: 8, usage, cost_usd: Some(0.25), unpriced_calls: 9, active_ms: 10 };
    let (trunk, roles) = (Lane::trunk(), BTreeMap::from([(RoleName::new("a").unwrap(), Amount::default())]));
    let checkpoint = Checkpoint { trunk: LaneFold::of(&trunk), spent, roles: Cow::Borrowed(&roles) };
    let bytes = written(&checkpoint).unwrap();
    let read = Checkpoint::from_bytes(&bytes).unwrap();
    assert_eq!(read, checkpoint);
    assert_eq!(
        bytes,
        [&[5][..], &[0; 9], &[7, 8, 1, 2, 3, 4, 5, 6, 1, 0, 0, 0, 0, 0, 0, 0xd0, 0x3f, 9, 10, 1, 1], b"a", &[0; 9]]
            .concat()
    );
}

/// The form of version 5: other bytes are another version.
#[test]
fn the_fold_of_a_lane_has_its_bytes() {
    let role = |name| RoleName::new(name).unwrap();
    let mut lane = Lane::trunk();
    lane.own.insert(role("a"), OwnVisits { visits: 2, attempts: 3, latest: 300, covered: 1 });
    lane.seen.insert(role("b"), VisibleVisits { visits: 4, latest: 5, all: vec![1, 5] });
    lane.taken.insert(EdgeId(7), EdgeCount { count: 1, mark: 2 });
    lane.fanned.insert(role("c"));
    let status = rondo_protocol::id::Status::new("done").unwrap();
    lane.last = Some(Last {
        seq: 6,
        digest: rondo_protocol::Digest::from_hex(&"ab".repeat(32)).unwrap(),
        step: 5,
        role: role("a"),
        status,
        entered_from: "b".to_owned(),
        ended_at_ms: 1_000,
    });
    let error = LaneError { code: "fail".to_owned(), message: "m".to_owned() };
    lane.phase = LanePhase::Failed(error.clone());
    lane.first_opened_by = vec![8];
    let bytes = written(&LaneFold::of(&lane)).unwrap();
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let digest = "6162".repeat(32);
    let wanted = [
        "05",
        "010161",
        "0203ac0201",
        "010162",
        "0405",
        "0107",
        "0102",
        "010163",
        "010640",
        &digest,
        "050161",
        "04646f6e65",
        "0162",
        "e807",
        "00",
        "00",
        "0101046661696c016d",
        "0108",
    ];
    assert_eq!(hex.concat(), wanted.concat());
    let fold: LaneFold<'_> = read(&bytes).unwrap();
    assert_eq!((fold.last.into_owned(), fold.end), (lane.last.clone(), Some(EndFold::Failed(error))));
}
