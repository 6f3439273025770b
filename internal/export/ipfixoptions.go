// SPDX-License-Identifier: Apache-2.0

package export

import "github.com/waymark-net/waymark/ipfix"

// Options templates, by their place in optionsFormats.
const (
	optionDomain = iota
	optionLink
	optionMetering
	optionIgnored
	optionUnsent
	numOptions
)

// optionsFormats are the options templates. Statistics have the shapes of RFC
// 7011 §4.1 to §4.3, with the causes behind. Of two equal times one is of the
// first loss and one of the last. There is no ignoredOctetTotalCount: nobody
// counts octets of packets that the data plane makes no record of.
var optionsFormats = [numOptions]struct {
	name, scope string
	specs       []string
}{
	optionDomain: {"Observation domain", "observationDomainId", []string{"observationDomainName"}},
	optionLink:   {"Interface", "ingressInterface", []string{"interfaceName"}},
	optionMetering: {"Metering Process Statistics (RFC 7011 §4.1)", "observationDomainId", []string{
		"exportedMessageTotalCount", "exportedFlowRecordTotalCount", "exportedOctetTotalCount",
	}},
	optionIgnored: {"Metering Process Reliability Statistics (RFC 7011 §4.2)", "observationDomainId", []string{
		"ignoredPacketTotalCount", "observationTimeSeconds", "observationTimeSeconds",
		"ioamSuppressedRecordTotalCount", "ioamLostRecordTotalCount",
	}},
	optionUnsent: {"Exporting Process Reliability Statistics (RFC 7011 §4.3)", "exportingProcessId", []string{
		"notSentFlowTotalCount", "notSentPacketTotalCount", "notSentOctetTotalCount",
		"observationTimeMilliseconds", "observationTimeMilliseconds",
		"ioamQueueFullRecordTotalCount", "ioamConnectionLostRecordTotalCount", "ioamUnencodableRecordTotalCount",
	}},
}

// statistics adds the options records of RFC 7011 §4.
func (s *session) statistics(facts Facts) error {
	t, stats := &s.c.templates.options, s.c.Stats()
	uints := func(w *ipfix.RecordWriter, values ...uint64) {
		for _, v := range values {
			w.Uint(v)
		}
	}
	if err := s.option(t[optionMetering], func(w *ipfix.RecordWriter) {
		uints(w, uint64(s.c.config.Domain), stats.Messages, stats.Written, stats.Octets)
	}); err != nil {
		return err
	}
	if err := s.option(t[optionIgnored], func(w *ipfix.RecordWriter) {
		uints(w, uint64(s.c.config.Domain), facts.Ignored)
		moment(w, facts.FirstLoss)
		moment(w, facts.LastLoss)
		uints(w, facts.Suppressed, facts.Lost)
	}); err != nil {
		return err
	}
	unsent := s.c.unsent.read()
	return s.option(t[optionUnsent], func(w *ipfix.RecordWriter) {
		uints(w, uint64(s.c.process), stats.Missed(), unsent.packets, unsent.octets)
		moment(w, unsent.first)
		moment(w, unsent.last)
		uints(w, stats.Dropped, stats.Lost, stats.Unencodable)
	})
}
