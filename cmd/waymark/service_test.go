// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
)

// unit is the service file's settings by section and key.
func unit(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../packaging/systemd/waymark.service")
	if err != nil {
		t.Fatal(err)
	}
	settings, section := map[string][]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		key, value, ok := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		case !ok:
			t.Errorf("%q is no setting", line)
		default:
			settings[section+"."+key] = append(settings[section+"."+key], value)
		}
	}
	return settings
}

// The service reports when it is ready, its reload fails if the file is invalid, and it
// restarts after any number of failures.
func TestServiceFile(t *testing.T) {
	settings := unit(t)
	for key, want := range map[string]string{
		"Service.Type":               "notify",
		"Service.ExecReload":         "/usr/bin/waymark agent reload --quiet",
		"Service.Restart":            "on-failure",
		"Unit.StartLimitIntervalSec": "0",
		"Service.RestartSec":         "2",
		"Service.RestartMaxDelaySec": "30",
		"Service.WatchdogSec":        "60",
		"Service.ProtectSystem":      "strict",
		"Service.NoNewPrivileges":    "yes",
	} {
		if got := settings[key]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	// The service has a mount namespace of its own: its pins outlive it in the mount of another unit.
	if got := settings["Unit.Requires"]; !slices.Equal(got, []string{"run-waymark-bpf.mount"}) ||
		!slices.Contains(settings["Unit.After"], got[0]) {
		t.Errorf("the service requires %q, after %q", got, settings["Unit.After"])
	}
	if got := settings["Service.ReadWritePaths"]; !slices.Equal(got, []string{api.Root}) {
		t.Errorf("the service may write %q, and agents keep their state in %s", got, api.Root)
	}
	for _, name := range health.MissingCapabilities(0) {
		name, _, _ = strings.Cut(name, " ")
		if !strings.Contains(strings.Join(settings["Service.CapabilityBoundingSet"], " ")+" ", name+" ") {
			t.Errorf("the agent needs %s, and the service lacks it", name)
		}
	}
	// Each command is one of this program, with flags that it has.
	for _, key := range []string{"Service.ExecStartPre", "Service.ExecStart", "Service.ExecReload"} {
		for _, line := range settings[key] {
			words, ok := strings.CutPrefix(line, "/usr/bin/waymark ")
			root := newRoot(newOptions())
			cmd, rest, err := root.Find(strings.Fields(words))
			if !ok || err != nil || cmd.HasSubCommands() || cmd.ParseFlags(rest) != nil || cmd.ValidateArgs(cmd.Flags().Args()) != nil {
				t.Errorf("%s=%s is no command line of waymark: %v", key, line, err)
			}
		}
	}
}

// The file that packages install as /etc/waymark/node.yaml is valid as it is, and after each of its
// examples lost the marks that make it a comment.
func TestPackagedConfiguration(t *testing.T) {
	text, err := os.ReadFile("../../packaging/config/node.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, examples, found := strings.Cut(string(text), "\nnode:")
	if !found {
		t.Fatal("the file has no node")
	}
	var all strings.Builder
	all.WriteString("node:")
	keys := 0
	for line := range strings.Lines(examples) {
		rest, comment := strings.CutPrefix(line, "# ")
		key, value, mapping := strings.Cut(rest, ":")
		switch {
		case !comment:
		case strings.HasPrefix(rest, " "):
			line = rest
		case mapping && strings.TrimSpace(value) == "" && !strings.Contains(key, " "):
			line, keys = rest, keys+1
		}
		all.WriteString(line)
	}
	if keys < 5 {
		t.Errorf("the file has examples of %d keys:\n%s", keys, all.String())
	}
	// The package has this directory; the machine of the test need not.
	there := strings.ReplaceAll(all.String(), "/var/log/waymark/", t.TempDir()+"/")
	for name, content := range map[string]string{"as installed": string(text), "with all examples": there} {
		file := filepath.Join(t.TempDir(), "node.yaml")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out, errs := runCLI(t, "", "config", "check", file); code != 0 {
			t.Errorf("%s: config check ends with %d: %s%s\n%s", name, code, out, errs, content)
		}
	}
}

// Containers have the capabilities of the service.
func TestCapabilitiesOfContainers(t *testing.T) {
	want := strings.Fields(strings.ReplaceAll(unit(t)["Service.CapabilityBoundingSet"][0], "CAP_", ""))
	slices.Sort(want)
	for file, key := range map[string]string{
		"container/compose.yaml": "cap_add", "kubernetes/waymark.yaml": "add", "helm/waymark/values.yaml": "capabilities",
	} {
		text, err := os.ReadFile("../../packaging/" + file)
		if err != nil {
			t.Fatal(err)
		}
		match := regexp.MustCompile(`(?m)^ *` + key + `: \[(.*)\]$`).FindSubmatch(text)
		if match == nil {
			t.Errorf("%s has no %s", file, key)
			continue
		}
		got := strings.Split(string(match[1]), ", ")
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, and the service %q", file, got, want)
		}
	}
}

// The agent logs warnings of a reload: where its log is the journal, the command does not print them again.
func TestQuietReload(t *testing.T) {
	const answer = `{"runtime_changes_ended":true,"warnings":[{"severity":"warning","text":"no way"}]}`
	f := newFakeAgent(t, map[string]string{"POST /v1/reload": answer})
	if code, stdout, stderr := runCLI(t, "", "--socket", f.socket, "agent", "reload"); code != 0 || stdout != "" ||
		!strings.Contains(stderr, "changes made at runtime") || !strings.Contains(stderr, "no way") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if code, stdout, stderr := runCLI(t, "", "--socket", f.socket, "agent", "reload", "--quiet"); code != 0 || stdout+stderr != "" {
		t.Errorf("quiet: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}
