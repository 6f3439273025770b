// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
)

// flowWord is a word of a flow, which stands for a key of the configuration.
type flowWord struct {
	name  string
	value string   // the form of what follows the name; "": nothing follows
	help  string   // in one line
	words []string // all values, where they are a few words
	read  func(*words, *config.Flow) error
	text  func(*config.Flow) (value string, given bool)
}

// flowWords are the words after a flow's name and direction, in the order in which they are
// written.
var flowWords = []flowWord{
	flowValue("src", "ADDR", "source of the outer header", func(f *config.Flow) *netip.Addr { return &f.Source }),
	flowList("segs", "SID,SID", "the policy's SIDs, the first to visit first", func(f *config.Flow) *[]netip.Addr { return &f.Segments }),
	flowValue("mode", "MODE", "encap (default), encap.red or inline, as in seg6", func(f *config.Flow) *srv6.Mode { return &f.Mode }),
	flowFlag("psp", "the last endpoint but one removes the SRH", func(f *config.Flow) *bool { return &f.PSP }),
	flowValue(
		"container",
		"B/S",
		"SIDs hold compressed SIDs: bits of block and SID",
		func(f *config.Flow) *config.Container { return &f.Container },
	),
	flowValue("dst", "ADDR", "destination of the outer header, as at this node", func(f *config.Flow) *netip.Addr { return &f.Destination }),
	flowOptional(
		"tclass",
		"N",
		"outer traffic class, of which the DSCP is compared",
		func(f *config.Flow) **config.TrafficClass { return &f.TrafficClass },
	),
	flowOptional("flowlabel", "N", "outer flow label", func(f *config.Flow) **config.FlowLabel { return &f.FlowLabel }),
	flowValue("session", "N", "number of the flow in messages without its name", func(f *config.Flow) *config.SessionID { return &f.Session }),
	flowOptional("flowmonid", "N", "FlowMonID, with carrier: option", func(f *config.Flow) **config.MonitorID { return &f.MonitorID }),
	flowList(
		"points",
		"NODE,NODE",
		"nodes after this one that count it: [NAME=]ADDR",
		func(f *config.Flow) *[]config.Point { return &f.Points },
	),
	flowValue("probes", "WAY", "test packets: out-of-band, in-band, in-band-encap", func(f *config.Flow) *model.Probes { return &f.Probes }),
	flowList(
		"points-after",
		"N,N",
		"SIDs before each point but the last",
		func(f *config.Flow) *[]config.SegmentCount { return &f.PointsAfter },
	),
	flowList("return-segments", "SIDS", "the way back of answers to in-band packets", func(f *config.Flow) *[]netip.Addr { return &f.Return }),
	flowValue("point", "N", "number of this node, with exchange: ipfix", func(f *config.Flow) *config.PointNumber { return &f.Point }),
	flowValue("lastpoint", "N", "that of its egress", func(f *config.Flow) *config.PointNumber { return &f.LastPoint }),
	flowOptional(
		"selection",
		"CHECK",
		"compared (default), or assumed of silent points",
		func(f *config.Flow) **config.SelectionCheck { return &f.Selection },
	),
	flowFlag("metrics", "the flow has metrics of its own", func(f *config.Flow) *bool { return &f.Metrics }),
	flowOptional(
		"max-loss",
		"SHARE",
		"warn of a larger loss in a block, such as 0.1%",
		func(f *config.Flow) **config.LossShare { return &f.MaxLoss },
	),
	flowOptional(
		"max-delay",
		"TIME",
		"warn of a larger mean delay, such as 20ms",
		func(f *config.Flow) **config.DelayLimit { return &f.MaxDelay },
	),
	flowOptional(
		"no-data-after",
		"N",
		"warn after N blocks in a row without a result",
		func(f *config.Flow) **config.BlockCount { return &f.NoDataAfter },
	),
}

func flowWordOf(name string) *flowWord {
	for i := range flowWords {
		if flowWords[i].name == name {
			return &flowWords[i]
		}
	}
	return nil
}

// form is the word with the form of its value.
func (w *flowWord) form() string { return strings.TrimSpace(w.name + " " + w.value) }

// flowWordList is the words of a flow in a sentence.
func flowWordList() string {
	var forms []string
	for i := range flowWords {
		forms = append(forms, flowWords[i].form())
	}
	last := len(forms) - 1
	return strings.Join(forms[:last], ", ") + " or " + forms[last]
}

// FlowHelp explains the words of a flow, a line each.
func FlowHelp() string {
	var lines []string
	for i := range flowWords {
		lines = append(lines, fmt.Sprintf("  %-21s%s", flowWords[i].form(), flowWords[i].help))
	}
	return strings.Join(lines, "\n")
}

// flowValue is a word with a value that is absent if it is zero.
func flowValue[T comparable](name, value, help string, at func(*config.Flow) *T) flowWord {
	return flowWord{
		name, value, help, config.WordsOf[T](),
		func(w *words, f *config.Flow) (err error) {
			*at(f), err = textOf[T](w, name)
			return err
		},
		func(f *config.Flow) (string, bool) {
			var zero T
			return config.FormatText(*at(f)), *at(f) != zero
		},
	}
}

// flowOptional is a word with a value of which zero differs from its absence.
func flowOptional[T any](name, value, help string, at func(*config.Flow) **T) flowWord {
	return flowWord{
		name, value, help, config.WordsOf[T](),
		func(w *words, f *config.Flow) error {
			v, err := textOf[T](w, name)
			*at(f) = &v
			return err
		},
		func(f *config.Flow) (string, bool) {
			if *at(f) == nil {
				return "", false
			}
			return config.FormatText(**at(f)), true
		},
	}
}

// flowList is a word with values with commas between them.
func flowList[T any](name, value, help string, at func(*config.Flow) *[]T) flowWord {
	return flowWord{
		name, value, help, nil,
		func(w *words, f *config.Flow) error {
			word, err := w.nextWord(name)
			if err != nil {
				return err
			}
			for part := range strings.SplitSeq(word, ",") {
				one, err := config.ParseText[T](part)
				if err != nil {
					return fmt.Errorf("%s %q: %w, and commas between several", name, word, err)
				}
				*at(f) = append(*at(f), one)
			}
			return nil
		},
		func(f *config.Flow) (string, bool) {
			var parts []string
			for _, one := range *at(f) {
				parts = append(parts, config.FormatText(one))
			}
			return strings.Join(parts, ","), len(parts) > 0
		},
	}
}

// flowFlag is a word without a value.
func flowFlag(name, help string, at func(*config.Flow) *bool) flowWord {
	return flowWord{
		name: name, help: help,
		read: func(_ *words, f *config.Flow) error {
			*at(f) = true
			return nil
		},
		text: func(f *config.Flow) (string, bool) { return "", *at(f) },
	}
}

// textOf reads a value as the configuration file has it.
func textOf[T any](w *words, name string) (value T, err error) {
	word, err := w.nextWord(name)
	if err != nil {
		return value, err
	}
	if value, err = config.ParseText[T](word); err != nil {
		return value, fmt.Errorf("%s %w", name, err)
	}
	return value, nil
}
