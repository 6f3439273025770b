// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"errors"
	"fmt"
	"slices"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/ioam"
)

// options reads the options of a rule, from the keyword of the first one on.
func (p *routeParser) options(kind string) error {
	for {
		read := p.trace
		switch kind {
		case "dex":
			read = p.directExport
		case "pot":
			read = p.proof
		case "e2e":
			read = p.edgeToEdge
		}
		if err := read(); err != nil {
			return err
		}
		if !p.more() || !isOption(p.peek()) {
			return nil
		}
		kind, _ = p.nextWord("")
	}
}

// isOption reports whether a word begins an option.
func isOption(word string) bool {
	return word == "trace" || word == "dex" || word == "pot" || word == "e2e"
}

// values reads keywords with a value each, in any order, up to another word.
func (p *routeParser) values(words []string, value func(word string) error) error {
	for _, word := range words {
		delete(p.seen, word) // of a previous option
	}
	for p.more() && slices.Contains(words, p.peek()) {
		word, err := p.once()
		if err != nil {
			return err
		}
		if err := value(word); err != nil {
			return err
		}
	}
	return nil
}

// trace reads prealloc or incremental and its values in any order; loopback may be absent.
func (p *routeParser) trace() error {
	kind, err := p.nextWord("trace")
	if err != nil || kind != "prealloc" && kind != "incremental" {
		return errors.New("trace: want prealloc or incremental")
	}
	t := config.TraceOption{Incremental: kind == "incremental"}
	words := []string{"type", "ns", "size", "loopback"}
	if err := p.values(words, func(word string) error { return p.traceValue(word, &t) }); err != nil {
		return err
	}
	for _, word := range words[:3] {
		if !p.seen[word] {
			return fmt.Errorf("%s is missing: trace %s needs type TYPE ns ID size BYTES", word, kind)
		}
	}
	p.rule.Options = append(p.rule.Options, config.Option{Trace: &t})
	return nil
}

func (p *routeParser) traceValue(word string, t *config.TraceOption) (err error) {
	switch word {
	case "type":
		t.Type, err = p.traceType(word)
	case "ns":
		t.Namespace, err = p.namespace()
	case "loopback":
		err = value(p, word, &t.Loopback)
	case "size":
		n, err := p.number("size", 16)
		if err != nil {
			return err
		}
		if n%4 != 0 || n < 4 || n > model.MaxTraceDataSize {
			return fmt.Errorf("size %d: want a multiple of 4 from 4 to %d", n, model.MaxTraceDataSize)
		}
		t.Size = config.DataSize(n)
	}
	return err
}

func (p *routeParser) traceType(word string) (ioam.TraceType, error) {
	text, err := p.nextWord(word)
	if err != nil {
		return 0, err
	}
	var t ioam.TraceType
	if text != "" && 'a' <= text[0] && text[0] <= 'z' { // names of fields
		if t, err = ioam.ParseTraceType(text); err != nil {
			err = fmt.Errorf("%s: %w", word, err)
		}
	} else {
		var n uint64
		n, err = parseNumber(word, text, 24)
		t = ioam.TraceType(n)
	}
	if err != nil {
		return 0, err
	}
	if err := t.Validate(); err != nil {
		return 0, fmt.Errorf("%s %s: %w", word, t, err)
	}
	return t, nil
}

func (p *routeParser) namespace() (ioam.NamespaceID, error) {
	n, err := p.number("ns", 16)
	return ioam.NamespaceID(n), err
}

// directExport reads the values of dex in any order: those of the DEX paper's iproute2,
// the source of the Flow-ID and the option type.
func (p *routeParser) directExport() error {
	o := config.DirectExportOption{OptionType: ioam.OptionIOAMStatic}
	words := []string{"ns", "trace-type", "ext-flags", "flow-id", "option-type"}
	if err := p.values(append(words, "type"), func(word string) error { return p.directExportValue(word, &o) }); err != nil {
		return err
	}
	for _, word := range words[:2] {
		if !p.seen[word] {
			return fmt.Errorf("%s is missing: dex needs ns ID trace-type TYPE", word)
		}
	}
	p.rule.Options = append(p.rule.Options, config.Option{DirectExport: &o})
	return nil
}

func (p *routeParser) directExportValue(word string, o *config.DirectExportOption) (err error) {
	switch word {
	case "ns":
		o.Namespace, err = p.namespace()
	case "trace-type", "type": // type as in trace
		if p.seen["type"] && p.seen["trace-type"] {
			return problem.New(fmt.Sprintf("%s: type and trace-type are the same", word), "give one")
		}
		p.seen["trace-type"] = true
		if o.TraceType, err = p.traceType(word); err == nil && o.TraceType.Has(ioam.BitChecksumComplement) {
			err = problem.New(
				fmt.Sprintf("trace-type %s: the checksum complement (bit 7) has no meaning in a Direct Export", o.TraceType),
				fmt.Sprintf("use bits of %s", ioam.DirectExportTypeSupported),
			)
		}
	case "ext-flags":
		o.ExtensionFlags, err = p.extensionFlags()
	case "flow-id":
		err = value(p, word, &o.FlowID)
	case "option-type":
		err = value(p, word, &o.OptionType)
	}
	return err
}

// proof reads the namespace of pot.
func (p *routeParser) proof() error {
	var o config.ProofOption
	err := p.values([]string{"ns"}, func(string) (err error) {
		o.Namespace, err = p.namespace()
		return err
	})
	if err == nil && !p.seen["ns"] {
		err = errors.New("ns is missing: pot needs ns ID")
	}
	p.rule.Options = append(p.rule.Options, config.Option{Proof: &o})
	return err
}

// edgeToEdge reads the two values of e2e in any order.
func (p *routeParser) edgeToEdge() error {
	var o config.EdgeToEdgeOption
	words := []string{"ns", "type"}
	err := p.values(words, func(word string) (err error) {
		if word == "ns" {
			o.Namespace, err = p.namespace()
			return err
		}
		n, err := p.number(word, 16)
		o.Type = ioam.EdgeToEdgeType(n)
		return err
	})
	for _, word := range words {
		if err == nil && !p.seen[word] {
			err = fmt.Errorf("%s is missing: e2e needs ns ID type TYPE", word)
		}
	}
	p.rule.Options = append(p.rule.Options, config.Option{EdgeToEdge: &o})
	return err
}

func (p *routeParser) extensionFlags() (list []config.ExtensionFlag, err error) {
	n, err := p.number("ext-flags", 8)
	if err != nil {
		return nil, err
	}
	for _, flag := range []uint8{ioam.ExtensionFlowID, ioam.ExtensionSequence} {
		if uint8(n)&flag != 0 {
			list = append(list, config.ExtensionFlag(flag))
			n &^= uint64(flag)
		}
	}
	if n != 0 {
		return nil, problem.New(
			fmt.Sprintf("ext-flags: 0x%02x is not defined", n),
			"want 0x80 (Flow-ID), 0x40 (Sequence Number), 0xc0 (both) or 0",
		)
	}
	return list, nil
}

// value reads one word as in the configuration file.
func value[T any](p *routeParser, name string, v *T) error {
	word, err := p.nextWord(name)
	if err != nil {
		return err
	}
	if *v, err = config.ParseText[T](word); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// optionWords are the words that insert an option.
func optionWords(o config.Option) []string {
	if t := o.Trace; t != nil {
		kind := "prealloc"
		if t.Incremental {
			kind = "incremental"
		}
		words := []string{"trace", kind, "type", t.Type.String(), "ns", fmt.Sprint(t.Namespace), "size", fmt.Sprint(int(t.Size))}
		if t.Loopback > 0 {
			words = append(words, "loopback", config.FormatText(t.Loopback))
		}
		return words
	}
	if o.Proof != nil {
		return []string{"pot", "ns", fmt.Sprint(o.Proof.Namespace)}
	}
	if e := o.EdgeToEdge; e != nil {
		return []string{"e2e", "ns", fmt.Sprint(e.Namespace), "type", e.Type.String()}
	}
	d := o.DirectExport
	if d == nil {
		return nil
	}
	words := []string{"dex", "ns", fmt.Sprint(d.Namespace), "trace-type", d.TraceType.String()}
	var flags config.ExtensionFlag
	for _, f := range d.ExtensionFlags {
		flags |= f
	}
	if flags != 0 {
		words = append(words, "ext-flags", fmt.Sprintf("0x%02x", uint8(flags)))
	}
	if d.FlowID != (model.FlowIDSource{}) {
		words = append(words, "flow-id", config.FormatText(d.FlowID))
	}
	if d.OptionType != ioam.OptionIOAMStatic {
		words = append(words, "option-type", config.FormatText(d.OptionType))
	}
	return words
}

// allOptionWords are the words that insert a rule's options.
func allOptionWords(e config.Encapsulation) (words []string) {
	for _, o := range e.Options {
		words = append(words, optionWords(o)...)
	}
	return words
}
