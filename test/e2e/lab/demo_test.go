// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

var verdict = regexp.MustCompile(`(?m)^demo: traced=(\d+) delivered=(\d+) ioam_bytes_at_beta=(\d+)\n\z`)

var joinedPaths = regexp.MustCompile(`(?m)^demo: exported=(\d+) joined=(\d+) delivered=(\d+)\ndemo: traced=`)

func TestDemo(t *testing.T) {
	t.Parallel()
	name := e2e.LabName()
	start := time.Now()
	out := startDemo(t, name)
	out.awaitOutput(t, "\ntrace 1: ")
	ids := e2e.AgentIDs(t, name)
	if len(ids) != 3 {
		t.Errorf("the demo's agents are %v, want three", ids)
	}
	if err := out.wait(t); err != nil {
		t.Fatalf("the demo: %v\n%s", err, out)
	}
	if took := time.Since(start); took > demoLimit {
		t.Errorf("the demo took %v", took)
	}
	m := verdict.FindStringSubmatch(out.String())
	if m == nil {
		t.Fatalf("the last line is not the verdict:\n%s", out)
	}
	traced, err := strconv.Atoi(m[1])
	if err != nil || traced < 16 || m[2] != m[1] || m[3] != "0" {
		t.Errorf("verdict %q; want every ping and datagram and some TCP traced and delivered, and no IOAM at beta", m[0])
	}
	whole := regexp.MustCompile(`(?m)^trace \d+: (ping|udp|tcp) .* bytes:` +
		` athos\(1\) in=eth0\(101\) out=eth1\(102\) hop-limit=63;` +
		` porthos\(2\) in=eth0\(201\) out=eth1\(202\) hop-limit=62 hop-delay=[\d.]+µs transit-delay=[\d.]+µs;` +
		` aramis\(3\) in=eth0\(301\) out=- hop-limit=61 hop-delay=[\d.]+µs; end-to-end=[\d.]+µs$`)
	kinds := map[string]int{}
	for _, m := range whole.FindAllStringSubmatch(out.String(), -1) {
		kinds[m[1]]++
	}
	joined := joinedPaths.FindStringSubmatch(out.String())
	paths := len(regexp.MustCompile(strings.Replace(whole.String(), "^trace ", "^path ", 1)).FindAllString(out.String(), -1))
	if joined == nil || joined[1] != joined[2] || joined[2] != joined[3] || joined[2] != strconv.Itoa(paths) || paths < 9 {
		t.Errorf("exported and joined %v, %d whole paths; want every ping and datagram and some TCP in\n%s", joined, paths, out)
	}
	if kinds["ping"] != 5 || kinds["udp"] != 10 || kinds["tcp"] == 0 || kinds["ping"]+kinds["udp"]+kinds["tcp"] != traced {
		t.Errorf("whole traces are %v of %d in\n%s", kinds, traced, out)
	}
	if want := fmt.Sprintf("\n%d packets carried IOAM, %d a trace and %d a Direct Export; beta received %d of them.\n", traced+paths, traced,
		paths, traced+paths); !strings.Contains(
		out.String(),
		want,
	) {
		t.Errorf("the summary does not count what the lines above it show, %q in\n%s", want, out)
	}
	checkLeastDelay(t, out.String())
	lost := regexp.MustCompile(`(?m)^demo: links=5 lost=(\d+) measured=(\d+)\ndemo: exported=`).FindStringSubmatch(out.String())
	if lost == nil || lost[1] != lost[2] || len(lost[1]) < 2 ||
		len(regexp.MustCompile(`(?m)^(north|south) .* equal$`).FindAllString(out.String(), -1)) != 5 {
		t.Errorf("the losses are %q in\n%s", lost, out)
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("the output has colours without a terminal")
	}
	e2e.CheckNothingLeft(t, name, ids)
}

// checkLeastDelay checks that the summary's minimum delay is that of the lines
// above it.
func checkLeastDelay(t *testing.T, out string) {
	t.Helper()
	least := time.Duration(math.MaxInt64)
	for _, m := range regexp.MustCompile(`end-to-end=([\d.]+µs)`).FindAllStringSubmatch(out, -1) {
		one, err := time.ParseDuration(m[1])
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, one)
	}
	m := regexp.MustCompile(`(?m)^From athos to aramis, \d+ of them: min (\d+) µs, median `).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("there is no summary of delays in\n%s", out)
	}
	if said, err := time.ParseDuration(m[1] + "µs"); err != nil || said != least.Round(time.Microsecond) {
		t.Errorf("the summary's minimum delay is %s, %v, that of the lines above it %v", m[1], err, least)
	}
}

// Interrupted at any time, however often, the demo removes what it made; after
// SIGKILL, the next run of the same name does.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		signal syscall.Signal
		when   string
		code   int
	}{
		{"raising", syscall.SIGINT, "Raising", 130},
		{"tracing", syscall.SIGINT, "\ntrace 2: ", 130},
		{"collecting", syscall.SIGINT, "\npath 2: ", 130},
		{"losing", syscall.SIGINT, "\nSRv6: ", 130},
		{"terminated", syscall.SIGTERM, "\ntrace 8: ", 130},
		{"terminal closed", syscall.SIGHUP, "\ntrace 1: ", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := e2e.LabName()
			out := startDemo(t, name)
			out.awaitOutput(t, tt.when)
			ids := e2e.AgentIDs(t, name)
			insist(t, out.process, tt.signal, out.ended)
			if code := e2e.ExitCode(out.err); code != tt.code {
				t.Errorf("an interrupted demo exited with %d (%v), want %d:\n%s", code, out.err, tt.code, out)
			}
			const words = "waymark-lab: tidying up; further signals are ignored until that is done\n" +
				"waymark-lab: interrupted; everything was removed\n"
			if !strings.HasSuffix(out.String(), words) || strings.Count(out.String(), "waymark-lab: ") != 2 || verdict.MatchString(out.String()) {
				t.Errorf("an interrupted demo says\n%s", out)
			}
			e2e.CheckNothingLeft(t, name, ids)
		})
	}
}

// `waymark lab demo | head -1` leaves nothing behind either.
func TestDemoWithoutReader(t *testing.T) {
	t.Parallel()
	name := e2e.LabName()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(e2e.Program, "lab", "demo", "--name", name)
	cmd.Stdout = writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	if _, err := reader.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	e2e.Await(t, "the agents", demoLimit, func() bool { return len(e2e.AgentIDs(t, name)) == 3 })
	ids := e2e.AgentIDs(t, name)
	reader.Close()
	start := time.Now()
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the demo without a reader ended with %v", err)
	}
	if took := time.Since(start); took > patience.Of(10*time.Second) {
		t.Errorf("the demo without a reader ran for %v", took)
	}
	e2e.CheckNothingLeft(t, name, ids)
}

// checkJSON checks that a demo prints only records, and its result last.
func checkJSON(t *testing.T, out string) {
	t.Helper()
	kinds := map[string]int{}
	var last struct {
		Kind                                string
		Traced, Delivered, Exported, Joined int
		ExportedDelivered                   int  `json:"exported_delivered"`
		IOAM                                *int `json:"ioam_bytes_at_beta"`
		Links                               []struct{ Sent, Injected, Measured uint64 }
	}
	for line := range strings.Lines(out) {
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		kinds[last.Kind]++
	}
	if last.Kind != "demo" || kinds["demo"] != 1 || len(kinds) != 3 || last.IOAM == nil || *last.IOAM != 0 || last.Traced < 16 ||
		last.Traced != kinds["trace"] || last.Delivered != last.Traced || last.Joined != kinds["path"] || last.Exported != last.Joined ||
		last.ExportedDelivered != last.Joined || last.Joined < 9 {
		t.Errorf("the last line does not match the records before it, %v:\n%s", kinds, out)
	}
	injected := uint64(0)
	for _, l := range last.Links {
		if injected += l.Injected; l.Sent == 0 || l.Measured != l.Injected {
			t.Errorf("%+v", l)
		}
	}
	if len(last.Links) != 5 || injected == 0 {
		t.Errorf("%+v", last.Links)
	}
}

func TestDemoAfterKill(t *testing.T) {
	t.Parallel()
	name := e2e.LabName()
	out := startDemo(t, name)
	out.awaitOutput(t, "\ntrace 1: ")
	killed := e2e.AgentIDs(t, name)
	if err := out.process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := out.wait(t); err == nil {
		t.Error("the killed demo exited with 0")
	}
	out = startDemo(t, name, "--json")
	if err := out.wait(t); err != nil {
		t.Errorf("the demo after a killed one: %v\n%s", err, out)
	}
	checkJSON(t, out.String())
	e2e.CheckNothingLeft(t, name, killed)
}
