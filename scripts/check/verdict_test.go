// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// verdict.sh runs the tests again that failed by themselves, names them, and does so only if nothing else failed. Each
// package must have a result.
func TestVerdict(t *testing.T) {
	const one = "--- FAIL: TestOne (0.10s)\n    --- FAIL: TestOne/part (0.05s)\nFAIL\nFAIL\tw/a\t0.1s\nok  \tw/b\t0.1s\n"
	for _, test := range []struct {
		name, first, second string // logs
		packages            string // that must have a result
		passed              bool   // go test did
		still, none         bool   // a test fails again, there is none
		ran                 string // by go
		fails               bool
	}{
		{name: "one", first: one, ran: "0 -parallel 2 -run ^TestOne$ w/a"},
		{name: "race", second: strings.ReplaceAll(one, "w/a", "w/race"), ran: "1 -race -run ^TestOne$ w/race"},
		{name: "cgo", second: strings.ReplaceAll(one, "w/a", "w/cgo"), ran: "1 -run ^TestOne$ w/cgo"},
		{
			name:  "of both",
			first: one, second: strings.NewReplacer("w/a", "w/race", "TestOne", "TestTwo").Replace(one),
			ran: "0 -parallel 2 -run ^TestOne$ w/a\n1 -race -run ^TestTwo$ w/race",
		},
		{name: "fails again", first: one, still: true, ran: "0 -parallel 2 -run ^TestOne$ w/a", fails: true},
		{name: "no such test", first: one, none: true, ran: "0 -parallel 2 -run ^TestOne$ w/a", fails: true},
		{name: "kernel", first: strings.Replace(one, "FAIL\nFAIL", "FAIL\nFAIL: the kernel complained\nFAIL", 1), fails: true},
		{name: "kernel, alone", first: "--- FAIL: TestOne (0.10s)\nFAIL\n\tWARNING: at net/core\nFAIL\tw/a\t0.1s\n", fails: true},
		{name: "killed", first: "--- FAIL: TestOne (0.10s)\nsignal: killed\nFAIL\tw/a\t0.1s\n", fails: true},
		{name: "crashed", first: "--- FAIL: TestOne (0.10s)\nSIGSEGV: segmentation violation\nFAIL\tw/a\t0.1s\n", fails: true},
		{name: "cut off", first: "--- FAIL: TestTwo (0.10s)\n", second: one, fails: true},
		{name: "cut off, at the end", first: one, second: "--- FAIL: TestTwo (0.10s)\n", fails: true},
		{name: "build", first: one + "FAIL\tw/c [build failed]\n", fails: true},
		{name: "panic", first: "--- FAIL: TestOne (0.10s)\npanic: nil map\nFAIL\tw/a\t0.1s\n", fails: true},
		{name: "data race", first: "WARNING: DATA RACE\n" + one, fails: true},
		{name: "no test", first: one + "FAIL\tw/c\t0.1s\n", fails: true},
		{name: "four", first: strings.Repeat(one, 4), fails: true},
		{name: "no failure is named", first: "ok  \tw/a\t0.1s\n", fails: true},
		{name: "passed", first: "ok  \tw/a\t0.1s\n", second: "?   \tw/b\t[no test files]\n", packages: "w/a\nw/b", passed: true},
		{name: "no result", first: "ok  \tw/a\t0.1s\n", packages: "w/a\nw/b", passed: true, fails: true},
		{name: "one package without a result, another one that failed", first: one, packages: "w/a\nw/b\nw/c", fails: true},
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
			said := "ok w/a"
			if test.none {
				said += " [no tests to run]"
			}
			ran := write("ran", "")
			const stub = "#!/bin/sh\necho $CGO_ENABLED $* | sed 's/test -vet=off -count=2 -timeout 9m //' >>%s\necho '%s'\nexit %s\n"
			write("go", fmt.Sprintf(stub, ran, said, exit))
			status := "1"
			if test.passed {
				status = "0"
			}
			cmd := exec.Command("bash", "../verdict.sh", status, "9m", test.packages, "w/race\nw/other", "w/cgo",
				write("first", test.first), write("second", test.second))
			cmd.Env = append(os.Environ(), "PATH="+directory+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			got, _ := os.ReadFile(ran)
			if (err != nil) != test.fails || strings.TrimSpace(string(got)) != test.ran {
				t.Errorf("ran %q, %v; want %q, fails %v\n%s", got, err, test.ran, test.fails, out)
			}
			if named := strings.Contains(string(out), "passed twice when they ran alone:\nw/"); named != (test.ran != "" && !test.fails) {
				t.Errorf("the tests that ran again are named: %v\n%s", named, out)
			}
		})
	}
}
