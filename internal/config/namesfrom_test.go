// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The rules of names-from.
func TestNamesFromRules(t *testing.T) {
	for text, want := range map[string]string{
		"{collector: \"https://c.example.net:4780\"}":                               "",
		"{collector: \"http://[::1]:4780\", user: r2, password-file: /nonexistent}": "names-from.password-file",
		"{collector: \"http://c.example.net\", user: r2, password-file: /x}":        "unencrypted; use https",
		"{collector: \"https://c.example.net\", user: r2}":                          "add password-file",
		"{collector: \"https://c.example.net\", password-file: /x}":                 "add user",
		"{collector: \"ftp://c.example.net\"}":                                      "is not the URL of a collector",
		"{collector: \"https://r2:secret@c.example.net\"}":                          "write user and password-file instead",
		"{collector: \"https://c.example.net\", ca: /nonexistent}":                  "names-from.ca",
		"{collector: \"https://c.example.net\", interval: 100ms}":                   "less than 1s",
		"{}": "collector",
	} {
		_, _, err := Check("F", []byte("node: {id: 2}\nnames-from: "+text), false)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A password is for its owner alone, and a file of authorities has certificates.
func TestNamesFromFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("secret\r\nmore\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	n := NamesFrom{PasswordFile: file, CA: file}
	if _, err := n.Password(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Error(err)
	}
	if _, err := n.Authorities(); err == nil || !strings.Contains(err.Error(), "has no certificate in PEM") {
		t.Error(err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if password, err := n.Password(); err != nil || password != "secret" {
		t.Errorf("%q, %v", password, err)
	}
	if b, err := (&NamesFrom{}).Authorities(); b != nil || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}
