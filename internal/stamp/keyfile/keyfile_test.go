// SPDX-License-Identifier: Apache-2.0

package keyfile

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write writes a file that only its owner can read.
func write(t *testing.T, text string) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "stamp.key")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Keys are read as "openssl rand -hex" writes them, of every length that is allowed.
func TestRead(t *testing.T) {
	for _, octets := range []int{shortest, 32, longest} {
		key := bytes.Repeat([]byte{0xc3}, octets)
		text := hex.EncodeToString(key)
		for _, form := range []string{text, text + "\n", strings.ToUpper(text) + "\r\n", "\t" + text + "  \n\n"} {
			if got, err := Read(write(t, form)); err != nil || !bytes.Equal(got, key) {
				t.Errorf("%d octets: %x, %v", octets, got, err)
			}
		}
	}
}

// What is no key is refused with a cure, and never quoted.
func TestReadRefuses(t *testing.T) {
	const secret = "c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3"
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "has 0 octets"},
		{"too short", secret, "has 15 octets; want 16 to 1024"},
		{"too long", strings.Repeat("c3", longest+1), "has 1025 octets; want 16 to 1024"},
		{"much too long", strings.Repeat("c3", 1<<20), "octets; want 16 to 1024"},
		{"odd digits", secret + "c3c", "is not in hexadecimal digits"},
		{"no digits", secret + "c3 secret word", "is not in hexadecimal digits"},
		{"two keys", secret + "c3\n" + secret + "c3\n", "is not in hexadecimal digits"},
		{"with a prefix", "0x" + secret + "c3", "is not in hexadecimal digits"},
	} {
		got, err := Read(write(t, tt.text))
		if err == nil || got != nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "openssl rand -hex 32") {
			t.Errorf("%s: %x, %v", tt.name, got, err)
		} else if strings.Contains(err.Error(), "c3c3") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error quotes the key: %v", tt.name, err)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "umask 077; openssl rand -hex 32 >") {
		t.Errorf("without a file: %v", err)
	}
	name := write(t, secret+"c3")
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(name); err == nil || got != nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %x, %v", got, err)
	}
}
