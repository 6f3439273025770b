// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

// The capture recipe of docs/lab.md, run as printed except for the names of the
// lab and file and its waiting times, shows every time of every packet.
func TestCaptureRecipe(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/lab.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```sh capture\n")
	recipe, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("docs/lab.md has no capture recipe")
	}
	l := e2e.Raise(t, e2e.Builtin(t, "line"))
	directory := t.TempDir()
	if err := os.Symlink(e2e.Program, filepath.Join(directory, "waymark")); err != nil {
		t.Fatal(err)
	}
	script := strings.NewReplacer(
		"waymark lab exec ", "waymark lab exec --name "+l.Name()+" ",
		"waymark lab traffic ", "waymark lab traffic --name "+l.Name()+" ",
		"sleep 2", "sleep 5", "duration:5", "duration:12", // other tests use the machine, too
		"/tmp/", directory+"/").Replace(recipe)
	cmd := exec.Command("bash", "-euc", script)
	cmd.Env = append(os.Environ(), "PATH="+directory+":"+os.Getenv("PATH"))
	var diagnostics e2e.Transcript
	cmd.Stderr = &diagnostics
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, &diagnostics)
	}
	const packet = `(?m)^\S+Z  eth1  2001:db8:1::2 > 2001:db8:2::2, ICMPv6, 104 bytes, .* to here\n` +
		` +node 1  101 > 102  hop limit 63  at [\d:.]+ +held -\n` +
		` +node 2  201 > 202  hop limit 62  \+[\d.]+[um]s +held [\d.]+[um]s\n`
	whole := len(regexp.MustCompile(packet).FindAll(out, -1))
	if sent := l.Topology().Traffic[0].Count; whole != sent || strings.Count(string(out), "node 1") != sent {
		t.Errorf("%d packets have all their times, want %d, in\n%s", whole, sent, out)
	}
}
