//! One suite for connections that carry bytes in order, run on every backend; and what only one of them can get wrong.
//!
//! `FOREBAY_SEED=n` repeats a run's choices.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::single_range_in_vec_init,
    reason = "a test fails by panicking and prints its seed; lists of ranges of memory are what is meant"
)]

mod attacher;
mod child;
mod door;
mod end;
mod fabric;
mod flow;
mod hostile;
mod pieces;
mod regions;
mod shm;
mod sleep;
mod tls;
mod world;

/// Each test on each backend, by the name `backend::test`.
macro_rules! suite {
    ($($backend:ident: $($module:ident::$test:ident)*;)*) => {$(
        mod $backend {
            $(
                #[test]
                fn $test() {
                    match crate::world::$backend() {
                        Ok(backend) => crate::$module::$test(&backend),
                        Err(reason) => forebay_testing::skip!("{reason}"),
                    }
                }
            )*
        }
    )*};
}

macro_rules! on_every {
    ($($backend:ident)*) => {
        suite! {$(
            $backend:
                flow::bytes_come_whole_and_in_order
                flow::both_directions_at_once
                flow::what_lies_in_a_region_comes_from_there
                flow::a_receiver_that_does_not_read_holds_the_sender_back
                pieces::what_is_written_into_pieces_goes_out_from_there
                pieces::pieces_come_back_when_they_are_read
                pieces::what_cannot_be_sent_leaves_the_piece_where_it_is
                pieces::many_regions_come_all_the_same
                end::the_end_comes_after_everything
                end::who_has_handed_over_everything_can_be_dropped_without_a_wait
                end::one_side_may_end_before_the_other
                end::a_link_dropped_without_an_end
                end::an_end_of_a_peer_that_has_not_read_all
                end::a_peer_that_was_killed_when_all_was_sent
                end::a_peer_that_is_killed_in_the_middle
                end::a_peer_that_is_killed_while_its_pieces_are_under_way
                end::a_receiver_that_is_killed_while_pieces_are_under_way
                end::nobody_listens
                door::an_address_is_in_use
                door::a_dead_listener_leaves_its_address
                door::garbage_does_not_close_a_door
                door::connections_leave_no_descriptors_behind
                sleep::a_sleeper_is_woken_by_what_comes
                sleep::a_sleeper_is_woken_by_room
                sleep::a_sleeper_is_woken_by_the_end;
        )*}
    };
}

// `shm` is the module of the tests that only it has.
on_every! { over_tcp over_tls over_shm over_fabric_tcp over_fabric_verbs }
