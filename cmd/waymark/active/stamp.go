// SPDX-License-Identifier: Apache-2.0

// Package active has the commands that measure with packets of their own (active methods, RFC 7799):
// stamp and trace. Both work without an agent.
package active

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/stamp/keyfile"
	"github.com/waymark-net/waymark/stamp"
)

// NewStampCommand is the command stamp.
func NewStampCommand(opts *commandline.Options) *cobra.Command {
	cmd := commandline.Group(
		"stamp",
		"Measure loss and delay with test packets (STAMP)",
		newStampSenderCommand(opts),
		newStampReflectorCommand(opts),
	)
	cmd.Long = `Measure loss and delay between two nodes with test packets: STAMP (RFC 8762),
with the extensions of RFC 8972, RFC 9503 and RFC 9534, over IPv6. A reflector
answers the packets of senders. Neither needs an agent.`
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
	flags.StringVar(
		&f.keyFile,
		"key-file",
		"",
		"`FILE` with the key of both ends, in hexadecimal digits; only its owner may have access (mode 0600)",
	)
	flags.StringVar(&f.protect, "protect", protectPackets, "`WHAT` the key protects: packets (authenticated mode), or only their TLVs")
	commandline.CompleteWords(cmd, "timestamps", stamp.NTP.String(), stamp.PTP.String())
	commandline.CompleteWords(cmd, "protect", protectPackets, protectTLVs)
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
		return format, nil, false, commandline.Usage(problem.New("--protect needs a key", "add --key-file FILE"))
	case f.keyFile == "":
		return format, nil, false, nil
	}
	key, err = keyfile.Read(f.keyFile)
	return format, key, f.protect == protectTLVs, err
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
