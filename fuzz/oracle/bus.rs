//! What must hold for any line said to a registry, or by one. Shared by the fuzz target and by the test that replays its corpus.

use forebay_run_net::bus::{Answer, Offer, Request};

/// An offer that came: it keeps to its limits, or says which it does not.
fn look(offer: &Offer) {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = (1..=64).contains(&offer.name.len()) && offer.name.bytes().all(plain);
    match offer.check() {
        Ok(_) => assert!(is_name && offer.tags.len() <= 65_536),
        Err(wrong) => assert!(!wrong.to_string().is_empty()),
    }
    if !is_name {
        assert!(offer.check().is_err());
    }
}

/// Panics when something does not hold.
pub(crate) fn check(line: &[u8]) {
    if let Ok(request) = serde_json::from_slice::<Request>(line) {
        let again = serde_json::to_vec(&request).expect("it can be said");
        let same: Request = serde_json::from_slice(&again).expect("and is understood");
        assert_eq!(same, request);
        if let Request::Announce(offer) = &request {
            look(offer);
        }
    }
    if let Ok(answer) = serde_json::from_slice::<Answer>(line) {
        let again = serde_json::to_vec(&answer).expect("it can be said");
        let same: Answer = serde_json::from_slice(&again).expect("and is understood");
        assert_eq!(same, answer);
        match &answer {
            Answer::Offers(offers) | Answer::Page { offers, .. } => offers.iter().for_each(look),
            Answer::Kept | Answer::Refused(_) => {}
        }
    }
}
