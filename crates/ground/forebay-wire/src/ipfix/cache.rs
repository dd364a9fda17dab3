//! The templates that a collector knows, bounded in number and in bytes.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use super::{IpfixError, Template, TemplateRecord};

/// The templates of one transport session, by observation domain and id (RFC 7011, section 8).
///
/// Exporters are not to be trusted: of each session keep a cache of its own, with limits.
#[derive(Clone, Debug)]
pub struct TemplateCache {
    kept: BTreeMap<(u32, u16), Kept>,
    templates_max: usize,
    bytes_max: usize,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Kept {
    fields: u16,
    scope_fields: u16,
    record_bytes_min: usize,
    specs: Box<[u8]>,
    seen_ns: u64,
}

impl Kept {
    fn view(&self, id: u16) -> Template<'_> {
        Template {
            id,
            fields: self.fields,
            scope_fields: self.scope_fields,
            record_bytes_min: self.record_bytes_min,
            specs: &self.specs,
        }
    }
}

/// What a template was to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learnt {
    /// New.
    New,
    /// Known as it is: exporters over UDP repeat them.
    Same,
    /// Another one with the id of a known one: over UDP the exporter began anew, over TCP it is at fault (section 8).
    Replaced,
    /// So many were withdrawn.
    Withdrawn(usize),
}

impl TemplateCache {
    /// An empty one, for at most so many templates, and so many bytes of their specifiers (4 or 8 a field).
    #[must_use]
    pub const fn new(templates_max: usize, bytes_max: usize) -> Self {
        Self {
            kept: BTreeMap::new(),
            templates_max,
            bytes_max,
            bytes: 0,
        }
    }

    /// Templates that are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The template of this domain with this id.
    #[must_use]
    pub fn template(&self, domain: u32, id: u16) -> Option<Template<'_>> {
        self.kept.get(&(domain, id)).map(|kept| kept.view(id))
    }

    /// Takes what a set of templates says, at this time of any clock.
    ///
    /// # Errors
    /// The cache is full. The one with the same id is gone then: its records would be read wrongly.
    pub fn learn(
        &mut self,
        domain: u32,
        record: TemplateRecord<'_>,
        now_ns: u64,
    ) -> Result<Learnt, IpfixError> {
        match record {
            TemplateRecord::Defined(template) => self.keep(domain, &template, now_ns),
            TemplateRecord::Withdrawn(id) => {
                let gone = self.remove(domain, id);
                Ok(Learnt::Withdrawn(usize::from(gone)))
            }
            TemplateRecord::AllWithdrawn { options } => {
                let gone =
                    self.retain(|of, kept| of != domain || (kept.scope_fields > 0) != options);
                Ok(Learnt::Withdrawn(gone))
            }
        }
    }

    /// Forgets the templates that did not come again since then, and says how many: over UDP they have a lifetime (section 8.4).
    pub fn expire(&mut self, before_ns: u64) -> usize {
        self.retain(|_, kept| kept.seen_ns >= before_ns)
    }

    fn keep(
        &mut self,
        domain: u32,
        template: &Template<'_>,
        now_ns: u64,
    ) -> Result<Learnt, IpfixError> {
        let Template { id, specs, .. } = *template;
        if let Some(kept) = self.kept.get_mut(&(domain, id))
            && kept.view(id) == *template
        {
            kept.seen_ns = now_ns;
            return Ok(Learnt::Same);
        }
        let replaced = self.remove(domain, id);
        if self.kept.len() >= self.templates_max {
            let most = self.templates_max;
            return Err(IpfixError::CacheTemplates { most });
        }
        if self.bytes + specs.len() > self.bytes_max {
            let most = self.bytes_max;
            return Err(IpfixError::CacheBytes { id, most });
        }
        self.bytes += specs.len();
        let kept = Kept {
            fields: template.fields,
            scope_fields: template.scope_fields,
            record_bytes_min: template.record_bytes_min,
            specs: specs.into(),
            seen_ns: now_ns,
        };
        self.kept.insert((domain, id), kept);
        Ok(if replaced {
            Learnt::Replaced
        } else {
            Learnt::New
        })
    }

    fn remove(&mut self, domain: u32, id: u16) -> bool {
        let gone = self.kept.remove(&(domain, id));
        self.bytes -= gone.as_ref().map_or(0, |kept| kept.specs.len());
        gone.is_some()
    }

    fn retain(&mut self, mut stays: impl FnMut(u32, &Kept) -> bool) -> usize {
        let before = self.kept.len();
        self.kept.retain(|&(domain, _), kept| stays(domain, kept));
        self.bytes = self.kept.values().map(|kept| kept.specs.len()).sum();
        before - self.kept.len()
    }
}
