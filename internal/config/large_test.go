// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
)

const (
	largeFileMemory = 300 << 10        // KiB that checking the largest file may take
	largeFileTime   = 10 * time.Second // of CPUs, of which several parse
)

// checkedFile names the file that this test's child process checks.
const checkedFile = "WAYMARK_TEST_CHECKED_FILE"

// largest is a file of as many flows with sixteen segments as fit.
func largest(flow func(i int, segments []string) string) []byte {
	var text bytes.Buffer
	text.WriteString("interfaces: [{name: eth0}]\nflows:\n")
	for i := range model.DefaultMeasuredFlows {
		segments := make([]string, model.MaxSegments)
		for s := range segments {
			segments[s] = fmt.Sprintf(`"fc00:%x:%x::1234"`, s, i)
		}
		one := flow(i, segments)
		if text.Len()+len(one) > MaxFileSize {
			break
		}
		text.WriteString(one)
	}
	return text.Bytes()
}

// A file of the largest size is checked within 300 MiB and a bounded time, valid or not, in both styles of YAML.
func TestLargestFileIsCheap(t *testing.T) {
	if file := os.Getenv(checkedFile); file != "" {
		data, err := Read(file)
		if err != nil {
			t.Fatal(err)
		}
		_, _, faulty := Check(file, data, false)
		status, err := os.ReadFile("/proc/self/status") // an rusage has the parent's memory, too
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s\n", status)
		if faulty != nil {
			t.Fatal(faulty)
		}
		return
	}
	name := strings.Repeat("n", 40)
	inLines := largest(func(i int, segments []string) string {
		return fmt.Sprintf("  - name: %s%d\n    direction: transit\n    source: 2001:db8:ff::1\n    segments:\n      - %s\n", name, i,
			strings.Join(segments, "\n      - "))
	})
	inBrackets := largest(func(i int, segments []string) string {
		return fmt.Sprintf("  - {name: %s%d, direction: transit, source: 2001:db8:ff::1, traffic-class: 0xb8, flow-label: %d, segments: [%s]}\n",
			name, i, i, strings.Join(segments, ", "))
	})
	for _, test := range []struct {
		what  string
		data  []byte
		error string // "": valid
	}{
		{"valid", inLines, ""},
		{"an error in each flow", bytes.ReplaceAll(inLines, []byte("transit"), []byte("trans1t")), `"trans1t" is not a valid value`},
		{"names that are used twice", bytes.ReplaceAll(inBrackets, []byte("nnnn0"), []byte("nnnn1")), "is also the name of flows["},
	} {
		t.Run(test.what, func(t *testing.T) {
			if len(test.data) < MaxFileSize*19/20 || len(test.data) > MaxFileSize {
				t.Fatalf("the file has %d octets", len(test.data))
			}
			file := filepath.Join(t.TempDir(), "large.yaml")
			if err := os.WriteFile(file, test.data, 0o600); err != nil {
				t.Fatal(err)
			}
			child := exec.Command(os.Args[0], "-test.run=^TestLargestFileIsCheap$")
			child.Env = append(os.Environ(), checkedFile+"="+file)
			out, err := child.CombinedOutput()
			if (err != nil) != (test.error != "") || !strings.Contains(string(out), test.error) {
				t.Fatalf("%v: %.1000s", err, out)
			}
			cpu := child.ProcessState.UserTime() + child.ProcessState.SystemTime()
			_, peak, _ := strings.Cut(string(out), "VmHWM:")
			var memory int
			if _, err := fmt.Sscan(peak, &memory); err != nil {
				t.Fatalf("%v: %.1000s", err, out)
			}
			t.Logf("%d octets: %v of CPU time, %d KiB", len(test.data), cpu, memory)
			if memory > largeFileMemory {
				t.Errorf("%d KiB of memory, more than %d", memory, largeFileMemory)
			}
			if most := patience.Of(2 * largeFileTime); cpu > most { // half of it on a machine with other work
				t.Errorf("%v of CPU time, more than %v", cpu, most)
			}
		})
	}
}
