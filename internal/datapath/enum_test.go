// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// enumNames are the names of an enum's values, as the programs' BTF has them.
func enumNames(spec *ebpf.CollectionSpec, name string) (map[uint64]string, error) {
	var enum *btf.Enum
	if err := spec.Types.TypeByName(name, &enum); err != nil {
		return nil, err
	}
	out := make(map[uint64]string)
	for _, v := range enum.Values {
		out[v.Value] = v.Name
	}
	return out, nil
}

func upper(s string) string { return strings.ToUpper(s) }
