// SPDX-License-Identifier: Apache-2.0

// Package keyfile reads the keys of STAMP's HMACs (RFC 8762 §4.4).
package keyfile

import (
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// shortest is the shortest key in octets: as long as the truncated HMAC (RFC
	// 2104 §3 discourages shorter ones).
	shortest = 16
	// longest bounds what is read; longer keys than a block of SHA-256 gain
	// nothing (RFC 2104 §3).
	longest = 1024
)

// Read reads a key from a file that only this user, or root, can read or replace.
func Read(name string) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO would wait for a writer
	if err != nil {
		return nil, fmt.Errorf("read the key: %w; write it with: (umask 077; openssl rand -hex 32 > %s)", err, name)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the key: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("the key %s is no regular file; write it with: (umask 077; openssl rand -hex 32 > %s)", name, name)
	case info.Mode().Perm()&^fs.FileMode(0o600) != 0:
		return nil, fmt.Errorf("others can access the key %s (mode %04o); run: chmod 600 %s, and change the key if they may have read it", name, info.Mode().Perm(), name)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 && int(owner) != os.Geteuid() {
		return nil, fmt.Errorf("the key %s belongs to another user (uid %d), who can read and change it; run: chown %d %s", name, owner, os.Geteuid(), name)
	}
	text, err := io.ReadAll(io.LimitReader(file, 2*longest+64))
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	switch {
	case err != nil: // the error would quote the key
		return nil, fmt.Errorf("the key in %s is not in hexadecimal digits; make one with: openssl rand -hex 32", name)
	case len(key) < shortest || len(key) > longest:
		return nil, fmt.Errorf("the key in %s has %d octets; want %d to %d: make one with: openssl rand -hex 32", name, len(key), shortest, longest)
	}
	return key, nil
}
