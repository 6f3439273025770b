// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/waymark-net/waymark/"

// layers says which of our packages a package may import; "..." stands for all
// packages below. Tests may import anything.
var layers = map[string]string{
	// Public packages: codecs. Timestamps are those of ioam.
	"ioam":  "",
	"ipfix": "",
	"stamp": "ioam",
	"srv6":  "",

	// An error and its cure.
	"internal/problem": "",

	// What a node is: no kernel, no output.
	"internal/ipv6":        "ioam",
	"internal/pot":         "internal/secretfile internal/problem",
	"internal/model":       "ioam srv6 internal/ipv6 internal/loss internal/pot internal/problem",
	"internal/reference":   "ioam internal/edgetoedge internal/ipv6 internal/model internal/pot",
	"internal/secretfile":  "internal/problem",
	"internal/replacefile": "",
	"internal/shellword":   "",
	"internal/nearword":    "",
	"internal/inputfile":   "",

	// Packages that use the kernel know no records, sinks or configuration files.
	"internal/kernelclock":  "",
	"internal/datapath":     "ioam internal/coverage internal/datapath/... internal/edgetoedge internal/kernelclock internal/loss internal/model internal/netlinkattr internal/problem",
	"internal/routing":      "internal/datapath internal/model internal/netlinkattr",
	"internal/kernelevents": "ioam internal/netlinkattr internal/socketdrops",
	"internal/icmpv6":       "internal/model internal/socketdrops",
	"internal/tunnelerror":  "ioam internal/icmpv6 internal/model internal/reference",
	"internal/pathmtu":      "internal/icmpv6 internal/instant internal/model",
	"internal/netlinkattr":  "",
	"internal/socketdrops":  "",

	// The rooms of the data plane: none knows the package above.
	"internal/datapath/bpf":        "",
	"internal/datapath/undo":       "",
	"internal/datapath/attach":     "internal/datapath/undo internal/model internal/problem",
	"internal/datapath/compile":    "ioam internal/datapath/attach internal/datapath/bpf internal/datapath/flows internal/datapath/measure internal/datapath/rings internal/model internal/problem",
	"internal/datapath/delays":     "ioam internal/datapath/bpf internal/exponential internal/model",
	"internal/datapath/flows":      "ioam internal/datapath/bpf internal/edgetoedge internal/kernelclock internal/model",
	"internal/datapath/forward":    "internal/datapath/bpf internal/kernelclock internal/model",
	"internal/datapath/measure":    "srv6 internal/coverage internal/datapath/bpf internal/loss internal/model internal/problem",
	"internal/datapath/queue":      "internal/datapath/attach internal/datapath/bpf internal/exponential internal/model internal/problem",
	"internal/datapath/specialize": "",
	"internal/datapath/rings":      "ioam internal/datapath/bpf internal/datapath/flows internal/model",

	// Whether programs are executed: no clock, no input, no output.
	"internal/hookwatch": "internal/model",

	// Arithmetic of measurements: no clock, no input, no output.
	"internal/delay":       "",
	"internal/exponential": "",
	"internal/edgetoedge":  "ioam",
	"internal/loss":        "internal/delay internal/problem",
	// When interfaces were counted. It reads the clock to forget.
	"internal/coverage": "internal/loss",

	// Test packets: sockets, clock, arithmetic, and the two ends of a session.
	"internal/stamp/udp":       "internal/socketdrops internal/problem",
	"internal/stamp/inband":    "srv6 internal/icmpv6 internal/problem",
	"internal/stamp/admit":     "internal/stamp/udp",
	"internal/stamp/clock":     "stamp internal/health",
	"internal/stamp/measure":   "internal/delay",
	"internal/stamp/blocks":    "stamp internal/loss",
	"internal/stamp/query":     "stamp internal/delay internal/lossquery internal/rfc6374 internal/stamp/clock internal/stamp/inband internal/stamp/udp internal/problem",
	"internal/stamp/reflector": "stamp internal/metrics internal/problem internal/stamp/admit internal/stamp/clock internal/stamp/udp",
	"internal/stamp/keyfile":   "internal/secretfile internal/problem",
	"internal/stamp/sender":    "srv6 stamp internal/delay internal/icmpv6 internal/problem internal/stamp/clock internal/stamp/inband internal/stamp/measure internal/stamp/udp",

	// Other protocols that ask for counters: their messages, and who answers.
	"internal/lossquery": "",
	"internal/rfc6374":   "stamp",
	// Traces by probes: messages, who answers, who asks, and what the answers mean.
	"internal/pathtrace/message":  "ioam",
	"internal/pathtrace/copies":   "ioam internal/loopback",
	"internal/pathtrace/endpoint": "internal/pathtrace/message internal/stamp/admit internal/stamp/udp",
	"internal/pathtrace/paths":    "ioam internal/columns internal/delay internal/nodenames",
	"internal/pathtrace/monitor":  "ioam internal/exponential internal/icmpv6 internal/ipv6 internal/metrics internal/pathtrace/copies internal/pathtrace/message internal/problem internal/stamp/udp",
	"internal/pathtrace/prober":   "ioam internal/icmpv6 internal/ipv6 internal/pathtrace/copies internal/loopback internal/pathtrace/message internal/pathtrace/paths internal/problem internal/stamp/udp",

	// Copies of packets with the Loopback flag.
	"internal/loopback": "ioam internal/ipv6 internal/model",

	"internal/responder": "stamp internal/lossquery internal/rfc6374 internal/stamp/admit internal/stamp/clock internal/stamp/udp",

	// Records and their sinks know nothing of the data plane.
	"internal/nodenames":      "ioam",
	"internal/columns":        "",
	"internal/record":         "ioam ipfix internal/columns internal/instant internal/ipv6 internal/loss internal/model internal/nodenames",
	"internal/sink":           "ioam internal/metrics internal/model internal/problem internal/record",
	"internal/sink/jsonl":     "ioam internal/columns internal/problem internal/record internal/sink internal/yamlfile",
	"internal/sink/ipfixsink": "ioam ipfix internal/address internal/inputfile internal/instant internal/problem internal/record internal/sink internal/yamlfile",
	"internal/sink/otlpsink":  "ioam internal/exponential internal/metrics internal/problem internal/record internal/secretfile internal/sink internal/yamlfile",
	"internal/decode":         "ioam internal/ipv6 internal/problem internal/record",
	"internal/collect": "ioam ipfix internal/address internal/collect/join internal/collect/known internal/health internal/inputfile internal/instant internal/loss internal/metrics internal/model internal/nodenames internal/problem internal/record internal/sink " +
		"internal/replacefile internal/socketdrops",
	"internal/collect/join":             "ioam internal/record",
	"internal/collect/sender":           "ipfix",
	"internal/collect/pathmetrics":      "internal/exponential internal/metrics internal/record",
	"internal/collect/known":            "ioam internal/collect/join internal/record",
	"internal/recordfilter":             "ioam internal/instant internal/nearword internal/problem internal/record",
	"internal/recordfilter/filterflags": "internal/commandline internal/recordfilter",

	// What records of a time say together: no clock, no input, no output.
	"internal/eventlog": "internal/instant internal/record internal/replacefile",
	"internal/insight":  "ioam internal/exponential internal/instant internal/nodenames internal/record",

	// Configuration and control.
	"internal/yamlfile": "internal/inputfile internal/nearword internal/problem internal/shellword",
	"internal/address":  "internal/problem",
	"internal/config":   "ioam srv6 internal/address internal/inputfile internal/loss internal/lossquery internal/nodenames internal/pot internal/record internal/secretfile internal/sink internal/sink/ipfixsink internal/sink/jsonl internal/sink/otlpsink internal/stamp/keyfile internal/model internal/problem internal/yamlfile",
	"internal/iproute2": "ioam srv6 internal/config internal/model internal/problem internal/shellword",
	"internal/api":      "ioam internal/config internal/health internal/insight internal/instant internal/model internal/nodenames internal/pathmtu internal/problem internal/recordfilter",
	"internal/health":   "ioam internal/instant internal/model internal/problem",
	// The agent: what its services have in common, the services by subject, which do not
	// know each other, and what puts all together.
	"internal/agent/service": "ioam internal/api internal/config internal/datapath internal/health internal/icmpv6 internal/kernelevents internal/metrics internal/model internal/nodenames internal/pathmtu internal/pot internal/replacefile internal/routing " +
		"internal/socketdrops internal/tunnelerror",
	"internal/agent/measure": "srv6 stamp internal/agent/service internal/api internal/config internal/coverage internal/datapath internal/eventlog internal/health internal/instant internal/loss internal/lossquery internal/metrics internal/model " +
		"internal/pathtrace/endpoint internal/problem internal/record internal/recordfilter internal/responder internal/rfc6374 internal/stamp/blocks internal/stamp/inband internal/stamp/keyfile internal/stamp/query internal/stamp/reflector",
	"internal/agent/probe": "ioam internal/agent/service internal/api internal/config internal/eventlog internal/health internal/instant internal/metrics internal/pathtrace/monitor internal/problem internal/record internal/stamp/keyfile",
	"internal/agent/report": "ioam internal/exponential internal/nodenames internal/agent/service internal/api internal/config internal/coverage internal/datapath internal/edgetoedge internal/eventlog internal/health internal/insight internal/instant internal/kernelevents internal/loopback internal/loss internal/problem " +
		"internal/metrics internal/model internal/record internal/recordfilter internal/reference internal/replacefile internal/sink",
	"internal/agent/queues": "internal/agent/service internal/api internal/config internal/datapath/queue internal/exponential internal/health internal/insight internal/instant internal/metrics internal/model internal/problem internal/record internal/replacefile",
	"internal/agent/tunnel": "internal/agent/service internal/api internal/config internal/health internal/icmpv6 internal/metrics internal/model internal/pathmtu internal/reference internal/replacefile internal/socketdrops internal/tunnelerror",
	// Who has which network namespace of the machine.
	"internal/agent/instances": "internal/api internal/datapath internal/health internal/problem",
	"internal/agent": "ioam internal/agent/instances internal/agent/measure internal/agent/probe internal/agent/queues internal/agent/report internal/agent/service internal/agent/tunnel internal/api internal/collectorapi internal/config internal/coverage internal/datapath " +
		"internal/dryrun internal/edgetoedge internal/health internal/hookwatch internal/instant internal/loss internal/metrics internal/model internal/nodenames internal/problem internal/replacefile internal/supervisor",
	"internal/dryrun":     "internal/ipv6 internal/model internal/problem internal/reference",
	"internal/instant":    "",
	"internal/metrics":    "internal/exponential",
	"internal/supervisor": "",
	"internal/journal":    "",

	"internal/lab":             "internal/api internal/config internal/lab/linkloss internal/lab/linkrelay internal/patience internal/supervisor internal/problem internal/replacefile",
	"internal/lab/linkloss":    "internal/kernelclock internal/problem",
	"internal/lab/linkrelay":   "internal/lab/linkloss internal/problem",
	"internal/lab/demo":        "ioam ipfix internal/api internal/columns internal/delay internal/collect internal/config internal/problem internal/record internal/sink internal/sink/ipfixsink internal/lab internal/lab/linkloss internal/loss internal/model internal/nodenames internal/patience",
	"internal/lab/consoledemo": "internal/lab internal/lab/linkloss internal/patience internal/problem",
	"internal/patience":        "",

	// Programs parse arguments and call packages. The router's imports no lab, no collector
	// and no benchmark.
	"internal/docgen":      "ipfix internal/config internal/problem internal/record internal/health internal/model",
	"internal/commandline": "internal/columns internal/docgen internal/journal internal/problem",
	// What a collector has kept, by its API alone.
	"internal/collectorapi": "internal/commandline internal/inputfile internal/problem internal/record",
	"internal/history":      "internal/collectorapi internal/columns internal/commandline internal/instant internal/problem internal/record internal/recordfilter",
	"cmd/waymark": "ioam cmd/waymark/active internal/agent internal/agent/instances internal/api internal/columns internal/commandline internal/config internal/datapath internal/decode internal/docgen internal/exponential internal/health internal/history " +
		"internal/insight internal/instant internal/iproute2 internal/journal internal/loss internal/model internal/nodenames internal/patience internal/pot internal/problem internal/record internal/recordfilter internal/recordfilter/filterflags " +
		"internal/replacefile internal/secretfile internal/shellword internal/supervisor",
	"cmd/waymark/active": "ioam srv6 stamp internal/api internal/columns internal/commandline internal/config internal/health internal/icmpv6 internal/nodenames internal/pathtrace/message internal/pathtrace/paths internal/pathtrace/prober internal/problem " +
		"internal/stamp/keyfile internal/stamp/measure internal/stamp/reflector internal/stamp/sender internal/stamp/udp",
	"cmd/waymark-lab": "internal/commandline internal/config internal/docgen internal/lab internal/lab/consoledemo internal/lab/demo internal/lab/linkloss internal/lab/linkrelay internal/problem",
	"collector/cmd/waymark-collector": "ipfix collector/internal/... internal/collect internal/collect/join internal/collectorapi internal/columns internal/commandline internal/config internal/docgen internal/health internal/inputfile internal/journal internal/loss internal/problem internal/record internal/recordfilter " +
		"internal/recordfilter/filterflags internal/sink internal/sink/jsonl internal/supervisor",
	"bench/cmd/waymark-bench": "bench/... internal/commandline internal/docgen internal/problem",

	// The collector: its file, what it keeps, questions about that, who asks them, and what puts all
	// together. Only the store and what asks it know the database.
	"collector/internal/access":   "collector/internal/store internal/inputfile internal/problem",
	"collector/internal/settings": "collector/internal/access collector/internal/store internal/collect internal/collect/join internal/inputfile internal/problem internal/record internal/secretfile internal/sink internal/sink/jsonl internal/sink/otlpsink internal/yamlfile ipfix",
	"collector/internal/store":    "internal/problem internal/instant internal/record internal/sink ioam internal/replacefile",
	"collector/internal/live":     "internal/problem internal/record internal/sink",
	"collector/internal/query":    "ioam collector/internal/live collector/internal/store internal/collect internal/exponential internal/instant internal/loss internal/model internal/nodenames internal/problem internal/record internal/recordfilter internal/sink",
	"collector/internal/events":   "ioam internal/collect internal/eventlog internal/insight internal/metrics internal/nodenames internal/record internal/sink",
	"collector/internal/console":  "internal/problem",
	"collector/internal/api":      "collector/internal/access collector/internal/console collector/internal/live collector/internal/query internal/instant internal/metrics internal/problem internal/record",
	"collector/internal/doctor":   "collector/internal/access collector/internal/query collector/internal/settings collector/internal/store internal/collect internal/columns internal/health internal/problem internal/record ipfix",
	"collector/internal/daemon":   "collector/internal/access collector/internal/api collector/internal/events collector/internal/live collector/internal/query collector/internal/settings collector/internal/store internal/collect internal/collect/pathmetrics internal/columns internal/commandline internal/metrics internal/nodenames internal/record internal/sink internal/supervisor",

	// Benchmarks: what is measured, how, and how it is drawn.
	"bench/executed":    "internal/problem",
	"bench/experiments": "ioam srv6 stamp bench/executed bench/harness bench/report internal/agent/instances internal/api internal/collect/sender internal/datapath internal/problem internal/record internal/model internal/pot internal/stamp/blocks internal/stamp/reflector internal/stamp/udp",
	"bench/harness":     "ioam ipfix bench/report internal/agent/report internal/agent/service internal/datapath internal/instant internal/model internal/problem internal/record internal/routing internal/sink internal/sink/ipfixsink",
	"bench/report":      "internal/instant internal/problem",

	// Packages: what is in them is built by Go, not imported.
	"packaging/build":               "packaging/image internal/problem",
	"packaging/image":               "",
	"packaging/cmd/waymark-package": "packaging/build internal/problem",
	// Dashboards and rules: made and tested, not imported.
	"packaging/dashboards":             "",
	"packaging/cmd/waymark-dashboards": "packaging/dashboards",

	"scripts/check":     "",
	"scripts/compress":  "internal/problem",
	"scripts/lint":      "",
	"scripts/picture":   "internal/problem internal/record ioam",
	"scripts/postcards": "internal/collect/sender",
	"scripts/reference": "internal/collect internal/problem",
}

// testPackages are only for tests: no other package imports them, and they may
// import everything.
var testPackages = []string{
	"collector/internal/storetest",
	"internal/agent/agenttest",
	"internal/commandlinetest",
	"internal/datapath/delays/histogramtest",
	"internal/kmsgtest",
	"internal/pintest",
	"internal/prometheustest",
	"internal/tshark",
	"internal/tsharktest",
	"test/...",
}

// mapRooms are the rooms of the data plane that use programs, links or maps.
const mapRooms = "internal/datapath/attach internal/datapath/bpf internal/datapath/delays internal/datapath/flows " +
	"internal/datapath/forward internal/datapath/measure internal/datapath/rings internal/datapath/queue internal/datapath/specialize"

// outsiders are modules that only some packages may import, with those packages.
var outsiders = map[string]string{
	// Benchmarks have BPF programs of their own (sources, sinks, empty hooks), and labs
	// have one that loses packets.
	"github.com/cilium/ebpf":                 "internal/datapath " + mapRooms + " internal/kernelclock internal/lab/linkloss bench/executed bench/experiments bench/harness",
	"github.com/VictoriaMetrics/metrics":     "internal/metrics",
	"github.com/coreos/go-systemd/v22":       "internal/journal internal/supervisor",
	"github.com/expr-lang/expr":              "internal/recordfilter",
	"github.com/duckdb/duckdb-go/v2":         "collector/internal/store",
	"github.com/coreos/go-oidc/v3":           "collector/internal/access",
	"github.com/goccy/go-yaml":               "internal/lab internal/yamlfile",
	"github.com/oauth2-proxy/mockoidc":       "",
	"github.com/prometheus/exporter-toolkit": "collector/internal/access",
	"go.yaml.in/yaml/v2":                     "collector/internal/access",
	"golang.org/x/crypto":                    "collector/internal/access",
	"golang.org/x/oauth2":                    "collector/internal/access",
	"golang.org/x/time":                      "collector/internal/access",
	"github.com/tidwall/gjson":               "",
	"github.com/xiatechs/jsonata-go":         "",
	"github.com/gopacket/gopacket":           "",
	"github.com/prometheus/client_golang":    "",
	"github.com/prometheus/client_model":     "",
	"github.com/prometheus/common":           "",
	"go.opentelemetry.io/proto/slim/otlp":    "",
	"google.golang.org/protobuf":             "internal/metrics internal/sink/otlpsink",
	"github.com/spf13/cobra":                 "bench/cmd/... cmd/... collector/cmd/... internal/collectorapi internal/commandline internal/docgen internal/history internal/recordfilter/filterflags",
	"github.com/spf13/pflag":                 "bench/cmd/... cmd/... collector/cmd/... internal/commandline internal/docgen internal/recordfilter/filterflags",
	"github.com/vishvananda/netlink": "bench/harness internal/agent/service internal/datapath internal/datapath/attach internal/datapath/measure internal/datapath/queue internal/health internal/kernelevents internal/lab internal/lab/linkloss " +
		"internal/lab/linkrelay internal/routing",
	"github.com/vishvananda/netns":     "bench/harness internal/lab",
	"gonum.org/v1/plot":                "bench/report",
	"github.com/google/go-cmp":         "",
	"github.com/netsampler/goflow2/v2": "",
}

// Layers checks all imports.
func Layers(root string) ([]Finding, error) {
	var findings []Finding
	seen := make(map[string]bool)
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			return intoDirectory(name)
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		seen[path.Dir(name)] = true
		found, err := imports(root, name)
		findings = append(findings, found...)
		return err
	})
	for _, name := range slices.Sorted(maps.Keys(layers)) {
		if !seen[name] {
			findings = append(findings, Finding{layersFile, 1, name + " stands in the table, and is no package; delete its line"})
		}
	}
	return findings, err
}

const layersFile = "scripts/check/layers.go"

// imports checks the imports of one file.
func imports(root, name string) ([]Finding, error) {
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, parser.ImportsOnly)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	var findings []Finding
	importer := path.Dir(name)
	if matches(testPackages, importer) {
		return nil, nil
	}
	if _, ok := layers[importer]; !ok {
		return []Finding{{name, 1, fmt.Sprintf("%s has no line in %s; say there what it may import", importer, layersFile)}}, nil
	}
	for _, each := range file.Imports {
		imported, err := strconv.Unquote(each.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		if wrong := wrongImport(importer, imported); wrong != "" {
			findings = append(findings, Finding{name, files.Position(each.Pos()).Line, wrong})
		}
	}
	return findings, nil
}

// wrongImport says why a package may not import another; it is empty if it may.
func wrongImport(importer, imported string) string {
	if ours, ok := strings.CutPrefix(imported, module); ok {
		switch {
		case matches(testPackages, ours):
			return ours + " is for tests alone"
		case !matches(strings.Fields(layers[importer]), ours):
			return fmt.Sprintf("%s may not import %s; %s says who may import whom", importer, ours, layersFile)
		}
		return ""
	}
	for outsider, importers := range outsiders {
		if matches([]string{outsider + "/..."}, imported) && !matches(strings.Fields(importers), importer) {
			return fmt.Sprintf("%s may not import %s; %s says who may", importer, outsider, layersFile)
		}
	}
	return ""
}

// matches reports whether a package is in the list, or below one that ends in
// "/...".
func matches(list []string, name string) bool {
	return slices.ContainsFunc(list, func(pattern string) bool {
		above, all := strings.CutSuffix(pattern, "/...")
		return name == above || all && strings.HasPrefix(name, above+"/")
	})
}
