// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/test/craft"
)

// sets makes a message of domain 7 from sets in hexadecimal.
func sets(t testing.TB, sequence uint32, list ...string) []byte {
	t.Helper()
	b := craft.Hex(t, "000a 0000 6b012a3c 00000000 00000007"+strings.Join(list, ""))
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint32(b[8:], sequence)
	return b
}

// Sets of the tables: a template and an options template whose scope is a
// template, and data of both.
const (
	portTemplate  = "0002 0010 0100 0002 0007 0002 000b 0002" // 256: two ports
	portData      = "0100 0008 0001 0002"
	nameTemplate  = "0002 000c 0101 0001 0052 ffff" // 257: interfaceName
	nameData      = "0101 0008 03 616263"
	aboutTemplate = "0003 0014 0102 0002 0001 0091 0002 00ad 0008 0000" // 258: templateId, flowKeyIndicator
	aboutData     = "0102 0010 0100 0000000000000003 0000"
)

// causeCase is one valid message and one error, which follows rightSets.
type causeCase struct {
	name      string
	transport Transport
	message   []byte
	cause     Cause // NumCauses: none
	records   int   // of a message that is good
	templates int   // afterwards, of 3 before
}

var rightSets = []string{portTemplate, nameTemplate, aboutTemplate, portData, nameData, aboutData}

func (c causeCase) run(t *testing.T) {
	s := session(t, c.transport, Limits{SessionTemplates: 4, Fields: 3, ValueLen: 100, Domains: 1})
	if m := decode(t, s, sets(t, 0, rightSets...)); len(m.Problems) > 0 || m.Records != 3 {
		t.Fatalf("%+v", m)
	}
	m, err := s.Decode(c.message, exportTime)
	if s.templates != c.templates || s.decoder.Templates() != c.templates {
		t.Errorf("%d templates of the session, %d of all, want %d", s.templates, s.decoder.Templates(), c.templates)
	}
	if c.cause.Discards() {
		var p *Problem
		if !errors.Is(err, c.cause) || !errors.As(err, &p) || p.Count != 1 || m != nil {
			t.Fatalf("%+v, %v", m, err)
		}
		checkUnmoved(t, s)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if m.Records != c.records {
		t.Errorf("%d records, want %d", m.Records, c.records)
	}
	checkProblems(t, m.Problems, c.cause)
}

// Causes that discard the message.
func TestCausesOfDiscarding(t *testing.T) {
	for _, c := range []causeCase{
		{"no octet", UDP, nil, CauseTruncatedMessage, 0, 3},
		{"half a header", UDP, sets(t, 3)[:15], CauseTruncatedMessage, 0, 3},
		{"cut", UDP, sets(t, 3, portData)[:20], CauseTruncatedMessage, 0, 3},
		{"version 9", UDP, append([]byte{0, 9}, sets(t, 3)[2:]...), CauseVersion, 0, 3},
		{"longer than it says", UDP, append(sets(t, 3), 0), CauseMessageLength, 0, 3},
		{"second domain", UDP, append(sets(t, 3)[:15], 8), CauseDomainLimit, 0, 3},
		{"half a set header", UDP, sets(t, 3, portData, "0100"), CauseTruncatedSet, 0, 3},
		{"set of 3 octets", UDP, sets(t, 3, "0100 0003"), CauseTruncatedSet, 0, 3},
		{"set beyond the message", UDP, sets(t, 3, "0100 000c 0001 0002"), CauseTruncatedSet, 0, 3},
		{"template beyond its set", UDP, sets(t, 3, "0002 000c 0103 0002 0007 0002"), CauseTruncatedTemplate, 0, 3},
		{"enterprise number beyond the set", UDP, sets(t, 3, "0002 000c 0103 0001 8007 0002"), CauseTruncatedTemplate, 0, 3},
		{"scope count beyond the set", UDP, sets(t, 3, "0003 0008 0103 0001"), CauseTruncatedTemplate, 0, 3},
		{"data set without records", UDP, sets(t, 3, "0100 0004"), CauseTruncatedRecord, 0, 3},
		{"less than a record", UDP, sets(t, 3, "0100 0006 0001"), CauseTruncatedRecord, 0, 3},
		{"value beyond its set", UDP, sets(t, 3, "0101 0008 04 616263"), CauseTruncatedRecord, 0, 3},
		{"long value beyond its set", UDP, sets(t, 3, "0101 0008 ff 000261"), CauseTruncatedRecord, 0, 3},
		{"half a length", UDP, sets(t, 3, "0101 0006 ff 00"), CauseTruncatedRecord, 0, 3},
	} {
		t.Run(c.name, c.run)
	}
}

// Causes that skip or question a part of the message.
func TestCauses(t *testing.T) {
	for _, c := range []causeCase{
		{"right", TCP, sets(t, 3, rightSets...), NumCauses, 3, 3},
		{"empty", TCP, sets(t, 3), NumCauses, 0, 3},
		{"set 5", UDP, sets(t, 3, "0005 0006 0000", portData), CauseReservedSet, 1, 3},
		{"set 1", UDP, sets(t, 3, "0001 0004", portData), CauseReservedSet, 1, 3},
		{"template 255", UDP, sets(t, 3, "0002 000c 00ff 0001 0007 0002", portData), CauseTemplateInvalid, 1, 3},
		{"no scope", UDP, sets(t, 3, "0003 000e 0103 0001 0000 0007 0002", portData), CauseTemplateInvalid, 1, 3},
		{"more scope than fields", UDP, sets(t, 3, "0003 000e 0103 0001 0002 0007 0002", portData), CauseTemplateInvalid, 1, 3},
		{"field without octets", UDP, sets(t, 3, "0002 0010 0103 0002 0052 0000 0007 0002", portData), CauseTemplateInvalid, 1, 3},
		{"enterprise 0", UDP, sets(t, 3, "0002 0010 0103 0001 8007 0002 00000000", portData), CauseTemplateInvalid, 1, 3},
		{"record longer than messages", UDP, sets(t, 3, "0002 000c 0103 0001 0052 fffe", portData), CauseTemplateInvalid, 1, 3},
		{"too many fields", UDP, sets(t, 3, "0002 0018 0103 0004 0007 0002 0007 0002 0007 0002 0007 0002", portData), CauseFieldLimit, 1, 3},
		{"too many templates", UDP, sets(t, 3, "0002 0014 0103 0001 0007 0002 0104 0001 0007 0002", portData), CauseTemplateLimit, 1, 4},
		{"IPv6 address of 4 octets", UDP, sets(t, 3, "0002 000c 0103 0001 001b 0004", "0103 0008 01020304"), CauseFieldLength, 1, 4},
		{"template padded to 8", UDP, sets(t, 3, "0002 0014 0100 0002 0007 0002 000b 0002 00000000"), NumCauses, 0, 3},
		{"unknown template", UDP, sets(t, 3, "0103 0008 01020304", portData), CauseUnknownTemplate, 1, 3},
		{"long value", UDP, sets(t, 3, "0101 006a 65"+strings.Repeat("61", 101), portData), CauseValueLimit, 1, 3},
		{"options before template", UDP, sets(t, 3, "0102 0010 0103 0000000000000003 0000"), CauseOptionsBeforeTemplate, 1, 3},
		{"records missed", TCP, sets(t, 8, portData), CauseSequenceGap, 1, 3},
		{"records that may come", UDP, sets(t, 8, portData), NumCauses, 1, 3},
		{"message late", UDP, sets(t, 1, portData), CauseSequenceOutOfOrder, 1, 3},
	} {
		t.Run(c.name, c.run)
	}
}

// Templates that are sent again, replaced and withdrawn (RFC 7011 §8.1, §8.4).
func TestCausesOfTemplateManagement(t *testing.T) {
	for _, c := range []causeCase{
		{"redefined over TCP", TCP, sets(t, 3, "0002 000c 0100 0001 0007 0002"), CauseTemplateRedefined, 0, 2},
		{"redefined over UDP", UDP, sets(t, 3, "0002 000c 0100 0001 0007 0002", "0100 0008 0001 0002"), NumCauses, 2, 3},
		{"the same once more", TCP, sets(t, 3, portTemplate), NumCauses, 0, 3},
		{"withdrawn, not known", TCP, sets(t, 3, "0002 0008 0103 0000", portData), CauseWithdrawalUnknown, 1, 3},
		{"withdrawn as an options template", TCP, sets(t, 3, "0003 0008 0100 0000", portData), CauseWithdrawalUnknown, 1, 3},
		{"withdrawn", TCP, sets(t, 3, "0002 0008 0100 0000"), NumCauses, 0, 2},
		{"all withdrawn", TCP, sets(t, 3, "0002 0008 0002 0000"), NumCauses, 0, 1},
		{"all options withdrawn", TCP, sets(t, 3, "0003 0008 0003 0000"), NumCauses, 0, 2},
		{"withdrawn and used anew", TCP, sets(t, 3, "0002 0008 0100 0000", "0002 000c 0100 0001 0007 0002", "0100 0008 0001 0002"), NumCauses, 2, 3},
		{"withdrawn over UDP", UDP, sets(t, 3, "0002 0008 0100 0000", portData), CauseWithdrawalUDP, 1, 3},
		{"all withdrawn over UDP", UDP, sets(t, 3, "0002 0008 0002 0000", portData), CauseWithdrawalUDP, 1, 3},
		{"used before it is withdrawn", TCP, sets(t, 3, portData, "0002 0008 0100 0000"), NumCauses, 1, 2},
		{"used after it is withdrawn", TCP, sets(t, 3, "0002 0008 0100 0000", portData), CauseUnknownTemplate, 0, 2},
	} {
		t.Run(c.name, c.run)
	}
}

// checkProblems expects one cause, or with NumCauses none.
func checkProblems(t *testing.T, problems []Problem, want Cause) {
	t.Helper()
	if want == NumCauses {
		if len(problems) > 0 {
			t.Errorf("%v", &problems[0])
		}
		return
	}
	if len(problems) != 1 || !errors.Is(&problems[0], want) {
		t.Fatalf("%v, want %v", problems, want)
	}
	if missed := map[bool]uint32{true: 5, false: 1}[want == CauseSequenceGap]; problems[0].Count != missed {
		t.Errorf("counted %d, want %d", problems[0].Count, missed)
	}
}

// checkUnmoved: the Sequence Number after the first message is still expected.
func checkUnmoved(t *testing.T, s *Session) {
	t.Helper()
	if m := decode(t, s, sets(t, 3, portData, nameData, aboutData)); len(m.Problems) > 0 || m.Records != 3 {
		t.Errorf("after a malformed message: %+v", m)
	}
}

func TestCausesAreNamed(t *testing.T) {
	seen := map[string]bool{}
	for c := range NumCauses {
		if c.String() == "" || c.Meaning() == "" || !strings.HasPrefix(c.Section(), "§") || seen[c.String()] {
			t.Errorf("cause %d: %q, %q, %q", c, c, c.Meaning(), c.Section())
		}
		seen[c.String()] = true
	}
	p := &Problem{CauseUnknownTemplate, 20, 256, 1}
	if want := "offset 20, id 256: a data set's template is not known (RFC 7011 §9)"; p.Error() != want {
		t.Errorf("%s", p)
	}
}

// Occurrences of a cause are counted, and the first is kept.
func TestProblemsAreBounded(t *testing.T) {
	list := make([]string, 2000)
	for i := range list {
		list[i] = []string{"0005 0004", "0063 0004"}[i%2]
	}
	m := decode(t, session(t, UDP, Limits{}), sets(t, 0, list...))
	if len(m.Problems) != 1 || m.Problems[0] != (Problem{CauseReservedSet, headerLen, 5, 2000}) {
		t.Errorf("%+v", m.Problems)
	}
}

// Values of a field whose length its type cannot have are octets.
func TestFieldLengthMakesOctets(t *testing.T) {
	m := decode(t, session(t, UDP, Limits{}), sets(t, 0, "0002 0010 0103 0002 001b 0004 0007 0002", "0103 000c 01020304 0009 0000"))
	for r := range m.Sets[0].Records() {
		v, ok := r.Value(EnterpriseIANA, 27)
		if _, addr := v.Addr(); !ok || addr || v.Field.Element != nil || len(v.Octets) != 4 {
			t.Errorf("%+v", v)
		}
		v, _ = r.Value(EnterpriseIANA, 7)
		if n, ok := v.Uint(); !ok || n != 9 {
			t.Errorf("%+v", v)
		}
	}
	if !m.ExportTime.Equal(time.Unix(0x6b012a3c, 0)) {
		t.Errorf("export time %v", m.ExportTime)
	}
}
