use forebay_wire::felix::board::{
    DMA_TEST_BLOCKS, DMA_TEST_HOLD, DMA_TEST_SEED, FIFO_STATUS, FIRMWARE_VERSION, Pattern, SCRATCH,
    TEST_HEAD_WORDS,
};
use proptest::prelude::*;

use super::*;
use crate::card::{CardConfig, Memory};

fn memory() -> Memory {
    let config = CardConfig {
        buffers: 4,
        ..CardConfig::full_mode(1, 1.0, 64)
    };
    Memory::new(&config, 256)
}

fn board(defect: impl Into<Option<Defect>>) -> Board {
    let fault = |defect| Fault { defect, cure: None };
    let faults = defect.into().map(fault).into_iter().collect();
    Board::new(&BoardConfig {
        faults,
        ..BoardConfig::new(12, 4)
    })
    .unwrap()
}

/// Test blocks of the random pattern, as they lie in the buffer.
fn blocks(board: &mut Board, buffer: usize, count: u64) -> Vec<Vec<u8>> {
    let mut dma = memory();
    board.write(DMA_TEST_HOLD.address, 0xff);
    board.write(DMA_TEST_PATTERN.address, Pattern::Random.number());
    board.write(DMA_TEST_SEED.address, 9);
    board.write(DMA_TEST_BLOCKS.at(buffer), count);
    let mut all = Vec::new();
    for _ in 0..200 {
        board.advance(10_000, &mut dma);
        dma.take(buffer, |block| all.push(block.to_vec()));
    }
    all
}

#[test]
fn a_sound_board_does_what_it_is_told() {
    let mut board = board(None);
    let mut dma = memory();
    assert_eq!(
        (board.read(BOARD_ID.address), board.read(LINKS.address)),
        (0x712, 12)
    );
    board.write(SCRATCH.at(3), u64::MAX);
    board.write(BOARD_ID.address, 1);
    board.write(0xffff_fff0, 1);
    assert_eq!(
        (board.read(SCRATCH.at(3)), board.read(0x070)),
        (u64::MAX, 0)
    );
    board.write(LINK_RESET.address, 0xfff);
    board.advance(999_999, &mut dma);
    assert_eq!(board.read(LINK_ALIGNED.address), 0);
    board.advance(1, &mut dma);
    board.write(LINK_TX_ID.at(7), 0x77);
    assert_eq!(
        (
            board.read(LINK_ALIGNED.address),
            board.read(LINK_RX_ID.at(7))
        ),
        (0xfff, 0x77)
    );
    for order in [7, 15, 23, 31] {
        board.write(PRBS_ENABLE.address, 0xff0);
        board.write(PRBS_ORDER.address, order);
        board.write(PRBS_CLEAR.address, 0xfff);
        board.advance(100_000_000_000, &mut dma);
        assert_eq!(board.read(PRBS_LOCKED.address), 0xff0, "PRBS{order}");
        assert_eq!(board.read(PRBS_BITS.address), 960_000_000_000);
        assert_eq!(
            (board.read(PRBS_ERRORS.at(5)), board.read(LINK_RX_ID.at(7))),
            (0, 0)
        );
    }
}

#[test]
fn wrong_bits_come_at_their_rate_and_the_counter_stops() {
    let mut board = board(Defect::BitErrors {
        link: 2,
        rate: 1e-9,
    });
    let mut dma = memory();
    board.write(LINK_RESET.address, 0xfff);
    board.advance(1_000_000, &mut dma);
    board.write(PRBS_ENABLE.address, 0xfff);
    board.write(PRBS_CLEAR.address, 0xfff);
    board.advance(100_000_000_000, &mut dma);
    let errors = board.read(PRBS_ERRORS.at(2));
    assert!(
        (860..=1060).contains(&errors),
        "960 ± 31 are expected: {errors}"
    );
    assert_eq!(board.read(PRBS_ERRORS.at(1)), 0);
    board.advance(1_000_000_000_000_000, &mut dma);
    assert_eq!(board.read(PRBS_ERRORS.at(2)), 0xffff);
}

#[test]
fn test_blocks_lie_as_they_were_made_at_the_speed_of_the_memory() {
    let mut sound = board(None);
    let all = blocks(&mut sound, 1, 600);
    assert_eq!(
        (
            all.len(),
            sound.take_interrupts(1),
            sound.take_interrupts(0)
        ),
        (600, 1, 0)
    );
    for (number, block) in all.iter().enumerate() {
        let mut expected = block.clone();
        Pattern::Random.fill(9, number as u64, &mut expected);
        assert!(*block == expected, "block {number}");
    }
    let mut slow = board(Defect::SlowMemory { share: 0.5 });
    let mut dma = memory();
    slow.write(DMA_TEST_HOLD.address, 1);
    slow.write(DMA_TEST_BLOCKS.at(0), 1000);
    slow.advance(100_000, &mut dma);
    assert_eq!(slow.read(DMA_TEST_BLOCKS.at(0)), 1000 - 320_000 / 4096);
}

#[test]
fn each_defect_of_the_dma_path_shows_in_the_memory_alone() {
    let stuck = Defect::StuckDataBit {
        buffer: 1,
        bit: 13,
        high: false,
    };
    for block in blocks(&mut board(stuck), 1, 5) {
        let words = block.chunks_exact(4).skip(TEST_HEAD_WORDS);
        assert!(words.clone().all(|word| word[1] & 1 << 5 == 0));
        assert!(words.clone().any(|word| word[0] & 1 << 5 != 0));
    }
    let line = Defect::StuckDmaLine {
        buffer: 1,
        line: 6,
        high: false,
    };
    for block in blocks(&mut board(line), 1, 5) {
        assert_eq!(&block[64..128], [0; 64]);
        assert_ne!(&block[..64], [0; 64]);
    }
    assert_eq!(
        blocks(
            &mut board(Defect::LostBlocks {
                buffer: 1,
                every: 10
            }),
            1,
            100
        )
        .len(),
        90
    );
    let mut silent = board(Defect::NoInterrupt { buffer: 1 });
    assert_eq!(
        (blocks(&mut silent, 1, 5).len(), silent.take_interrupts(1)),
        (5, 0)
    );
}

#[test]
fn lines_and_bits_that_are_stuck_act_below_the_registers() {
    let mut low = board(Defect::StuckAddressLine {
        line: 4,
        high: false,
    });
    low.write(SCRATCH.at(1), 5);
    assert_eq!((low.read(SCRATCH.at(0)), low.read(SCRATCH.at(1))), (5, 5));
    let mut bit = board(Defect::StuckRegisterBit {
        address: SCRATCH.at(2),
        bit: 63,
        high: true,
    });
    bit.write(SCRATCH.at(2), 1);
    assert_eq!(bit.read(SCRATCH.at(2)), 1 << 63 | 1);
    let mut dead = board(Defect::NoAnswer);
    dead.write(SCRATCH.at(0), 1);
    assert_eq!(dead.read(SCRATCH.at(0)), u64::MAX);
    let wrong = Firmware {
        version: 1,
        ..BOARD_FIRMWARE
    };
    assert_eq!(
        board(Defect::WrongFirmware(wrong)).read(FIRMWARE_VERSION.address),
        1
    );
}

#[test]
fn marks_and_triggers_are_counted_unless_something_is_wrong() {
    let burst = TtcBurst {
        rate_hz: 100_000,
        for_ns: 1_000_000_000,
        ecr_period_ns: 100_000_000,
    };
    let count = |defect: Option<Defect>| {
        let mut board = board(defect);
        board.write(TTC_SELECT.address, 1);
        let sent = board.send_ttc(&burst);
        let counted =
            [TTC_L1A_COUNT, TTC_BCR_COUNT, TTC_ECR_COUNT].map(|one| board.read(one.address));
        (sent, counted)
    };
    let (sent, counted) = count(None);
    assert_eq!(counted, [sent.l1a, sent.bcr, sent.ecr]);
    assert!((98_000..102_000).contains(&sent.l1a), "{sent:?}");
    assert_eq!((sent.bcr, sent.ecr), (11_245, 9));
    let (sent, counted) = count(Some(Defect::TriggersSkipped { every: 1000 }));
    assert_eq!(sent.l1a - counted[0], sent.l1a / 1000);
    assert!(count(Some(Defect::BcrLost { chance: 0.1 })).1[1] < 10_500);
    assert_eq!(count(Some(Defect::TtcUnlocked)).1, [0; 3]);

    let crosses = |defect: Option<Defect>| {
        let mut board = board(defect);
        board.write(FIFO_TEST_LINK.address, 3);
        board.write(FIFO_XOFF_MARK.address, 8);
        board.write(FIFO_XON_MARK.address, 2);
        let mut seen = Vec::new();
        for _ in 0..12 {
            board.write(FIFO_TEST_PUSH.address, 4096);
            seen.push(board.read(FIFO_STATUS.address));
        }
        let fill = board.read(FIFO_FILL.address);
        board.write(FIFO_TEST_POP.address, 40_960);
        (
            seen.iter().position(|xoff| *xoff == 1),
            fill,
            board.read(FIFO_STATUS.address),
        )
    };
    assert_eq!(crosses(None), (Some(7), 49_152, 0));
    assert_eq!(
        crosses(Some(Defect::MarkIgnored { link: 3 })),
        (Some(11), 49_152, 0)
    );
    assert_eq!(
        crosses(Some(Defect::XoffStuck {
            link: 3,
            high: true
        })),
        (Some(0), 49_152, 1)
    );
}

#[test]
fn a_repair_takes_away_what_it_cures_and_nothing_else() {
    let fault = |defect, cure| Fault { defect, cure };
    let faults = vec![
        fault(Defect::NoAnswer, Some(Repair::Reseat)),
        fault(Defect::DeadLink { link: 1 }, Some(Repair::Transceiver)),
        fault(Defect::TtcUnlocked, None),
    ];
    let mut board = Board::new(&BoardConfig {
        faults,
        ..BoardConfig::new(2, 1)
    })
    .unwrap();
    assert!(!board.repair(Repair::Resolder) && board.repair(Repair::Reseat));
    assert_eq!(board.read(BOARD_ID.address), 0x712);
    assert!(board.repair(Repair::Transceiver));
    assert!(Repair::ALL.iter().all(|repair| !board.repair(*repair)));
    assert_eq!(board.faults().len(), 1);
}

#[test]
fn a_fault_of_what_is_not_there_is_refused() {
    let new = |defect| {
        let faults = vec![Fault { defect, cure: None }];
        Board::new(&BoardConfig {
            faults,
            ..BoardConfig::new(4, 2)
        })
        .map(|_| ())
    };
    assert!(new(Defect::DeadLink { link: 4 }).is_err());
    assert!(new(Defect::NoInterrupt { buffer: 2 }).is_err());
    assert!(new(Defect::SwappedLinks { links: [1, 1] }).is_err());
    let bit = Defect::StuckRegisterBit {
        address: LINKS.address,
        bit: 5,
        high: true,
    };
    assert_eq!(
        new(bit),
        Err(BoardError::NoRegisterBit {
            address: 0x50,
            bit: 5
        })
    );
    assert!(new(Defect::DeadLink { link: 3 }).is_ok());
}

proptest! {
    /// Whatever is written and broken: it does not panic, and registers have no more bits than they should.
    #[test]
    fn any_use_of_any_board_is_borne(
        seed: u64,
        links in 1_usize..=24,
        buffers in 1_usize..=4,
        acts in prop::collection::vec((0_u32..0xd00, any::<u64>(), 0_u64..100_000), 1..60),
    ) {
        let mut rng = Xoshiro256::new(seed);
        let config = BoardConfig::new(links, buffers);
        let faults = (0..3).map(|_| draw(None, &config, &mut rng)).collect();
        let mut board = Board::new(&BoardConfig { faults, ..config }).unwrap();
        let mut dma = memory();
        for (address, value, ns) in acts {
            let address = address & !0xf;
            board.write(address, value);
            let read = board.read(address);
            if let Some((register, _)) = Register::find(address)
                && read != NO_ANSWER
                && !board.defects().any(|defect| matches!(defect, Defect::StuckAddressLine { .. }))
            {
                prop_assert_eq!(read & !register.mask(), 0);
            }
            board.advance(ns, &mut dma);
        }
    }

    #[test]
    fn every_kind_can_be_drawn_for_every_board(seed: u64, links in 1_usize..=24, buffers in 1_usize..=8) {
        let mut rng = Xoshiro256::new(seed);
        let config = BoardConfig::new(links, buffers);
        for kind in DefectKind::ALL {
            let fault = draw(Some(*kind), &config, &mut rng);
            prop_assert!(fault.defect.kind() == *kind || links == 1);
            let faults = vec![fault];
            let config = BoardConfig { faults, ..config.clone() };
            prop_assert!(Board::new(&config).is_ok());
        }
    }
}
