// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestTapFault(t *testing.T) {
	for cause, want := range map[unix.Errno]string{
		unix.EPERM:  "read the packets of eth0: operation not permitted; run it as root",
		unix.ENODEV: "read the packets of eth0: no such device",
	} {
		if got := tapFault("eth0", cause).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
