//! Operations in flight, and the memory they read.

use super::super::super::conformance::FillFrom;
use super::*;

#[test]
fn operations_overlap_and_complete_out_of_order() {
    let orders: BTreeSet<Vec<u8>> = (0..20)
        .map(|seed| {
            on_disk(seed, |disk| async move {
                let file = new_file(&disk, "file").await;
                let order = Rc::new(RefCell::new(Vec::new()));
                let write = |byte: u8| {
                    let (file, order, buffer) = (file.clone(), order.clone(), filled(&disk, 1, byte));
                    async move {
                        file.write_at(buffer, PAGE, u64::from(byte) * PAGE as u64)
                            .await
                            .unwrap();
                        order.borrow_mut().push(byte);
                    }
                };
                join3(write(0), write(1), write(2)).await;
                order.take()
            })
        })
        .collect();
    assert!(orders.len() >= 4, "{orders:?}");
}

#[test]
#[should_panic(expected = "changed it below a write in flight")]
fn an_owner_that_fills_below_a_write_in_flight_is_caught() {
    on_disk(13, |disk| async move {
        let file = new_file(&disk, "file").await;
        let buffer = filled(&disk, 2, 1);
        let write = file.write_at(buffer.clone(), PAGE, 0);
        let fill = async { buffer.fill_from(0, 2) };
        join(write, fill).await.0.unwrap();
    });
}
