//! The board of a card at work: its diagnostics are served beside the data.

use forebay_emu::card::Dma;
use forebay_emu::card::board::{Board, BoardConfig, BoardError, Defect, Fault};
use forebay_run_felix::device::DeviceInfo;

use super::{CardPlan, Process, Rings};
use crate::diagnostics::{ServedBoard, board_of};

/// The board that a plan asks for.
pub(super) fn board(plan: &CardPlan, info: &DeviceInfo) -> Result<Board, BoardError> {
    let config = BoardConfig {
        seed: plan.config.seed,
        faults: plan.defects.clone(),
        ..board_of(info)
    };
    Board::new(&config)
}

/// The way of test blocks, which is open when that of data is closed.
struct TestWay<'a>(&'a mut Rings);

impl Dma for TestWay<'_> {
    fn reserve(&mut self, buffer: usize) -> Option<&mut [u8]> {
        self.0.rings.get_mut(buffer)?.reserve().ok()
    }

    fn commit(&mut self, buffer: usize) {
        self.0.commit(buffer);
    }

    fn free_blocks(&mut self, buffer: usize) -> u64 {
        self.0.free_blocks(buffer)
    }

    fn blocks(&self, buffer: usize) -> u64 {
        self.0.blocks(buffer)
    }
}

fn is_silent(buffer: usize) -> impl Fn(&Fault) -> bool {
    move |fault| matches!(fault.defect, Defect::NoInterrupt { buffer: of } if usize::from(of) == buffer)
}

impl Process<'_> {
    /// Lets the board's time pass, which is the host's: test blocks go out.
    pub(super) fn tend_board(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.board_ns);
        self.board_ns = self.board_ns.max(now_ns);
        let Some(ServedBoard(board)) = self.door.board_mut() else {
            return;
        };
        board.advance(passed, &mut TestWay(&mut self.rings));
        self.rings.show();
    }

    /// Closes the way of data into buffers that take test blocks only.
    pub(super) fn hold_buffers(&mut self) {
        let Some(ServedBoard(board)) = self.door.board_mut() else {
            return;
        };
        let buffers = 0..self.rings.rings.len();
        let mask = |is: &dyn Fn(usize) -> bool| {
            buffers
                .clone()
                .fold(0, |mask, buffer| mask | u64::from(is(buffer)) << buffer)
        };
        self.rings.held = mask(&|buffer| board.holds(buffer));
        self.rings.silent = mask(&|buffer| board.faults().iter().any(is_silent(buffer)));
    }
}
