// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// The capture recipe of docs/lab.md, run as printed except for the names of the
// lab and file and its waiting times, shows every time of every packet.
func TestCaptureRecipe(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, e2e.Builtin(t, "line"))
	out := follow(t, l, "docs/lab.md", "capture", "duration:5", "duration:12") // other tests use the machine, too
	const packet = `(?m)^[\d:.]+  eth1  [\d.]+[µum]s to here  ICMPv6  2001:db8:1::2 > 2001:db8:2::2\n` +
		` +node 1  101 > 102  hop limit 63  at [\d:.]+ +held -\n` +
		` +node 2  201 > 202  hop limit 62  \+[\d.]+[µum]s +held [\d.]+[µum]s\n`
	whole := len(regexp.MustCompile(packet).FindAllString(out, -1))
	if sent := l.Topology().Traffic[0].Count; whole != sent || strings.Count(out, "node 1") != sent {
		t.Errorf("%d packets have all their times, want %d, in\n%s", whole, sent, out)
	}
}

// The recipe of docs/how-to/measure-srv6.md measures a flow that running agents did not know. Its traffic lasts
// longer here, so that a busy machine has some in the last block, too.
func TestRuntimeRecipe(t *testing.T) {
	t.Parallel()
	topology, err := os.ReadFile("../../../internal/lab/topologies/srv6.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const before, longer = "count: 1000, interval: 2ms", "count: 6000, interval: 2ms"
	if !strings.Contains(string(topology), before) {
		t.Fatalf("the topology has no %q", before)
	}
	l := e2e.RaiseText(t, "srv6", strings.ReplaceAll(string(topology), before, longer))
	out := follow(t, l, "docs/how-to/measure-srv6.md", "runtime", "sleep 3", "sleep 6", "--every 100", "--every 10")
	rows := regexp.MustCompile(`(?m)^web +\d+ +\S+Z +(\S+) +(\S+) +measured +\d+ +\d+ +(\d+) .*?(\S+)$`).FindAllStringSubmatch(out, -1)
	if len(rows) != 3 {
		t.Fatalf("%d rows are measured, want 3:\n%s", len(rows), out)
	}
	for i, want := range [][2]string{{"ingress", "egress"}, {"ingress", "south"}, {"south", "egress"}} {
		if row := rows[i]; row[1] != want[0] || row[2] != want[1] || (row[3] == "0") != (i == 1) || (row[4] == "flow_loss_high") != (i == 0) {
			t.Errorf("row %d is %q, want %q with loss but in the second, and a warning in the first", i, row[1:], want)
		}
	}
}

// follow runs the commands of a page in a lab, with changes in pairs, and returns what they print.
func follow(t *testing.T, l *lab.Lab, page, block string, changes ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../..", page))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```sh "+block+"\n")
	recipe, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatalf("%s has no recipe %q", page, block)
	}
	directory := t.TempDir()
	if err := os.Symlink(e2e.Program, filepath.Join(directory, "waymark")); err != nil {
		t.Fatal(err)
	}
	changes = append(changes, "/tmp/", directory+"/", "waymark lab loss add ", "waymark lab loss add --name "+l.Name()+" ")
	for _, command := range []string{"exec", "traffic"} {
		changes = append(changes, "waymark lab "+command+" ", "waymark lab "+command+" --name "+l.Name()+" ")
	}
	cmd := exec.Command("bash", "-euc", strings.NewReplacer(changes...).Replace(recipe)+"\nwait\n")
	cmd.Env = append(os.Environ(), "PATH="+directory+":"+os.Getenv("PATH"))
	var diagnostics e2e.Transcript
	cmd.Stderr = &diagnostics
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, &diagnostics)
	}
	return string(out)
}
