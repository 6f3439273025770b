// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The steps that run without arguments are those that are described, and those that exist.
func TestInteropSteps(t *testing.T) {
	out, err := exec.Command("bash", "../interop.sh", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Fields(string(out))
	slices.Sort(listed)
	script, err := os.ReadFile("../interop.sh")
	if err != nil {
		t.Fatal(err)
	}
	for what, form := range map[string]string{"described": `(?m)^#   ([a-z0-9]+) {2,}`, "defined": `(?m)^step_([a-z0-9]+)\(\) \{`} {
		var found []string
		for _, match := range regexp.MustCompile(form).FindAllStringSubmatch(string(script), -1) {
			found = append(found, match[1])
		}
		slices.Sort(found)
		if !slices.Equal(found, listed) {
			t.Errorf("%s: %q\nlisted: %q", what, found, listed)
		}
	}
}

// What a machine leaves out reaches the terminal, with its reason, and the end of `make interop`.
func TestLeftOut(t *testing.T) {
	const reason = "exports left out: waymark-collector is not built for this architecture"
	init, err := os.ReadFile("../kernels/init.sh")
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Replace(reason, "exports", "$name", 1); !strings.Contains(string(init), `echo "kernels: `+text+`"`) {
		t.Fatalf("scripts/kernels/init.sh does not say: %s", text)
	}
	dir := t.TempDir()
	run := func(file, function, input string) string {
		t.Helper()
		if _, err := os.Stat("../../" + file); err != nil { // so that the test runs again when the file changes
			t.Fatal(err)
		}
		script := ". " + file + " && " + function
		cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
		cmd.Dir, cmd.Stdin = "../..", strings.NewReader(input)
		cmd.Env = append(os.Environ(), "INTEROP_STEP=arm64", "INTEROP_SKIPPED="+dir+"/skipped", "LOG="+dir+"/log")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return string(out)
	}
	console := "some noise\r\nkernels: booted 6.12\r\nkernels: demo PASS (3s)\r\nkernels: " + reason + "\r\nkernels: all steps reached\r\n"
	shown := run("scripts/kernels/machine.sh", `watch "$LOG"`, console)
	if want := "kernels: booted 6.12\nkernels: demo PASS (3s)\nkernels: " + reason + "\n"; shown != want {
		t.Errorf("the terminal has %q, want %q", shown, want)
	}
	shown = "kernels: booting 6.12.1-arm64; the console is in x\n" + shown
	const skipped = "6.12.1-arm64: " + reason + "\n"
	if got := run("scripts/interop/shared.sh", "left_out", shown); got != shown+"skipped: "+skipped {
		t.Errorf("the step prints %q", got)
	}
	if end, err := os.ReadFile(dir + "/skipped"); err != nil || string(end) != "arm64: "+skipped {
		t.Errorf("the end repeats %q, %v", end, err)
	}
}
