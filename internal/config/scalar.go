// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/sink/ipfixsink"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/srv6"
)

// form is how a scalar is written in YAML and JSON.
type form int

const (
	formNumber form = iota // a decimal number
	formHex                // 0x…: a number in YAML, a string in JSON
	formText
	formBool
)

// scalar is one value as text.
type scalar struct {
	text string
	form form
}

// codec reads and writes the scalars of one type.
type codec struct {
	form  form
	wants string   // what the value must be; the cure of a wrong one
	names []string // all values, where they are a few words
	parse func(text string) (any, error)
	text  func(v any) string
}

func newCodec[T any](f form, wants string, parse func(string) (T, error), text func(T) string) codec {
	return codec{
		form:  f,
		wants: wants,
		parse: func(s string) (any, error) { return parse(s) },
		text:  func(v any) string { return text(v.(T)) },
	}
}

// codecs has every scalar type of the configuration.
var codecs = map[reflect.Type]codec{
	reflect.TypeFor[bool]():   newCodec(formBool, "true or false", parseBool, strconv.FormatBool),
	reflect.TypeFor[string](): newCodec(formText, "text", parseText, func(s string) string { return s }),
	reflect.TypeFor[DataSize](): newCodec(formNumber, fmt.Sprintf("a multiple of 4 from 4 to %d", model.MaxTraceDataSize),
		parseInteger[DataSize](31), func(v DataSize) string { return strconv.Itoa(int(v)) }),

	reflect.TypeFor[NextHops](): newCodec(formNumber, fmt.Sprintf("a number from 1 to %d", maxNextHops), parseNextHops,
		func(n NextHops) string { return strconv.Itoa(int(n)) }),
	reflect.TypeFor[FlowEntries](): newCodec(formNumber, fmt.Sprintf("a number from 1 to %d", model.MaxFlowEntries),
		parseFrom1[FlowEntries](model.MaxFlowEntries), func(n FlowEntries) string { return strconv.Itoa(int(n)) }),
	reflect.TypeFor[ExportRate](): newCodec(formNumber, fmt.Sprintf("a number from 1 to %d", model.MaxExportRate),
		parseFrom1[ExportRate](model.MaxExportRate), func(n ExportRate) string { return strconv.Itoa(int(n)) }),
	reflect.TypeFor[LoopbackRate](): newCodec(formNumber, fmt.Sprintf("a number from 1 to %d", model.MaxLoopbackRate),
		parseFrom1[LoopbackRate](model.MaxLoopbackRate), func(n LoopbackRate) string { return strconv.Itoa(int(n)) }),
	reflect.TypeFor[Sample](): newCodec(formNumber, fmt.Sprintf("a number from 1 to %d", model.MaxFrequency),
		parseFrom1[Sample](model.MaxFrequency), func(n Sample) string { return strconv.Itoa(int(n)) }),
	reflect.TypeFor[FlowSeed]():             hexadecimal[FlowSeed](64),
	reflect.TypeFor[Share]():                newCodec(formText, fmt.Sprintf("1/N with 1 ≤ N ≤ %d, such as 1/100", model.MaxFrequency), parseShare, formatShare),
	reflect.TypeFor[Percent]():              newCodec(formText, "a percentage from 0.0001% to 100%, such as 0.5%", parsePercent, formatPercent),
	reflect.TypeFor[ioam.NodeID]():          unsigned[ioam.NodeID](24),
	reflect.TypeFor[ioam.NodeIDWide]():      unsigned[ioam.NodeIDWide](56),
	reflect.TypeFor[ioam.InterfaceID]():     unsigned[ioam.InterfaceID](16),
	reflect.TypeFor[ioam.InterfaceIDWide](): unsigned[ioam.InterfaceIDWide](32),
	reflect.TypeFor[ioam.NamespaceID]():     unsigned[ioam.NamespaceID](16),
	reflect.TypeFor[ioam.SchemaID]():        unsigned[ioam.SchemaID](24),
	reflect.TypeFor[TrafficClass]():         unsigned[TrafficClass](8),
	reflect.TypeFor[FlowLabel]():            unsigned[FlowLabel](20),
	reflect.TypeFor[Data]():                 hexadecimal[Data](32),
	reflect.TypeFor[DataWide]():             hexadecimal[DataWide](64),
	reflect.TypeFor[ioam.TraceType]():       hexadecimal[ioam.TraceType](24),
	reflect.TypeFor[ioam.EdgeToEdgeType]():  hexadecimal[ioam.EdgeToEdgeType](16),

	reflect.TypeFor[netip.Addr]():   newCodec(formText, "an IPv6 address such as 2001:db8::1", parseAddr, netip.Addr.String),
	reflect.TypeFor[netip.Prefix](): newCodec(formText, "an IPv6 prefix such as 2001:db8:2::/64", parsePrefix, netip.Prefix.String),
	reflect.TypeFor[model.Frequency](): newCodec(formText, fmt.Sprintf("K/N with 1 ≤ K ≤ N ≤ %d, such as 1/100", model.MaxFrequency),
		parseFrequency, func(f model.Frequency) string { return fmt.Sprintf("%d/%d", f.K, f.N) }),
	reflect.TypeFor[model.PortRange](): newCodec(formNumber, "a port such as 4242 or a range such as 1000-2000", parsePorts, formatPorts),
	reflect.TypeFor[ioam.NextHeader](): newCodec(formNumber, "a number from 0 to 255 or one of "+strings.Join(nextHeaderNames(), ", "),
		parseNextHeader, formatNextHeader),
	reflect.TypeFor[Listen](): newCodec(formText, "an address and port such as \"[::1]:9598\", or none", parseListen,
		func(l Listen) string { return string(l) }),

	reflect.TypeFor[ioam.TimestampFormat](): words(
		word[ioam.TimestampFormat]{"posix", ioam.TimestampPOSIX}, word[ioam.TimestampFormat]{"ptp", ioam.TimestampPTP},
		word[ioam.TimestampFormat]{"ntp", ioam.TimestampNTP}),
	reflect.TypeFor[model.Compatibility](): words(
		word[model.Compatibility]{"default", model.CompatibilityDefault}, word[model.Compatibility]{"mainline", model.CompatibilityMainline}),
	reflect.TypeFor[model.Role](): words(
		word[model.Role]{"ingress", model.RoleIngress}, word[model.Role]{"egress", model.RoleEgress}),
	reflect.TypeFor[model.Boundary](): words(
		word[model.Boundary]{"drop", model.BoundaryDrop}, word[model.Boundary]{"strip", model.BoundaryStrip},
		word[model.Boundary]{"ignore", model.BoundaryIgnore}),
	reflect.TypeFor[Boundary](): newCodec(formText, "drop, strip or ignore, or a mapping with default and namespaces", parseBoundary, Boundary.String),
	reflect.TypeFor[model.Mode](): words(
		word[model.Mode]{"inline", model.ModeInline}, word[model.Mode]{"encap", model.ModeEncap}, word[model.Mode]{"auto", model.ModeAuto}),
	reflect.TypeFor[model.ExportMode](): words(
		word[model.ExportMode]{"none", model.ExportNone}, word[model.ExportMode]{"every", model.ExportEvery},
		word[model.ExportMode]{"aggregate", model.ExportAggregate}, word[model.ExportMode]{"sample", model.ExportSample}),
	reflect.TypeFor[ExtensionFlag](): words(
		word[ExtensionFlag]{"flow-id", ExtensionFlag(ioam.ExtensionFlowID)}, word[ExtensionFlag]{"sequence", ExtensionFlag(ioam.ExtensionSequence)}),
	reflect.TypeFor[model.FlowIDSource](): newCodec(formHex, "hash, flow-label, or a number from 0 to 0xffffffff", parseFlowID, formatFlowID),
	reflect.TypeFor[ioam.OptionType]():    newCodec(formHex, "0x11 or 0x31", parseOptionType, func(t ioam.OptionType) string { return fmt.Sprintf("0x%02x", uint8(t)) }),
	reflect.TypeFor[Attach](): words(
		word[Attach]{"auto", "auto"}, word[Attach]{"xdp", "xdp"}, word[Attach]{"tcx", "tcx"}, word[Attach]{"clsact", "clsact"}),
	reflect.TypeFor[model.Place](): newCodec(formText, "first, last, before NAME or after NAME, with the name of a BPF program", model.ParsePlace, model.Place.String),
	reflect.TypeFor[Forwarding](): words(
		word[Forwarding]{"stack", ForwardingStack}, word[Forwarding]{"fast", ForwardingFast}),
	reflect.TypeFor[SinkKind]():          words(namedWords(kindsOfSinks)...),
	reflect.TypeFor[RecordKind]():        words(namedWords(recordKinds)...),
	reflect.TypeFor[CollectorAddress]():  newCodec(formText, "an address such as \"udp://[2001:db8::9]:4739\", \"tcp://…\" or \"tls://…\"", parseCollector, formatCollector),
	reflect.TypeFor[SourceAddress]():     newCodec(formText, "an IPv4 or IPv6 address of this node", parseSource, func(a SourceAddress) string { return netip.Addr(a).String() }),
	reflect.TypeFor[ObservationDomain](): unsigned[ObservationDomain](32),
	reflect.TypeFor[Enterprise](): newCodec(formNumber, "a private enterprise number other than 0 and 10383", parseEnterprise,
		func(n Enterprise) string { return strconv.FormatUint(uint64(n), 10) }),
	reflect.TypeFor[MessageSize](): newCodec(formNumber, fmt.Sprintf("a number from %d to 65535", ipfixsink.MinMessageSize), parseMessageSize,
		func(n MessageSize) string { return strconv.Itoa(int(n)) }),
	reflect.TypeFor[Period](): newCodec(formText, "whole seconds, minutes or hours up to 24h, such as 30s or 10m", parsePeriod, formatPeriod),

	reflect.TypeFor[BlockLength]():       newCodec(formText, "whole milliseconds, seconds or minutes up to 10m, such as 500ms or 10s", parseBlockLength, formatBlockLength),
	reflect.TypeFor[LossShare]():         newCodec(formText, "a percentage from 0% to 100%, such as 0.1%", parseLossShare, formatLossShare),
	reflect.TypeFor[DelayLimit]():        newCodec(formText, "whole microseconds, milliseconds or seconds up to 10m, such as 500us or 20ms", parseDelayLimit, formatDelayLimit),
	reflect.TypeFor[BlockCount]():        newCodec(formNumber, fmt.Sprintf("a number from 0 to %d", maxBlocks), parseBlockCount, func(n BlockCount) string { return strconv.Itoa(int(n)) }),
	reflect.TypeFor[MarkBits]():          hexadecimal[MarkBits](8),
	reflect.TypeFor[OctetNumber]():       unsigned[OctetNumber](4),
	reflect.TypeFor[SegmentCount]():      unsigned[SegmentCount](4),
	reflect.TypeFor[PointNumber]():       unsigned[PointNumber](4),
	reflect.TypeFor[FlowCapacity]():      newCodec(formNumber, fmt.Sprintf("a number from 1 to %d", model.MaxMeasuredFlows), parseFrom1[FlowCapacity](model.MaxMeasuredFlows), func(n FlowCapacity) string { return strconv.Itoa(int(n)) }),
	reflect.TypeFor[Point]():             newCodec(formText, "an IPv6 address such as 2001:db8::1, or with a port [2001:db8::1]:862, both also with a name: north1=2001:db8::1", parsePoint, formatPoint),
	reflect.TypeFor[Reflector]():         newCodec(formText, "an IPv6 address such as 2001:db8::1, or with a port [2001:db8::1]:862", parseReflector, formatReflector),
	reflect.TypeFor[PacketRate]():        newCodec(formNumber, "a number from 1 to 10000000", parseFrom1[PacketRate](10_000_000), func(n PacketRate) string { return strconv.Itoa(int(n)) }),
	reflect.TypeFor[Container]():         newCodec(formText, "none, or bits of the locator block / bits of a SID, such as 32/16", parseContainer, formatContainer),
	reflect.TypeFor[Unmonitored]():       words(word[Unmonitored]{"keep", UnmonitoredKeep}, word[Unmonitored]{"clear", UnmonitoredClear}),
	reflect.TypeFor[ListenAddress]():     newCodec(formText, "an address with a port, such as \"[::]:1205\"", parseListenAddress, func(a ListenAddress) string { return netip.AddrPort(a).String() }),
	reflect.TypeFor[SessionID]():         unsigned[SessionID](16),
	reflect.TypeFor[UDPPort]():           unsigned[UDPPort](16),
	reflect.TypeFor[ResponderProtocol](): words(namedWords([]ResponderProtocol{ResponderTWAMPLight, ResponderRFC6374Loss, ResponderRFC6374Delay})...),
	reflect.TypeFor[model.Exchange](): words(
		word[model.Exchange]{"stamp", model.ExchangeStamp}, word[model.Exchange]{"twamp-light", model.ExchangeTWAMPLight}, word[model.Exchange]{"rfc6374", model.ExchangeRFC6374},
		word[model.Exchange]{"ipfix", model.ExchangeIPFIX}),
	reflect.TypeFor[model.Probes](): words(
		word[model.Probes]{"none", model.ProbesNone}, word[model.Probes]{"out-of-band", model.ProbesOutOfBand}, word[model.Probes]{"in-band", model.ProbesInBand},
		word[model.Probes]{"in-band-encap", model.ProbesInBandEncap}),
	reflect.TypeFor[srv6.Mode](): words(
		word[srv6.Mode]{"encap", srv6.ModeEncap}, word[srv6.Mode]{"encap.red", srv6.ModeReduced}, word[srv6.Mode]{"inline", srv6.ModeInline}),
	reflect.TypeFor[model.Carrier](): words(
		word[model.Carrier]{"traffic-class", model.CarrierClass}, word[model.Carrier]{"argument", model.CarrierArgument}, word[model.Carrier]{"option", model.CarrierOption}),
	reflect.TypeFor[SelectionCheck](): words(word[SelectionCheck]{"compared", SelectionCompared}, word[SelectionCheck]{"assumed", SelectionAssumed}),
	reflect.TypeFor[OptionHeader]():   words(word[OptionHeader]{"destination", HeaderDestination}, word[OptionHeader]{"hop-by-hop", HeaderHopByHop}),
	reflect.TypeFor[MonitorID]():      hexadecimal[MonitorID](20),
	reflect.TypeFor[model.Direction](): words(
		word[model.Direction]{"out", model.DirectionOut}, word[model.Direction]{"in", model.DirectionIn}, word[model.Direction]{"transit", model.DirectionTransit}),
}

func parseNextHops(s string) (NextHops, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxNextHops {
		return 0, fmt.Errorf("%s is not possible", s)
	}
	return NextHops(n), nil
}

// word is a value that is written as a word.
type word[T comparable] struct {
	name  string
	value T
}

// namedWords are values that are words themselves.
func namedWords[T ~string](values []T) (list []word[T]) {
	for _, v := range values {
		list = append(list, word[T]{string(v), v})
	}
	return list
}

// words reads and writes one of a few words.
func words[T comparable](list ...word[T]) codec {
	names := make([]string, len(list))
	for i, w := range list {
		names[i] = w.name
	}
	parse := func(s string) (T, error) {
		for _, w := range list {
			if w.name == s {
				return w.value, nil
			}
		}
		var zero T
		return zero, fmt.Errorf("%q is not a valid value", s)
	}
	text := func(v T) string {
		for _, w := range list {
			if w.value == v {
				return w.name
			}
		}
		return fmt.Sprint(v)
	}
	wants := names[0]
	if len(names) > 1 {
		wants = "one of " + strings.Join(names, ", ")
	}
	c := newCodec(formText, wants, parse, text)
	c.names = names
	return c
}

// parseUint reads a decimal or 0x number of at most bits bits. Leading zeros are
// refused: to some YAML parsers they mean octal.
func parseUint(s string, bits int) (uint64, error) {
	base, digits := 10, s
	if hex, ok := strings.CutPrefix(s, "0x"); ok {
		base, digits = 16, hex
	} else if len(s) > 1 && s[0] == '0' {
		return 0, fmt.Errorf("%s is not a decimal or 0x number", s)
	}
	if strings.HasPrefix(digits, "+") {
		return 0, fmt.Errorf("%s is not a decimal or 0x number", s)
	}
	v, err := strconv.ParseUint(digits, base, 64)
	if err == nil && bits < 64 && v>>bits != 0 || errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%s is too large", s)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	return v, nil
}

type integer interface {
	~int | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

func unsigned[T integer](bits int) codec {
	wants := fmt.Sprintf("a number from 0 to %d", uint64(1)<<bits-1)
	return newCodec(formNumber, wants, parseInteger[T](bits), func(v T) string { return strconv.FormatUint(uint64(v), 10) })
}

func hexadecimal[T integer](bits int) codec {
	digits := bits / 4
	wants := fmt.Sprintf("a number from 0 to 0x%x", ^uint64(0)>>(64-bits))
	return newCodec(formHex, wants, parseInteger[T](bits), func(v T) string { return fmt.Sprintf("0x%0*x", digits, uint64(v)) })
}

func parseInteger[T integer](bits int) func(string) (T, error) {
	return func(s string) (T, error) {
		v, err := parseUint(s, bits)
		return T(v), err
	}
}

func parseBool(s string) (bool, error) {
	if s != "true" && s != "false" {
		return false, fmt.Errorf("%q is neither true nor false", s)
	}
	return s == "true", nil
}

func parseText(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("the text is empty")
	}
	return s, nil
}

func parseAddr(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Errorf("%q is not an address", s)
	case a.Is4() || a.Is4In6():
		return netip.Addr{}, fmt.Errorf("%s is an IPv4 address", s)
	case a.Zone() != "":
		return netip.Addr{}, fmt.Errorf("%s has a zone", s)
	}
	return a, nil
}

// parsePrefix reads a prefix; an address alone is a prefix of 128 bits.
func parsePrefix(s string) (netip.Prefix, error) {
	addr, length, found := strings.Cut(s, "/")
	a, err := parseAddr(addr)
	if err != nil {
		return netip.Prefix{}, err
	}
	bits := 128
	if found {
		n, err := parseUint(length, 8)
		if err != nil || n > 128 {
			return netip.Prefix{}, fmt.Errorf("the prefix length of %q is not a number from 0 to 128", s)
		}
		bits = int(n)
	}
	p := netip.PrefixFrom(a, bits)
	if p.Masked() != p {
		return netip.Prefix{}, fmt.Errorf("%s has bits set after its prefix length (the prefix is %s)", s, p.Masked())
	}
	return p, nil
}

func parseFrequency(s string) (model.Frequency, error) { return parseFraction(s, "K/N") }

// parseFraction reads K/N; form describes the right form in errors.
func parseFraction(s, form string) (model.Frequency, error) {
	first, second, _ := strings.Cut(s, "/")
	k, errK := parseUint(first, 32)
	n, errN := parseUint(second, 32)
	if errK != nil || errN != nil {
		return model.Frequency{}, fmt.Errorf("%q is not %s", s, form)
	}
	if k < 1 || k > n || n > model.MaxFrequency {
		return model.Frequency{}, fmt.Errorf("%s is not possible", s)
	}
	return model.Frequency{K: uint32(k), N: uint32(n)}, nil
}

func parsePorts(s string) (model.PortRange, error) {
	first, last, isRange := strings.Cut(s, "-")
	if !isRange {
		last = first
	}
	from, errFrom := parseUint(first, 16)
	to, errTo := parseUint(last, 16)
	if errFrom != nil || errTo != nil {
		return model.PortRange{}, fmt.Errorf("%q is neither a port nor a range of ports", s)
	}
	if from > to {
		return model.PortRange{}, fmt.Errorf("the range %s ends before it begins", s)
	}
	return model.PortRange{From: uint16(from), To: uint16(to)}, nil
}

func formatPorts(p model.PortRange) string {
	if p.From == p.To {
		return strconv.Itoa(int(p.From))
	}
	return fmt.Sprintf("%d-%d", p.From, p.To)
}

// nextHeaders are the protocols that have a name here (IANA's protocol numbers).
var nextHeaders = []word[ioam.NextHeader]{
	{"tcp", 6}, {"udp", 17}, {"icmpv6", 58}, {"sctp", 132}, {"dccp", 33}, {"udplite", 136},
	{"ipv6", 41}, {"gre", 47}, {"esp", 50}, {"none", 59},
}

func nextHeaderNames() []string {
	names := make([]string, len(nextHeaders))
	for i, w := range nextHeaders {
		names[i] = w.name
	}
	return names
}

func parseNextHeader(s string) (ioam.NextHeader, error) {
	for _, w := range nextHeaders {
		if w.name == s {
			return w.value, nil
		}
	}
	v, err := parseUint(s, 8)
	if err != nil {
		return 0, fmt.Errorf("%q is not a known protocol", s)
	}
	return ioam.NextHeader(v), nil
}

func formatNextHeader(h ioam.NextHeader) string {
	for _, w := range nextHeaders {
		if w.value == h {
			return w.name
		}
	}
	return strconv.Itoa(int(h))
}

func parseListen(s string) (Listen, error) {
	if Listen(s) == ListenNone {
		return ListenNone, nil
	}
	at, err := netip.ParseAddrPort(s)
	if err != nil {
		return "", fmt.Errorf("%q is not an address and port", s)
	}
	return Listen(s), checks(at.Addr(), checkListen, checkZone)
}
