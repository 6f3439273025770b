// SPDX-License-Identifier: Apache-2.0

package nodenames

import (
	"strconv"
	"strings"
	"unicode"
)

// MaxLength is how many octets of a name are kept.
const MaxLength = 64

// rightToLeft are scripts whose letters make a terminal turn around what stands next to them.
var rightToLeft = []*unicode.RangeTable{
	unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko, unicode.Samaritan, unicode.Mandaic, unicode.Adlam,
	unicode.Mende_Kikakui, unicode.Hanifi_Rohingya, unicode.Phoenician, unicode.Imperial_Aramaic,
}

// Printable is a name that can be written to a terminal: without control characters, marks
// that join the text before or turn it around, and of a bounded length. A name with such
// characters is quoted in ASCII. Every name from the network goes through it before a person
// reads it.
func Printable(name string) string {
	if len(name) > MaxLength {
		name = strings.ToValidUTF8(name[:MaxLength], "")
	}
	first := true
	for _, c := range name {
		if !unicode.IsPrint(c) || c == unicode.ReplacementChar || unicode.In(c, rightToLeft...) || first && unicode.Is(unicode.M, c) {
			return strconv.QuoteToASCII(name)
		}
		first = false
	}
	return name
}
