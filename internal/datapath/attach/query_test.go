// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/test/testnet"
)

// One system call finds what the library's several find, with no program, with some, with
// as many as the kernel takes, and after them with fewer.
func TestQueryOfTCX(t *testing.T) {
	missing := false
	testnet.Alone(t, func() {
		var query Query
		const loopback = 1
		if missing = errors.Is(query.ask(loopback, true), unix.EINVAL); missing {
			return
		}
		check := func(what string) {
			t.Helper()
			err := query.ask(loopback, true)
			want, failed := link.QueryPrograms(link.QueryOptions{Target: loopback, Attach: ebpf.AttachTCXIngress})
			if err != nil || failed != nil && !errors.Is(failed, unix.ENOENT) {
				t.Errorf("%s: %v, the library %v", what, err, failed)
				return
			}
			chain := query.chain(func(id ebpf.ProgramID) string { return fmt.Sprint("of ", id) })
			if failed == nil && len(chain) != len(want.Programs) {
				t.Errorf("%s: found %v, the library %v", what, chain, want.Programs)
				return
			}
			for i, p := range chain {
				id, _ := want.Programs[i].LinkID()
				if ebpf.ProgramID(p.Program) != want.Programs[i].ID || p.Name != fmt.Sprint("of ", p.Program) || !query.isLink(i, id) ||
					query.isLink(i, id+1) {
					t.Errorf("%s: number %d is %v, the library found %v", what, i+1, p, want.Programs[i])
				}
			}
		}
		check("no program")
		if err := query.ask(1<<30, true); !errors.Is(err, unix.ENODEV) || len(query.chain(nil)) > 0 {
			t.Errorf("an interface that is not there: %v", err)
		}
		var links []link.Link
		for n := 1; ; n++ {
			p, err := neutral(fmt.Sprint("number_", n))
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close()
			l, err := link.AttachTCX(link.TCXOptions{Program: p, Interface: loopback, Attach: ebpf.AttachTCXIngress})
			if errors.Is(err, unix.ERANGE) {
				break // no more room
			}
			if err != nil || n > mostTCX {
				t.Errorf("attach number %d: %v", n, err)
				return
			}
			defer l.Close()
			if links = append(links, l); n < 4 {
				check(fmt.Sprint(n, " programs"))
			}
		}
		check("all programs that the kernel takes")
		if err := links[2].Detach(); err != nil {
			t.Error(err)
		}
		check("one less")
	})
	if missing {
		t.Skip("this kernel has no tcx")
	}
}
