// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/address"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/sink/ipfixsink"
	"github.com/waymark-net/waymark/internal/sink/otlpsink"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/srv6"
)

// nodeFile is the type of the file that describes a node.
var nodeFile = &yamlfile.Format{
	Scalars: codecs,
	MostItems: map[string]int{
		"interfaces": model.MaxInterfaces, "namespaces": model.MaxNamespaces, "encapsulations": model.MaxEncapsulations,
		"decapsulations": model.MaxDecapsulations, "flows": model.MaxMeasuredFlows, "names": nodenames.MaxNodes,
	},
	TooLarge: "split the node's configuration, or remove what it does not need",
	TooMany:  "remove what the node does not need",
	Empty:    "write at least: node: {}",
	Migrate:  "waymark config migrate %s --write",
}

func word[T comparable](name string, value T) yamlfile.Word[T] {
	return yamlfile.Word[T]{Name: name, Value: value}
}

// codecs has every scalar type of the configuration.
var codecs = ipfixsink.Scalars.With(otlpsink.Scalars).With(yamlfile.Scalars{
	reflect.TypeFor[bool]():   yamlfile.Bools,
	reflect.TypeFor[string](): yamlfile.Texts,
	reflect.TypeFor[DataSize](): yamlfile.NewCodec(yamlfile.Number, fmt.Sprintf("a multiple of 4 from 4 to %d", model.MaxTraceDataSize),
		yamlfile.ParseInteger[DataSize](31), func(v DataSize) string { return strconv.Itoa(int(v)) }),

	reflect.TypeFor[NextHops](): yamlfile.NewCodec(yamlfile.Number, fmt.Sprintf("a number from 1 to %d", maxNextHops), parseNextHops,
		func(n NextHops) string { return strconv.Itoa(int(n)) }),
	reflect.TypeFor[FlowEntries](): yamlfile.NewCodec(yamlfile.Number, fmt.Sprintf("a number from 1 to %d", model.MaxFlowEntries),
		parseFrom1[FlowEntries](model.MaxFlowEntries), func(n FlowEntries) string { return strconv.Itoa(int(n)) }),
	reflect.TypeFor[ExportRate](): yamlfile.NewCodec(yamlfile.Number, fmt.Sprintf("a number from 1 to %d", model.MaxExportRate),
		parseFrom1[ExportRate](model.MaxExportRate), func(n ExportRate) string { return strconv.Itoa(int(n)) }),
	reflect.TypeFor[Delays](): yamlfile.NewCodec(
		yamlfile.Text,
		fmt.Sprintf("1/N with 1 ≤ N ≤ %d, such as 1/16, or none", model.MaxFrequency),
		parseDelays,
		formatDelays,
	),
	reflect.TypeFor[LoopbackRate](): yamlfile.NewCodec(yamlfile.Number, fmt.Sprintf("a number from 1 to %d", model.MaxLoopbackRate),
		parseFrom1[LoopbackRate](model.MaxLoopbackRate), func(n LoopbackRate) string { return strconv.Itoa(int(n)) }),
	reflect.TypeFor[Sample](): yamlfile.NewCodec(yamlfile.Number, fmt.Sprintf("a number from 1 to %d", model.MaxFrequency),
		parseFrom1[Sample](model.MaxFrequency), func(n Sample) string { return strconv.Itoa(int(n)) }),
	reflect.TypeFor[HistoryRate](): yamlfile.NewCodec(yamlfile.Number, fmt.Sprintf("a number from 0 to %d", MaxHistoryRate), parseHistoryRate,
		func(n HistoryRate) string { return strconv.Itoa(int(n)) }),
	reflect.TypeFor[DelaySeries](): yamlfile.NewCodec(yamlfile.Number, fmt.Sprintf("a number from 1 to %d", MaxDelaySeries),
		parseFrom1[DelaySeries](MaxDelaySeries), func(n DelaySeries) string { return strconv.Itoa(int(n)) }),
	reflect.TypeFor[FlowSeed](): yamlfile.Hexadecimal[FlowSeed](64),
	reflect.TypeFor[Share](): yamlfile.NewCodec(
		yamlfile.Text,
		fmt.Sprintf("1/N with 1 ≤ N ≤ %d, such as 1/100", model.MaxFrequency),
		parseShare,
		formatShare,
	),
	reflect.TypeFor[Percent](): yamlfile.NewCodec(
		yamlfile.Text,
		"a percentage from 0.0001% to 100%, such as 0.5%",
		parsePercent,
		formatPercent,
	),
	reflect.TypeFor[ioam.NodeID]():          yamlfile.Unsigned[ioam.NodeID](24),
	reflect.TypeFor[ioam.NodeIDWide]():      yamlfile.Unsigned[ioam.NodeIDWide](56),
	reflect.TypeFor[ioam.InterfaceID]():     yamlfile.Unsigned[ioam.InterfaceID](16),
	reflect.TypeFor[ioam.InterfaceIDWide](): yamlfile.Unsigned[ioam.InterfaceIDWide](32),
	reflect.TypeFor[ioam.NamespaceID]():     yamlfile.Unsigned[ioam.NamespaceID](16),
	reflect.TypeFor[ioam.SchemaID]():        yamlfile.Unsigned[ioam.SchemaID](24),
	reflect.TypeFor[TrafficClass]():         yamlfile.Unsigned[TrafficClass](8),
	reflect.TypeFor[FlowLabel]():            yamlfile.Unsigned[FlowLabel](20),
	reflect.TypeFor[Data]():                 yamlfile.Hexadecimal[Data](32),
	reflect.TypeFor[DataWide]():             yamlfile.Hexadecimal[DataWide](64),
	reflect.TypeFor[ioam.TraceType]():       traceTypes,
	reflect.TypeFor[ioam.EdgeToEdgeType]():  yamlfile.Hexadecimal[ioam.EdgeToEdgeType](16),

	reflect.TypeFor[netip.Addr](): yamlfile.NewCodec(yamlfile.Text, "an IPv6 address such as 2001:db8::1", parseAddr, netip.Addr.String),
	reflect.TypeFor[netip.Prefix](): yamlfile.NewCodec(
		yamlfile.Text,
		"an IPv6 prefix such as 2001:db8:2::/64",
		parsePrefix,
		netip.Prefix.String,
	),
	reflect.TypeFor[Allowed](): yamlfile.NewCodec(
		yamlfile.Text,
		"an IPv6 prefix such as 2001:db8:2::/64, or any",
		parseAllowed,
		func(a Allowed) string { return netip.Prefix(a).String() },
	),
	reflect.TypeFor[model.Frequency](): yamlfile.NewCodec(
		yamlfile.Text,
		fmt.Sprintf("K/N with 1 ≤ K ≤ N ≤ %d, such as 1/100, or a percentage such as 10%%", model.MaxFrequency),
		parseFrequency,
		func(f model.Frequency) string { return fmt.Sprintf("%d/%d", f.K, f.N) },
	),
	reflect.TypeFor[model.PortRange](): yamlfile.NewCodec(
		yamlfile.Number,
		"a port such as 4242 or a range such as 1000-2000",
		parsePorts,
		formatPorts,
	),
	reflect.TypeFor[ioam.NextHeader](): yamlfile.NewCodec(
		yamlfile.Number,
		"a number from 0 to 255 or one of "+strings.Join(nextHeaderNames(), ", "),
		parseNextHeader,
		formatNextHeader,
	),
	reflect.TypeFor[Listen](): yamlfile.NewCodec(yamlfile.Text, "an address and port such as \"[::1]:9598\", or none", parseListen,
		func(l Listen) string { return string(l) }),

	reflect.TypeFor[ioam.TimestampFormat](): yamlfile.Words(
		word[ioam.TimestampFormat]("posix", ioam.TimestampPOSIX), word[ioam.TimestampFormat]("ptp", ioam.TimestampPTP),
		word[ioam.TimestampFormat]("ntp", ioam.TimestampNTP)),
	reflect.TypeFor[model.Compatibility](): yamlfile.Words(
		word[model.Compatibility]("default", model.CompatibilityDefault), word[model.Compatibility]("mainline", model.CompatibilityMainline)),
	reflect.TypeFor[model.Role](): yamlfile.Words(
		word[model.Role]("ingress", model.RoleIngress), word[model.Role]("egress", model.RoleEgress)),
	reflect.TypeFor[model.Boundary](): yamlfile.Words(
		word[model.Boundary]("drop", model.BoundaryDrop), word[model.Boundary]("strip", model.BoundaryStrip),
		word[model.Boundary]("ignore", model.BoundaryIgnore)),
	reflect.TypeFor[Boundary](): yamlfile.NewCodec(
		yamlfile.Text,
		"drop, strip or ignore, or a mapping with default and namespaces",
		parseBoundary,
		Boundary.String,
	),
	reflect.TypeFor[model.Mode](): yamlfile.Words(
		word[model.Mode]("inline", model.ModeInline), word[model.Mode]("encap", model.ModeEncap), word[model.Mode]("auto", model.ModeAuto)),
	reflect.TypeFor[model.ExportMode](): yamlfile.Words(
		word[model.ExportMode]("none", model.ExportNone), word[model.ExportMode]("every", model.ExportEvery),
		word[model.ExportMode]("aggregate", model.ExportAggregate), word[model.ExportMode]("sample", model.ExportSample)),
	reflect.TypeFor[ExtensionFlag](): yamlfile.Words(
		word[ExtensionFlag](
			"flow-id",
			ExtensionFlag(ioam.ExtensionFlowID),
		),
		word[ExtensionFlag]("sequence", ExtensionFlag(ioam.ExtensionSequence)),
	),
	reflect.TypeFor[model.FlowIDSource](): yamlfile.NewCodec(
		yamlfile.Hex,
		"hash, flow-label, or a number from 0 to 0xffffffff",
		parseFlowID,
		formatFlowID,
	),
	reflect.TypeFor[ioam.OptionType](): yamlfile.NewCodec(
		yamlfile.Hex,
		"0x11 or 0x31",
		parseOptionType,
		func(t ioam.OptionType) string { return fmt.Sprintf("0x%02x", uint8(t)) },
	),
	reflect.TypeFor[Attach](): yamlfile.Words(
		word[Attach]("auto", "auto"), word[Attach]("xdp", "xdp"), word[Attach]("tcx", "tcx"), word[Attach]("clsact", "clsact")),
	reflect.TypeFor[model.Place](): yamlfile.NewCodec(
		yamlfile.Text,
		"first, last, before NAME or after NAME, with the name of a BPF program",
		model.ParsePlace,
		model.Place.String,
	),
	reflect.TypeFor[NodeMode](): yamlfile.Words(
		word[NodeMode]("full", ModeFull), word[NodeMode]("observe", ModeObserve)),
	reflect.TypeFor[QueueDelay](): yamlfile.Words(word[QueueDelay]("false", QueueDelayNever),
		word[QueueDelay]("true", QueueDelayAlways), word[QueueDelay]("alarm", QueueDelayAlarm)).OrBool(),
	reflect.TypeFor[Forwarding](): yamlfile.Words(
		word[Forwarding]("stack", ForwardingStack), word[Forwarding]("fast", ForwardingFast)),
	reflect.TypeFor[SinkKind]():        yamlfile.Words(yamlfile.NamedWords(kindsOfSinks)...),
	reflect.TypeFor[RecordKind]():      yamlfile.Words(yamlfile.NamedWords(recordKinds())...),
	reflect.TypeFor[yamlfile.Period](): yamlfile.Periods,

	reflect.TypeFor[BlockLength](): yamlfile.NewCodec(
		yamlfile.Text,
		"whole milliseconds, seconds or minutes up to 10m, such as 500ms or 10s",
		parseBlockLength,
		formatBlockLength,
	),
	reflect.TypeFor[LossShare](): yamlfile.NewCodec(
		yamlfile.Text,
		"a percentage from 0% to 100%, such as 0.1%",
		parseLossShare,
		formatLossShare,
	),
	reflect.TypeFor[DelayLimit](): yamlfile.NewCodec(
		yamlfile.Text,
		"whole microseconds, milliseconds or seconds up to 10m, such as 500us or 20ms",
		parseDelayLimit,
		formatDelayLimit,
	),
	reflect.TypeFor[BlockCount](): yamlfile.NewCodec(
		yamlfile.Number,
		fmt.Sprintf("a number from 0 to %d", maxBlocks),
		parseBlockCount,
		func(n BlockCount) string { return strconv.Itoa(int(n)) },
	),
	reflect.TypeFor[MarkBits]():     yamlfile.Hexadecimal[MarkBits](8),
	reflect.TypeFor[OctetNumber]():  yamlfile.Unsigned[OctetNumber](4),
	reflect.TypeFor[SegmentCount](): yamlfile.Unsigned[SegmentCount](4),
	reflect.TypeFor[PointNumber]():  yamlfile.Unsigned[PointNumber](4),
	reflect.TypeFor[FlowCapacity](): yamlfile.NewCodec(
		yamlfile.Number,
		fmt.Sprintf("a number from 1 to %d", model.MaxMeasuredFlows),
		parseFrom1[FlowCapacity](model.MaxMeasuredFlows),
		func(n FlowCapacity) string { return strconv.Itoa(int(n)) },
	),
	reflect.TypeFor[Point](): yamlfile.NewCodec(
		yamlfile.Text,
		"an IPv6 address such as 2001:db8::1, or with a port [2001:db8::1]:862, both also with a name: north1=2001:db8::1",
		parsePoint,
		formatPoint,
	),
	reflect.TypeFor[Reflector](): yamlfile.NewCodec(
		yamlfile.Text,
		"an IPv6 address such as 2001:db8::1, or with a port [2001:db8::1]:862",
		parseReflector,
		formatReflector,
	),
	reflect.TypeFor[PacketRate](): yamlfile.NewCodec(
		yamlfile.Number,
		"a number from 1 to 10000000",
		parseFrom1[PacketRate](10_000_000),
		func(n PacketRate) string { return strconv.Itoa(int(n)) },
	),
	reflect.TypeFor[ProbeDestination](): yamlfile.NewCodec(
		yamlfile.Text,
		"an IPv6 address such as 2001:db8::1, the name of a host, or a prefix such as 2001:db8:7::/48, all also with a name: r3=2001:db8::3",
		parseProbeDestination,
		formatProbeDestination,
	),
	reflect.TypeFor[ProbeTime](): yamlfile.NewCodec(
		yamlfile.Text,
		"whole milliseconds or seconds from 10ms to 1m, such as 100ms",
		parseProbeTime,
		formatProbeTime,
	),
	reflect.TypeFor[ProbeFlows](): yamlfile.NewCodec(
		yamlfile.Number,
		fmt.Sprintf("a number from 1 to %d", maxProbeFlows),
		parseFrom1[ProbeFlows](maxProbeFlows),
		func(n ProbeFlows) string { return strconv.Itoa(int(n)) },
	),
	reflect.TypeFor[ProbeBudget](): yamlfile.NewCodec(
		yamlfile.Number,
		fmt.Sprintf("a number from 1 to %d", maxProbeBudget),
		parseFrom1[ProbeBudget](maxProbeBudget),
		func(n ProbeBudget) string { return strconv.Itoa(int(n)) },
	),
	reflect.TypeFor[Container](): yamlfile.NewCodec(
		yamlfile.Text,
		"none, or bits of the locator block / bits of a SID, such as 32/16",
		parseContainer,
		formatContainer,
	),
	reflect.TypeFor[Unmonitored](): yamlfile.Words(
		word[Unmonitored]("keep", UnmonitoredKeep),
		word[Unmonitored]("clear", UnmonitoredClear),
	),
	reflect.TypeFor[ListenAddress](): yamlfile.NewCodec(
		yamlfile.Text,
		"an address with a port, such as \"[::]:1205\"",
		parseListenAddress,
		func(a ListenAddress) string { return netip.AddrPort(a).String() },
	),
	reflect.TypeFor[CollectorURL](): yamlfile.NewCodec(
		yamlfile.Text,
		"a URL such as https://collector.example.net:4780 or http://[::1]:4780",
		parseCollectorURL,
		func(u CollectorURL) string { return string(u) },
	),
	reflect.TypeFor[SessionID](): yamlfile.Unsigned[SessionID](16),
	reflect.TypeFor[UDPPort]():   yamlfile.Unsigned[UDPPort](16),
	reflect.TypeFor[ResponderProtocol](): yamlfile.Words(
		yamlfile.NamedWords([]ResponderProtocol{ResponderTWAMPLight, ResponderRFC6374Loss, ResponderRFC6374Delay})...),
	reflect.TypeFor[model.Exchange](): yamlfile.Words(
		word[model.Exchange](
			"stamp",
			model.ExchangeStamp,
		),
		word[model.Exchange]("twamp-light", model.ExchangeTWAMPLight),
		word[model.Exchange]("rfc6374", model.ExchangeRFC6374),
		word[model.Exchange]("ipfix", model.ExchangeIPFIX),
	),
	reflect.TypeFor[model.Probes](): yamlfile.Words(
		word[model.Probes](
			"none",
			model.ProbesNone,
		),
		word[model.Probes]("out-of-band", model.ProbesOutOfBand),
		word[model.Probes]("in-band", model.ProbesInBand),
		word[model.Probes]("in-band-encap", model.ProbesInBandEncap),
	),
	reflect.TypeFor[srv6.Mode](): yamlfile.Words(
		word[srv6.Mode]("encap", srv6.ModeEncap), word[srv6.Mode]("encap.red", srv6.ModeReduced), word[srv6.Mode]("inline", srv6.ModeInline)),
	reflect.TypeFor[model.Carrier](): yamlfile.Words(
		word[model.Carrier](
			"traffic-class",
			model.CarrierClass,
		),
		word[model.Carrier]("argument", model.CarrierArgument),
		word[model.Carrier]("option", model.CarrierOption),
	),
	reflect.TypeFor[SelectionCheck](): yamlfile.Words(
		word[SelectionCheck]("compared", SelectionCompared),
		word[SelectionCheck]("assumed", SelectionAssumed),
	),
	reflect.TypeFor[OptionHeader](): yamlfile.Words(
		word[OptionHeader]("destination", HeaderDestination),
		word[OptionHeader]("hop-by-hop", HeaderHopByHop),
	),
	reflect.TypeFor[MonitorID](): yamlfile.Hexadecimal[MonitorID](20),
	reflect.TypeFor[model.Direction](): yamlfile.Words(
		word[model.Direction](
			"out",
			model.DirectionOut,
		),
		word[model.Direction]("in", model.DirectionIn),
		word[model.Direction]("transit", model.DirectionTransit),
	),
})

// traceTypes are numbers, or the names of fields.
var traceTypes = yamlfile.NewCodec(yamlfile.Hex, "a number from 0 to 0xffffff, or names of fields such as [ids, timestamps, queue]",
	parseTraceType, ioam.TraceType.String).
	OrList()

// parseTraceType reads numbers as all others of the file, which may not begin with 0.
func parseTraceType(s string) (t ioam.TraceType, err error) {
	if s != "" && (s[0] < '0' || s[0] > '9') {
		t, err = ioam.ParseTraceType(s)
	} else {
		t, err = yamlfile.ParseInteger[ioam.TraceType](24)(s)
	}
	if meant, ok := ioam.MeantTraceType(s); ok && (err != nil || t.Validate() != nil) {
		return 0, problem.New(fmt.Sprintf("%q lacks 0x before its digits", s), fmt.Sprintf("did you mean %v?", meant))
	}
	return t, err
}

func parseNextHops(s string) (NextHops, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxNextHops {
		return 0, fmt.Errorf("%s is not possible", s)
	}
	return NextHops(n), nil
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
		n, err := yamlfile.ParseUint(length, 8)
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

// parseFrequency reads K/N, or a percentage as the fraction with the least K and N.
func parseFrequency(s string) (model.Frequency, error) {
	if !strings.HasSuffix(s, "%") {
		return parseFraction(s, "K/N")
	}
	p, err := parsePercent(s)
	if err != nil {
		return model.Frequency{}, err
	}
	k, n := uint32(p), uint32(model.MaxBudget)
	for rest := n; rest > 0; { // the greatest common divisor
		k, rest = rest, k%rest
	}
	return model.Frequency{K: uint32(p) / k, N: n / k}, nil
}

// parseFraction reads K/N; form describes the right form in errors.
func parseFraction(s, form string) (model.Frequency, error) {
	first, second, _ := strings.Cut(s, "/")
	k, errK := yamlfile.ParseUint(first, 32)
	n, errN := yamlfile.ParseUint(second, 32)
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
	from, errFrom := yamlfile.ParseUint(first, 16)
	to, errTo := yamlfile.ParseUint(last, 16)
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
var nextHeaders = []struct {
	name  string
	value ioam.NextHeader
}{
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
	v, err := yamlfile.ParseUint(s, 8)
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
	return Listen(s), address.Check(at.Addr(), address.Listen, address.Zone)
}
