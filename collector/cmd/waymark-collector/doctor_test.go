// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Without --config, doctor judges the file of the service, and says so.
func TestDoctorJudgesTheService(t *testing.T) {
	directory := t.TempDir()
	write := func(name, store string) string {
		path := filepath.Join(directory, name)
		text := fmt.Sprintf("listen: [\"udp://[::1]:%d\"]\nstore: {directory: %q}\napi: {address: \"http://[::1]:%d\"}\n",
			freePort(t), filepath.Join(directory, store), freePort(t))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	before := installedSettings
	t.Cleanup(func() { installedSettings = before })
	installedSettings = write("service.yaml", "of-service")
	other := write("other.yaml", "of-other")
	for _, c := range []struct {
		args        []string
		file, store string
	}{
		{nil, installedSettings, "of-service"},
		{[]string{"--config", other}, other, "of-other"},
		{[]string{"--config="}, "", ""},
	} {
		var d diagnosis
		s := program.Start(t, append([]string{"doctor", "--json"}, c.args...)...)
		_ = s.End(t) // this machine may lack something
		err := json.Unmarshal([]byte(s.Out.String()), &d)
		if err != nil || d.Config != c.file || !strings.Contains(fmt.Sprint(d.Checks), c.store) {
			t.Errorf("%v: %v %s", c.args, err, s.Out.String())
		}
	}
	s := program.Start(t, "doctor")
	_ = s.End(t)
	if !strings.Contains(s.Out.String(), installedSettings) {
		t.Error(s.Out.String())
	}
	installedSettings = filepath.Join(directory, "none.yaml")
	s = program.Start(t, "doctor")
	_ = s.End(t)
	if !strings.Contains(s.Out.String(), "all settings have their defaults") {
		t.Error(s.Out.String())
	}
	installedSettings = write("broken.yaml", "x")
	if err := os.WriteFile(installedSettings, []byte("listen: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = program.Start(t, "doctor")
	if code := s.End(t); code != 1 || !strings.Contains(s.Errs.String(), installedSettings) {
		t.Errorf("code %d: %s", code, s.Errs.String())
	}
}
