// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
)

// UnmarkedCause says why a packet of a measured flow left without the option that would
// mark it (RFC 9343).
type UnmarkedCause uint8

// The causes; docs/how-to/measure-srv6-forms.md says what they mean.
const (
	UnmarkedHeader   = UnmarkedCause(bpf.ABIUnmarkedUNMARKED_HEADER)
	UnmarkedMTU      = UnmarkedCause(bpf.ABIUnmarkedUNMARKED_MTU)
	UnmarkedGSO      = UnmarkedCause(bpf.ABIUnmarkedUNMARKED_GSO)
	UnmarkedHeadroom = UnmarkedCause(bpf.ABIUnmarkedUNMARKED_HEADROOM)
	NumUnmarked      = UnmarkedCause(bpf.ABIUnmarkedNUM_UNMARKED)
)

var unmarkedCauses = [NumUnmarked]string{
	UnmarkedHeader: "header", UnmarkedMTU: "mtu", UnmarkedGSO: "gso", UnmarkedHeadroom: "headroom",
}

// String returns the cause's name in metrics and JSON.
func (c UnmarkedCause) String() string {
	if c >= NumUnmarked {
		return fmt.Sprintf("unmarked_cause_%d", uint8(c))
	}
	return unmarkedCauses[c]
}
