use super::super::*;
use super::message;

#[test]
fn a_cache_has_limits_and_forgets() {
    let define = |cache: &mut TemplateCache, domain, body: &[u8], now_ns| {
        let set = if body.len().is_multiple_of(4) { 2 } else { 3 };
        let message = message(set, body);
        let set = Message::new_checked(&message)
            .unwrap()
            .sets()
            .next()
            .unwrap();
        let record = set.templates().next().unwrap().unwrap();
        cache.learn(domain, record, now_ns)
    };
    let mut cache = TemplateCache::new(3, 16);
    let one = [1, 0, 0, 1, 0, 1, 0, 8];
    let two = [1, 1, 0, 2, 0, 1, 0, 8, 0, 2, 0, 8];
    let other_one = [1, 0, 0, 1, 0, 2, 0, 8];
    assert_eq!(define(&mut cache, 1, &one, 10), Ok(Learnt::New));
    assert_eq!(define(&mut cache, 1, &one, 20), Ok(Learnt::Same));
    // It was seen again.
    assert_eq!(cache.expire(20), 0);
    assert_eq!(define(&mut cache, 1, &other_one, 30), Ok(Learnt::Replaced));
    assert_eq!(define(&mut cache, 2, &two, 40), Ok(Learnt::New));
    // 4 and 8 bytes are kept: 4 more fit, 8 do not.
    let full = IpfixError::CacheBytes { id: 257, most: 16 };
    assert_eq!(define(&mut cache, 1, &two, 40), Err(full));
    let options = [1, 2, 0, 1, 0, 1, 0, 1, 0, 8];
    assert_eq!(define(&mut cache, 1, &options, 40), Ok(Learnt::New));
    let most = IpfixError::CacheTemplates { most: 3 };
    assert_eq!(define(&mut cache, 3, &one, 40), Err(most));
    // One that no longer fits leaves nothing of its id behind.
    let larger = [1, 0, 0, 2, 0, 1, 0, 8, 0, 2, 0, 8];
    let full = IpfixError::CacheBytes { id: 256, most: 16 };
    assert_eq!(define(&mut cache, 1, &larger, 50), Err(full));
    assert!(cache.template(1, 256).is_none());
    assert_eq!(define(&mut cache, 1, &one, 50), Ok(Learnt::New));
    // All without a scope, of one domain.
    assert_eq!(
        define(&mut cache, 1, &[0, 2, 0, 0], 60),
        Ok(Learnt::Withdrawn(1))
    );
    assert!(cache.template(1, 258).is_some() && cache.template(2, 257).is_some());
    assert_eq!(
        define(&mut cache, 2, &[1, 1, 0, 0], 60),
        Ok(Learnt::Withdrawn(1))
    );
    assert_eq!(
        define(&mut cache, 2, &[1, 1, 0, 0], 60),
        Ok(Learnt::Withdrawn(0))
    );
    assert_eq!(define(&mut cache, 1, &two, 70), Ok(Learnt::New));
    assert_eq!((cache.expire(40), cache.expire(41), cache.len()), (0, 1, 1));
    assert_eq!(define(&mut cache, 1, &one, 80), Ok(Learnt::New));
    assert_eq!((cache.expire(u64::MAX), cache.is_empty()), (2, true));
    assert_eq!(
        define(
            &mut cache,
            1,
            &[&two[..2], &[0, 4], &[0, 1, 0, 8].repeat(4)].concat(),
            0
        ),
        Ok(Learnt::New)
    );
}
