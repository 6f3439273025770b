// SPDX-License-Identifier: Apache-2.0

package pathtrace

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/pathtrace/paths"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/test/e2e"
)

const (
	far    = "2001:db8:ff::3" // of aramis
	source = "2001:db8:1::1"  // of athos
)

// trace runs the command at athos.
func trace(t *testing.T, l *lab.Lab, args ...string) (*paths.Report, error) {
	t.Helper()
	args = append([]string{"trace", far, "--source", source, "--json", "--interval", "2ms"}, args...)
	out, err := l.Node("athos").Command(t.Context(), e2e.Program, args...).Output()
	r := &paths.Report{}
	if fault := json.NewDecoder(strings.NewReader(string(out))).Decode(r); fault != nil {
		t.Fatalf("%v: %v: %s", args, fault, out)
	}
	return r, err
}

// way is a path as text: ids with their interfaces, addresses of what is silent.
func way(p paths.Path) string {
	id := func(n *uint32) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	var list []string
	for _, h := range p.Hops {
		switch {
		case h.NodeID != nil:
			list = append(list, fmt.Sprintf("%d(%s>%s)", *h.NodeID, id(h.Ingress), id(h.Egress)))
		case h.Address != nil:
			list = append(list, fmt.Sprint(*h.Address))
		default:
			list = append(list, "?")
		}
	}
	return strings.Join(list, " ")
}

func ways(r *paths.Report) (list []string) {
	for _, p := range r.Paths {
		list = append(list, way(p))
	}
	slices.Sort(list)
	return list
}

// A kernel hashes with a random seed, so each flow takes either path by chance: one of both stays empty in a
// test of 10 million.
const enough = 24

const (
	north = "2(201>202) 3(301>-)"
	south = "4(401>402) 3(303>-)"
)

// Both paths, every probe, and times that fit the round trip.
func TestEqualPaths(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, e2e.Builtin(t, "ecmp"))
	const flows, count = enough, 5
	r, err := trace(t, l, "--paths", fmt.Sprint(flows), "--count", fmt.Sprint(count))
	if err != nil || !slices.Equal(ways(r), []string{north, south}) || r.Sent != flows*count || r.Lost != 0 || len(r.Broken) != 0 {
		t.Fatalf("%v: %v\n%s", err, ways(r), r.Text(columns.Screen{ASCII: true}))
	}
	seen := map[uint16]bool{}
	for _, p := range r.Paths {
		if p.Sent != uint64(count*len(p.Flows)) || !p.Endpoint || p.Overflow || p.RoundTrip.Count != p.Sent {
			t.Errorf("%+v", p)
		}
		for _, f := range p.Flows {
			seen[f.SourcePort] = true
		}
		node := p.Hops[0]
		if node.Held == nil || node.Held.Count != p.Sent || node.Held.Min <= 0 || node.Held.Max > p.RoundTrip.Max || node.Address == nil {
			t.Errorf("the node between: %+v, held %+v", node, node.Held)
		}
		// The nodes share a clock, whose times are whole microseconds in the trace.
		for _, h := range p.Hops {
			if h.Since == nil || h.Since.Count != p.Sent || h.Since.Min < -1000 || h.Since.Max > p.RoundTrip.Max+1000 {
				t.Errorf("hop %d: since %+v, round trip %+v", h.Position, h.Since, p.RoundTrip)
			}
		}
	}
	if len(seen) != flows {
		t.Errorf("%d flows of %d have a path", len(seen), flows)
	}
	if n := metric(t, l, `waymark_trace_probes_total{outcome="answered"}`); n != fmt.Sprint(flows*count) {
		t.Errorf("the endpoint answered %s probes", n)
	}
	checkFormats(t, l)
	checkStrangers(t, l)
}

// metric is the value of a metric of aramis.
func metric(t *testing.T, l *lab.Lab, name string) string {
	t.Helper()
	instance, err := l.Node("aramis").Instance()
	if err != nil {
		t.Fatal(err)
	}
	text, err := api.NewClient(instance.Socket()).Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return "none"
}

// checkFormats runs each output of the command.
func checkFormats(t *testing.T, l *lab.Lab) {
	t.Helper()
	base := []string{"trace", far, "--source", source, "--interval", "2ms", "--count", "1"}
	text := e2e.MustIn(t, l, "athos", base...)
	for _, want := range []string{"2 paths, 16 flows, 16 probes, 0 unanswered", "node 2", "node 4", "└─ 2 node 3", "round trip\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(e2e.MustIn(t, l, "athos", append(base, "--csv")...))).ReadAll()
	if err != nil || len(rows) != 1+2*2 {
		t.Errorf("%v: %v", err, rows)
	}
	if dot := e2e.MustIn(t, l, "athos", append(base, "--dot")...); strings.Count(dot, " -> ") != 4 || !strings.HasPrefix(dot, "digraph ") {
		t.Errorf("%s", dot)
	}
}

// checkStrangers traces from an address that is not allowed, although answers could reach it: the endpoint
// counts the probes and answers none.
func checkStrangers(t *testing.T, l *lab.Lab) {
	t.Helper()
	const stranger, refused = "fd00::1", `waymark_trace_probes_total{outcome="not_allowed"}`
	e2e.Must(t, l.Node("athos"), "ip", "address", "add", stranger+"/128", "dev", "lo", "nodad")
	e2e.Must(t, l.Node("porthos"), "ip", "route", "add", stranger, "via", "2001:db8:12::1")
	e2e.Must(t, l.Node("aramis"), "ip", "route", "add", stranger, "via", "2001:db8:23::1")
	before := metric(t, l, refused)
	out, err := l.Node("athos").
		Command(t.Context(), e2e.Program, "trace", far, "--source", stranger, "--count", "1", "--paths", "2", "--timeout", "300ms").
		CombinedOutput()
	if err == nil || !strings.Contains(string(out), "none was answered") {
		t.Errorf("%v: %s", err, out)
	}
	if n := metric(t, l, refused); n == before {
		t.Errorf("the endpoint refused %s probes before and after", n)
	}
}

// The commands of docs/how-to/trace-paths.md, as typed there: the kernel chooses the source of probes, and
// every router answers every other one.
func TestAsTyped(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, e2e.Builtin(t, "ecmp"))
	text := e2e.MustIn(t, l, "athos", "trace", far)
	if !strings.Contains(text, "16 flows, 160 probes, 0 unanswered") {
		t.Errorf("%s", text)
	}
	// Which of both paths 16 flows take is chance; two copies of each flow come back from either.
	text = e2e.MustIn(t, l, "athos", "trace", far, "--loopback", "--max-hops", "0")
	if !strings.Contains(text, "160 probes, 0 unanswered") || !strings.Contains(text, "32 copies came back") {
		t.Errorf("%s", text)
	}
	loopbacks := map[string]string{"athos": "2001:db8:ff::1", "porthos": "2001:db8:ff::2", "aramis": far, "dartagnan": "2001:db8:ff::4"}
	for from := range loopbacks {
		for to, address := range loopbacks {
			if text := e2e.MustIn(t, l, from, "trace", address, "--count", "1"); !strings.Contains(text, "16 probes, 0 unanswered") {
				t.Errorf("%s to %s: %s", from, to, text)
			}
		}
	}
}

// Echo requests find the same nodes by what errors quote, except the last.
func TestEcho(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, e2e.Builtin(t, "ecmp"))
	e2e.Must(t, l.Node("athos"), "sysctl", "-w", "net.ipv6.fib_multipath_hash_policy=0") // by flow label
	r, err := trace(t, l, "--icmp", "--paths", fmt.Sprint(enough), "--count", "2")
	if want := []string{"2(201>-) " + far, "4(401>-) " + far}; err != nil || !slices.Equal(ways(r), want) || r.Lost != 0 ||
		r.Sent != 2*enough {
		t.Errorf("%v: %v\n%s", err, ways(r), r.Text(columns.Screen{ASCII: true}))
	}
	// Errors about probes whose hop limits ended at hop 1 quote when they came there.
	for _, p := range r.Paths {
		h, end := p.Hops[0], p.Hops[1]
		if h.Since == nil || h.Since.Count > uint64(len(p.Flows)) || h.Since.Min < -1000 || h.Since.Max > int64(time.Second) || h.Held != nil ||
			end.Since != nil ||
			p.RoundTrip == nil {
			t.Errorf("%+v, since %+v; then %+v", h, h.Since, end)
		}
	}
	if r, err := trace(t, l, "--paths", fmt.Sprint(enough), "--count", "1"); err != nil || !slices.Equal(ways(r), []string{north, south}) {
		t.Errorf("UDP: %v: %v\n%s", err, ways(r), r.Text(columns.Screen{ASCII: true}))
	}
}

// Probes of a namespace that no node has are answered without data, which says nothing of the
// nodes' other namespaces.
func TestUnknownNamespace(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, e2e.Builtin(t, "ecmp"))
	for _, more := range [][]string{nil, {"--icmp"}} {
		args := append([]string{"trace", far, "--source", source, "--namespace", "77", "--interval", "2ms", "--count", "1"}, more...)
		text := e2e.MustIn(t, l, "athos", args...)
		if !strings.Contains(text, "─ 1 no data ") || !strings.Contains(text, "no node wrote data of namespace 77") ||
			strings.Contains(text, "no IOAM") {
			t.Errorf("%v:\n%s", more, text)
		}
	}
}

// What tshark reads of probes and echo requests at the destination, after its hook: the Active flag, the
// nodes of the path, flow labels, and right checksums.
func TestProbesInTshark(t *testing.T) {
	t.Parallel()
	top := e2e.Builtin(t, "ecmp")
	e2e.Reconfigure(t, top, "aramis", "id: 301, role", "id: 301, attach: xdp, role") // captures see what XDP fills
	l := e2e.Raise(t, top)
	// By flow label: ports, which echo requests do not have, would send all of them by one path.
	e2e.Must(t, l.Node("athos"), "sysctl", "-w", "net.ipv6.fib_multipath_hash_policy=0")
	wire := e2e.StartWire(t, l, "aramis", "eth0")
	for _, more := range [][]string{nil, {"--icmp"}} {
		if r, err := trace(t, l, append(more, "--paths", fmt.Sprint(enough), "--count", "2")...); err != nil {
			t.Fatalf("%v: %s", err, r.Text(columns.Screen{ASCII: true}))
		}
	}
	wire.Stop(t)
	const probes = "ipv6.src == " + source + " && ipv6.dst == " + far
	labels := map[string]bool{}
	kinds := map[string]int{}
	for _, line := range tshark.Run(t, wire.Path, probes, "-e", "ipv6.opt.ioam.trace.flag.a", "-e", "ipv6.opt.ioam.trace.node.id", "-e",
		"ipv6.opt.ioam.trace.ns",
		"-e", "ipv6.flow", "-e", "icmpv6.checksum.status", "-e", "udp.dstport") {
		f := strings.Split(line, "\t")
		if len(f) != 6 || f[0] != "1" && f[0] != "True" || f[1] != "0x000003,0x000002" || f[2] != "123" {
			t.Fatalf("%q", line)
		}
		labels[f[3]] = true
		kinds[f[4]+"/"+f[5]]++
	}
	lines := tshark.Run(t, wire.Path, "("+probes+") && (_ws.malformed || icmpv6.checksum.status == 0)", "-e", "frame.number")
	if len(lines) > 0 {
		t.Errorf("tshark complains about frames %v", lines)
	}
	if kinds["/33434"] == 0 || kinds["1/"] == 0 || len(labels) < 2 {
		t.Errorf("%v, labels %v", kinds, labels)
	}
}

// Where packets are lost: between which nodes, and that other paths are well.
func TestLostOnOnePath(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, e2e.Builtin(t, "ecmp"))
	code, out, errs := e2e.Waymark(t, "lab", "loss", "add", "porthos", "eth1", "--every", "1", "--name", l.Name())
	if code != 0 {
		t.Fatalf("%s%s", out, errs)
	}
	r, err := trace(t, l, "--paths", fmt.Sprint(enough), "--count", "3", "--timeout", "300ms")
	if err != nil || !slices.Equal(ways(r), []string{south}) || len(r.Broken) == 0 || len(r.Broken)+len(r.Paths[0].Flows) != enough ||
		r.Paths[0].Lost != 0 ||
		r.Lost != uint64(3*len(r.Broken)) {
		t.Fatalf("%v: %v\n%s", err, ways(r), r.Text(columns.Screen{ASCII: true}))
	}
	for _, b := range r.Broken {
		if len(b.Hops) != 1 || *b.Hops[0].NodeID != 2 || b.Hops[0].Address == nil {
			t.Errorf("%+v", b)
		}
	}
	if text := r.Text(columns.Screen{ASCII: true}); !strings.Contains(text, "last seen at hop 1, node 2 (2001:db8:12::2)") {
		t.Errorf("%s", text)
	}
}

// A node without an agent is silent: the hop limits of the trace say that it is there, and
// those of other probes what it is called. Kernels pass the header on.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	top := e2e.Builtin(t, "ecmp")
	top.Node("porthos").Agent = nil
	l := e2e.Raise(t, top)
	r, err := trace(t, l, "--paths", fmt.Sprint(enough), "--count", "2")
	if want := []string{"2001:db8:12::2 3(301>-)", south}; err != nil || !slices.Equal(ways(r), want) || r.Lost != 0 {
		t.Fatalf("%v: %v\n%s", err, ways(r), r.Text(columns.Screen{ASCII: true}))
	}
}

// Without an endpoint, errors of the destination bring the traces back.
func TestNoEndpoint(t *testing.T) {
	t.Parallel()
	top := e2e.Builtin(t, "ecmp")
	e2e.Reconfigure(t, top, "aramis", "path-trace: {allow: [\"2001:db8::/32\"]}\n", "")
	l := e2e.Raise(t, top)
	r, err := trace(t, l, "--paths", "8", "--count", "1", "--interval", "100ms", "--timeout", "300ms")
	if err != nil || len(r.Paths) == 0 || len(r.Paths) > 2 || r.Paths[0].Endpoint ||
		!slices.Contains([]string{north, south}, way(r.Paths[0])) {
		t.Fatalf("%v: %v\n%s", err, ways(r), r.Text(columns.Screen{ASCII: true}))
	}
}

// With a key, only probes with it are answered.
func TestKey(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	top := e2e.Builtin(t, "ecmp")
	e2e.Reconfigure(t, top, "aramis", "path-trace: {", "path-trace: {key-file: "+key+", ")
	l := e2e.Raise(t, top)
	if r, err := trace(t, l, "--paths", fmt.Sprint(enough), "--count", "1", "--key-file", key); err != nil ||
		!slices.Equal(ways(r), []string{north, south}) {
		t.Errorf("%v: %v", err, ways(r))
	}
	if r, err := trace(t, l, "--paths", "8", "--count", "1", "--timeout", "300ms"); e2e.ExitCode(err) != 1 || len(r.Paths) != 0 ||
		r.Lost != 8 {
		t.Errorf("without the key: %v\n%s", err, r.Text(columns.Screen{ASCII: true}))
	}
	checkSilence(t, l)
}

// checkSilence traces without the key, with the defaults: what to check is said long before the
// end.
func checkSilence(t *testing.T, l *lab.Lab) {
	t.Helper()
	const bound = 5 * time.Second
	cmd := l.Node("athos").Command(t.Context(), e2e.Program, "trace", far, "--source", source)
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(errs).ReadString('\n')
	took := time.Since(began)
	if ended := cmd.Process.Signal(os.Interrupt); ended != nil {
		t.Errorf("the run ended already: %v", ended)
	}
	_ = cmd.Wait() // it was interrupted
	if err != nil || !strings.Contains(line, "was answered within 1.5s") || !strings.Contains(line, "--key-file") ||
		took > patience.Of(bound) {
		t.Errorf("after %v: %q, %v", took, line, err)
	}
}

// A destination that removes the trace before the endpoint sees it: the probes arrive, and
// hop limits show the path.
func TestRemovedTrace(t *testing.T) {
	t.Parallel()
	top := e2e.Builtin(t, "ecmp")
	e2e.Reconfigure(t, top, "aramis", "{id: 123, ", "{id: 123, remove: true, ")
	l := e2e.Raise(t, top)
	r, err := trace(t, l, "--paths", fmt.Sprint(enough), "--count", "1")
	if want := []string{"2(201>-) " + far, "4(401>-) " + far}; err != nil || !slices.Equal(ways(r), want) || r.Lost != 0 {
		t.Errorf("%v: %v\n%s", err, ways(r), r.Text(columns.Screen{ASCII: true}))
	}
}
