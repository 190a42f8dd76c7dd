use strandline_wire::ErrorCode;

use super::message::{Ack, Open, OpenAnswer};
use super::*;
use crate::metadata::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch};

const LAG_MS: i64 = 30_000;
const A: BrokerId = BrokerId(1000);
const B: BrokerId = BrokerId(2000);
const C: BrokerId = BrokerId(3000);

fn assignment(partition_epoch: i32, isr: &[BrokerId], min: usize) -> Assignment {
    let replica = |broker: BrokerId| AssignedReplica {
        broker,
        epoch: BrokerEpoch(i64::from(broker.0)),
        eligible: true,
        adding: false,
    };
    Assignment {
        leader_epoch: LeaderEpoch(5),
        partition_epoch: PartitionEpoch(partition_epoch),
        replicas: vec![replica(A), replica(B), replica(C)],
        isr: isr.to_vec(),
        min_insync_replicas: min,
    }
}

/// A leads at offset 10 with the given ISR; 4 was the last known high watermark.
fn leader(isr: &[BrokerId], min: usize) -> LeaderReplica {
    let log = LeaderLog {
        start: 0,
        end: 10,
        own_end: 10,
    };
    LeaderReplica::lead(A, assignment(1, isr, min), log, 4, LAG_MS, 0)
}

fn log(end: i64, own_end: i64) -> LeaderEvent {
    LeaderEvent::Log(LeaderLog {
        start: 0,
        end,
        own_end,
    })
}

fn open(broker: BrokerId, number: u32, end: i64) -> Open {
    Open {
        broker,
        broker_epoch: BrokerEpoch(i64::from(broker.0)),
        leader_epoch: LeaderEpoch(5),
        open: number,
        last_epoch: 4,
        end,
        start: 0,
    }
}

fn ack(broker: BrokerId, number: u32, end: i64) -> LeaderEvent {
    LeaderEvent::Ack(Ack {
        broker,
        broker_epoch: BrokerEpoch(i64::from(broker.0)),
        leader_epoch: LeaderEpoch(5),
        open: number,
        end,
        log_start: 0,
    })
}

/// The follower streams and has flushed all up to `end`.
fn joins(leader: &mut LeaderReplica, broker: BrokerId, end: i64, now_ms: i64) -> LeaderEffects {
    leader.open(&open(broker, 1, end), Some((4, 10))).unwrap();
    leader.step(ack(broker, 1, end), now_ms)
}

fn members(request: &AlterPartition) -> Vec<BrokerId> {
    request.isr.iter().map(|(broker, _)| *broker).collect()
}

fn altered(partition_epoch: i32, isr: &[BrokerId], min: usize) -> Result<AlteredPartition, ErrorCode> {
    Ok(AlteredPartition {
        leader_epoch: LeaderEpoch(5),
        partition_epoch: PartitionEpoch(partition_epoch),
        isr: isr.to_vec(),
        min_insync_replicas: min,
    })
}

#[test]
fn one_replica_reads_up_to_what_it_flushed() {
    let mut alone = assignment(1, &[A], 1);
    alone.replicas.truncate(1);
    let ends = |end, own_end| LeaderLog {
        start: 0,
        end,
        own_end,
    };
    let mut leader = LeaderReplica::lead(A, alone.clone(), ends(10, 7), 0, LAG_MS, 0);
    assert_eq!(leader.high_watermark(), 7);
    assert!(
        !leader.latest_is_known(),
        "what was appended before is not all readable"
    );
    assert_eq!(leader.step(log(10, 10), 0).high_watermark, Some(10));
    assert!(leader.latest_is_known());
    assert_eq!(leader.step(log(12, 12), 0).high_watermark, Some(12));
    assert_eq!(leader.step(log(12, 12), 0), LeaderEffects::default());
    assert_eq!(leader.acknowledgement(Acks::All, 12), Acknowledgement::Given);
    assert_eq!(leader.acknowledgement(Acks::Leader, 13), Acknowledgement::Waits);
    assert_eq!(leader.acknowledgement(Acks::None, 13), Acknowledgement::Given);
    assert_eq!(leader.step(LeaderEvent::Tick, i64::MAX), LeaderEffects::default());
    alone.min_insync_replicas = 3;
    let leader = LeaderReplica::lead(A, alone, ends(10, 10), 0, LAG_MS, 0);
    assert_eq!(
        leader.may_append(Acks::All),
        Ok(()),
        "no more are asked for than there are"
    );
}

#[test]
fn the_high_watermark_is_the_smallest_flushed_end_in_sync() {
    let mut leader = leader(&[A, B, C], 2);
    assert_eq!(leader.high_watermark(), 4, "nobody was heard of yet");
    assert_eq!(joins(&mut leader, B, 10, 1).high_watermark, None);
    assert_eq!(joins(&mut leader, C, 8, 1).high_watermark, Some(8));
    assert!(!leader.latest_is_known());
    assert_eq!(leader.step(ack(C, 1, 10), 2).high_watermark, Some(10));
    assert!(leader.latest_is_known());
    leader.step(log(20, 10), 3);
    leader.step(ack(B, 1, 20), 3);
    assert_eq!(
        leader.step(ack(C, 1, 20), 3).high_watermark,
        None,
        "the leader's own flush counts like any other"
    );
    assert_eq!(leader.acknowledgement(Acks::All, 20), Acknowledgement::Waits);
    assert_eq!(leader.step(log(20, 20), 4).high_watermark, Some(20));
    assert_eq!(leader.acknowledgement(Acks::All, 20), Acknowledgement::Given);
}

#[test]
fn messages_of_others_epochs_and_opens_are_dropped() {
    let mut leader = leader(&[A, B], 1);
    let stale = Open {
        broker_epoch: BrokerEpoch(1),
        ..open(B, 1, 10)
    };
    assert_eq!(leader.open(&stale, Some((4, 10))), None);
    let older = Open {
        leader_epoch: LeaderEpoch(4),
        ..open(B, 1, 10)
    };
    assert_eq!(leader.open(&older, Some((4, 10))), None);
    assert_eq!(
        leader.open(&open(BrokerId(7), 1, 10), Some((4, 10))),
        None,
        "holds no replica"
    );
    assert_eq!(
        leader.step(ack(B, 0, 10), 1).high_watermark,
        None,
        "nothing was opened"
    );
    assert!(leader.open(&open(B, 2, 10), Some((4, 10))).is_some());
    assert_eq!(leader.open(&open(B, 2, 10), Some((4, 10))), None, "an old one");
    assert_eq!(
        leader.step(ack(B, 1, 10), 1).high_watermark,
        None,
        "of an earlier open"
    );
    assert_eq!(
        leader.step(ack(B, 2, 11), 1).high_watermark,
        None,
        "more than there is"
    );
    assert_eq!(leader.step(ack(B, 2, 10), 1).high_watermark, Some(10));
}

#[test]
fn an_open_is_answered_by_epochs() {
    let mut leader = leader(&[A], 1);
    leader.step(
        LeaderEvent::Log(LeaderLog {
            start: 3,
            end: 10,
            own_end: 10,
        }),
        0,
    );
    let mut number = 0;
    let mut answer = |last_epoch, end, known| {
        number += 1;
        let open = Open {
            last_epoch,
            ..open(B, number, end)
        };
        leader.open(&open, known).unwrap().answer
    };
    assert_eq!(answer(4, 9, Some((4, 9))), OpenAnswer::Stream);
    assert_eq!(answer(4, 8, Some((4, 9))), OpenAnswer::Stream);
    assert_eq!(
        answer(4, 10, Some((4, 9))),
        OpenAnswer::Diverging { epoch: 4, end: 9 }
    );
    assert_eq!(
        answer(3, 10, Some((2, 6))),
        OpenAnswer::Diverging { epoch: 2, end: 6 }
    );
    assert_eq!(
        answer(3, 5, Some((2, 6))),
        OpenAnswer::Diverging { epoch: 2, end: 6 }
    );
    assert_eq!(answer(1, 7, None), OpenAnswer::StartsAt { log_start: 3 });
    assert_eq!(answer(1, 3, None), OpenAnswer::StartsAt { log_start: 3 });
    assert_eq!(answer(4, 2, Some((4, 9))), OpenAnswer::StartsAt { log_start: 3 });
    assert_eq!(answer(-1, 0, None), OpenAnswer::StartsAt { log_start: 3 });
    assert_eq!(answer(-1, 10, None), OpenAnswer::Stream);
    assert_eq!(answer(-1, 11, None), OpenAnswer::Diverging { epoch: -1, end: 10 });
}

#[test]
fn a_silent_member_leaves_after_the_lag_time_and_comes_back() {
    let mut leader = leader(&[A, B, C], 2);
    joins(&mut leader, B, 10, 0);
    joins(&mut leader, C, 10, 0);
    leader.step(log(20, 20), 1_000);
    leader.step(ack(B, 1, 20), 1_000);
    assert_eq!(
        leader.step(LeaderEvent::Tick, 31_000).alter_partition,
        None,
        "just in time"
    );
    let asked = leader.step(LeaderEvent::Tick, 31_001).alter_partition.unwrap();
    assert_eq!(members(&asked), [A, B]);
    assert_eq!(
        leader.high_watermark(),
        10,
        "it counts until the quorum let it go"
    );
    let outcome = altered(2, &[A, B], 2);
    let effects = leader.step(
        LeaderEvent::Altered {
            attempt: asked.attempt,
            outcome,
        },
        31_002,
    );
    assert_eq!(effects.high_watermark, Some(20));
    assert_eq!(leader.isr(), [A, B]);
    assert_eq!(
        leader.step(ack(C, 1, 19), 40_000).alter_partition,
        None,
        "below the high watermark"
    );
    let asked = leader.step(ack(C, 1, 20), 40_000).alter_partition.unwrap();
    assert_eq!(members(&asked), [A, B, C]);
    leader.step(log(30, 30), 40_001);
    assert_eq!(
        leader.step(ack(B, 1, 30), 40_001).high_watermark,
        None,
        "who may be in sync already is waited for"
    );
    let outcome = altered(3, &[A, B, C], 2);
    let attempt = asked.attempt;
    leader.step(LeaderEvent::Altered { attempt, outcome }, 40_002);
    assert_eq!(leader.step(ack(C, 1, 30), 40_003).high_watermark, Some(30));
}

#[test]
fn a_follower_that_keeps_up_with_a_moving_end_stays() {
    let mut leader = leader(&[A, B], 1);
    joins(&mut leader, B, 10, 0);
    // Always one batch behind, for far longer than the lag time.
    for round in 1..200 {
        let end = 10 + round * 10;
        let now_ms = round * 1_000;
        leader.step(log(end, end), now_ms);
        leader.step(ack(B, 1, end - 10), now_ms + 1);
        assert_eq!(leader.step(LeaderEvent::Tick, now_ms + 2).alter_partition, None);
    }
    leader.step(LeaderEvent::Stuck(B), 200_000);
    assert_eq!(leader.isr(), [A, B], "only the quorum changes it");
}

#[test]
fn a_stuck_follower_is_asked_out_at_once() {
    let mut leader = leader(&[A, B, C], 1);
    joins(&mut leader, B, 10, 0);
    joins(&mut leader, C, 10, 0);
    leader.step(log(20, 20), 1);
    let asked = leader.step(LeaderEvent::Stuck(C), 2).alter_partition.unwrap();
    assert_eq!(members(&asked), [A, B]);
}

#[test]
fn without_enough_in_sync_nothing_is_taken_or_acknowledged() {
    let mut leader = leader(&[A, B], 2);
    joins(&mut leader, B, 10, 0);
    assert_eq!(leader.high_watermark(), 10);
    assert_eq!(leader.may_append(Acks::All), Ok(()));
    leader.step(log(20, 20), 1);
    assert_eq!(leader.timeout_code(Acks::All), ErrorCode::RequestTimedOut);
    leader.step(LeaderEvent::Assigned(assignment(2, &[A], 2)), 2);
    assert_eq!(leader.may_append(Acks::All), Err(ErrorCode::NotEnoughReplicas));
    assert_eq!(leader.may_append(Acks::Leader), Ok(()));
    assert_eq!(leader.high_watermark(), 10, "the leader alone commits nothing");
    assert_eq!(leader.acknowledgement(Acks::All, 20), Acknowledgement::Waits);
    assert_eq!(
        leader.timeout_code(Acks::All),
        ErrorCode::NotEnoughReplicasAfterAppend
    );
    assert_eq!(
        leader.acknowledgement(Acks::All, 10),
        Acknowledgement::NotEnoughReplicas,
        "a duplicate too"
    );
    assert_eq!(leader.acknowledgement(Acks::Leader, 20), Acknowledgement::Given);
    // Both replicas in sync on one node are one failure, where there is another node.
    let mut one_node = assignment(3, &[A, BrokerId(1001)], 2);
    one_node.replicas[1].broker = BrokerId(1001);
    leader.step(LeaderEvent::Assigned(one_node), 3);
    assert_eq!(leader.may_append(Acks::All), Err(ErrorCode::NotEnoughReplicas));
}

#[test]
fn an_eligible_follower_that_is_caught_up_is_waited_for() {
    let mut leader = leader(&[A, B], 1);
    joins(&mut leader, B, 10, 0);
    assert_eq!(leader.high_watermark(), 10);
    // C catches up to 10, is proposed and refused for a moment.
    let asked = joins(&mut leader, C, 10, 0).alter_partition.unwrap();
    let refusal = LeaderEvent::Altered {
        attempt: asked.attempt,
        outcome: Err(ErrorCode::IneligibleReplica),
    };
    leader.step(refusal, 1);
    leader.step(log(20, 20), 1);
    assert_eq!(leader.step(ack(B, 1, 20), 1).high_watermark, None);
    assert_eq!(leader.step(LeaderEvent::Tick, 1 + LAG_MS).high_watermark, None);
    assert_eq!(
        leader.step(LeaderEvent::Tick, 2 + LAG_MS).high_watermark,
        Some(20),
        "not for ever"
    );
}

#[test]
fn one_proposal_at_a_time_is_sent_until_it_is_answered() {
    let mut leader = leader(&[A], 1);
    let first = joins(&mut leader, B, 10, 0).alter_partition.unwrap();
    assert_eq!(members(&first), [A, B]);
    assert_eq!(first.isr[1].1, BrokerEpoch(2000));
    assert_eq!(joins(&mut leader, C, 10, 1).alter_partition, None);
    assert_eq!(leader.step(LeaderEvent::Tick, 999).alter_partition, None);
    let again = leader.step(LeaderEvent::Tick, 1_000).alter_partition.unwrap();
    assert_eq!(
        (members(&again), again.partition_epoch),
        (vec![A, B], PartitionEpoch(1))
    );
    assert_ne!(first.attempt, again.attempt);
    let answer = |attempt, code| LeaderEvent::Altered {
        attempt,
        outcome: Err(code),
    };
    leader.step(answer(first.attempt, ErrorCode::InvalidRequest), 1_001);
    leader.step(answer(again.attempt, ErrorCode::NotController), 1_001);
    assert_eq!(leader.step(LeaderEvent::Tick, 1_050).alter_partition, None);
    let third = leader.step(LeaderEvent::Tick, 1_051).alter_partition.unwrap();
    leader.step(answer(third.attempt, ErrorCode::InvalidUpdateVersion), 1_052);
    assert_eq!(
        leader.step(LeaderEvent::Tick, 9_999).alter_partition,
        None,
        "a newer image is on its way"
    );
    let effects = leader.step(LeaderEvent::Assigned(assignment(2, &[A, B], 1)), 10_000);
    assert_eq!(effects.alter_partition, None);
    assert_eq!(
        leader.step(LeaderEvent::Tick, 10_001).alter_partition,
        None,
        "C did not say that it lives"
    );
    let next = leader.step(ack(C, 1, 10), 10_002).alter_partition.unwrap();
    assert_eq!(
        (members(&next), next.partition_epoch),
        (vec![A, B, C], PartitionEpoch(2))
    );
}

#[test]
fn a_refused_member_may_still_get_in_by_an_earlier_try() {
    let mut leader = leader(&[A], 1);
    let first = joins(&mut leader, B, 10, 0).alter_partition.unwrap();
    let again = leader.step(LeaderEvent::Tick, 1_000).alter_partition.unwrap();
    assert_eq!(members(&again), members(&first));
    let refusal = LeaderEvent::Altered {
        attempt: again.attempt,
        outcome: Err(ErrorCode::IneligibleReplica),
    };
    leader.step(refusal, 1_001);
    leader.step(log(20, 20), 1_002);
    let late = leader.step(LeaderEvent::Tick, 100_000);
    assert_eq!(
        late.high_watermark, None,
        "the first try may be applied yet, and B is behind"
    );
    leader.step(LeaderEvent::Assigned(assignment(2, &[A], 1)), 100_001);
    assert_eq!(leader.high_watermark(), 20, "the quorum decided without it");
}

#[test]
fn a_member_that_lacks_what_was_committed_is_asked_out_at_once() {
    let mut leader = leader(&[A, B], 1);
    joins(&mut leader, B, 10, 0);
    leader.open(&open(B, 2, 7), Some((4, 10))).unwrap();
    let asked = leader.step(ack(B, 2, 7), 1).alter_partition.unwrap();
    assert_eq!(members(&asked), [A]);
    assert_eq!(leader.high_watermark(), 10, "it never falls");
}

#[test]
fn ineligible_members_leave_and_stay_out() {
    let mut leader = leader(&[A, B], 1);
    joins(&mut leader, B, 10, 0);
    let mut fenced = assignment(1, &[A, B], 1);
    fenced.replicas[1].eligible = false;
    leader.step(LeaderEvent::Assigned(fenced), 1);
    let asked = leader.step(LeaderEvent::Tick, 2).alter_partition.unwrap();
    assert_eq!(members(&asked), [A]);
    let mut anew = assignment(2, &[A], 1);
    anew.replicas[1].epoch = BrokerEpoch(9);
    leader.step(LeaderEvent::Assigned(anew), 3);
    assert_eq!(
        leader.step(ack(B, 1, 10), 4).alter_partition,
        None,
        "its last life"
    );
}

#[test]
fn an_answer_may_come_before_its_image() {
    let mut leader = leader(&[A], 1);
    let asked = joins(&mut leader, B, 10, 0).alter_partition.unwrap();
    let attempt = asked.attempt;
    // The quorum judged by a newer configuration than this leader's image.
    let outcome = altered(2, &[A, B], 3);
    leader.step(LeaderEvent::Altered { attempt, outcome }, 1);
    assert_eq!(leader.may_append(Acks::All), Err(ErrorCode::NotEnoughReplicas));
    leader.step(LeaderEvent::Assigned(assignment(1, &[A], 1)), 2);
    assert_eq!(leader.isr(), [A, B], "an older image changes nothing");
    leader.step(LeaderEvent::Assigned(assignment(2, &[A, B], 2)), 3);
    assert_eq!(leader.may_append(Acks::All), Ok(()));
}

#[test]
fn delete_records_waits_for_those_that_serve() {
    let mut leader = leader(&[A, B], 1);
    assert_eq!(leader.low_watermark(), -1, "nobody told");
    joins(&mut leader, B, 10, 0);
    joins(&mut leader, C, 10, 0);
    leader.step(
        LeaderEvent::Log(LeaderLog {
            start: 6,
            end: 10,
            own_end: 10,
        }),
        1,
    );
    assert_eq!(leader.low_watermark(), 0);
    let reached = |broker: BrokerId| {
        LeaderEvent::Ack(Ack {
            broker,
            broker_epoch: BrokerEpoch(i64::from(broker.0)),
            leader_epoch: LeaderEpoch(5),
            open: 1,
            end: 10,
            log_start: 6,
        })
    };
    leader.step(reached(B), 2);
    leader.step(reached(C), 2);
    assert_eq!(leader.low_watermark(), 6);
}
