//! Templates of flow records: one for each version of IP and each set of plugins that have found something.
//!
//! A template is told in front of the first record that needs it, and again when all are to be told again. A list is one of RFC 6313.

use std::collections::BTreeMap;

use forebay_flow::plugins::{Column, Fields, Kind, PluginKind, Value};
use forebay_wire::ipfix::elements::{
    BASIC_LIST, DESTINATION_IPV4_ADDRESS, DESTINATION_IPV6_ADDRESS, DESTINATION_TRANSPORT_PORT,
    FLOW_END_MILLISECONDS, FLOW_END_REASON, FLOW_START_MILLISECONDS, OCTET_DELTA_COUNT,
    PACKET_DELTA_COUNT, PROTOCOL_IDENTIFIER, SOURCE_IPV4_ADDRESS, SOURCE_IPV6_ADDRESS,
    SOURCE_TRANSPORT_PORT, TCP_CONTROL_BITS, VLAN_ID,
};
use forebay_wire::ipfix::{
    BasicList, FieldSpec, MessageWriter, ORDERED, RecordWriter, VARIABLE_LENGTH, WriteError,
};

/// Templates of flows without what plugins found, of IPv4 and of IPv6.
const BARE: [u16; 2] = [256, 257];
/// The first of those with it; those between are of options.
const FIRST: u16 = 260;

/// What stands in a record.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// There is one direction.
    pub(super) uniflow: bool,
    /// VLANs are part of the key.
    pub(super) vlan: bool,
}

/// Fields of a record.
fn fields(is_ipv6: bool, layout: Layout) -> Vec<FieldSpec> {
    let addresses = if is_ipv6 {
        [SOURCE_IPV6_ADDRESS, DESTINATION_IPV6_ADDRESS]
    } else {
        [SOURCE_IPV4_ADDRESS, DESTINATION_IPV4_ADDRESS]
    };
    let whole = [
        FLOW_START_MILLISECONDS,
        FLOW_END_MILLISECONDS,
        SOURCE_TRANSPORT_PORT,
        DESTINATION_TRANSPORT_PORT,
        PROTOCOL_IDENTIFIER,
        FLOW_END_REASON,
    ];
    let counts = [
        FieldSpec::whole(PACKET_DELTA_COUNT),
        FieldSpec::whole(OCTET_DELTA_COUNT),
        // Of the flags the lower eight are measured.
        FieldSpec::reduced(TCP_CONTROL_BITS, 1),
    ];
    let reverse = |spec: FieldSpec| {
        let element = spec.element.reverse()?;
        Some(FieldSpec { element, ..spec })
    };
    let vlan = layout.vlan.then_some(VLAN_ID);
    let specs = addresses.into_iter().chain(whole).chain(vlan);
    let mut specs: Vec<_> = specs.map(FieldSpec::whole).chain(counts).collect();
    if !layout.uniflow {
        specs.extend(counts.into_iter().filter_map(reverse));
    }
    specs
}

/// How the values of a column stand in a record.
const fn spec(column: &Column) -> FieldSpec {
    let bytes = match column.kind {
        Kind::Unsigned(bytes) => bytes,
        Kind::Float => 8,
        Kind::Text | Kind::Octets => VARIABLE_LENGTH,
        Kind::Unsigneds(_) | Kind::Signeds => return FieldSpec::whole(BASIC_LIST),
    };
    FieldSpec {
        element: column.element,
        bytes,
    }
}

/// Writes the values of all columns. Of a value that is not there a number is 0, a text empty, and a list without values.
pub(super) fn write_fields(to: &mut RecordWriter<'_>, fields: &Fields) {
    let mut list = Vec::new();
    for (column, value) in fields.values() {
        let bytes = value.map_or(&[][..], Value::bytes);
        match column.kind {
            Kind::Text | Kind::Octets => to.variable(bytes),
            Kind::Unsigneds(_) | Kind::Signeds => {
                list.clear();
                begin_list(&mut list, column);
                list.extend_from_slice(bytes);
                to.variable(&list);
            }
            Kind::Unsigned(_) | Kind::Float if bytes.is_empty() => {
                to.bytes(&[0; 8][..usize::from(column.kind.number_bytes().min(8))]);
            }
            Kind::Unsigned(_) | Kind::Float => to.bytes(bytes),
        }
    }
}

/// The header of a list.
fn begin_list(list: &mut Vec<u8>, column: &Column) {
    let of_value = FieldSpec {
        element: column.element,
        bytes: column.kind.number_bytes(),
    };
    let (header, bytes) = BasicList::header(ORDERED, of_value);
    list.extend_from_slice(&header[..bytes]);
}

/// A template, and whether its collector was told.
struct Template {
    id: u16,
    specs: Vec<FieldSpec>,
    is_told: bool,
}

/// All that were needed so far: two for each of 2^13 sets at most.
pub(super) struct Templates {
    layout: Layout,
    known: BTreeMap<(bool, u16), Template>,
}

impl Templates {
    pub(super) const fn new(layout: Layout) -> Self {
        Self {
            layout,
            known: BTreeMap::new(),
        }
    }

    /// All are to be told again.
    pub(super) fn forget_told(&mut self) {
        for template in self.known.values_mut() {
            template.is_told = false;
        }
    }

    /// Tells a template, unless it was told, and says its number.
    pub(super) fn tell(
        &mut self,
        writer: &mut MessageWriter<'_>,
        is_ipv6: bool,
        set: u16,
    ) -> Result<u16, WriteError> {
        let with_fields = self.known.keys().filter(|(_, set)| *set != 0).count();
        let (layout, known) = (self.layout, &mut self.known);
        let template = known.entry((is_ipv6, set)).or_insert_with(|| {
            let columns = PluginKind::columns_of(set).map(spec);
            let specs = fields(is_ipv6, layout).into_iter().chain(columns);
            Template {
                id: match set {
                    0 => BARE[usize::from(is_ipv6)],
                    _ => FIRST + with_fields as u16,
                },
                specs: specs.collect(),
                is_told: false,
            }
        });
        if !template.is_told {
            writer.push_template(template.id, &template.specs)?;
            template.is_told = true;
        }
        Ok(template.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What IANA has numbered is as long as IANA says.
    #[test]
    fn columns_agree_with_the_registry() {
        let mut known = 0;
        for column in PluginKind::ALL.iter().flat_map(|kind| kind.columns()) {
            let spec = spec(column);
            assert!(spec.bytes > 0, "{}", column.name);
            if let Some(info) = column.element.info() {
                known += 1;
                assert_eq!(spec.bytes, info.bytes, "{} is {}", column.name, info.name);
            }
        }
        assert_eq!(known, 14);
    }
}
