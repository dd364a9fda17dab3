//! The elements of IANA's registry that are exported here (RFC 7012; <https://www.iana.org/assignments/ipfix>), and their reverses.
//!
//! A reverse element is that of the packets in the other direction of a flow: the same number, of the enterprise 29305
//! (RFC 5103, section 6.1). It is derived ([`Element::reverse`]); what is no property of a direction has none.

use core::fmt;

use super::{REVERSE_ENTERPRISE, VARIABLE_LENGTH};

/// Which element a value is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Element {
    /// The enterprise that numbers it: 0 is IANA.
    pub enterprise: u32,
    /// Its number, 15 bits.
    pub id: u16,
}

impl Element {
    /// An element of IANA's registry.
    #[must_use]
    pub const fn iana(id: u16) -> Self {
        Self { enterprise: 0, id }
    }

    /// The same of the other direction; none where it is of another registry, or known to have none (RFC 5103, section 6.1).
    #[must_use]
    pub fn reverse(self) -> Option<Self> {
        let has_reverse = self.info().is_none_or(|info| info.has_reverse);
        (self.enterprise == 0 && has_reverse).then_some(Self {
            enterprise: REVERSE_ENTERPRISE,
            ..self
        })
    }

    /// The same of the forward direction, where it is of the reverse one.
    #[must_use]
    pub const fn forward(self) -> Option<Self> {
        match self.enterprise {
            REVERSE_ENTERPRISE => Some(Self::iana(self.id)),
            _ => None,
        }
    }

    /// Its row in the table; of a reverse element that of the forward one.
    #[must_use]
    pub fn info(self) -> Option<&'static ElementInfo> {
        let (0 | REVERSE_ENTERPRISE) = self.enterprise else {
            return None;
        };
        let at = ALL.binary_search_by_key(&self.id, |info| info.element.id);
        at.ok().map(|at| &ALL[at])
    }
}

/// `octetDeltaCount`, `reverse octetDeltaCount`, `15`, or `32473/15` of another enterprise.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { enterprise, id } = *self;
        if enterprise == REVERSE_ENTERPRISE {
            f.write_str("reverse ")?;
        }
        match self.info() {
            Some(info) => f.write_str(info.name),
            None if matches!(enterprise, 0 | REVERSE_ENTERPRISE) => write!(f, "{id}"),
            None => write!(f, "{enterprise}/{id}"),
        }
    }
}

/// What the registry says of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementInfo {
    /// The element.
    pub element: Element,
    /// Its name in the registry.
    pub name: &'static str,
    /// Bytes of a value; numbers may be sent with fewer (RFC 7011, section 6.2). [`VARIABLE_LENGTH`] where it varies.
    pub bytes: u16,
    /// Its unit; empty where it has none.
    pub unit: &'static str,
    /// Whether it has another value for the other direction.
    pub has_reverse: bool,
}

const fn row(
    id: u16,
    name: &'static str,
    bytes: u16,
    unit: &'static str,
    has_reverse: bool,
) -> ElementInfo {
    ElementInfo {
        element: Element::iana(id),
        name,
        bytes,
        unit,
        has_reverse,
    }
}

/// Octets of IP packets since the last report.
pub const OCTET_DELTA_COUNT: ElementInfo = row(1, "octetDeltaCount", 8, "octets", true);
/// Packets since the last report.
pub const PACKET_DELTA_COUNT: ElementInfo = row(2, "packetDeltaCount", 8, "packets", true);
/// Protocol in the IP header.
pub const PROTOCOL_IDENTIFIER: ElementInfo = row(4, "protocolIdentifier", 1, "", true);
/// Type of service, or traffic class.
pub const IP_CLASS_OF_SERVICE: ElementInfo = row(5, "ipClassOfService", 1, "", true);
/// All TCP flags that were seen; 16 bits (RFC 9565); an exporter that measures the lower 8 alone sends one byte.
pub const TCP_CONTROL_BITS: ElementInfo = row(6, "tcpControlBits", 2, "", true);
/// Source port.
pub const SOURCE_TRANSPORT_PORT: ElementInfo = row(7, "sourceTransportPort", 2, "", true);
/// Source, IPv4.
pub const SOURCE_IPV4_ADDRESS: ElementInfo = row(8, "sourceIPv4Address", 4, "", true);
/// Index of the interface where packets came in.
pub const INGRESS_INTERFACE: ElementInfo = row(10, "ingressInterface", 4, "", true);
/// Destination port.
pub const DESTINATION_TRANSPORT_PORT: ElementInfo =
    row(11, "destinationTransportPort", 2, "", true);
/// Destination, IPv4.
pub const DESTINATION_IPV4_ADDRESS: ElementInfo = row(12, "destinationIPv4Address", 4, "", true);
/// Source, IPv6.
pub const SOURCE_IPV6_ADDRESS: ElementInfo = row(27, "sourceIPv6Address", 16, "", true);
/// Destination, IPv6.
pub const DESTINATION_IPV6_ADDRESS: ElementInfo = row(28, "destinationIPv6Address", 16, "", true);
/// ICMP type times 256, plus code.
pub const ICMP_TYPE_CODE_IPV4: ElementInfo = row(32, "icmpTypeCodeIPv4", 2, "", true);
/// Octets that were sent to the collector, before this message.
pub const EXPORTED_OCTET_TOTAL_COUNT: ElementInfo =
    row(40, "exportedOctetTotalCount", 8, "octets", false);
/// Messages that were sent to it, before this one.
pub const EXPORTED_MESSAGE_TOTAL_COUNT: ElementInfo =
    row(41, "exportedMessageTotalCount", 8, "messages", false);
/// Flow records that were sent to it, before this message.
pub const EXPORTED_FLOW_RECORD_TOTAL_COUNT: ElementInfo =
    row(42, "exportedFlowRecordTotalCount", 8, "flows", false);
/// Source, IEEE 802.
pub const SOURCE_MAC_ADDRESS: ElementInfo = row(56, "sourceMacAddress", 6, "", true);
/// VLAN, 12 bits.
pub const VLAN_ID: ElementInfo = row(58, "vlanId", 2, "", true);
/// 4 or 6.
pub const IP_VERSION: ElementInfo = row(60, "ipVersion", 1, "", true);
/// Destination, IEEE 802.
pub const DESTINATION_MAC_ADDRESS: ElementInfo = row(80, "destinationMacAddress", 6, "", true);
/// Octets since the metering process began.
pub const OCTET_TOTAL_COUNT: ElementInfo = row(85, "octetTotalCount", 8, "octets", true);
/// Packets since the metering process began.
pub const PACKET_TOTAL_COUNT: ElementInfo = row(86, "packetTotalCount", 8, "packets", true);
/// Octets of the flow that were dropped at the observation point.
pub const DROPPED_OCTET_TOTAL_COUNT: ElementInfo =
    row(134, "droppedOctetTotalCount", 8, "octets", true);
/// Packets of the flow that were dropped at the observation point.
pub const DROPPED_PACKET_TOTAL_COUNT: ElementInfo =
    row(135, "droppedPacketTotalCount", 8, "packets", true);
/// Why the flow's record was sent: 1 idle, 2 active, 3 end seen, 4 forced, 5 lack of room.
pub const FLOW_END_REASON: ElementInfo = row(136, "flowEndReason", 1, "", true);
/// ICMPv6 type times 256, plus code.
pub const ICMP_TYPE_CODE_IPV6: ElementInfo = row(139, "icmpTypeCodeIPv6", 2, "", true);
/// Which metering process.
pub const METERING_PROCESS_ID: ElementInfo = row(143, "meteringProcessId", 4, "", true);
/// Which exporting process.
pub const EXPORTING_PROCESS_ID: ElementInfo = row(144, "exportingProcessId", 4, "", true);
/// Which flow, in its domain.
pub const FLOW_ID: ElementInfo = row(148, "flowId", 8, "", false);
/// Which observation domain.
pub const OBSERVATION_DOMAIN_ID: ElementInfo = row(149, "observationDomainId", 4, "", false);
/// First packet, ms since 1970.
pub const FLOW_START_MILLISECONDS: ElementInfo =
    row(152, "flowStartMilliseconds", 8, "milliseconds", true);
/// Last packet, ms since 1970.
pub const FLOW_END_MILLISECONDS: ElementInfo =
    row(153, "flowEndMilliseconds", 8, "milliseconds", true);
/// First packet, as [`super::ntp::microseconds`].
pub const FLOW_START_MICROSECONDS: ElementInfo =
    row(154, "flowStartMicroseconds", 8, "microseconds", true);
/// Last packet, as [`super::ntp::microseconds`].
pub const FLOW_END_MICROSECONDS: ElementInfo =
    row(155, "flowEndMicroseconds", 8, "microseconds", true);
/// First packet, as [`super::ntp::nanoseconds`].
pub const FLOW_START_NANOSECONDS: ElementInfo =
    row(156, "flowStartNanoseconds", 8, "nanoseconds", true);
/// Last packet, as [`super::ntp::nanoseconds`].
pub const FLOW_END_NANOSECONDS: ElementInfo =
    row(157, "flowEndNanoseconds", 8, "nanoseconds", true);
/// When the exporter was initialised, ms since 1970.
pub const SYSTEM_INIT_TIME_MILLISECONDS: ElementInfo =
    row(160, "systemInitTimeMilliseconds", 8, "milliseconds", false);
/// Packets that the metering process did not look at (RFC 7011, section 4.2).
pub const IGNORED_PACKET_TOTAL_COUNT: ElementInfo =
    row(164, "ignoredPacketTotalCount", 8, "packets", false);
/// Octets that it did not look at.
pub const IGNORED_OCTET_TOTAL_COUNT: ElementInfo =
    row(165, "ignoredOctetTotalCount", 8, "octets", false);
/// Flow records that were made and not sent (RFC 7011, section 4.3).
pub const NOT_SENT_FLOW_TOTAL_COUNT: ElementInfo =
    row(166, "notSentFlowTotalCount", 8, "flows", false);
/// Packets in records that were not sent.
pub const NOT_SENT_PACKET_TOTAL_COUNT: ElementInfo =
    row(167, "notSentPacketTotalCount", 8, "packets", false);
/// Octets in records that were not sent.
pub const NOT_SENT_OCTET_TOTAL_COUNT: ElementInfo =
    row(168, "notSentOctetTotalCount", 8, "octets", false);
/// Zeroes, of any length.
pub const PADDING_OCTETS: ElementInfo = row(210, "paddingOctets", VARIABLE_LENGTH, "", false);
/// Which direction is forward: 0 arbitrary, 1 initiator, 2 reverse initiator, 3 perimeter.
pub const BIFLOW_DIRECTION: ElementInfo = row(239, "biflowDirection", 1, "", false);

/// TCP window, bytes before scaling.
pub const TCP_WINDOW_SIZE: ElementInfo = row(186, "tcpWindowSize", 2, "", true);
/// Time to live, or hop limit.
pub const IP_TTL: ElementInfo = row(192, "ipTTL", 1, "", true);
/// TCP options that were seen: a bit for each kind, kind 0 the lowest.
pub const TCP_OPTIONS: ElementInfo = row(209, "tcpOptions", 8, "", true);
/// TCP window is to be shifted by so many bits.
pub const TCP_WINDOW_SCALE: ElementInfo = row(238, "tcpWindowScale", 2, "", true);
/// A list of values of one element (RFC 6313).
pub const BASIC_LIST: ElementInfo = row(291, "basicList", VARIABLE_LENGTH, "", true);
/// Number of a function that selects packets (RFC 5477).
pub const SELECTOR_ID: ElementInfo = row(302, "selectorId", 8, "", false);
/// Packets that came to it.
pub const SELECTOR_ID_TOTAL_PKTS_OBSERVED: ElementInfo =
    row(318, "selectorIDTotalPktsObserved", 8, "", false);
/// Packets that it let pass.
pub const SELECTOR_ID_TOTAL_PKTS_SELECTED: ElementInfo =
    row(319, "selectorIDTotalPktsSelected", 8, "", false);
/// Status of a response of HTTP.
pub const HTTP_STATUS_CODE: ElementInfo = row(457, "httpStatusCode", 2, "", true);
/// Method of a request of HTTP.
pub const HTTP_REQUEST_METHOD: ElementInfo =
    row(459, "httpRequestMethod", VARIABLE_LENGTH, "", true);
/// Host that it is for.
pub const HTTP_REQUEST_HOST: ElementInfo = row(460, "httpRequestHost", VARIABLE_LENGTH, "", true);
/// What it asks for.
pub const HTTP_REQUEST_TARGET: ElementInfo =
    row(461, "httpRequestTarget", VARIABLE_LENGTH, "", true);
/// Program that asks.
pub const HTTP_USER_AGENT: ElementInfo = row(468, "httpUserAgent", VARIABLE_LENGTH, "", true);
/// Kind of what is answered.
pub const HTTP_CONTENT_TYPE: ElementInfo = row(469, "httpContentType", VARIABLE_LENGTH, "", true);

/// All of them, by their numbers.
pub const ALL: &[ElementInfo] = &[
    OCTET_DELTA_COUNT,
    PACKET_DELTA_COUNT,
    PROTOCOL_IDENTIFIER,
    IP_CLASS_OF_SERVICE,
    TCP_CONTROL_BITS,
    SOURCE_TRANSPORT_PORT,
    SOURCE_IPV4_ADDRESS,
    INGRESS_INTERFACE,
    DESTINATION_TRANSPORT_PORT,
    DESTINATION_IPV4_ADDRESS,
    SOURCE_IPV6_ADDRESS,
    DESTINATION_IPV6_ADDRESS,
    ICMP_TYPE_CODE_IPV4,
    EXPORTED_OCTET_TOTAL_COUNT,
    EXPORTED_MESSAGE_TOTAL_COUNT,
    EXPORTED_FLOW_RECORD_TOTAL_COUNT,
    SOURCE_MAC_ADDRESS,
    VLAN_ID,
    IP_VERSION,
    DESTINATION_MAC_ADDRESS,
    OCTET_TOTAL_COUNT,
    PACKET_TOTAL_COUNT,
    DROPPED_OCTET_TOTAL_COUNT,
    DROPPED_PACKET_TOTAL_COUNT,
    FLOW_END_REASON,
    ICMP_TYPE_CODE_IPV6,
    METERING_PROCESS_ID,
    EXPORTING_PROCESS_ID,
    FLOW_ID,
    OBSERVATION_DOMAIN_ID,
    FLOW_START_MILLISECONDS,
    FLOW_END_MILLISECONDS,
    FLOW_START_MICROSECONDS,
    FLOW_END_MICROSECONDS,
    FLOW_START_NANOSECONDS,
    FLOW_END_NANOSECONDS,
    SYSTEM_INIT_TIME_MILLISECONDS,
    IGNORED_PACKET_TOTAL_COUNT,
    IGNORED_OCTET_TOTAL_COUNT,
    NOT_SENT_FLOW_TOTAL_COUNT,
    NOT_SENT_PACKET_TOTAL_COUNT,
    NOT_SENT_OCTET_TOTAL_COUNT,
    TCP_WINDOW_SIZE,
    IP_TTL,
    TCP_OPTIONS,
    PADDING_OCTETS,
    TCP_WINDOW_SCALE,
    BIFLOW_DIRECTION,
    BASIC_LIST,
    SELECTOR_ID,
    SELECTOR_ID_TOTAL_PKTS_OBSERVED,
    SELECTOR_ID_TOTAL_PKTS_SELECTED,
    HTTP_STATUS_CODE,
    HTTP_REQUEST_METHOD,
    HTTP_REQUEST_HOST,
    HTTP_REQUEST_TARGET,
    HTTP_USER_AGENT,
    HTTP_CONTENT_TYPE,
];

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;

    #[test]
    fn the_table_is_in_order_and_names_no_element_twice() {
        for pair in ALL.windows(2) {
            assert!(pair[0].element.id < pair[1].element.id, "{}", pair[1].name);
        }
        for info in ALL {
            assert_eq!(info.element.info(), Some(info));
            assert_eq!(format!("{}", info.element), info.name);
        }
    }

    /// A name says its unit, where it has one.
    #[test]
    fn units_agree_with_names() {
        for info in ALL.iter().filter(|info| !info.unit.is_empty()) {
            let singular = info.unit.trim_end_matches('s');
            let name = info.name.to_ascii_lowercase();
            assert!(name.contains(singular), "{} in {}", info.name, info.unit);
        }
    }

    #[test]
    fn reverse_elements_are_derived_and_lead_back() {
        let reverse = OCTET_DELTA_COUNT.element.reverse().unwrap();
        assert_eq!((reverse.enterprise, reverse.id), (29_305, 1));
        assert_eq!(reverse.forward(), Some(OCTET_DELTA_COUNT.element));
        assert_eq!(reverse.reverse(), None);
        assert_eq!(reverse.info(), Some(&OCTET_DELTA_COUNT));
        assert_eq!(format!("{reverse}"), "reverse octetDeltaCount");
        for none in [BIFLOW_DIRECTION, PADDING_OCTETS, FLOW_ID] {
            assert_eq!(none.element.reverse(), None, "{}", none.name);
        }
        let other = Element {
            enterprise: 32_473,
            id: 1,
        };
        assert_eq!(
            (other.info(), other.reverse(), other.forward()),
            (None, None, None)
        );
        assert_eq!(format!("{other}"), "32473/1");
    }
}
