// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
)

func TestLoadTmp(t *testing.T) {
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	for _, h := range []hook{hookIngressXDP, hookIngressTC, hookEgressTC} {
		spec, err := h.load()
		if err != nil {
			t.Fatal(err)
		}
		node := abiNodeConfig{Roles: 3, LinkHeader: 14, HasDecapsulations: 1, HasRemovals: 1, HasEncapsulations: 1, HasTrie: 1, NeedsUpper: 1, NodeId: 5, Ifindex: 1}
		if err := spec.Variables["NODE"].Set(node); err != nil {
			t.Fatal(err)
		}
		c, err := ebpf.NewCollection(spec)
		var ve *ebpf.VerifierError
		if errors.As(err, &ve) {
			l := ve.Log
			if len(l) > 40 {
				l = l[len(l)-40:]
			}
			for _, s := range l {
				t.Log(s)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", h.name, err)
			continue
		}
		info, _ := c.Programs[h.name].Info()
		n, _ := info.VerifiedInstructions()
		t.Log(h.name, "verified instructions", n)
		c.Close()
	}
}
