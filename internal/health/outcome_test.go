// SPDX-License-Identifier: Apache-2.0

package health

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
)

// Whoever adds an outcome must say what an operator loses by it, and which warning says so.
func TestEveryOutcomeHasAClass(t *testing.T) {
	for _, o := range model.Outcomes() {
		m := MeaningOf(o)
		if m.Class == 0 || m.Class > Dropped {
			t.Errorf("%v has no class", o)
			continue
		}
		checkWarning(t, o.String(), m.Class, m.Warning)
		if (m.why == "") != (m.cure == "") {
			t.Errorf("%v: a reason needs a cure, and the other way round: %+v", o, m)
		}
		if m.why != "" && notedTexts[m.Warning] == "" {
			t.Errorf("%v: no text for %s", o, m.Warning)
		}
	}
}

// The same holds for the agent's other counters, which the page of metrics lists.
func TestEveryCounterHasAClass(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	agent, _, ok := strings.Cut(string(page), "`waymark collect --metrics")
	if !ok {
		t.Fatal("the page has no part about waymark collect")
	}
	var names []string
	for _, m := range regexp.MustCompile("(?m)^\\| `waymark_(.*)_total`").FindAllStringSubmatch(agent, -1) {
		names = append(names, m[1])
		if !slices.ContainsFunc(Counters(), func(c Counter) bool { return c.Metric == m[1] && c.Value == "" }) {
			t.Errorf("waymark_%s_total has no class", m[1])
		}
	}
	for _, c := range Counters() {
		if !slices.Contains(names, c.Metric) {
			t.Errorf("waymark_%s_total has a class, but is not on the page", c.Metric)
		}
		checkWarning(t, c.Metric, c.Class, c.Warning)
	}
}

func checkWarning(t *testing.T, what string, class Class, code Code) {
	t.Helper()
	switch known := slices.ContainsFunc(Kinds(), func(k Kind) bool { return k.Code == code }); {
	case class == Harmless && code != "":
		t.Errorf("%s is harmless, but has the warning %s", what, code)
	case class != Harmless && !known:
		t.Errorf("%s: %v, but no warning says so (%q)", what, class, code)
	}
}

// One interface has one warning for a kind, with all reasons, the most frequent first; few
// packets have none.
func TestNoted(t *testing.T) {
	recent := func(counts map[model.Outcome]uint64) []uint64 {
		list := make([]uint64, len(NotedOutcomes()))
		for o, n := range counts {
			list[slices.Index(NotedOutcomes(), o)] = n
		}
		return list
	}
	if ws := Noted("eth0", recent(map[model.Outcome]uint64{model.OutcomeNamespaceUnknown: worthWarning - 1,
		model.OutcomeEncapSkippedAH: 5})); len(ws) != 0 {
		t.Errorf("few packets: %+v", ws)
	}
	for _, o := range NotedOutcomes() {
		ws := Noted("eth7", recent(map[model.Outcome]uint64{o: 50}))
		if len(ws) != 1 || ws[0].Interface != "eth7" || ws[0].Code != MeaningOf(o).Warning || ws[0].Cure == "" ||
			strings.Contains(ws[0].Cure, " IF ") ||
			!strings.Contains(ws[0].Text, "50 ") ||
			!strings.Contains(ws[0].Text, o.String()) ||
			!strings.Contains(ws[0].Text, "eth7") {
			t.Errorf("%v: %+v", o, ws)
		}
	}
	ws := Noted("eth0", recent(map[model.Outcome]uint64{
		model.OutcomeEncapSkippedAH: 4, model.OutcomeEncapSkippedMTU: 30, model.OutcomeTraceOverflow: 12,
	}))
	if len(ws) != 2 || ws[0].Code != EncapSkipped ||
		!strings.Contains(
			ws[0].Text,
			"34 packets left without the header of an encapsulation at eth0 in the last minute: "+
				"they would have exceeded the MTU (encap_skipped_mtu 30), they have an Authentication header (encap_skipped_ah 4)",
		) ||
		!strings.Contains(ws[0].Cure, "raise the MTU") ||
		ws[1].Code != TraceOverflow {
		t.Errorf("%+v", ws)
	}
}

func TestCounted(t *testing.T) {
	watched := CountedHere()
	recent := make([]uint64, len(watched))
	for i := range recent {
		recent[i] = worthWarning - 1
	}
	for _, w := range Counted(recent) {
		if w.Code != BlocksMissed { // a block is many packets
			t.Errorf("few: %+v", w)
		}
	}
	for i, c := range watched {
		recent := make([]uint64, len(watched))
		recent[i] = 50
		if ws := Counted(recent); len(ws) != 1 || ws[0].Code != c.Warning || !strings.Contains(ws[0].Text, "50") ||
			strings.Contains(ws[0].Text, "%!") ||
			ws[0].Cure == "" {
			t.Errorf("%s %s: %+v", c.Metric, c.Value, ws)
		}
	}
}
