// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The keys of messages are refused like those of proofs, with the line, by an agent that
// starts and by Check; only files that are not there may be for another machine.
func TestFaultsOfMessageKeys(t *testing.T) {
	write := func(content string, mode os.FileMode) string {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	digits := strings.Repeat("5a", 32)
	good, open, nonsense := write(digits, 0o600), write(digits, 0o644), write("secret", 0o600)
	for _, section := range []string{"stamp", "path-trace"} {
		for _, tt := range []struct {
			name, file, want string // "" is no fault
			elsewhere        bool   // not one for Check of another machine's file
		}{
			{"a good one", good, "", false},
			{"a key that others read", open, "others can access the key " + open + " (mode 0644); run: chmod 600 " + open + ", and change the key if they may have read it", false},
			{"no key at all", nonsense, "the key in " + nonsense + " is not in hexadecimal digits; make one with: openssl rand -hex 32", false},
			{"a file that is not there", "/nonexistent", "read the key: open /nonexistent: no such file or directory; write it with: (umask 077; openssl rand -hex 32 > /nonexistent)", true},
		} {
			text := []byte("node: {id: 1}\n" + section + ": {allow: [\"2001:db8::/32\"], key-file: " + tt.file + "}")
			_, err := ParseFor(proofHost, "F", text)
			if tt.want == "" {
				if err != nil {
					t.Errorf("%s, %s: %v", section, tt.name, err)
				}
			} else if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("F:2:%d: ", 40+len(section))) ||
				!strings.HasSuffix(err.Error(), section+".key-file: "+tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %s: got  %v\nwant %s", section, tt.name, err, tt.want)
			}
			if _, unread, checked := Check("F", text, false); len(unread) != 0 || (checked != nil) != (err != nil) ||
				err != nil && checked.Error() != err.Error() {
				t.Errorf("%s, %s: Check says %v, %v; an agent %v", section, tt.name, unread, checked, err)
			}
			c, unread, err := Check("F", text, true)
			if refused := tt.want != "" && !tt.elsewhere; (err != nil) != refused || (c == nil) != refused || (len(unread) == 1) != tt.elsewhere {
				t.Errorf("%s, %s: Check says %v, %v", section, tt.name, unread, err)
			}
		}
	}
}

// A file that this user may not read is no error of Check, because an agent runs as root, and
// the cure does not replace it.
func TestKeysOfRoot(t *testing.T) {
	if os.Geteuid() == 0 { // who may read all files
		return
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(strings.Repeat("5a", 32)), 0); err != nil {
		t.Fatal(err)
	}
	text := []byte("node: {id: 1}\nstamp: {allow: [\"2001:db8::/32\"], key-file: " + file + "}")
	if c, unread, err := Check("F", text, false); c == nil || err != nil || len(unread) != 1 ||
		!strings.HasSuffix(unread[0].Error(), "permission denied; run this as root, or as the file's owner") {
		t.Errorf("%v, %v", unread, err)
	}
	if _, err := ParseFor(proofHost, "F", text); err == nil {
		t.Error("an agent of this user starts")
	}
}

// The key that has been renamed is read by its former name, with a warning of Check.
func TestFormerKeyOfPathTrace(t *testing.T) {
	c, warned, err := Check("F", []byte("node: {id: 1}\ntrace: {allow: [\"2001:db8::/32\"]}\n"), false)
	if err != nil || c.Trace == nil || len(c.Trace.Allow) != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	const want = `F:2:1: the key "trace" in the file is now called "path-trace"; write path-trace: instead, ` +
		`or run: waymark config migrate F --write`
	if len(warned) != 1 || warned[0].Error() != want || len(c.Renamed()) != 1 {
		t.Errorf("%v, want %s", warned, want)
	}
	if again, err := Parse("F", c.Marshal()); err != nil || len(again.Renamed()) != 0 {
		t.Errorf("the file as it is shown: %v", err)
	}
}
