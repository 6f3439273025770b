// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/ipfix"
)

// selection is which packets a point counts: hexadecimal digits in JSON, without octets in IPFIX
// if it is not known. The length of its blocks is a field of its own.
func selection() codec[loss.Selection] {
	return codec[loss.Selection]{
		form:   "hexadecimal",
		absent: func(s *loss.Selection) bool { return !s.Known() },
		append: func(b []byte, s *loss.Selection) []byte {
			return append(hex.AppendEncode(append(b, '"'), s.Append(nil)), '"')
		},
		parse: func(s *loss.Selection, raw []byte) error {
			var text string
			if err := json.Unmarshal(raw, &text); err != nil {
				return err
			}
			octets, err := hex.DecodeString(text)
			if err == nil && len(octets) != loss.SelectionLen {
				err = fmt.Errorf("%q has not %d digits", text, 2*loss.SelectionLen)
			}
			if err == nil {
				*s = loss.DecodeSelection(octets, 0)
			}
			return err
		},
		put: func([]ipfix.Field) step[loss.Selection] {
			return func(b []byte, s *loss.Selection) []byte {
				if !s.Known() {
					return putOctets(b, nil)
				}
				return putOctets(b, s.Append(nil))
			}
		},
		take: func(s *loss.Selection, from ipfix.Value) bool {
			if len(from.Octets) == loss.SelectionLen {
				*s = loss.DecodeSelection(from.Octets, 0)
			}
			return s.Known()
		},
	}
}

// settleSelection gives it the length of the record's blocks.
func (c *Block) settleSelection() {
	if c.Selection.Known() {
		c.Selection.Block = uint32(c.Length / uint64(time.Millisecond))
	}
}
