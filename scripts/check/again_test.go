// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// again.sh runs the tests again that failed by themselves, each as before, and nothing else.
func TestAgain(t *testing.T) {
	const one = "--- FAIL: TestOne (0.10s)\n    --- FAIL: TestOne/part (0.05s)\nFAIL\nFAIL\tw/a\t0.1s\nok  \tw/b\t0.1s\n"
	for _, test := range []struct {
		name, first, second string // logs
		still               bool   // a test fails again
		ran                 string // by go
		fails               bool
	}{
		{name: "one", first: one, ran: "0 -run ^TestOne$ w/a"},
		{name: "race", second: strings.ReplaceAll(one, "w/a", "w/race"), ran: "1 -race -run ^TestOne$ w/race"},
		{name: "cgo", second: strings.ReplaceAll(one, "w/a", "w/cgo"), ran: "1 -run ^TestOne$ w/cgo"},
		{
			name:  "of both",
			first: one, second: strings.NewReplacer("w/a", "w/race", "TestOne", "TestTwo").Replace(one),
			ran: "0 -run ^TestOne$ w/a\n1 -race -run ^TestTwo$ w/race",
		},
		{name: "fails again", first: one, still: true, ran: "0 -run ^TestOne$ w/a", fails: true},
		{name: "build", first: one + "FAIL\tw/c [build failed]\n", fails: true},
		{name: "panic", first: "--- FAIL: TestOne (0.10s)\npanic: nil map\nFAIL\tw/a\t0.1s\n", fails: true},
		{name: "data race", first: "WARNING: DATA RACE\n" + one, fails: true},
		{name: "no test", first: one + "FAIL\tw/c\t0.1s\n", fails: true},
		{name: "four", first: strings.Repeat(one, 4), fails: true},
		{name: "passed", first: "ok  \tw/a\t0.1s\n", fails: true}, // then something else failed
	} {
		t.Run(test.name, func(t *testing.T) {
			directory := t.TempDir()
			write := func(name, text string) string {
				file := filepath.Join(directory, name)
				if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
				return file
			}
			exit := "0"
			if test.still {
				exit = "1"
			}
			ran := write("ran", "")
			write("go", "#!/bin/sh\necho $CGO_ENABLED $* | sed 's/test -vet=off -count=2 -timeout 9m //' >>"+ran+"\nexit "+exit+"\n")
			cmd := exec.Command("bash", "../again.sh", "9m", "w/race\nw/other", "w/cgo", write("first", test.first), write("second", test.second))
			cmd.Env = append(os.Environ(), "PATH="+directory+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			got, _ := os.ReadFile(ran)
			if (err != nil) != test.fails || strings.TrimSpace(string(got)) != test.ran {
				t.Errorf("ran %q, %v; want %q, fails %v\n%s", got, err, test.ran, test.fails, out)
			}
		})
	}
}
