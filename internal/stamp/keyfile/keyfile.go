// SPDX-License-Identifier: Apache-2.0

// Package keyfile reads the keys of STAMP's HMACs (RFC 8762 §4.4).
package keyfile

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/secretfile"
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
	text, err := secretfile.Read(name, 2*longest+64, fmt.Sprintf("write it with: (umask 077; openssl rand -hex 32 > %s)", name))
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	switch {
	case err != nil: // the error would quote the key
		return nil, problem.New(fmt.Sprintf("the key in %s is not in hexadecimal digits", name), "make one with: openssl rand -hex 32")
	case len(key) < shortest || len(key) > longest:
		return nil, problem.New(
			fmt.Sprintf("the key in %s has %d octets", name, len(key)),
			fmt.Sprintf("want %d to %d: make one with: openssl rand -hex 32", shortest, longest),
		)
	}
	return key, nil
}
