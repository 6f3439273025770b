// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

const flowIDFlag, sequenceFlag = config.ExtensionFlag(ioam.ExtensionFlowID), config.ExtensionFlag(ioam.ExtensionSequence)

// randomDirectExport is a Direct Export that a file may contain.
func randomDirectExport(r *rand.Rand) config.Option {
	return config.Option{DirectExport: &config.DirectExportOption{
		Namespace: ioam.NamespaceID(r.IntN(3)), TraceType: ioam.TraceType(1+r.IntN(3)) << 22,
		ExtensionFlags: [][]config.ExtensionFlag{nil, {flowIDFlag}, {sequenceFlag}, {flowIDFlag, sequenceFlag}}[r.IntN(4)],
		FlowID:         model.FlowIDSource{Kind: model.FlowIDKind(r.IntN(2))},
		OptionType:     []ioam.OptionType{ioam.OptionIOAMStatic, ioam.OptionIOAM}[r.IntN(2)],
	}}
}

func TestParseDirectExport(t *testing.T) {
	dex := func(o config.DirectExportOption) config.Option {
		o.Namespace, o.TraceType = 123, 0xc00000
		if o.OptionType == 0 {
			o.OptionType = ioam.OptionIOAMStatic
		}
		return config.Option{DirectExport: &o}
	}
	trace := config.Option{Trace: &config.TraceOption{Namespace: 123, Type: 0x800000, Size: 12}}
	const traceWords = "trace prealloc type 0x800000 ns 123 size 12"
	for _, tt := range []struct {
		words string
		want  []config.Option
		show  string // "" is the words themselves
	}{
		{"dex ns 123 trace-type 0xc00000", []config.Option{dex(config.DirectExportOption{})}, ""},
		{"dex trace-type 12582912 ns 0x7b ext-flags 0", []config.Option{dex(config.DirectExportOption{})}, "dex ns 123 trace-type 0xc00000"},
		{"dex ns 123 trace-type 0xc00000 ext-flags 0x80", []config.Option{dex(config.DirectExportOption{ExtensionFlags: []config.ExtensionFlag{flowIDFlag}})}, ""},
		{"dex ns 123 trace-type 0xc00000 ext-flags 0x40", []config.Option{dex(config.DirectExportOption{ExtensionFlags: []config.ExtensionFlag{sequenceFlag}})}, ""},
		{"dex ns 123 trace-type 0xc00000 ext-flags 0xC0", []config.Option{dex(config.DirectExportOption{ExtensionFlags: []config.ExtensionFlag{flowIDFlag, sequenceFlag}})},
			"dex ns 123 trace-type 0xc00000 ext-flags 0xc0"},
		{"dex ns 123 trace-type 0xc00000 flow-id hash option-type 0x11", []config.Option{dex(config.DirectExportOption{})}, "dex ns 123 trace-type 0xc00000"},
		{"dex ns 123 trace-type 0xc00000 flow-id flow-label option-type 0x31",
			[]config.Option{dex(config.DirectExportOption{FlowID: model.FlowIDSource{Kind: model.FlowIDLabel}, OptionType: ioam.OptionIOAM})}, ""},
		{"dex ns 123 trace-type 0xc00000 ext-flags 0x80 flow-id 7",
			[]config.Option{dex(config.DirectExportOption{ExtensionFlags: []config.ExtensionFlag{flowIDFlag}, FlowID: model.FlowIDSource{Kind: model.FlowIDFixed, Fixed: 7}})},
			"dex ns 123 trace-type 0xc00000 ext-flags 0x80 flow-id 0x00000007"},
		{"trace incremental type 0xc00000 ns 123 size 40", []config.Option{{Trace: &config.TraceOption{Namespace: 123, Type: 0xc00000, Size: 40, Incremental: true}}}, ""},
		{traceWords + " dex ns 123 trace-type 0xc00000 " + traceWords, []config.Option{trace, dex(config.DirectExportOption{}), trace}, ""},
	} {
		c, err := ParseRoute(strings.Fields("add 2001:db8:2::/64 encap ioam6 flows 1/64 mode encap tundst 2001:db8::3 " + tt.words + " dev eth1"))
		if err != nil {
			t.Errorf("%s: %v", tt.words, err)
			continue
		}
		if diff := cmp.Diff(tt.want, c.Rule.Options); diff != "" || c.Rule.Flows != 64 || c.Rule.Tunnel.Source.IsValid() {
			t.Errorf("%s: flows %v, tunnel %v (-want +got):\n%s", tt.words, c.Rule.Flows, c.Rule.Tunnel, diff)
		}
		show := tt.show
		if show == "" {
			show = tt.words
		}
		if got, want := FormatRoute(c.Rule), "2001:db8:2::/64 encap ioam6 freq 1/1 flows 1/64 mode encap tundst 2001:db8::3 "+show+
			" dev eth1"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestDirectExportRefused(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"dex", "ns is missing: dex needs ns ID trace-type TYPE"},
		{"dex ns 1", "trace-type is missing: dex needs ns ID trace-type TYPE"},
		{"dex trace-type 0x800000", "ns is missing"},
		{"dex ns 65536 trace-type 0x800000", `ns "65536": want a number from 0 to 0xffff`},
		{"dex ns 1 trace-type 0", "trace-type 0x000000: trace type not usable"},
		{"dex ns 1 trace-type 0x800004", "undefined bits"},
		{"dex ns 1 trace-type 0x810000", "trace-type 0x810000: the checksum complement (bit 7) has no meaning in a Direct Export; use bits of 0xfef002"},
		{"dex ns 1 trace-type 0x800000 ext-flags 0x20", "ext-flags: 0x20 is not defined; want 0x80 (Flow-ID), 0x40 (Sequence Number), 0xc0 (both) or 0"},
		{"dex ns 1 trace-type 0x800000 ext-flags 0x100", "want a number from 0 to 0xff"},
		{"dex ns 1 trace-type 0x800000 ext-flags", "ext-flags: a value is missing"},
		{"dex ns 1 trace-type 0x800000 flow-id label", `flow-id: "label" is not a number; want hash, flow-label, or a number from 0 to 0xffffffff`},
		{"dex ns 1 trace-type 0x800000 option-type 0x32", "option-type: 0x32 is not an option type of IOAM; want 0x11 or 0x31"},
		{"dex ns 1 trace-type 0x800000 ns 2", "ns: given twice"},
		{"dex ns 1 trace-type 0x800000 size 4", `"size": unknown word`},
		{"flows 2/3 dex ns 1 trace-type 0x800000", "flows: 2/3 is not 1/N; want 1/N"},
		{"dex ns 1 trace-type 0x800000 mtu 1280", "mtu: not used here: the kernel's routes do not change, and this rule acts on packets that leave by an interface; remove it; 'waymark status' shows the size that packets may have"},
		{"dex ns 1 trace-type 0x800000 trace", "trace: want prealloc"},
	} {
		c, err := ParseRoute(strings.Fields("add 2001:db8::/64 dev eth1 encap ioam6 " + tt.in))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v; want %s", tt.in, c, err, tt.want)
		}
	}
}

// The command of the paper on Direct Export names a gateway and no interface: the
// interface is the one by which that is reached, which the address of one link cannot tell.
func TestPaperRoute(t *testing.T) {
	const paper = "add 2001:db8:2::/64 encap ioam6 freq 1/100 mode encap tundst 2001:db8::3 dex ns 123 trace-type 0xc00000 ext-flags 0xc0 "
	const want = "dev is missing: via fe80::1 is valid on one link only; name its interface: dev IF"
	if c, err := ParseRoute(strings.Fields(paper + "via fe80::1")); err == nil || err.Error() != want {
		t.Errorf("%+v, %v", c, err)
	}
	with, err := ParseRoute(strings.Fields(paper + "dev eth1"))
	if err != nil || with.Rule.Options[0].DirectExport == nil || with.Rule.Interface != "eth1" {
		t.Errorf("%+v, %v", with, err)
	}
	c, err := ParseRoute(strings.Fields(paper + "via 2001:db8:12::2"))
	if err != nil || c.Via.String() != "2001:db8:12::2" || c.Rule.Interface != "" || c.Rule.Name != "" {
		t.Fatalf("%+v, %v", c, err)
	}
	if c.Through("eth1"); !reflect.DeepEqual(c.Rule, with.Rule) {
		t.Errorf("through eth1: %+v, want %+v", c.Rule, with.Rule)
	}
	c, err = ParseRoute(strings.Fields(paper + "via 2001:db8:12::2 name mine"))
	if c.Through("eth1"); err != nil || c.Rule.Name != "mine" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := ParseRoute(strings.Fields(paper + "via 2001:db8:12::2 dev eth1")); err != nil || c.Via.IsValid() ||
		!reflect.DeepEqual(c.Rule, with.Rule) {
		t.Errorf("%+v, %v", c, err)
	}
}

// dex takes type, as trace does; trace-type means the same.
func TestDirectExportType(t *testing.T) {
	const add = "add 2001:db8::/64 dev eth1 encap ioam6 "
	long, err1 := ParseRoute(
		strings.Fields(add + "dex ns 1 trace-type 0x800000 trace prealloc type 0xc00000 ns 1 size 8 dex ns 2 trace-type 0x400000"),
	)
	short, err2 := ParseRoute(strings.Fields(add + "dex type 0x800000 ns 1 trace prealloc type 0xc00000 ns 1 size 8 dex ns 2 type 0x400000"))
	if err1 != nil || err2 != nil || !reflect.DeepEqual(long.Rule, short.Rule) {
		t.Errorf("%+v, %v; want %+v, %v", short.Rule, err2, long.Rule, err1)
	}
	for in, want := range map[string]string{
		"dex ns 1 type 0x800000 trace-type 0x800000": "trace-type: given twice",
		"dex ns 1 trace-type 0x800000 type 0x800000": "type and trace-type are the same; give one",
		"dex ns 1 type 0x810000":                     "0x810000: the checksum complement (bit 7)",
	} {
		if _, err := ParseRoute(strings.Fields(add + in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", in, err, want)
		}
	}
}

// A word forces rules that are refused without it; it is for rules that are added.
func TestForce(t *testing.T) {
	forced := strings.Fields("replace 2001:db8::/64 encap ioam6 trace prealloc type 0xc00000 ns 1 size 8 dev eth1 force")
	if c, err := ParseRoute(forced); err != nil || !c.Force {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := ParseRoute(strings.Fields("del 2001:db8::/64 force")); err == nil || !strings.Contains(err.Error(), "not used with del") {
		t.Error(err)
	}
}

// The second of two data is wide, as in the paper's syntax.
func TestPaperNamespace(t *testing.T) {
	for _, words := range []string{"data 0xdeadbeef data 0xcafec0caf00dc0de", "data 0xdeadbeef wide 0xcafec0caf00dc0de"} {
		c, err := ParseNamespace(strings.Fields("add 124 " + words))
		if err != nil || c.Namespace.Data != 0xdeadbeef || c.Namespace.DataWide != 0xcafec0caf00dc0de {
			t.Errorf("%s: %+v, %v", words, c, err)
		}
	}
}

// A typed rule and one from a file are the same, in any order of flags, with or without
// the source.
func TestSelectsDirectExport(t *testing.T) {
	e := everything()
	e.Match, e.Flows = config.Match{}, 64
	e.Options = []config.Option{{DirectExport: &config.DirectExportOption{
		Namespace: 123, TraceType: 0xc00000, ExtensionFlags: []config.ExtensionFlag{sequenceFlag, flowIDFlag},
		OptionType: ioam.OptionIOAMStatic}}}
	for words, want := range map[string]bool{
		"flows 1/64 mode auto tundst 2001:db8::3 dex ns 123 trace-type 0xc00000 ext-flags 0xc0":                    true,
		"flows 1/64 mode auto tunsrc 2001:db8::1 tundst 2001:db8::3 dex ns 123 trace-type 0xc00000 ext-flags 0xc0": true,
		"flows 1/64 mode auto tunsrc 2001:db8::2 tundst 2001:db8::3 dex ns 123 trace-type 0xc00000 ext-flags 0xc0": false,
		"mode auto tundst 2001:db8::3 dex ns 123 trace-type 0xc00000 ext-flags 0xc0":                               false,
		"flows 1/64 mode auto tundst 2001:db8::3 dex ns 123 trace-type 0xc00000 ext-flags 0x80":                    false,
		"flows 1/64 mode auto tundst 2001:db8::3 dex ns 123 trace-type 0xc00000 ext-flags 0xc0 option-type 0x31":   false,
	} {
		c, err := ParseRoute(strings.Fields("del default encap ioam6 freq 3/100 " + words))
		if err != nil || c.Selection().Selects(e) != want {
			t.Errorf("%s: %v, selects the rule: %v", words, err, !want)
		}
	}
}

func TestNamespaceSettings(t *testing.T) {
	all := config.Namespace{
		ID:              5,
		Data:            1,
		DataWide:        config.DataWide(ioam.DataWideUnavailable),
		Remove:          true,
		Loopback:        true,
		Incremental:     true,
		TerminateActive: true,
	}
	c, err := ParseNamespace(strings.Fields("add 5 remove on e2e off loopback on data 1 incremental on terminate-active on"))
	if err != nil || c.Namespace != all {
		t.Errorf("%+v, %v", c.Namespace, err)
	}
	for in, want := range map[string]config.NamespaceChange{
		"remove on":                        {Remove: new(true)},
		"e2e off incremental on":           {EdgeToEdge: new(false), Incremental: new(true)},
		"loopback on terminate-active off": {Loopback: new(true), TerminateActive: new(false)},
		"pot /etc/a.key drop-rejected on":  {Proof: config.ProofChange{KeyFile: new("/etc/a.key"), DropRejected: new(true)}},
		"pot none":                         {Proof: config.ProofChange{KeyFile: new("")}},
	} {
		c, err := ParseNamespace(strings.Fields("set 5 " + in))
		if err != nil || c.Verb != Set || c.Namespace.ID != 5 || c.SetExport || c.Schema != nil || !cmp.Equal(c.Change, &want) {
			t.Errorf("set %s: %+v, %v", in, c, err)
		}
	}
}

func TestNamespaceExport(t *testing.T) {
	for in, want := range map[string]config.Namespace{
		"export every":       {Export: model.ExportEvery},
		"export aggregate":   {Export: model.ExportAggregate},
		"export none":        {},
		"export sample 0x64": {Export: model.ExportSample, Sample: 100},
	} {
		want.ID, want.Data, want.DataWide = 5, 1, config.DataWide(ioam.DataWideUnavailable)
		c, err := ParseNamespace(strings.Fields("add 5 " + in + " data 1"))
		if err != nil || c.Namespace != want {
			t.Errorf("%s: %+v, %v", in, c.Namespace, err)
		}
		want.Data, want.DataWide = 0, 0
		c, err = ParseNamespace(strings.Fields("set 5 " + in))
		if err != nil || c.Namespace != want || c.Verb != Set || !c.SetExport {
			t.Errorf("set %s: %+v, %v", in, c, err)
		}
	}
	for in, want := range map[string]string{
		"export":                    "export: a value is missing",
		"export some":               `export "some": want none, every, aggregate or sample N`,
		"export sample":             "export sample: a value is missing",
		"export sample 0":           "export sample 0: want N from 1 to 1000000, for a postcard for every N-th packet",
		"export sample 1000001":     "export sample 1000001: want N",
		"export every export every": "export: given twice",
		"export every 100":          `"100": want data`,
	} {
		if c, err := ParseNamespace(strings.Fields("add 5 " + in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %s", in, c, err, want)
		}
		if c, err := ParseNamespace(strings.Fields("set 5 " + in)); err == nil {
			t.Errorf("set %s: %+v", in, c)
		}
	}
}

// A budget is read and written back; what is not one is refused.
func TestBudget(t *testing.T) {
	const before, after = "add 2001:db8:2::/64 encap ioam6 freq 1/1 ", "mode inline trace prealloc type 0x800000 ns 123 size 12 dev eth1"
	for words, want := range map[string]*config.Budget{
		"":                                  nil,
		"budget packets 1% ":                {Packets: 10_000},
		"budget octets 0.25% ":              {Octets: 2500},
		"budget packets 1% octets 100% ":    {Packets: 10_000, Octets: 1_000_000},
		"budget packets 0.0001% flows 1/9 ": nil,
	} {
		c, err := ParseRoute(strings.Fields(before + words + after))
		if err != nil {
			t.Errorf("%s: %v", words, err)
			continue
		}
		if strings.Contains(words, "flows") {
			continue // the order of words is free
		}
		if diff := cmp.Diff(want, c.Rule.Budget); diff != "" {
			t.Errorf("%s (-want +got):\n%s", words, diff)
		}
		if got, want := "add "+FormatRoute(c.Rule), before+words+after; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	for words, want := range map[string]string{
		"budget ":                             "budget: want packets SHARE or octets SHARE, such as budget packets 1%",
		"budget packets 1% packets 2% ":       "budget packets: given twice",
		"budget packets 0% ":                  "budget packets: 0% is not possible; want a percentage from 0.0001% to 100%, such as 0.5%",
		"budget octets ":                      "",
		"budget packets 1% budget octets 1% ": "budget: given twice",
	} {
		_, err := ParseRoute(strings.Fields(before + words + after))
		if err == nil || want != "" && err.Error() != want {
			t.Errorf("%s: %v, want %s", words, err, want)
		}
	}
}
