// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"strings"
	"testing"
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
		"Service.ExecReload":         "/usr/local/bin/waymark agent reload",
		"Service.Restart":            "on-failure",
		"Unit.StartLimitIntervalSec": "0",
		"Service.RestartSec":         "2",
		"Service.RestartMaxDelaySec": "30",
		"Service.WatchdogSec":        "60",
	} {
		if got := settings[key]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	for key := range settings {
		for _, own := range []string{"ProtectSystem", "PrivateTmp", "PrivateMounts", "ReadOnlyPaths", "BindPaths", "ProtectHome"} {
			if key == "Service."+own {
				t.Errorf("%s gives the service a mount namespace of its own, and its pins are gone when it stops", key)
			}
		}
	}
	// Each command is one of this program, with flags that it has.
	for _, key := range []string{"Service.ExecStartPre", "Service.ExecStart", "Service.ExecReload"} {
		for _, line := range settings[key] {
			words, ok := strings.CutPrefix(line, "/usr/local/bin/waymark ")
			root := newRoot(newOptions())
			cmd, rest, err := root.Find(strings.Fields(words))
			if !ok || err != nil || cmd.HasSubCommands() || cmd.ParseFlags(rest) != nil || cmd.ValidateArgs(cmd.Flags().Args()) != nil {
				t.Errorf("%s=%s is no command line of waymark: %v", key, line, err)
			}
		}
	}
}
