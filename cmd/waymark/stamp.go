// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/stamp"
)

func newStampCommand(opts *options) *cobra.Command {
	cmd := commandline.Group("stamp", "Measure loss and delay with test packets (STAMP)", newStampSenderCommand(opts), newStampReflectorCommand(opts))
	cmd.Long = `Measure loss and delay between two nodes with test packets: STAMP (RFC 8762), with
the extensions of RFC 8972, RFC 9503 and RFC 9534, over IPv6. A reflector answers
the packets of senders. Neither needs an agent.`
	return cmd
}

// stampFlags are the flags that both ends have.
type stampFlags struct {
	format  string
	keyFile string
	protect string
}

// Values of --protect.
const (
	protectPackets = "packets"
	protectTLVs    = "tlvs"
)

func (f *stampFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.format, "timestamps", stamp.NTP.String(), "`FORMAT` of timestamps: ntp or ptp; both ends know the other's")
	flags.StringVar(&f.keyFile, "key-file", "", "`FILE` with the key of both ends, in hexadecimal digits; only its owner may have access (mode 0600)")
	flags.StringVar(&f.protect, "protect", protectPackets, "`WHAT` the key protects: packets (authenticated mode), or only their TLVs")
	completeWords(cmd, "timestamps", stamp.NTP.String(), stamp.PTP.String())
	completeWords(cmd, "protect", protectPackets, protectTLVs)
}

// read checks the flags.
func (f *stampFlags) read(cmd *cobra.Command) (format stamp.TimestampFormat, key []byte, onlyTLVs bool, err error) {
	if err := format.UnmarshalText([]byte(f.format)); err != nil {
		return format, nil, false, commandline.Usagef("--timestamps: %w", err)
	}
	switch {
	case f.protect != protectPackets && f.protect != protectTLVs:
		return format, nil, false, commandline.Usagef("--protect %q: want %s or %s", f.protect, protectPackets, protectTLVs)
	case f.keyFile == "" && cmd.Flags().Changed("protect"):
		return format, nil, false, commandline.Usagef("--protect needs a key; add --key-file FILE")
	case f.keyFile == "":
		return format, nil, false, nil
	}
	key, err = readKey(f.keyFile)
	return format, key, f.protect == protectTLVs, err
}

const (
	// shortestKey is the shortest key in octets: as long as the truncated HMAC (RFC
	// 2104 §3 discourages shorter ones).
	shortestKey = 16
	// longestKey bounds what is read; longer keys than a block of SHA-256 gain
	// nothing (RFC 2104 §3).
	longestKey = 1024
)

// readKey reads a key from a file that only this user, or root, can read or replace.
func readKey(name string) ([]byte, error) {
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
	text, err := io.ReadAll(io.LimitReader(file, 2*longestKey+64))
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	switch {
	case err != nil: // the error would quote the key
		return nil, fmt.Errorf("the key in %s is not in hexadecimal digits; make one with: openssl rand -hex 32", name)
	case len(key) < shortestKey || len(key) > longestKey:
		return nil, fmt.Errorf("the key in %s has %d octets; want %d to %d: make one with: openssl rand -hex 32", name, len(key), shortestKey, longestKey)
	}
	return key, nil
}

// word finds one of a flag's words.
func word[T any](flag, text string, words map[string]T) (T, error) {
	v, ok := words[text]
	if !ok {
		var list []string
		for w := range words {
			list = append(list, w)
		}
		slices.Sort(list)
		return v, commandline.Usagef("--%s %q: want %s", flag, text, strings.Join(list, ", "))
	}
	return v, nil
}
