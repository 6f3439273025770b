// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/ioam"
)

// checkStripped checks that an edge has removed all IOAM and nothing else: a header that holds
// nothing else is gone, and others stay.
func checkStripped(t *testing.T, f Frame, result Result) {
	t.Helper()
	was, is := mustParse(t, bytes.Clone(f.Data), f.Link), mustParse(t, result.Data, f.Link)
	if was.pure {
		checkRemoved(t, f, result)
		return
	}
	kept, left := slices.DeleteFunc(others(was.header), ioam.Option.IsIOAM), others(is.header)
	same := func(a, b ioam.Option) bool {
		return a.Type == b.Type && a.Offset%8 == b.Offset%8 && bytes.Equal(a.Data, b.Data)
	}
	if len(is.options) != 0 || !slices.EqualFunc(kept, left, same) {
		t.Fatalf("of options %+v stay %+v", kept, left)
	}
	checkPadding(t, is.header, left)
	if shorter := len(was.header) - len(is.header); is.payloadLength() != was.payloadLength()-shorter || is.header[0] != was.header[0] ||
		!bytes.Equal(is.ip[ipv6.HeaderLen+len(is.header):], was.ip[ipv6.HeaderLen+len(was.header):]) {
		t.Fatalf("packet\n%x became\n%x", was.ip, is.ip)
	}
}
