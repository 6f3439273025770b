// SPDX-License-Identifier: Apache-2.0

// Package elements shows, for tests, what a decoder reads in IPFIX records.
package elements

import (
	"fmt"
	"time"

	"github.com/waymark-net/waymark/ipfix"
)

// Of returns "ELEMENT=VALUE" for each field of a record, in order.
func Of(record ipfix.DataRecord) (list []string) {
	for v := range record.Values() {
		list = append(list, v.Field.Element.Name+"="+text(v))
	}
	return list
}

func text(v ipfix.Value) string {
	if n, ok := v.Uint(); ok {
		return fmt.Sprint(n)
	}
	if n, ok := v.Int(); ok {
		return fmt.Sprint(n)
	}
	if a, ok := v.Addr(); ok {
		return a.String()
	}
	if at, ok := v.Time(); ok {
		return at.Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("%x", v.Octets)
}
