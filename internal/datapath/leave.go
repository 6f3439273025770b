// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf/link"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
)

// detachTime is how long leaving interfaces waits until the kernel has taken the programs
// off: it waits for a grace period of RCU, some milliseconds, for each tcx hook. The rest is
// taken off in the background.
const detachTime = 500 * time.Millisecond

// inOrderOfLeaving are the attachments of interfaces in the order in which they end: ingress
// first, so that packets which have entered are still completed, and last where the domain's
// edge filters, so that nothing which others still add leaves the domain.
func inOrderOfLeaving(interfaces []*served) (list []*attach.Hook) {
	for _, edge := range []bool{false, true} {
		for _, ingress := range []bool{true, false} {
			for _, s := range interfaces {
				if s.edges[bpf.Boolean(ingress)] != edge {
					continue
				}
				for _, a := range append(slices.Clone(s.leftovers), s.ingress, s.egress) {
					if a != nil && a.Ingress == ingress {
						list = append(list, a)
					}
				}
			}
		}
	}
	return list
}

// leave ends the treatment of packets at interfaces, and forgets them. First every program is
// taken off or replaced by an empty one, which takes microseconds.
func (d *Datapath) leave(interfaces []*served) error {
	if len(interfaces) == 0 {
		return nil
	}
	empty, err := attach.NewEmpty()
	if err != nil {
		empty = nil
	} else {
		defer empty.Close()
	}
	var errs []error
	var ended []link.Link
	for _, a := range inOrderOfLeaving(interfaces) {
		l, err := a.End(empty)
		errs = append(errs, err)
		if l != nil {
			ended = append(ended, l)
		}
	}
	for _, s := range interfaces {
		s.tally.Close()
		errs = append(errs, os.RemoveAll(d.directory(s.index)))
	}
	return errors.Join(append(errs, d.detachEnded(ended))...)
}

// detachEnded detaches links that have empty programs: what takes too long in the background.
func (d *Datapath) detachEnded(ended []link.Link) error {
	var errs []error
	began := time.Now()
	for i, l := range ended {
		if time.Since(began) < detachTime {
			errs = append(errs, attach.DetachLink(l))
			continue
		}
		d.leaving.Go(func() {
			for _, l := range ended[i:] {
				if err := attach.DetachLink(l); err != nil {
					d.options.Log.Warn("take an empty program off its hook", "error", err)
				}
			}
		})
		break
	}
	return errors.Join(errs...)
}

// AwaitLeft waits until the kernel has taken all programs off the hooks of interfaces that
// were left. They have had empty programs since Apply or Remove.
func (d *Datapath) AwaitLeft() { d.leaving.Wait() }
