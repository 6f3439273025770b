// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
)

// The scalars of Direct Export.

func parseFrom1[T yamlfile.Integer](most uint64) func(string) (T, error) {
	return func(s string) (T, error) {
		n, err := yamlfile.ParseUint(s, 64)
		if err == nil && (n < 1 || n > most) {
			err = fmt.Errorf("%s is not possible", s)
		}
		return T(n), err
	}
}

func parseShare(s string) (Share, error) {
	f, err := parseFraction(s, "1/N")
	if err == nil && f.K != 1 {
		err = fmt.Errorf("%s is not 1/N", s)
	}
	return Share(f.N), err
}

func formatShare(n Share) string { return fmt.Sprintf("1/%d", max(n, 1)) }

func parseDelays(s string) (Delays, error) {
	if s == "none" {
		return 0, nil
	}
	n, err := parseShare(s)
	return Delays(n), err
}

func formatDelays(n Delays) string {
	if n == 0 {
		return "none"
	}
	return formatShare(Share(n))
}

func parseFlowID(s string) (model.FlowIDSource, error) {
	switch s {
	case "hash":
		return model.FlowIDSource{Kind: model.FlowIDHash}, nil
	case "flow-label":
		return model.FlowIDSource{Kind: model.FlowIDLabel}, nil
	}
	n, err := yamlfile.ParseUint(s, 32)
	return model.FlowIDSource{Kind: model.FlowIDFixed, Fixed: uint32(n)}, err
}

func formatFlowID(f model.FlowIDSource) string {
	switch f.Kind {
	case model.FlowIDHash:
		return "hash"
	case model.FlowIDLabel:
		return "flow-label"
	}
	return fmt.Sprintf("0x%08x", f.Fixed)
}

func parseOptionType(s string) (ioam.OptionType, error) {
	n, err := yamlfile.ParseUint(s, 8)
	if t := ioam.OptionType(n); err == nil && t != ioam.OptionIOAM && t != ioam.OptionIOAMStatic {
		err = fmt.Errorf("%s is not an option type of IOAM", s)
	}
	return ioam.OptionType(n), err
}

func (o DirectExportOption) node() *model.DirectExportOption {
	out := &model.DirectExportOption{Namespace: o.Namespace, Type: o.TraceType, FlowID: o.FlowID, OptionType: o.OptionType}
	for _, f := range o.ExtensionFlags {
		out.ExtensionFlags |= uint8(f)
	}
	return out
}

// namespace is the option's namespace, if it has one.
func (o Option) namespace() (id ioam.NamespaceID, ok bool) {
	switch {
	case o.Trace != nil:
		return o.Trace.Namespace, true
	case o.DirectExport != nil:
		return o.DirectExport.Namespace, true
	case o.Proof != nil:
		return o.Proof.Namespace, true
	case o.EdgeToEdge != nil:
		return o.EdgeToEdge.Namespace, true
	}
	return 0, false
}

// optionPath puts the kind of an option into a path of the node's
// configuration, which lacks it.
func (b built) optionPath(path string) string {
	m := optionKey.FindStringSubmatch(path)
	if m == nil || m[4] == "trace" { // it is about the kind itself
		return path
	}
	encapsulation, _ := strconv.Atoi(m[2])
	option, _ := strconv.Atoi(m[3])
	kind := ".trace."
	switch o := b.node.Encapsulations[encapsulation].Options[option]; {
	case o.DirectExport != nil:
		kind = ".dex."
	case o.Proof != nil:
		kind = ".pot."
	case o.EdgeToEdge != nil:
		kind = ".e2e."
	}
	return m[1] + kind + strings.TrimPrefix(path, m[1]+".")
}
