//! What a session says must be legal at that moment.

use forebay_msg::session::Agreed;
use forebay_msg::{Credit, Role, Totals};
use forebay_wire::net::{DataFields, Frame, Kind};
use forebay_wire::netio3::{HEAD_BYTES_MAX, Messages};

/// What was said so far, by our own count, and what it is held against.
pub(super) struct Said {
    pub(super) dials: bool,
    pub(super) agreed: Option<Agreed>,
    /// In whole frames.
    pub(super) sent: Totals,
    /// Buffers that the peer has given back.
    pub(super) credited: u64,
    /// Messages and bytes that were read, and of which the user has said what became.
    pub(super) given: [u64; 2],
    pub(super) confirmable: [u64; 2],
    pub(super) by_hand: bool,
    pub(super) is_withheld: bool,
    pub(super) peer_ended: bool,
    /// Answers that are due.
    pub(super) answers: u64,
    /// Of a frame that is not whole.
    begun: Vec<u8>,
    greeted: bool,
    refused: bool,
    pub(super) ended: bool,
    /// Its peer is to be let go, and was to be when the last frame that ends was begun.
    pub(super) lets_go: bool,
    let_go: Option<bool>,
    credit: Credit,
    farewell: bool,
}

impl Said {
    pub(super) fn new(dials: bool) -> Self {
        Self {
            dials,
            agreed: None,
            sent: Totals::default(),
            credited: 0,
            given: [0; 2],
            confirmable: [0; 2],
            by_hand: false,
            is_withheld: false,
            peer_ended: false,
            answers: 0,
            begun: Vec::new(),
            greeted: false,
            refused: false,
            ended: false,
            lets_go: false,
            let_go: None,
            credit: Credit::default(),
            farewell: false,
        }
    }

    pub(super) fn receives(&self) -> bool {
        self.agreed.is_some_and(|agreed| agreed.receives)
    }

    /// Whether a peer that keeps to the protocol may say this now, and goes on.
    pub(super) fn has_place_for(&self, frame: &Frame<'_>) -> bool {
        let sends = self.agreed.is_some_and(|agreed| agreed.sends);
        let subscribes = self.agreed.is_some_and(|it| it.role == Role::Subscriber);
        match frame {
            Frame::Data(..) | Frame::End(_) => self.receives() && !self.peer_ended,
            Frame::Credit(_) | Frame::Leave => sends,
            Frame::Farewell(_) => sends && self.ended,
            Frame::Subscribe(_) => subscribes && !self.dials,
            Frame::Subscribed(..) => subscribes && self.dials,
            Frame::Alive => true,
            _ => false,
        }
    }

    /// Whether fewer buffers are on their way than were agreed.
    pub(super) fn has_buffer(&self) -> bool {
        let agreed = self.agreed.map_or(0, |agreed| agreed.buffer_count);
        self.sent.buffers - self.credited < agreed.into()
    }

    /// Whether the peer has given back all that was sent.
    pub(super) fn is_given_back(&self) -> bool {
        self.sent.buffers == self.credited
    }

    /// All is said that could be, of buffers before the number `next`: the peer knows what became of what it sent, and its questions are answered.
    pub(super) fn owes_nothing(&self, next: u64) {
        if !self.begun.is_empty() {
            // A buffer is cut, and nothing can come behind it.
            return;
        }
        assert_eq!(self.answers, 0);
        let [messages, bytes] = if self.by_hand {
            self.confirmable
        } else {
            self.given
        };
        let is_all = [messages, bytes] == self.given && !self.is_withheld;
        assert_eq!(self.farewell, self.peer_ended && is_all);
        let credit = Credit {
            buffers: next,
            messages,
            bytes,
        };
        assert!(self.farewell || self.credit == credit);
    }

    /// A frame, or the rest of one, is about to go out.
    pub(super) fn begin(&mut self, bytes: &[u8]) {
        let ends = [Kind::End, Kind::LetGo].map(|kind| kind as u8);
        let is_end = bytes.get(3).is_some_and(|kind| ends.contains(kind));
        if self.begun.is_empty() && is_end {
            self.let_go.get_or_insert(self.lets_go);
        }
    }

    /// More bytes go out, when so many messages and bytes were pushed.
    pub(super) fn take(&mut self, bytes: &[u8], pushed: [u64; 2]) {
        self.begun.extend_from_slice(bytes);
        let begun = std::mem::take(&mut self.begun);
        let area = self.agreed.map_or(0, |agreed| agreed.buffer_bytes);
        let parsed = Frame::parse(&begun, area + HEAD_BYTES_MAX as u32);
        match parsed.expect("what it says is a frame") {
            None => self.begun = begun,
            Some((frame, count)) => {
                assert_eq!(count, begun.len(), "frames go one by one");
                self.frame(frame, pushed);
            }
        }
    }

    fn frame(&mut self, frame: Frame<'_>, pushed: [u64; 2]) {
        assert!(!self.refused, "nothing behind a refusal: {frame:?}");
        let (sends, receives) = self
            .agreed
            .map_or((false, false), |agreed| (agreed.sends, agreed.receives));
        let subscribes = self.agreed.is_some_and(|it| it.role == Role::Subscriber);
        match frame {
            Frame::Hello(_) => assert!(self.dials && !self.greeted),
            Frame::Welcome(_) => assert!(!self.dials && !self.greeted && self.agreed.is_some()),
            Frame::Refuse(_) => self.refused = true,
            _ => assert!(self.greeted, "{frame:?} is no greeting"),
        }
        self.greeted = true;
        match frame {
            Frame::Data(fields, messages) => {
                assert!(sends && !self.ended);
                self.data(&fields, messages);
            }
            Frame::End(totals) | Frame::LetGo(totals) => {
                assert!(sends && !self.ended);
                self.ended = true;
                let is_let_go = matches!(frame, Frame::LetGo(_));
                assert_eq!(self.let_go, Some(is_let_go));
                let all = [
                    totals.messages + totals.messages_dropped,
                    totals.bytes + totals.bytes_dropped,
                ];
                assert_eq!(all, pushed, "what was handed in was sent or dropped");
                let went = Totals {
                    messages_dropped: 0,
                    bytes_dropped: 0,
                    ..totals
                };
                assert_eq!(went, self.sent);
            }
            Frame::Credit(credit) => {
                assert!(receives && !self.farewell);
                self.take_credit(credit);
            }
            Frame::Farewell(took) => {
                assert!(receives && self.peer_ended && !self.farewell && !self.is_withheld);
                assert!(!self.by_hand || self.confirmable == self.given);
                self.farewell = true;
                assert_eq!([took.messages, took.bytes], self.given);
                assert_eq!((took.messages_dropped, took.bytes_dropped), (0, 0));
            }
            Frame::Subscribe(_) => assert!(self.dials && subscribes),
            Frame::Subscribed(..) => {
                assert!(!self.dials && subscribes && self.answers > 0);
                self.answers -= 1;
            }
            Frame::Leave => assert!(receives),
            _ => {}
        }
    }

    fn data(&mut self, fields: &DataFields, messages: &[u8]) {
        let agreed = self.agreed.expect("it is connected");
        let found = Messages::new(messages).map(|message| message.expect("it is whole"));
        let (mut count, mut bytes) = (0, 0);
        for message in found {
            (count, bytes) = (count + 1, bytes + message.payload.len() as u64);
        }
        assert_eq!((fields.epoch, fields.messages), (agreed.epoch, count));
        assert_eq!(fields.sequence, self.sent.buffers);
        let sent = &mut self.sent;
        sent.buffers += 1;
        sent.messages += u64::from(count);
        sent.bytes += bytes;
        assert_eq!(
            (fields.messages_total, fields.bytes_total),
            (sent.messages, sent.bytes)
        );
        assert!(sent.buffers - self.credited <= agreed.buffer_count.into());
    }

    fn take_credit(&mut self, credit: Credit) {
        let before = self.credit;
        let grows = |was, is, most| (was..=most).contains(&is);
        let most = if self.by_hand || self.is_withheld {
            self.confirmable
        } else {
            self.given
        };
        assert!(credit != before, "it says nothing new");
        assert!(credit.buffers >= before.buffers);
        assert!(grows(before.messages, credit.messages, most[0]));
        assert!(grows(before.bytes, credit.bytes, most[1]));
        self.credit = credit;
    }
}
