// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"reflect"
	"strings"
	"testing"
)

// TestFlowWords reads flows, and writes them as they are read again.
func TestFlowWords(t *testing.T) {
	for words, want := range map[string]string{
		"add red out src 2001:db8::1 segs fc00:2::e":                                                                                 "red out src 2001:db8::1 segs fc00:2::e mode encap",
		"add red in segs fc00:2::e,fc00:3::d6 src 2001:db8::1 mode encap.red psp":                                                    "red in src 2001:db8::1 segs fc00:2::e,fc00:3::d6 mode encap.red psp",
		"add b transit src ::2 segs fc00::1 container 32/16 dst ::3 tclass 8 flowlabel 9 session 7 flowmonid 10 point 1 lastpoint 2": "b transit src ::2 segs fc00::1 mode encap container 32/16 dst ::3 tclass 8 flowlabel 9 session 7 flowmonid 0x0000a point 1 lastpoint 2",
		"a 'b c' out src ::2 segs fc00::1 mode inline":                                                                               "'b c' out src ::2 segs fc00::1 mode inline",
	} {
		list := strings.Fields(words)
		if strings.Contains(words, "'") {
			list = append([]string{"a", "b c"}, list[3:]...)
		}
		c, err := ParseFlow(list)
		if err != nil || c.Verb != Add || FormatFlow(c.Flow) != want {
			t.Errorf("%s: %+v, %q, %v", words, c, FormatFlow(c.Flow), err)
		}
	}
	for words, name := range map[string]string{"show": "", "": "", "show red": "red", "list red": "red", "del red": "red"} {
		if c, err := ParseFlow(strings.Fields(words)); err != nil || c.Flow.Name != name {
			t.Errorf("%s: %+v, %v", words, c, err)
		}
	}
}

func TestFlowErrors(t *testing.T) {
	for words, want := range map[string]string{
		"remove":                               `"remove": unknown command`,
		"add":                                  "flow add NAME: a value is missing",
		"add red":                              "flow add red out, in or transit: a value is missing",
		"add red left":                         "direction",
		"add red out":                          "src is missing",
		"add red out src ::1":                  "segs is missing",
		"add red out src 192.0.2.1 segs ::1":   `src 192.0.2.1 is an IPv4 address; want an IPv6 address`,
		"add red out src ::1 segs ::2,":        `segs "::2,": "" is not an address; want an IPv6 address such as 2001:db8::1, and commas between several`,
		"add red out src ::1 src ::2 segs ::1": "src: given twice",
		"add red out src ::1 segs ::1 mode l2encap":        "mode",
		"add red out src ::1 segs ::1 tclass 256":          "tclass",
		"add red out src ::1 segs ::1 flowlabel 0x1000000": "flowlabel",
		"add red out src ::1 segs ::1 session 65536":       "session",
		"add red out src ::1 segs ::1 container 7":         "container",
		"add red out src ::1 segs ::1 dev eth0":            `"dev": want one of src ADDR, segs SID,SID, mode MODE, psp`,
		"add red out src ::1 segs ::1 points ::2,[::3]":    `points "::2,[::3]": "[::3]" is not an address`,
		"add red out src ::1 segs ::1 points-after 1,16":   `points-after "1,16": 16 is too large`,
		"add red out src ::1 segs ::1 probes inband":       `probes "inband" is not a valid value; want one of none, out-of-band`,
		"add red out src ::1 segs ::1 max-loss 1":          `max-loss "1" is not a percentage`,
		"add red out src ::1 segs ::1 max-delay":           "max-delay: a value is missing",
		"add red out src ::1 segs ::1 no-data-after never": "no-data-after",
		"add red out src ::1 segs ::1 metrics true":        `"true": want one of`,
		"del":          "flow del NAME: a value is missing",
		"del red blue": `"blue": nothing more is expected`,
	} {
		if _, err := ParseFlow(strings.Fields(words)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", words, err, want)
		}
	}
}

// FuzzParseFlow checks the parser against the printer, as FuzzParseRoute does.
func FuzzParseFlow(f *testing.F) {
	for _, seed := range []string{
		"add red out src 2001:db8::1 segs fc00:2::e,fc00:3::d6 mode encap.red psp container 32/16",
		"add a'b in src ::2 segs fc00::1 dst ::3 tclass 8 flowlabel 9 session 7 flowmonid 10 point 1 lastpoint 2",
		"add b out src ::2 segs ::1 points n'1=::2,[::3]:862,egress=::4 probes in-band points-after 0,1 return-segments ::5 metrics max-loss 0.1% max-delay 20ms no-data-after 0",
		"show red", "del red",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		c, err := ParseFlow(strings.Fields(line))
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("an error without words")
			}
			return
		}
		if c.Verb != Add {
			return
		}
		again, err := ParseFlow(append([]string{"add"}, splitShell(FormatFlow(c.Flow))...))
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("%q prints %q: %+v, %v", line, FormatFlow(c.Flow), again, err)
		}
	})
}
